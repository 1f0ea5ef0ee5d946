"""Kinds of joints, compiled: how few numbers turn a joint.

A kind says how the local rotation ``L`` of a joint follows from its numbers ``s``, with constants fitted to the clip:

- ``FIXED``: ``L = M``;
- ``HINGE``: ``L = M exp(s0 b)``, a knee or an elbow;
- ``UNIVERSAL``: ``L = exp(s0 a) M exp(s1 b)``, an ankle or a wrist whose third angle was never measured;
- ``BALL``: ``L = M exp(s) N``, where ``N`` lays the bone along an axis so that swing and twist are told apart;
- ``FREE``: ``L = s / |s|``, a quaternion of four numbers, for joints that turn all the way round.
"""

from __future__ import annotations

from math import sqrt
from typing import Final, NamedTuple

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.lie.kernels import (
    Quaternion,
    Vector,
    conjugate,
    exponential,
    multiply,
    quaternion_at,
    right_jacobian_times,
    unrotate,
)


@kernel
def right_jacobian_column(x: float, y: float, z: float, axis: int) -> Vector:
    r"""Column of :math:`J_r(v)`: how :math:`\exp v` turns, in its own frame, when one component of ``v`` grows."""
    e = (1.0 if axis == 0 else 0.0, 1.0 if axis == 1 else 0.0, 1.0 if axis == 2 else 0.0)
    return right_jacobian_times(x, y, z, e[0], e[1], e[2])


FIXED: Final = 0
HINGE: Final = 1
UNIVERSAL: Final = 2
BALL: Final = 3
FREE: Final = 4
WIDTHS: Final = (0, 1, 2, 3, 4)  # numbers of each kind


class JointTables(NamedTuple):
    """The kinds of all joints and their constants."""

    kinds: IntArray  # (J,)
    means: FloatArray  # (J, 4) the constant M
    before: FloatArray  # (J, 3) the axis a of universal joints, in the parent's frame
    after: FloatArray  # (J, 3) the axis b of hinges and universal joints, in the joint's frame
    bones: FloatArray  # (J, 4) the constant N of ball joints
    starts: IntArray  # (J + 1,) first number of each joint; the first three numbers are the root's position


@kernel
def compute_joint_rotation(joints: JointTables, j: int, s: FloatArray) -> Quaternion:
    """Local rotation of joint ``j`` from its numbers, the first of which is ``s[0]``."""
    kind = joints.kinds[j]
    mean = quaternion_at(joints.means, j)
    if kind == HINGE:
        b = joints.after[j]
        return multiply(mean, exponential(s[0] * b[0], s[0] * b[1], s[0] * b[2]))
    if kind == UNIVERSAL:
        a, b = joints.before[j], joints.after[j]
        half = multiply(exponential(s[0] * a[0], s[0] * a[1], s[0] * a[2]), mean)
        return multiply(half, exponential(s[1] * b[0], s[1] * b[1], s[1] * b[2]))
    if kind == BALL:
        return multiply(multiply(mean, exponential(s[0], s[1], s[2])), quaternion_at(joints.bones, j))
    if kind == FREE:
        scale = 1.0 / sqrt(max(s[0] * s[0] + s[1] * s[1] + s[2] * s[2] + s[3] * s[3], 1e-300))
        return s[0] * scale, s[1] * scale, s[2] * scale, s[3] * scale
    return mean


@kernel
def compute_joint_column(joints: JointTables, j: int, s: FloatArray, rotation: Quaternion, i: int) -> Vector:
    """Angular velocity of joint ``j`` in its own frame when its number ``i`` grows; ``rotation`` is its rotation."""
    kind = joints.kinds[j]
    if kind == BALL:
        return unrotate(quaternion_at(joints.bones, j), right_jacobian_column(s[0], s[1], s[2], i))
    if kind == UNIVERSAL and i == 0:
        a = joints.before[j]
        return unrotate(rotation, (a[0], a[1], a[2]))
    if kind == FREE:
        length = sqrt(max(s[0] * s[0] + s[1] * s[1] + s[2] * s[2] + s[3] * s[3], 1e-300))
        unit = (1.0 if i == 0 else 0.0, 1.0 if i == 1 else 0.0, 1.0 if i == 2 else 0.0, 1.0 if i == 3 else 0.0)
        # Twice the vector part of q^-1 dq
        _, x, y, z = multiply(conjugate(rotation), unit)
        return 2.0 * x / length, 2.0 * y / length, 2.0 * z / length
    b = joints.after[j]
    return b[0], b[1], b[2]


@kernel
def compute_rotations(joints: JointTables, numbers: FloatArray) -> FloatArray:
    """Local rotations ``(F, J, 4)`` of all frames of numbers ``(F, n)``."""
    frames, count = numbers.shape[0], joints.kinds.shape[0]
    wxyz = np.empty((frames, count, 4))
    for f in range(frames):
        for j in range(count):
            w, x, y, z = compute_joint_rotation(joints, j, numbers[f, joints.starts[j] :])
            wxyz[f, j, 0], wxyz[f, j, 1], wxyz[f, j, 2], wxyz[f, j, 3] = w, x, y, z
    return wxyz


@kernel
def compute_columns(joints: JointTables, numbers: FloatArray, owners: IntArray) -> FloatArray:
    """Angular velocity ``(F, n - 3, 3)`` of the joint ``owners`` of each number, in its own frame."""
    frames, count = numbers.shape[0], owners.shape[0]
    out = np.empty((frames, count, 3))
    for f in range(frames):
        for i in range(count):
            j = owners[i]
            s = numbers[f, joints.starts[j] :]
            out[f, i, 0], out[f, i, 1], out[f, i, 2] = compute_joint_column(
                joints, j, s, compute_joint_rotation(joints, j, s), 3 + i - int(joints.starts[j])
            )
    return out
