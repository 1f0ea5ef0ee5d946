"""What people do between two key poses: corrections of the straight interpolation, learnt from captured motions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, TensorFormat
from marey.skeleton import ROLES

Float32Array = NDArray[np.float32]

IN_BETWEEN_FILE: Final = TensorFormat(
    "marey-in-betweens", "model of in-betweens", 1, "Install marey again: the file ships with it."
)
SHIPPED_IN_BETWEENS: Final = Path(__file__).with_name("data") / "in_betweens.safetensors"

SAMPLES: Final = 14  # poses that are predicted in a gap, evenly in time
CONTACT_SAMPLES: Final = (1, 4, 6, 9, 12)  # of these, those at which contacts are read
ENDS: Final = ("hip", "knee", "ankle", "foot", "shoulder", "elbow", "wrist", "head")
READ_ROLES: Final = tuple(role for role in ROLES if role.split("_")[-1] in ENDS)  # joints whose places are read
LEAST_SCALE, MOST_SCALE = 0.02, 0.7  # of a gap's movement, in leg lengths
NEIGHBOUR: Final = 0.7  # share of the movement in a neighbouring gap that counts
USUAL_GAP_S: Final = 0.5


class KeyGaps(NamedTuple):
    """``N`` gaps between neighbouring keys, each with the keys before and after it."""

    places: FloatArray  # (N, 4, R, 3) [m] joints of all roles at the keys before, at both ends, and after
    is_known: NDArray[np.bool_]  # (N, 4) whether there is such a key
    times_s: FloatArray  # (N, 4) of the keys; any number where there is none
    leg_m: float
    contacts: FloatArray  # (N, 5, 2) left and right foot: 1 down, -1 up, 0 unknown


def describe_gaps(gaps: KeyGaps) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Features ``(N, I)`` of gaps, their heading ``(N,)`` [rad] and the size of their movement ``(N,)``.

    Places are turned by minus the heading :math:`h` about the vertical, measured from the point midway between both
    pelves on the ground, and divided by the leg length, so that the same step anywhere reads the same. The size is the
    root mean square of the ways of the joints from key to key, in leg lengths.
    """
    count = len(gaps.places)
    left, right = ROLES.index("left_hip"), ROLES.index("right_hip")
    across = gaps.places[:, 1:3, left] - gaps.places[:, 1:3, right]
    yaw = np.arctan2(-across[..., 2], across[..., 0])
    heading = yaw[:, 0] + 0.5 * np.angle(np.exp(1j * (yaw[:, 1] - yaw[:, 0])))
    middle = 0.5 * (gaps.places[:, 1, 0] + gaps.places[:, 2, 0]) * [1.0, 0.0, 1.0]
    places = turn_vertical(gaps.places - middle[:, None, None], -heading[:, None, None]) / gaps.leg_m
    read = places[:, :, [ROLES.index(role) for role in READ_ROLES]]
    of_keys = np.concatenate([(read - places[:, :, :1]).reshape(count, 4, -1), places[:, :, 0]], axis=2)
    of_keys = np.concatenate([of_keys, np.ones((count, 4, 1))], axis=2) * gaps.is_known[:, :, None]
    # Lengths of the three gaps in time
    spans = np.diff(gaps.times_s, axis=1)
    own = spans[:, 1]
    of_times = np.stack([np.log(own / USUAL_GAP_S), spans[:, 0] / own - 1.0, spans[:, 2] / own - 1.0], axis=1)
    is_known = np.stack([np.ones(count, dtype=np.bool_), gaps.is_known[:, 0], gaps.is_known[:, 3]], axis=1)
    of_times = np.where(is_known, of_times, 0.0)
    features = [of_keys.reshape(count, -1), of_times, gaps.contacts.reshape(count, -1)]
    ways = np.sqrt(np.square(np.diff(read, axis=1)).sum(axis=-1).mean(axis=-1))
    ways *= np.stack([NEIGHBOUR * gaps.is_known[:, 0], np.ones(count), NEIGHBOUR * gaps.is_known[:, 3]], axis=1)
    return np.concatenate(features, axis=1), heading, np.clip(ways.max(axis=1), LEAST_SCALE, MOST_SCALE)


def turn_vertical(vectors: FloatArray, angle: FloatArray) -> FloatArray:
    """Vectors ``(..., 3)`` turned about the vertical by angles ``(...)`` [rad]."""
    cos, sin = np.cos(angle), np.sin(angle)
    x, y, z = np.moveaxis(vectors, -1, 0)
    return np.stack([cos * x + sin * z, y, cos * z - sin * x], axis=-1)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class InBetweenModel:
    r"""Networks that tell how far captured people are from the straight interpolation of their key poses.

    .. math:: c = s\,\Big(\bar c + B\,\tfrac1E \sum_e \big(W_3\,\sigma(W_2\,\sigma(W_1 x)) + L x\big)_e\Big),
              \qquad \sigma(x) = \frac{x}{1 + e^{-x}}

    with the features :math:`x` of a gap and the size :math:`s` of its movement (:func:`describe_gaps`), a basis
    :math:`B` of corrections :math:`c` and :math:`E` networks, each fitted to other people. Biases are left out above.
    """

    tensors: dict[str, Float32Array]
    facts: dict[str, Any]  # what it was fitted on

    def predict(self, gaps: KeyGaps) -> tuple[FloatArray, FloatArray]:
        """Turns ``(N, S, R, 3)`` of all roles [rad] and shifts ``(N, S, 3)`` of the root [m], in the world."""
        features, heading, scale = describe_gaps(gaps)
        t = self.tensors
        x = ((features - t["input_mean"]) / t["input_spread"]).astype(np.float32)
        total = np.zeros((len(x), t["basis"].shape[0]), dtype=np.float32)
        for e in range(len(t["hidden_0"])):
            first = _activate(x @ t["hidden_0"][e] + t["bias_0"][e])
            second = _activate(first @ t["hidden_1"][e] + t["bias_1"][e])
            total += second @ t["output"][e] + t["bias_2"][e] + x @ t["linear"][e]
        values = np.asarray(total / len(t["hidden_0"]) @ t["basis"] + t["mean"], dtype=np.float64) * scale[:, None]
        parts = values.reshape(len(x), SAMPLES, len(ROLES) + 1, 3)
        parts = turn_vertical(parts, heading[:, None, None])
        return parts[:, :, :-1], parts[:, :, -1] * gaps.leg_m

    def save(self, path: str | Path) -> None:
        """Write the model with half precision, which is finer than its fit."""
        halved = {name: array.astype(np.float16) for name, array in self.tensors.items()}
        IN_BETWEEN_FILE.write(path, halved, self.facts)

    def __repr__(self) -> str:
        return f"InBetweenModel({len(self.tensors['hidden_0'])} networks, {self.facts.get('people', '?')} people)"


def _activate(x: Float32Array) -> Float32Array:
    """The sigmoid linear unit."""
    return (x / (1.0 + np.exp(-np.clip(x, -80.0, 80.0)))).astype(np.float32, copy=False)


@cache
def load_in_betweens(path: str | Path = SHIPPED_IN_BETWEENS) -> InBetweenModel:
    """Read a model of in-betweens, the shipped one by default."""
    tensors, facts = IN_BETWEEN_FILE.read(path)
    return InBetweenModel({name: array.astype(np.float32) for name, array in tensors.items()}, facts)
