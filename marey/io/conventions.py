"""Conventions that a file does not state: unit of length, vertical axis, exact frame rate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.skeleton import Skeleton, joint_positions

CMU_UNIT_M: Final = 0.0254 / 0.45  # CMU lengths are inches / 0.45
METRES: Final = {"m": 1.0, "cm": 0.01, "mm": 0.001, "inch": 0.0254, "cmu": CMU_UNIT_M}
RARE: Final = 0.25  # [ln] prior against rare units, so that a child in centimetres is not read as a giant in inches
HEIGHT_M: Final = 1.70  # a person's height, the middle of what we expect
HEIGHT_OF_REACH: Final = 1.4  # height over the longest way from the root to a bone's end: 1.3 to 1.5 in CMU, SMPL
PLAUSIBLE_M: Final = (0.5, 3.0)  # heights outside of this raise a warning

COMMON_RATES: Final = (24.0, 25.0, 30.0, 48.0, 50.0, 60.0, 72.0, 90.0, 100.0, 120.0, 144.0, 200.0, 240.0, 250.0, 500.0)
NTSC_RATES: Final = tuple(1000.0 * n / 1001.0 for n in (24, 30, 60, 120, 240))
COARSE: Final = 0.03  # [-] a frame time printed more coarsely than this is taken as it is
FINE: Final = 1e-3  # [-] one printed more finely may also mean an uncommon whole rate


@dataclass(frozen=True, slots=True)
class UnitGuess:
    """A unit of length and how sure we are of it."""

    name: str
    metres: float  # metres per unit
    note: str
    warning: str | None = None


def unit_in_metres(unit: str) -> float:
    """Metres per named unit.

    Raises:
        InputError: the name is not among ``m, cm, mm, inch, cmu``.
    """
    word = str(unit).lower()
    name = {"in": "inch", "inches": "inch", "metre": "m", "meter": "m"}.get(word, word)
    if name not in METRES:
        raise InputError(f"unknown unit '{unit}'", f"Units are {', '.join(METRES)}.")
    return METRES[name]


def longest_reach(parents: IntArray, offsets: FloatArray, tips: FloatArray) -> float:
    """Longest way along the bones from the root to the end of a bone, in the unit of ``offsets``."""
    lengths = np.linalg.norm(offsets, axis=-1)
    ends = np.linalg.norm(tips, axis=-1)
    way = np.zeros(len(parents))
    for j in range(1, len(parents)):
        way[j] = way[parents[j]] + lengths[j]
    return float((way + ends).max())


def guess_unit(reach_units: float) -> UnitGuess:
    """Choose the unit in which the skeleton is nearest to a person's size."""
    height = HEIGHT_OF_REACH * reach_units
    if not height > 0.0:
        warning = "the skeleton has no length, so its unit cannot be estimated; cm is assumed. Give unit= to override"
        return UnitGuess("cm", METRES["cm"], "unit cm taken", warning)

    def distance(name: str) -> float:
        rare = RARE if name in ("inch", "cmu") else 0.0
        return rare + abs(math.log(height * METRES[name] / HEIGHT_M))

    name = min(METRES, key=distance)
    metres = METRES[name]
    tall = height * metres
    note = f"unit {name} taken ({metres:g} m): the skeleton is then about {tall:.2f} m tall"
    if PLAUSIBLE_M[0] <= tall <= PLAUSIBLE_M[1]:
        return UnitGuess(name, metres, note)
    warning = f"the skeleton has human size in no known unit; {name} is assumed, {tall:.3g} m tall. Give unit="
    return UnitGuess(name, metres, note, warning)


def rate_from_frame_time(text: str) -> tuple[float, str | None]:
    """Frames per second of a printed frame time, and a note if the rate was restored.

    A header prints 1/120 s as ``.0083333``, which is 120.00048 Hz. When a common rate lies within what the
    printed digits leave open, that rate is meant.
    """
    seconds = float(text)
    digits = text.lower().split("e")[0].partition(".")[2]
    power = int(text.lower().partition("e")[2] or 0)
    half = 0.5 * 10.0 ** (power - len(digits)) + 4e-16 * seconds
    plain = 1.0 / seconds
    if half > COARSE * seconds:
        return plain, None
    low, high = 1.0 / (seconds + 2.0 * half), 1.0 / (seconds - 2.0 * half)  # twice: digits may be cut, not rounded
    whole = (float(round(plain)),) if half < FINE * seconds else ()
    # Common rates first, then any whole one, then those of television
    for rates in (COMMON_RATES, whole, NTSC_RATES):
        inside = [r for r in rates if low <= r <= high]
        if inside:
            rate = min(inside, key=lambda r: abs(r - plain))
            note = f"frame time {text} read as {rate:.6g} Hz (exactly it is {plain:.6f})"
            return rate, None if rate == plain else note
    return plain, None


SAMPLED_FRAMES: Final = 16  # enough to see how a body stands
HEAD_WORDS: Final = ("head", "neck")
FOOT_WORDS: Final = ("foot", "toe", "ankle")
CLEAR: Final = 0.7  # [-] cosine above which a body axis is called upright
STRICT: Final = 0.85  # [-] the same, when the rest pose speaks against it
STEADY: Final = 0.05  # [-] spread of the floor height over the body's height
TRAVEL: Final = 0.5  # [-] way along the ground over the body's height


def to_world(vectors: FloatArray, up: str) -> FloatArray:
    """Turn vectors ``(..., 3)`` from a file whose vertical axis is ``up`` to +Y up: ``(x, y, z) -> (x, z, -y)``."""
    if _check_axis(up) == "+y":
        return vectors
    return np.stack([vectors[..., 0], vectors[..., 2], -vectors[..., 1]], axis=-1)


def to_file(vectors: FloatArray, up: str) -> FloatArray:
    """Undo :func:`to_world`."""
    if _check_axis(up) == "+y":
        return vectors
    return np.stack([vectors[..., 0], -vectors[..., 2], vectors[..., 1]], axis=-1)


def rotate_wxyz(wxyz: FloatArray, up: str, *, back: bool = False) -> FloatArray:
    """Conjugate rotations, ``R q R^-1``: the vector part turns like a vector."""
    if _check_axis(up) == "+y":
        return wxyz
    turn = to_file if back else to_world
    return np.concatenate([wxyz[..., :1], turn(wxyz[..., 1:], up)], axis=-1)


def detect_up(skeleton: Skeleton, roots: FloatArray, wxyz: FloatArray, translations: FloatArray | None = None) -> str:
    """``"+z"`` when the body stands along Z, else ``"+y"``; everything in the file's own axes.

    The rest pose and the motion are both asked. When they disagree, Z needs a body that travels along Y
    over a floor that is steady along Z: a person who crawls along Z has none.
    """
    index = np.unique(np.linspace(0, len(roots) - 1, SAMPLED_FRAMES).astype(np.int64))
    moving = None if translations is None else translations[index]
    posed = joint_positions(skeleton, roots[index], wxyz[index], moving)
    rest = _body_axis(skeleton, skeleton.rest_positions()[None])
    motion = _body_axis(skeleton, posed)
    if motion[2] < CLEAR:
        return "+y"
    if rest[1] < CLEAR:
        return "+z"
    # A walk along Y over a floor that is steady along Z
    height = float(np.ptp(posed, axis=(0, 1))[2])
    is_steady = np.std(posed[..., 2].min(axis=1)) < STEADY * height
    walks = is_steady and np.ptp(posed[:, 0, 1]) > TRAVEL * height
    return "+z" if motion[2] > STRICT and walks else "+y"


def _body_axis(skeleton: Skeleton, positions: FloatArray) -> FloatArray:
    """Mean unit vector (3,) from the feet to the head; from the lowest to the highest joint without such names."""
    names = [name.lower() for name in skeleton.names]
    heads = [j for j, name in enumerate(names) if any(word in name for word in HEAD_WORDS)]
    feet = [j for j, name in enumerate(names) if any(word in name for word in FOOT_WORDS)]
    if heads and feet:
        body = positions[:, heads].mean(axis=1) - positions[:, feet].mean(axis=1)
    else:
        body = positions[:, 0] - positions.min(axis=1)  # how far the root is above the lowest joint, each way
        body[:, 0] = 0.0  # arms reach as far as legs
    lengths = np.linalg.norm(body, axis=-1, keepdims=True)
    return (body / np.maximum(lengths, 1e-12)).mean(axis=0)


def _check_axis(up: str) -> str:
    if up not in ("+y", "+z"):
        raise InputError(f"unknown vertical axis '{up}'", "It is +y or +z")
    return up
