"""Jacobians of points of a body."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, frozen, kernel
from marey.skeleton import Pose, joint_frames


@kernel
def _rotation_axes(q: FloatArray) -> FloatArray:
    """Columns of a unit quaternion's rotation matrix, as rows."""
    w, x, y, z = q[0], q[1], q[2], q[3]
    m = np.empty((3, 3))
    m[0, 0], m[0, 1], m[0, 2] = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)
    m[1, 0], m[1, 1], m[1, 2] = 2.0 * (x * y - w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + w * x)
    m[2, 0], m[2, 1], m[2, 2] = 2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)
    return m


@kernel
def write_jacobians(
    parents: IntArray, positions: FloatArray, wxyz: FloatArray, joint: int, offset: FloatArray
) -> FloatArray:
    """Jacobians ``(F, 3, 3 + 3 J)`` of a point at ``offset`` from ``joint``, from world positions and quaternions."""
    frames, joints = positions.shape[0], positions.shape[1]
    result = np.zeros((frames, 3, 3 + 3 * joints))
    for f in range(frames):
        # The point in world
        axes = _rotation_axes(wxyz[f, joint])
        point = positions[f, joint].copy()
        for i in range(3):
            result[f, i, i] = 1.0
            for k in range(3):
                point[i] += axes[k, i] * offset[k]
        # Columns of the joints that carry it: axis cross lever
        j = joint
        while j >= 0:
            axes = _rotation_axes(wxyz[f, j])
            d0, d1, d2 = point[0] - positions[f, j, 0], point[1] - positions[f, j, 1], point[2] - positions[f, j, 2]
            for k in range(3):
                a0, a1, a2 = axes[k, 0], axes[k, 1], axes[k, 2]
                c = 3 + 3 * j + k
                result[f, 0, c] = a1 * d2 - a2 * d1
                result[f, 1, c] = a2 * d0 - a0 * d2
                result[f, 2, c] = a0 * d1 - a1 * d0
            j = parents[j]
    return result


def point_jacobian(pose: Pose, joint: int | str, offset: ArrayLike = (0.0, 0.0, 0.0)) -> FloatArray:
    r"""Geometric Jacobian ``(3, 3 + 3 J)`` of a point fixed to a joint.

    Columns are the root's position, then three for each joint: a rotation vector :math:`\omega_j` in the joint's own
    frame, :math:`R_j \leftarrow R_j \exp(\omega_j)`:

    .. math:: \frac{\partial p}{\partial x_0} = I, \qquad
              \frac{\partial p}{\partial \omega_j} = -[p - x_j]_\times R_{world,j}

    and zero for joints that do not carry the point.

    Args:
        pose: where to linearise.
        joint: the carrying joint, by number or name.
        offset: the point ``(3,)`` [m] in that joint's frame.
    """
    roots, wxyz = pose.root_position[None], pose.rotations.wxyz[None]
    positions, frames = joint_frames(pose.skeleton, roots, wxyz)
    carrier = pose.skeleton.index(joint) if isinstance(joint, str) else joint
    if not 0 <= carrier < len(pose.skeleton.parents):
        count = pose.skeleton.num_joints
        raise InputError(f"joint {carrier} of a skeleton of {count}", f"Give a number below {count}")
    place = frozen(offset, 3, name="offset")
    return write_jacobians(pose.skeleton.parents, positions, frames.wxyz, carrier, place)[0]
