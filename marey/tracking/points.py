"""Points of a body by name: what the camera sees, and what the filter steers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, UnknownNameError
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import ContactPoints, Skeleton, contact_points, joint_frames, role_map

TOOLS: Final = ("left_hand", "right_hand", "head")  # the three end effectors of [Engell2012]_ §9.1
KEYPOINTS: Final = (
    *TOOLS,
    *(f"{side}_{part}" for part in ("wrist", "elbow", "shoulder") for side in ("left", "right")),
)
TIP: Final = "_tip"


def body_points(skeleton: Skeleton, names: Sequence[str]) -> ContactPoints:
    """Find points by name: a joint, a role of the canonical human, a palm (``"left_hand"``) or a tip (``"head_tip"``).

    A joint or role stands for its origin.

    Raises:
        UnknownNameError: the skeleton has no such point.
        InputError: no name, or one name twice.
    """
    if not names or len(set(names)) < len(names):
        raise InputError(f"points are {tuple(names)}", "Name at least one point, each of them once")
    found = [_find_point(skeleton, name) for name in names]
    return ContactPoints(
        tuple(names), np.array([joint for joint, _ in found]), np.array([offset for _, offset in found])
    )


def _find_point(skeleton: Skeleton, name: str) -> tuple[int, FloatArray]:
    roles, touches = role_map(skeleton), contact_points(skeleton)
    if name in skeleton.names:
        return skeleton.index(name), np.zeros(3)
    if name in roles:
        return roles[name], np.zeros(3)
    if name in touches.names:
        k = touches.index(name)
        return int(touches.joints[k]), touches.offsets[k]
    joint = name.removesuffix(TIP)
    if joint != name and joint in skeleton.names and skeleton.tips[skeleton.index(joint)].any():
        return skeleton.index(joint), skeleton.tips[skeleton.index(joint)]
    raise UnknownNameError("point", name, f"skeleton '{skeleton.name}'", (*touches.names, *skeleton.names))


def compute_point_positions(
    points: ContactPoints, skeleton: Skeleton, roots: FloatArray, wxyz: FloatArray
) -> FloatArray:
    """Points ``(N, K, 3)`` [m] in world, of poses with roots ``(N, 3)`` and local rotations ``(N, J, 4)``."""
    positions, R_world_joint = joint_frames(skeleton, roots, wxyz)
    return points.positions(positions, R_world_joint)


def track_points(motion: Motion, names: Sequence[str]) -> FloatArray:
    """Points of a clip by name, ``(F, K, 3)`` [m] in world."""
    positions, R_world_joint = motion.joint_frames()
    return body_points(motion.skeleton, names).positions(positions, R_world_joint)


def find_moving_joints(skeleton: Skeleton, points: ContactPoints) -> BoolArray:
    """Which joints ``(J,)`` move any of the points, the root left out."""
    moving = np.zeros(skeleton.num_joints, dtype=np.bool_)
    for joint in points.joints:
        j = int(joint)
        while j > 0:
            moving[j] = True
            j = int(skeleton.parents[j])
    return moving


def average_rotations(wxyz: FloatArray, weights: FloatArray) -> FloatArray:
    r"""Weighted mean ``(J, 4)`` of rotations ``(N, J, 4)``, one step from the heaviest.

    .. math:: \mu = q_* \exp\Big(\sum_i w_i \log(q_*^{-1} q_i)\Big)
    """
    heaviest = SO3(wxyz[int(np.argmax(weights))])
    steps = (heaviest.inverse() @ SO3(wxyz)).log()
    return (heaviest @ SO3.exp(np.einsum("n,njc->jc", weights, steps))).wxyz
