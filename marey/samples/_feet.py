"""Where a synthetic foot goes: planted steps that roll from heel to toe, joined by swings."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.lie import SO3
from marey.skeleton import Skeleton, contact_points

FLAT_TOL_RAD = 0.02  # a foot turned by less than a degree counts as flat on the ground


@dataclass(frozen=True, slots=True)
class StanceRoll:
    """How a foot rolls over the ground during one stance; pitch is positive with the heel up."""

    strike_rad: float = -0.35  # pitch when the heel lands
    flat_from: float = 0.14  # part of the stance after which the foot is flat
    lift_from: float = 0.55  # part of the stance after which the heel lifts
    leave_rad: float = 1.0  # pitch when the toe leaves


@dataclass(frozen=True, slots=True)
class StanceStep:
    """One stance: from ``down_s`` to ``up_s`` the foot is planted, ankle above ``(x, z)``."""

    down_s: float
    up_s: float
    x: float  # [m]
    z: float  # [m]
    roll: StanceRoll


@dataclass(frozen=True, slots=True, eq=False)
class FootTrack:
    """A foot over time."""

    ankle: FloatArray  # (F, 3) [m] in world
    pitch: FloatArray  # (F,) [rad] of the foot, heel up positive
    toe_pitch: FloatArray  # (F,) [rad] of the toes in world
    heel_down: BoolArray  # (F,)
    toe_down: BoolArray  # (F,)


@dataclass(frozen=True, slots=True, eq=False)
class FootShape:
    """Pivots of a foot that stands flat, seen from its ankle."""

    heel: FloatArray  # (3,) [m] where the heel touches the ground
    ball: FloatArray  # (3,) [m] the toe joint
    ankle_height_m: float

    @classmethod
    def from_skeleton(cls, skeleton: Skeleton, side: str) -> FootShape:
        """Measure the rest pose, in which the foot stands flat with its sole at height zero."""
        points = contact_points(skeleton)
        heel = points.offsets[points.names.index(f"{side}_heel")]
        height = float(skeleton.rest_positions()[skeleton.index(f"{side}_ankle"), 1])
        return cls(heel, skeleton.offsets[skeleton.index(f"{side}_foot")], height)


def track_foot(times: FloatArray, steps: list[StanceStep], shape: FootShape, clearance_m: float) -> FootTrack:
    """Follow the steps: stances as planned, swings as cubic curves that keep position and velocity."""
    ankle, pitch, toes = np.zeros((len(times), 3)), np.zeros(len(times)), np.zeros(len(times))
    heel_down, toe_down = np.zeros(len(times), dtype=bool), np.zeros(len(times), dtype=bool)
    for step in steps:
        on = (times >= step.down_s) & (times <= step.up_s)
        part = (times[on] - step.down_s) / (step.up_s - step.down_s)
        ankle[on], pitch[on] = _stance_track(step, part, shape)
        toes[on] = np.minimum(pitch[on], 0.0)
        heel_down[on] = pitch[on] < FLAT_TOL_RAD
        toe_down[on] = pitch[on] > -FLAT_TOL_RAD
    for step, following in pairwise(steps):
        off = (times > step.up_s) & (times < following.down_s)
        part = (times[off] - step.up_s) / (following.down_s - step.up_s)
        ankle[off], pitch[off], toes[off] = _swing_track(step, following, part, shape, clearance_m)
    return FootTrack(ankle, pitch, toes, heel_down, toe_down)


def _stance_track(step: StanceStep, part: FloatArray, shape: FootShape) -> tuple[FloatArray, FloatArray]:
    """Ankle and pitch over one stance: about the heel while landing, about the ball while leaving."""
    roll = step.roll
    landing = np.clip(part / roll.flat_from, 0.0, 1.0)
    leaving = np.clip((part - roll.lift_from) / (1.0 - roll.lift_from), 0.0, 1.0)
    pitch = roll.strike_rad * (1.0 - landing) ** 2 * (1.0 + 2.0 * landing) + roll.leave_rad * leaving**2
    pivot = np.where((pitch < 0.0)[:, None], shape.heel, shape.ball)
    flat = np.array([step.x, shape.ankle_height_m, step.z])
    ankle = flat + pivot - SO3.exp(pitch[:, None] * np.array([1.0, 0.0, 0.0])) @ pivot
    return ankle, pitch


def _swing_track(
    step: StanceStep, following: StanceStep, part: FloatArray, shape: FootShape, clearance_m: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    duration = following.down_s - step.up_s
    before, after = _stance_end(step, shape, 1.0), _stance_end(following, shape, 0.0)
    curve = _hermite(part[:, None], before[0], before[1] * duration, after[0], after[1] * duration)
    ankle, pitch = curve[:, :3], curve[:, 3]
    ankle[:, 1] += clearance_m * (3125.0 / 108.0) * part**2 * (1.0 - part) ** 3  # highest at 0.4 of the swing
    relaxed = np.clip(part / 0.6, 0.0, 1.0)
    return ankle, pitch, pitch * relaxed**2 * (3.0 - 2.0 * relaxed)


def _stance_end(step: StanceStep, shape: FootShape, part: float) -> tuple[FloatArray, FloatArray]:
    """Ankle and pitch at an end of a stance, and their rates, by a one-sided difference."""
    h = 1e-5 if part == 0.0 else -1e-5
    ankle, pitch = _stance_track(step, np.array([part, part + h]), shape)
    state = np.concatenate([ankle, pitch[:, None]], axis=1)
    return state[0], (state[1] - state[0]) / (h * (step.up_s - step.down_s))


def _hermite(u: FloatArray, a: FloatArray, da: FloatArray, b: FloatArray, db: FloatArray) -> FloatArray:
    rise = u * u * (3.0 - 2.0 * u)
    return a + rise * (b - a) + u * (1.0 - u) ** 2 * da - u * u * (1.0 - u) * db
