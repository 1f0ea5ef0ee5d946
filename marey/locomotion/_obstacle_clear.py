"""How much ground a leap clears: where no part of a foot comes lower than an obstacle is high."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from marey.base import FloatArray
from marey.skeleton import Skeleton, foot_points, joint_frames

if TYPE_CHECKING:
    from marey.locomotion._transition import LeapPlan

NUM_FRAMES: Final = 40  # of a leap, 40 a second or more
SOLE_M: Final = 0.02  # [m] a foot lower than this counts as on the ground
SEARCH_MARGIN_M: Final = 0.3  # [m] of ground looked at before the take-off and behind the landing
LEFT_POINTS, RIGHT_POINTS = slice(0, 3), slice(3, 6)  # heel, ball, toe end
HEEL, TOE_END = 0, 2


class LeapClearance(NamedTuple):
    """The stretch of ground that a leap leaves free, along its direction."""

    start_m: float  # after the end of the take-off toe, where it is planted
    length_m: float
    beyond_m: float  # from the end of the stretch to the heel of the landed foot
    tip_m: float  # from the joint of the take-off toe to its end


def measure_clearance(plan: LeapPlan, height_m: float) -> LeapClearance:
    """Find the longest stretch between take-off and landing that the feet pass higher than ``height_m``.

    Args:
        plan: the leap; it may stand anywhere, and face anywhere.
        height_m: of the obstacle.
    """
    times = np.linspace(0.0, plan.duration_s, NUM_FRAMES)
    ahead, up, joint = _sole_paths(plan, times)
    take_off, landing = (RIGHT_POINTS, LEFT_POINTS) if plan.side == 0 else (LEFT_POINTS, RIGHT_POINTS)
    stance = int(np.searchsorted(times, 0.5 * plan.times_s[0]))
    landed = min(int(np.searchsorted(times, 0.5 * (plan.times_s[1] + plan.times_s[2]))), NUM_FRAMES - 1)
    toe, heel = float(ahead[stance, take_off][TOE_END]), float(ahead[landed, landing][HEEL])
    low = _low_intervals(ahead, up, max(height_m, SOLE_M))
    low = np.sort(
        np.concatenate([low[(low > toe - SEARCH_MARGIN_M) & (low < heel + SEARCH_MARGIN_M)], [toe, max(heel, toe)]])
    )
    widest = int(np.argmax(np.diff(low)))
    start, stop = float(low[widest]), float(low[widest + 1])
    return LeapClearance(start - toe, stop - start, heel - stop, toe - float(joint[stance]))


def _low_intervals(ahead: FloatArray, up: FloatArray, height: float) -> FloatArray:
    """Places ``(K,)`` along the way over which a point of a foot is low; fast points leave no holes between frames."""
    is_low = np.minimum(up[:-1], up[1:]) < height
    before, after, u = ahead[:-1][is_low][:, None], ahead[1:][is_low][:, None], np.linspace(0.0, 1.0, 6)
    return ((1.0 - u) * before + u * after).ravel()


def _sole_paths(plan: LeapPlan, times: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Forward places and heights ``(T, 6)`` [m] of the sole's points, and forward places of the take-off toe joint."""
    frames = [plan.frame(float(t)) for t in times]
    roots, rotations = np.stack([f.root for f in frames]), np.stack([f.rotations for f in frames])
    points = foot_points(plan.skeleton)
    positions, R_world_joint = joint_frames(plan.skeleton, roots, rotations)
    soles = points.positions(positions, R_world_joint)
    forward = np.array([np.sin(plan.heading_rad), 0.0, np.cos(plan.heading_rad)])
    toe = _toe_joint(plan.skeleton, plan.side)
    return soles @ forward, soles[..., 1], positions[:, toe] @ forward


def _toe_joint(skeleton: Skeleton, side: int) -> int:
    return skeleton.index("right_foot" if side == 0 else "left_foot")
