"""What the on-line engine knows of walking, running and jumping: plain arrays, ready for compiled code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from marey.base import BoolArray, FloatArray, InputError
from marey.locomotion._checks import check_name, check_number, check_positive, check_weights

if TYPE_CHECKING:
    import os

    from marey.models import HierarchicalModel
    from marey.skeleton import Skeleton

EVENTS: Final = ("RHS", "RTS", "RHO", "RTO", "LHS", "LTS", "LHO", "LTO")
"""Right and left: heel (ankle) strike, toe strike, heel off, toe off; in the columns of every event table."""

EFFECTORS: Final = ("right_ankle", "right_foot", "left_ankle", "left_foot")
"""The four points that foot plants hold, by the joints of the canonical human."""

GAITS: Final = ("walk", "run")
TIMINGS: Final = ("stance", "glardon", "inman")
SCALINGS: Final = ("froude", "leg")

Style = str | Mapping[str, float] | None


class GaitArrays(NamedTuple):
    r"""All styles and both gaits, multiplied out ([Glardon2005]_ §II.2.3.2).

    .. math:: \theta = \sum_{k\tau} w_k w_\tau \big(B_{k\tau} + A^{\tau k}(s_n)\,D_{k\tau}\big)

    ``K`` styles, 2 gaits (0 walks, 1 runs), ``C`` components, ``N`` frames, ``D = 3 + 3 J`` columns, ``G`` speeds.
    The law: ``A = standing + (slope * slowest + offset - standing) * (s / slowest) ** power`` below ``slowest``,
    ``A = slope * s + offset`` above. Tables are linear between speeds and hold their ends.
    """

    base: FloatArray  # (K, 2, N, D)
    lift: FloatArray  # (K, 2, C, N, D)
    standing: FloatArray  # (K, 2, C)
    slope: FloatArray  # (K, 2, C) [s]
    offset: FloatArray  # (K, 2, C)
    slowest: FloatArray  # (K, 2) [1/s] normalised speed
    power: float
    has_gait: BoolArray  # (K, 2) who has one gait alone shows that gait
    speeds: FloatArray  # (G,) [1/s] normalised speeds of the tables below, the first is zero
    frequency: FloatArray  # (K, 2, G) [Hz] cycles per second, at the model's own leg length
    events: FloatArray  # (K, 2, G, 8) unwrapped phases, in the order of EVENTS
    means: FloatArray  # (J, 4) wxyz, q_j = mean_j * exp(v_j)
    limits: FloatArray  # (2,) [1/s] fastest normalised walk and run

    def shares(self, run: float, weights: ArrayLike) -> FloatArray:
        """Weight ``(K, 2)`` of every leaf: style times gait; who has one gait alone shows that gait."""
        part = min(max(float(run), 0.0), 1.0)
        shares = np.array([1.0 - part, part]) * self.has_gait
        alone = self.has_gait.sum(axis=1) == 1
        shares[alone] = self.has_gait[alone]
        return np.asarray(weights, dtype=np.float64)[:, None] * shares

    def scores(self, speed_n: float) -> FloatArray:
        """Scores ``(K, 2, C)`` of every leaf at a normalised speed [1/s]; below zero counts as zero."""
        s = max(float(speed_n), 0.0)
        joint = self.slope * self.slowest[..., None] + self.offset
        curve = self.standing + (joint - self.standing) * (s / self.slowest[..., None]) ** self.power
        return np.where(s < self.slowest[..., None], curve, self.slope * s + self.offset)

    def row(self, speed_n: float, run: float, weights: ArrayLike) -> FloatArray:
        """Rows ``(N, D)`` of the unit at a normalised speed [1/s], share of running and weights ``(K,)`` of styles."""
        shares = self.shares(run, weights)
        scores = self.scores(speed_n)
        total = np.zeros_like(self.base[0, 0])
        for k, t in np.argwhere(shares > 0.0):
            total += shares[k, t] * (self.base[k, t] + np.tensordot(scores[k, t], self.lift[k, t], axes=1))
        return total

    def frequency_at(self, speed_n: float, run: float, weights: ArrayLike) -> float:
        """Cycles per second [Hz] on the model's own legs."""
        return float(np.sum(self.shares(run, weights) * _interpolate_table(self.frequency, self.speeds, speed_n)))

    def events_at(self, speed_n: float, run: float, weights: ArrayLike) -> FloatArray:
        """Phases ``(8,)`` of the foot events, unwrapped, in the order of ``EVENTS``."""
        return np.einsum(
            "kt,kte->e", self.shares(run, weights), _interpolate_table(self.events, self.speeds, speed_n, axis=2)
        )


def _interpolate_table(table: FloatArray, speeds: FloatArray, speed: float, axis: int = -1) -> FloatArray:
    """A table at one speed, linear between its own and level beyond them."""
    s = min(max(float(speed), float(speeds[0])), float(speeds[-1]))
    i = min(int(np.searchsorted(speeds, s, side="right")) - 1, len(speeds) - 2)
    part = (s - speeds[i]) / (speeds[i + 1] - speeds[i])
    return (1.0 - part) * np.take(table, i, axis=axis) + part * np.take(table, i + 1, axis=axis)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LocomotionModel:
    """A trained model of gaits: everything that :class:`marey.locomotion.Engine` needs."""

    skeleton: Skeleton
    leg_length_m: float  # hip joint to floor of `skeleton`, standing
    styles: tuple[str, ...]  # (K,)
    default_style: Mapping[str, float]  # what `style=None` means
    gaits: GaitArrays
    tree: HierarchicalModel  # what `gaits` was multiplied out from
    rest_heights: FloatArray  # (4,) of EFFECTORS above the floor, over leg length
    frequencies: Mapping[str, FloatArray]  # (K, 2, G) [Hz] by timing
    lent: BoolArray  # (K, 2) this person never showed this gait: it is the common one in the person's posture
    heights: FloatArray  # (K, 2, N) over leg length: what the root's height in runs was corrected by
    jumps: Mapping[str, Any] = field(default_factory=dict[str, Any])
    info: Mapping[str, Any] = field(default_factory=dict[str, Any])  # clips, settings and figures of the fit

    def skeleton_for(self, leg_length_m: float) -> Skeleton:
        """Return the model's body with legs of another length [m], all bones scaled alike."""
        return self.skeleton.scaled(check_positive("leg_length_m", leg_length_m) / self.leg_length_m)

    @property
    def labels(self) -> tuple[str, ...]:
        """Readable names ``(K,)`` of the styles, as good as the others wherever a style is asked for."""
        known = self.info.get("labels", {})
        return tuple(str(known.get(name, name)) for name in self.styles)

    def weights(self, style: Style = None) -> FloatArray:
        """Weights ``(K,)`` of the styles, summing to one.

        Args:
            style: ``None`` for the model's own mixture, a name or label, or a weight for each of some.

        Raises:
            UnknownNameError: a name is not a style of this model.
            InputError: a weight is negative or not finite, or all are zero.
        """
        given = self.default_style if style is None else {style: 1.0} if isinstance(style, str) else style
        weights = np.zeros(len(self.styles))
        codes = dict(zip(self.labels, self.styles, strict=True))
        for label, weight in check_weights("style", given).items():
            name = check_name("style", codes.get(label, label), "this model", self.styles)
            weights[self.styles.index(name)] += weight
        if weights.sum() <= 0.0:
            raise InputError("all style weights are zero", "Give one style a positive weight")
        return weights / weights.sum()

    @property
    def default_weights(self) -> FloatArray:
        """Weights ``(K,)`` of the model's own mixture of styles."""
        return self.weights(None)

    def with_timing(self, timing: str) -> GaitArrays:
        """Return the arrays with the cycle frequencies of a timing: ``"stance"``, ``"glardon"`` or ``"inman"``."""
        check_name("timing", timing, "this model", self.frequencies)
        return self.gaits._replace(frequency=self.frequencies[timing])

    def normalised_speed(self, speed_mps: float, leg_length_m: float, scaling: str = "froude") -> float:
        r"""Speed at which the tables are looked up [1/s].

        .. math:: s_n = s / \sqrt{H H_0} \text{ ("froude")}, \qquad s_n = s / H \text{ ("leg", [Glardon2005]_ §III.1.2)}
        """
        return check_number("speed_mps", speed_mps) * self.scales(leg_length_m, scaling)[0]

    def scales(self, leg_length_m: float, scaling: str = "froude") -> tuple[float, float]:
        """Factors from speed [m/s] to normalised speed [1/s], and from the table's frequency to the character's."""
        leg = check_positive("leg_length_m", leg_length_m)
        if check_name("scaling", scaling, "the locomotion engine", SCALINGS) == "leg":
            return 1.0 / leg, 1.0
        ratio = float(np.sqrt(self.leg_length_m / leg))
        return ratio / self.leg_length_m, ratio

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a ``.safetensors`` file; the same model makes the same bytes."""
        from marey.locomotion._model_file import write_model

        write_model(self, path)

    def __repr__(self) -> str:
        return (
            f"LocomotionModel({len(self.styles)} styles, {self.gaits.base.shape[2]} frames, jumps {list(self.jumps)})"
        )
