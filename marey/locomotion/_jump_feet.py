"""The legs of a jump: knees never bend backwards, feet on the ground stay where they stand, the others above it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.kinematics import Limb, solve_two_bone
from marey.lie import SO3
from marey.locomotion._jump_flight import SIDES
from marey.motion import Motion
from marey.numerics import smoothstep
from marey.skeleton import HUMAN, contact_points

LEAST_FLEXION_RAD: Final = float(np.deg2rad(8.0))  # a knee nearer to straight would snap when its foot is held
SOFT_FLEXION_RAD: Final = float(np.deg2rad(6.0))  # over which flexion bends over to the least
MAX_LEG_EXTENSION: Final = 0.9975  # [-] largest extension of a leg: a knee bent by 8 degrees
FOOT_EASE_S: Final = 0.15  # [s] in which a foot in the air gets to where it will stand, or away from it
KNEES: Final = [HUMAN.index(f"{side}_knee") for side in SIDES]
TOE_REST_M: Final = float(HUMAN.rest_positions()[HUMAN.index("left_foot"), 1])  # height of the toe joint, standing
LATERAL_AXIS: Final = np.array([1.0, 0.0, 0.0])


@dataclass(frozen=True, slots=True)
class StanceTimes:
    """When the foot of one side strikes, has its toes down, and leaves [s]."""

    side: str
    strike_s: float
    toes_s: float
    off_s: float


def list_stances(kind: str, events: FloatArray) -> tuple[StanceTimes, ...]:
    """Stances of a jump with the instants ``(8,)`` [s] of its events: right then left, or both feet twice."""
    first, last = (events[0], events[1], events[3]), (events[4], events[5], events[7])
    if kind == "standing":
        return tuple(StanceTimes(side, *map(float, part)) for side in SIDES for part in (first, last))
    return StanceTimes("right", *map(float, first)), StanceTimes("left", *map(float, last))


def bend_knees(rows: FloatArray, means: FloatArray) -> FloatArray:
    r"""Rows ``(N, D)`` whose knees are bent by eight degrees at least.

    .. math:: f' = \tfrac12\big(f + m + \sqrt{(f - m)^2 + w^2}\big)

    Sums of captured poses may straighten a knee, or bend it backwards.
    """
    knees = rows[:, 3:].reshape(len(rows), -1, 3)[:, KNEES]
    turns = SO3(means[KNEES]) @ SO3.exp(knees)
    flexion = turns.twist_angle(LATERAL_AXIS)
    more = 0.5 * (LEAST_FLEXION_RAD - flexion + np.hypot(flexion - LEAST_FLEXION_RAD, SOFT_FLEXION_RAD))
    bent = SO3(means[KNEES]).inverse() @ turns @ SO3.exp(more[..., None] * LATERAL_AXIS)
    out = rows.copy()
    out[:, 3:].reshape(len(rows), -1, 3)[:, KNEES] = bent.log()
    return out


@lru_cache(maxsize=2)
def _leg_limb(side: str) -> Limb:
    return Limb.from_name(HUMAN, f"{side}_leg")


def hold_jump_feet(
    wxyz: FloatArray, root: FloatArray, times: FloatArray, stances: tuple[StanceTimes, ...]
) -> FloatArray:
    """Joint rotations ``(N, J, 4)`` whose standing feet do not move, and whose other feet stay above the ground.

    A foot is moved as a whole, by the leg alone, so that its toe joint rests in one place at its standing height; in
    the air before and after it is eased there and back.

    Args:
        wxyz: ``(N, J, 4)``.
        root: ``(N, 3)`` [m].
        times: ``(N,)`` [s].
        stances: of both feet.
    """
    motion = Motion(HUMAN, 1.0, root, SO3(wxyz))
    positions, turns = motion.joint_frames()
    points = contact_points(HUMAN)
    soles = points.positions(positions, turns)
    for side in SIDES:
        toe, ankle = (positions[:, HUMAN.index(f"{side}_{part}")] for part in ("foot", "ankle"))
        shift = sum((_toe_shift(toe, times, s) for s in stances if s.side == side), start=np.zeros_like(toe))
        low = soles[:, [points.index(f"{side}_{part}") for part in ("heel", "toe")], 1].min(axis=1) + shift[:, 1]
        shift[:, 1] += np.where(_has_toes_down(times, stances, side), 0.0, _sole_lift(low))
        motion = solve_two_bone(motion, _leg_limb(side), ankle + shift, stretch=MAX_LEG_EXTENSION).motion
    return motion.rotations.wxyz


def _has_toes_down(times: FloatArray, stances: tuple[StanceTimes, ...], side: str) -> BoolArray:
    return np.any([(times >= s.toes_s) & (times <= s.off_s) for s in stances if s.side == side], axis=0)


def _toe_shift(toe: FloatArray, times: FloatArray, stance: StanceTimes) -> FloatArray:
    """How a foot must be moved ``(N, 3)`` [m] so that its toe ``(N, 3)`` stays put while it is down."""
    down = (times >= min(stance.toes_s, stance.off_s)) & (times <= stance.off_s)
    if not down.any():
        return np.zeros_like(toe)
    place = toe[down].mean(axis=0)
    place[1] = TOE_REST_M
    first, last = np.flatnonzero(down)[[0, -1]]
    held = np.clip(np.arange(len(times)), first, last)
    before, after = (stance.strike_s - times) / FOOT_EASE_S, (times - stance.off_s) / FOOT_EASE_S
    return (1.0 - smoothstep(np.maximum(before, after)))[:, None] * (place - toe[held])


def _sole_lift(low: FloatArray) -> FloatArray:
    """How far ``(N,)`` [m] a sole must be lifted, smoothed over its neighbours, so that it is nowhere below ground."""
    need = np.maximum(-low, 0.0)
    padded = np.pad(need, 3, mode="edge")
    wide = np.max([padded[k : k + len(need) + 4] for k in range(3)], axis=0)
    return np.asarray(np.convolve(wide, np.array([0.1, 0.2, 0.4, 0.2, 0.1]), mode="valid"), dtype=np.float64)
