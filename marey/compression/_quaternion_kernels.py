"""Quaternions of one joint at a time, for compiled loops; scalar first."""

from __future__ import annotations

from marey.base import FloatArray, kernel
from marey.lie._rotation_kernels import Quaternion as Four
from marey.lie._rotation_kernels import Vector as Three
from marey.lie._rotation_kernels import conjugate as inverse
from marey.lie._rotation_kernels import exponential, right_jacobian_times, rotate_xyz
from marey.lie._rotation_kernels import multiply as product

__all__ = [
    "Four",
    "Three",
    "exponential",
    "inverse",
    "product",
    "read_quaternion",
    "right_jacobian_column",
    "rotate_vector",
]


@kernel
def rotate_vector(q: Four, x: float, y: float, z: float) -> Three:
    """Turn a vector."""
    return rotate_xyz(q[0], q[1], q[2], q[3], x, y, z)


@kernel
def right_jacobian_column(x: float, y: float, z: float, axis: int) -> Three:
    r"""Column of :math:`J_r(v)`: how :math:`\exp v` turns, in its own frame, when one component of ``v`` grows."""
    e = (1.0 if axis == 0 else 0.0, 1.0 if axis == 1 else 0.0, 1.0 if axis == 2 else 0.0)
    return right_jacobian_times(x, y, z, e[0], e[1], e[2])


@kernel
def read_quaternion(row: FloatArray) -> Four:
    """Quaternion held in a row of an array."""
    return row[0], row[1], row[2], row[3]
