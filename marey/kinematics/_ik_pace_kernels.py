"""Compiled bounds on how far a pose may go from one frame to the next."""

from __future__ import annotations

from math import acos, sqrt

import numpy as np

from marey.base import BoolArray, FloatArray, kernel
from marey.kinematics._ik_layout import ORIENTATION, IKLayout, SpeedLimits
from marey.lie._rotation_kernels import exponential, logarithm, product

MIN_JOINT_STEP_RAD = 0.01  # [rad] goals that do not move: a tolerance of 1 mm turns a limb by about this


@kernel
def max_joint_step(layout: IKLayout, pace: SpeedLimits, targets: FloatArray, active: BoolArray, f: int) -> float:
    """Largest turn [rad] that a joint may make in frame f: as far as the fastest goal moves, over a limb, and a little.

    There is none in the first frame, nor where goals come or go.
    """
    if f == 0:
        return np.inf
    fastest = 0.0
    for b in range(targets.shape[1]):
        if active[f, b] != active[f - 1, b]:
            return np.inf
        if not active[f, b]:
            continue
        old, new = targets[f - 1, b], targets[f, b]
        if layout.blocks.kinds[b] == ORIENTATION:
            fastest = max(fastest, quaternion_angle(old, new))
        else:
            step = sqrt((new[0] - old[0]) ** 2 + (new[1] - old[1]) ** 2 + (new[2] - old[2]) ** 2)
            fastest = max(fastest, step / pace.limb_m)
    return pace.max_turn * (fastest + MIN_JOINT_STEP_RAD)


@kernel
def quaternion_angle(p: FloatArray, q: FloatArray) -> float:
    """Angle [rad] between two unit quaternions."""
    return 2.0 * acos(min(1.0, abs(p[0] * q[0] + p[1] * q[1] + p[2] * q[2] + p[3] * q[3])))


@kernel
def largest_joint_step(
    old: FloatArray, new: FloatArray, old_root: FloatArray, new_root: FloatArray, limb_m: float
) -> float:
    """Largest turn [rad] of a joint between two poses ``(J, 4)``; a limb's length of the root counts as 1 rad."""
    step = 0.0
    for c in range(3):
        step += (new_root[c] - old_root[c]) ** 2
    largest = sqrt(step) / limb_m
    for j in range(old.shape[0]):
        largest = max(largest, quaternion_angle(old[j], new[j]))
    return largest


@kernel
def interpolate_rotation(old: FloatArray, new: FloatArray, part: float, out: FloatArray) -> None:
    """Write the rotation ``(4,)`` a part of the way from one to the other."""
    w, x, y, z = product(old[0], -old[1], -old[2], -old[3], new[0], new[1], new[2], new[3])
    x, y, z = logarithm(w, x, y, z)
    w, x, y, z = exponential(part * x, part * y, part * z)
    w, x, y, z = product(old[0], old[1], old[2], old[3], w, x, y, z)
    scale = 1.0 / sqrt(w * w + x * x + y * y + z * z)
    out[0], out[1], out[2], out[3] = scale * w, scale * x, scale * y, scale * z


@kernel
def clamp_joint_steps(
    old_root: FloatArray, old: FloatArray, root: FloatArray, wxyz: FloatArray, most: float, limb_m: float
) -> None:
    """Bring joints that turn further than ``most`` [rad] back to it, and the root to ``most`` limbs."""
    step = 0.0
    for c in range(3):
        step += (root[c] - old_root[c]) ** 2
    part = min(1.0, most * limb_m / max(sqrt(step), 1e-300))
    for c in range(3):
        root[c] = old_root[c] + part * (root[c] - old_root[c])
    for j in range(wxyz.shape[0]):
        turn = quaternion_angle(old[j], wxyz[j])
        if turn > most:
            interpolate_rotation(old[j], wxyz[j].copy(), most / turn, wxyz[j])


@kernel
def scale_pose_step(
    old_root: FloatArray,
    old: FloatArray,
    new_root: FloatArray,
    new: FloatArray,
    most: float,
    limb_m: float,
    root: FloatArray,
    wxyz: FloatArray,
) -> float:
    """Write the pose on the way from old to new whose fastest joint turns by ``most`` [rad]; return the part."""
    part = min(1.0, most / max(largest_joint_step(old, new, old_root, new_root, limb_m), 1e-300))
    for c in range(3):
        root[c] = old_root[c] + part * (new_root[c] - old_root[c])
    for j in range(old.shape[0]):
        interpolate_rotation(old[j], new[j], part, wxyz[j])
    return part


@kernel
def blend_towards(mobility: FloatArray, middle: FloatArray, part: float, wxyz: FloatArray) -> None:
    """Turn all joints that may move, but the root, a part of the way to the middle."""
    for j in range(1, wxyz.shape[0]):
        if mobility[j] > 0.0:
            interpolate_rotation(wxyz[j].copy(), middle[j], part, wxyz[j])
