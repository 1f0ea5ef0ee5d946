"""Spatial algebra (twists, wrenches, inertias), and what the coordinates of a tree are: kinds of joints, Euler angles.

A twist is (angular, linear), a wrench (force, moment), so that the half that no shift of origin changes comes first in
both and one cross product serves both ([Fang2003]_ app. A). An inertia is (mass, first moment, second moment about the
origin), a rate of inertia the same without a mass. Second moments are ``xx, yy, zz, xy, xz, yz``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.lie import SO3
from marey.lie.kernels import Vector, add3, cross, dot, scale3
from marey.skeleton import Skeleton

SymmetricMatrix = tuple[float, float, float, float, float, float]
Spatial = tuple[Vector, Vector]
InertiaRate = tuple[Vector, SymmetricMatrix]


@kernel
def row6(array: FloatArray, i: int) -> Spatial:
    """Row ``i`` of an array ``(n, 6)``, as two halves."""
    return (array[i, 0], array[i, 1], array[i, 2]), (array[i, 3], array[i, 4], array[i, 5])


@kernel
def put6(array: FloatArray, i: int, x: Spatial) -> None:
    """Write both halves into row ``i``."""
    array[i, 0], array[i, 1], array[i, 2] = x[0]
    array[i, 3], array[i, 4], array[i, 5] = x[1]


@kernel
def add6(array: FloatArray, i: int, x: Spatial) -> None:
    """Add both halves to row ``i``."""
    array[i, 0] += x[0][0]
    array[i, 1] += x[0][1]
    array[i, 2] += x[0][2]
    array[i, 3] += x[1][0]
    array[i, 4] += x[1][1]
    array[i, 5] += x[1][2]


@kernel
def rotate(R: FloatArray, i: int, a: Vector) -> Vector:
    """Vector ``a`` turned by the matrix ``R[i]``."""
    return (
        R[i, 0, 0] * a[0] + R[i, 0, 1] * a[1] + R[i, 0, 2] * a[2],
        R[i, 1, 0] * a[0] + R[i, 1, 1] * a[1] + R[i, 1, 2] * a[2],
        R[i, 2, 0] * a[0] + R[i, 2, 1] * a[1] + R[i, 2, 2] * a[2],
    )


@kernel
def rotate_back(R: FloatArray, i: int, a: Vector) -> Vector:
    """Vector ``a`` turned by the transpose of ``R[i]``."""
    return (
        R[i, 0, 0] * a[0] + R[i, 1, 0] * a[1] + R[i, 2, 0] * a[2],
        R[i, 0, 1] * a[0] + R[i, 1, 1] * a[1] + R[i, 2, 1] * a[2],
        R[i, 0, 2] * a[0] + R[i, 1, 2] * a[1] + R[i, 2, 2] * a[2],
    )


@kernel
def plus6(x: Spatial, y: Spatial) -> Spatial:
    """Sum of two twists, or of two wrenches."""
    return add3(x[0], y[0]), add3(x[1], y[1])


@kernel
def scale6(s: float, x: Spatial) -> Spatial:
    """Twist or wrench ``x``, ``s`` times as large."""
    return scale3(s, x[0]), scale3(s, x[1])


@kernel
def cross6(v: Spatial, x: Spatial) -> Spatial:
    r"""Spatial cross product of a twist with a twist or a wrench, (A.7).

    .. math:: v \times x = (v_a \times x_a,\; v_b \times x_a + v_a \times x_b)
    """
    return cross(v[0], x[0]), add3(cross(v[1], x[0]), cross(v[0], x[1]))


@kernel
def twist_power(twist: Spatial, wrench: Spatial) -> float:
    """Power of a wrench along a twist: halves are swapped, (A.18)."""
    return dot(twist[0], wrench[1]) + dot(twist[1], wrench[0])


@kernel
def inertia_times(m: float, h: Vector, J: SymmetricMatrix, v: Spatial) -> Spatial:
    r"""Momentum of an inertia that moves with twist ``v``: (A.16), repaired.

    .. math:: p = (m v_b + v_a \times h,\; J v_a + h \times v_b)

    With ``m = 0`` it is a rate of inertia times a twist.
    """
    linear = add3(scale3(m, v[1]), cross(v[0], h))
    # Symmetric matrix times a vector
    a = v[0]
    return linear, add3(
        (
            J[0] * a[0] + J[3] * a[1] + J[4] * a[2],
            J[3] * a[0] + J[1] * a[1] + J[5] * a[2],
            J[4] * a[0] + J[5] * a[1] + J[2] * a[2],
        ),
        cross(h, v[1]),
    )


@kernel
def inertia_rate(m: float, h: Vector, J: SymmetricMatrix, s: Spatial) -> InertiaRate:
    r"""Rate of an inertia that is carried along a twist: :math:`\tilde s I - I \tilde s`, nine numbers.

    .. math:: \eta = s_a \times h + m s_b,\qquad
        S = \tilde s_a J - J \tilde s_a + 2 (h\cdot s_b) E - h s_b^T - s_b h^T
    """
    (x, y, z), u = s
    spread = 2.0 * dot(h, u)
    S = (
        2.0 * (y * J[4] - z * J[3] - h[0] * u[0]) + spread,
        2.0 * (z * J[3] - x * J[5] - h[1] * u[1]) + spread,
        2.0 * (x * J[5] - y * J[4] - h[2] * u[2]) + spread,
        y * J[5] - z * J[1] + z * J[0] - x * J[4] - h[0] * u[1] - h[1] * u[0],
        y * J[2] - z * J[5] + x * J[3] - y * J[0] - h[0] * u[2] - h[2] * u[0],
        z * J[4] - x * J[2] + x * J[1] - y * J[3] - h[1] * u[2] - h[2] * u[1],
    )
    return add3(cross(s[0], h), scale3(m, u)), S


SAME_BONES_M = 1e-6  # [m] offsets this near belong to the same skeleton
REVOLUTE: Final = 0
PRISMATIC: Final = 1
WORLD: Final = -1


class TreeArrays(NamedTuple):
    """A tree as the compiled loops take it; D coordinates, and the world as link ``D``."""

    parents: IntArray  # (D,) with D for the world
    kinds: IntArray  # (D,) REVOLUTE or PRISMATIC
    rests: FloatArray  # (D, 3, 3) rotation before the joint turns
    geometry: FloatArray  # (D, 6) axis and offset
    inertias: FloatArray  # (D, 10) mass, first and second moment about the link's origin, in its axes
    first: int  # first revolute link


Point = tuple[int, FloatArray]  # the link that carries it, and where it is in the link's frame [m]


@dataclass(frozen=True, slots=True, eq=False)
class TreeSkeleton:
    """The skeleton that a tree moves: which coordinates turn which joint."""

    skeleton: Skeleton
    joint_dofs: tuple[tuple[int, ...], ...]  # (J,) coordinates of each joint in the order they act; may be shared


def continuous_euler_angles(rotations: SO3, frame: FloatArray) -> FloatArray:
    r"""Angles ``(F, 3)`` [rad] about the orthonormal columns of ``frame``, continuous in time.

    .. math:: R = e^{\hat a_1 q_1} e^{\hat a_2 q_2} e^{\hat a_3 q_3}

    Where the middle angle passes a right angle, the other triple :math:`(q_1+\pi, \pi-q_2, q_3+\pi)` goes on smoothly
    and is taken.
    """
    hand = float(np.sign(np.linalg.det(frame)))
    M = frame.T @ rotations.matrix() @ frame
    near = hand * np.stack(
        [
            np.arctan2(-M[:, 1, 2], M[:, 2, 2]),
            np.arctan2(M[:, 0, 2], np.hypot(M[:, 0, 0], M[:, 0, 1])),
            np.arctan2(-M[:, 0, 1], M[:, 0, 0]),
        ],
        axis=1,
    )
    far = np.stack([near[:, 0] + np.pi, np.pi - near[:, 1], near[:, 2] + np.pi], axis=1)
    # Squared distances, each difference taken the short way; the two triples are equally far from themselves
    across, along = ((near[1:] - last + np.pi) % (2.0 * np.pi) - np.pi for last in (far[:-1], near[:-1]))
    swaps = np.einsum("fi,fi->f", across, across) < np.einsum("fi,fi->f", along, along)
    on_far = np.concatenate([[False], np.cumsum(swaps) % 2 == 1])
    return np.unwrap(np.where(on_far[:, None], far, near), axis=0)
