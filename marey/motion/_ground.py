"""The floor under a clip, and how tall its body stands."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.motion._filter import lowpass_values
from marey.motion._motion import Motion
from marey.skeleton import RoleMap, Skeleton, foot_points, role_map, t_pose

SLOW_MPS: Final = 0.3  # a point of a standing foot is slower, one of a swinging foot seldom
SMOOTHING_HZ: Final = 10.0
FLOOR_PERCENT: Final = 30.0  # of resting heights: below the middle, since feet also rest on stairs, seats and boxes
HEAD_SHARE: Final = 0.890  # height of the head joint over stature, for a head without a tip: as in HUMAN


def ground_height(motion: Motion) -> float:
    """Height of the floor [m], estimated for the whole clip.

    The 30th percentile of the heights at which the lowest slow point of the feet (heels and balls) rests; a standing
    foot is slow and most standing is done on the floor, so neither a few frames below it nor steps, seats and boxes
    above it count for much. Without standing feet: the height below which the body comes in 2 % of the frames.
    """
    points = _foot_tracks(motion)
    if points.shape[1] == 0:
        return _lowest_height(motion.joint_positions()[..., 1])
    speeds = np.linalg.norm(np.gradient(points, axis=0), axis=-1) * motion.rate_hz if len(points) > 1 else None
    slow = np.ones(points.shape[:2], dtype=np.bool_) if speeds is None else speeds < SLOW_MPS
    resting = np.where(slow, points[..., 1], np.inf).min(axis=1)[slow.any(axis=1)]
    if len(resting) < min(5, len(points)):
        return _lowest_height(points[..., 1])
    return float(np.percentile(resting, FLOOR_PERCENT))


def align_to_ground(motion: Motion) -> Motion:
    """Move a clip up or down so that its floor is at height zero."""
    shift = np.array([0.0, ground_height(motion), 0.0])
    source = None if motion.source is None else replace(motion.source, channels=None, dropped=None)
    return replace(motion, root_positions=motion.root_positions - shift, source=source)


def standing_height(skeleton: Skeleton, roles: RoleMap | None = None) -> float:
    """Height from sole to crown [m] when the skeleton stands upright in the T-pose.

    Where the head has no tip, the crown is put where the head joint of the canonical human suggests.
    """
    roles = role_map(skeleton) if roles is None else roles
    pose = t_pose(skeleton, roles)
    positions, R_world_joint = pose.joint_positions(), pose.joint_rotations()
    soles = foot_points(skeleton, roles).positions(positions, R_world_joint)
    tips = positions + R_world_joint @ skeleton.tips
    low = float(min(positions[:, 1].min(), soles[:, 1].min(initial=np.inf), tips[:, 1].min()))
    head = roles.get("head")
    if head is not None and tips[head, 1] - positions[head, 1] < 1e-3:
        return float(positions[head, 1] - low) / HEAD_SHARE
    high = float(tips[head, 1]) if head is not None else float(max(positions[:, 1].max(), tips[:, 1].max()))
    return high - low


def _foot_tracks(motion: Motion) -> FloatArray:
    """Heels and balls of the feet ``(F, K, 3)`` [m] in world, smoothed; toe ends tremble too much in captures."""
    feet = foot_points(motion.skeleton)
    steady = [k for k, name in enumerate(feet.names) if not name.endswith("toe_end")]
    points = feet.positions(*motion.joint_frames())[:, steady]
    if motion.rate_hz <= 2.5 * SMOOTHING_HZ:
        return points
    return lowpass_values(points, motion.rate_hz, SMOOTHING_HZ)


def _lowest_height(heights: FloatArray) -> float:
    return float(np.percentile(heights.min(axis=1), 2.0))
