"""Spatial algebra: twists, wrenches and spatial inertias.

A twist is (angular, linear), a wrench (force, moment), so that the half that no shift of origin changes comes first in
both and one cross product serves both ([Fang2003]_ app. A). An inertia is (mass, first moment, second moment about the
origin), a rate of inertia the same without a mass. Second moments are ``xx, yy, zz, xy, xz, yz``.
"""

from __future__ import annotations

from marey.base import FloatArray, kernel
from marey.lie.kernels import Vector, add3, cross, dot, scale3

SymmetricMatrix = tuple[float, float, float, float, float, float]
Spatial = tuple[Vector, Vector]
InertiaRate = tuple[Vector, SymmetricMatrix]


@kernel
def put3(array: FloatArray, i: int, a: Vector) -> None:
    """Write a vector into row ``i``."""
    array[i, 0], array[i, 1], array[i, 2] = a


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
