"""How points of a body move with its joints."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen
from marey.motion import Motion
from marey.skeleton import Pose, joint_frames


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
    return _compute_jacobians(pose.skeleton.parents, positions, frames.wxyz, carrier, offset)[0]


def point_jacobians(motion: Motion, joint: int | str, offset: ArrayLike = (0.0, 0.0, 0.0)) -> FloatArray:
    """As :func:`point_jacobian`, for every frame of a clip: ``(F, 3, 3 + 3 J)``."""
    positions, frames = motion.joint_frames()
    carrier = motion.skeleton.index(joint) if isinstance(joint, str) else joint
    return _compute_jacobians(motion.skeleton.parents, positions, frames.wxyz, carrier, offset)


def _compute_jacobians(
    parents: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    positions: FloatArray,
    wxyz: FloatArray,
    joint: int,
    offset: ArrayLike,
) -> FloatArray:
    from marey.kinematics._jacobian_kernels import write_jacobians

    if not 0 <= joint < len(parents):
        raise InputError(f"joint {joint} of a skeleton of {len(parents)}", f"Give a number below {len(parents)}")
    return write_jacobians(parents, positions, wxyz, joint, frozen(offset, 3, name="offset"))
