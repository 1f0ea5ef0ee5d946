"""Conventions that a file does not state: unit of length and exact frame rate; skeletons from frames in world axes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.lie import SO3
from marey.skeleton import LEG_OF_STATURE, TRUNK_ON_LEG, Skeleton, assess_anatomy, find_body_plan

CMU_UNIT_M: Final = 0.0254 / 0.45  # CMU lengths are inches / 0.45
METRES: Final = {"m": 1.0, "cm": 0.01, "mm": 0.001, "inch": 0.0254, "cmu": CMU_UNIT_M, "dm": 0.1, "foot": 0.3048}
RARE: Final = 0.25  # [ln] prior against rare units, so that a child in centimetres is not read as a giant in inches
HEIGHT_M: Final = 1.70  # a person's height, the middle of what we expect
HEIGHT_OF_REACH: Final = 1.4  # height over the longest way from the root to a bone's end: 1.3 to 1.5 in CMU, SMPL
PLAUSIBLE_M: Final = (0.75, 2.4)  # a person's height in a known unit; outside of this the unit is none that we know
MOST_SCALED: Final = 0.25  # [ln] a person scaled by a power of ten is this near to that height: 1.32 to 2.18 m
FEW_JOINTS: Final = 5  # a tree of fewer joints is a test or a prop: its unit is noted, not warned of

MOST_COST: Final = 12.0  # of a body whose legs and trunk are believed: above it is no body (see `anatomy`)

COMMON_RATES: Final = (24.0, 25.0, 30.0, 48.0, 50.0, 60.0, 72.0, 90.0, 100.0, 120.0, 144.0, 200.0, 240.0, 250.0, 500.0)
NTSC_RATES: Final = tuple(1000.0 * n / 1001.0 for n in (24, 30, 60, 120, 240))
SLOWEST_S: Final = 4.0  # [s] nobody writes a frame in more: such a frame time is in another unit
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
        InputError: the name is not among ``m, cm, mm, inch, cmu, dm, foot``.
    """
    word = str(unit).lower()
    name = {"in": "inch", "inches": "inch", "metre": "m", "meter": "m", "feet": "foot", "ft": "foot"}.get(word, word)
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


def guess_body_unit(skeleton: Skeleton) -> UnitGuess:
    """Choose the unit in which a human is nearest to a person's size, from legs and trunk.

    The size of an animal or a thing tells no unit: metres, centimetres or millimetres are assumed, whichever brings it
    nearest to a metre, with a warning.
    """
    if assess_anatomy(skeleton).is_human:
        # The unit in which a person of this height is nearest to a person's size. Studios also model at scales of their
        # own: a body that is a person's in no unit is taken in a power of ten of the metre, or scaled to a mean height,
        # with a warning.
        height = estimate_stature(skeleton)

        def distance(name: str) -> float:
            rare = RARE if name in ("inch", "cmu", "dm", "foot") else 0.0
            return rare + abs(math.log(height * METRES[name] / HEIGHT_M))

        name = min(METRES, key=distance)
        metres = METRES[name]
        tall = height * metres
        note = f"unit {name} taken ({metres:g} m): the skeleton is then about {tall:.2f} m tall"
        if PLAUSIBLE_M[0] <= tall <= PLAUSIBLE_M[1]:
            return UnitGuess(name, metres, note)
        # Scenes are scaled by tens and hundreds more often than by anything else
        power = round(math.log10(HEIGHT_M / height))
        is_power = abs(math.log(height * 10.0**power / HEIGHT_M)) < MOST_SCALED
        metres = 10.0**power if is_power else HEIGHT_M / height
        warning = (
            f"a person in no known unit (in {name} about {tall:.3g} m tall): lengths were scaled so that the height is "
            f"about {height * metres:.2f} m. Give unit= (--unit) to override"
        )
        return UnitGuess(f"{metres:.6g} m", metres, f"no known unit: {metres:.6g} m taken", warning)
    reach = longest_reach(skeleton.parents, skeleton.offsets, skeleton.tips)
    if not reach > 0.0:
        warning = "the skeleton has no length, so its unit cannot be estimated; cm is assumed. Give unit= to override"
        return UnitGuess("cm", METRES["cm"], "unit unknown: cm assumed", warning)
    name = min(("m", "cm", "mm"), key=lambda unit: abs(math.log(reach * METRES[unit])))
    size = f"{name} is assumed, which makes {reach * METRES[name]:.3g} m from its root to its farthest end"
    note = f"unit unknown: {size}"
    warning = f"the skeleton is no human's, so its size does not tell the unit of length: {size}. Give unit= (--unit)"
    return UnitGuess(name, METRES[name], note, warning if skeleton.num_joints >= FEW_JOINTS else None)


def estimate_stature(skeleton: Skeleton) -> float:
    """Height of the person in the skeleton's own unit, from legs and trunk; from the longest way without them.

    Legs count twice, as the better measure: thigh and shank are 0.491 of stature ([Drillis1966]_), and the way from
    where the legs meet to the shoulders is 0.34 in common skeletons. Neither depends on nodes above the pelvis, on the
    rest pose, on fingers, hair or props.
    """
    plan = find_body_plan(skeleton)
    if plan is None or plan.cost > MOST_COST or not plan.trunk_length > 0.0:
        return HEIGHT_OF_REACH * longest_reach(skeleton.parents, skeleton.offsets, skeleton.tips)
    by_leg, by_trunk = plan.leg_length / LEG_OF_STATURE, plan.trunk_length / (TRUNK_ON_LEG * LEG_OF_STATURE)
    return float((by_leg**2 * by_trunk) ** (1.0 / 3.0))


def rate_from_frame_time(text: str) -> tuple[float, str | None]:
    """Frames per second of a printed frame time, and a note if the rate was restored.

    A header prints 1/120 s as ``.0083333``, which is 120.00048 Hz. When a common rate lies within what the
    printed digits leave open, that rate is meant.
    """
    seconds = float(text)
    if seconds >= SLOWEST_S:
        # Some write frames a second, or milliseconds
        rates, said = (*COMMON_RATES, *NTSC_RATES), "frames a second"
        rate = seconds
        if seconds not in rates:
            rate, said = 1000.0 / seconds, "milliseconds"
            near = min(rates, key=lambda known: abs(known - rate))
            rate = near if abs(near / rate - 1.0) < FINE else rate
        return rate, f"frame time {text} read as {said}: {rate:.6g} Hz"
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


@dataclass(frozen=True, slots=True, eq=False)
class LocalFrames:
    """Joints seen from their parents."""

    rotations: SO3  # batch (F, J), R_parent_joint
    bones: FloatArray  # (F, J, 3) [m] joint origin in its parent's frame; zero for the root
    offsets: FloatArray  # (J, 3) [m] mean of the bones
    stretch_m: float  # largest distance of a bone's end from its mean

    def translations(self, tolerance_m: float) -> FloatArray | None:
        """Bones frame by frame, where they change by more than the tolerance; else nothing: they are rigid."""
        return self.bones if self.stretch_m > tolerance_m else None


def localise_frames(world: SO3, positions: FloatArray, parents: IntArray) -> LocalFrames:
    r"""Turn world rotations, batch (F, J), and positions (F, J, 3) [m] into those of joints in their parents' frames.

    Formats of suits and generators keep no offsets. Bones are rigid, so every frame has them:

    .. math:: L_j = R_{p(j)}^\top R_j, \qquad o_j = \frac1F \sum_f R_{p(j)}^\top (x_j - x_{p(j)})
    """
    above = parents[1:]
    inverse = world[:, above].inverse()
    bones = np.zeros_like(positions)
    bones[:, 1:] = inverse @ (positions[:, 1:] - positions[:, above])
    offsets = bones.mean(axis=0)
    rotations = SO3.concatenate([world[:, :1], inverse @ world[:, 1:]], axis=1)
    stretch_m = float(np.linalg.norm(bones - offsets, axis=-1).max())
    return LocalFrames(rotations, bones, offsets, stretch_m)
