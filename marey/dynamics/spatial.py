"""Spatial algebra: twists, wrenches and spatial inertias.

The compiled form works on tuples of numbers; the matrix form, for any batch, is written as in the thesis.

A twist is (angular, linear), a wrench (force, moment), so that the half that no shift of origin changes comes first in
both and one cross product serves both ([Fang2003]_ app. A). An inertia is (mass, first moment, second moment about the
origin), a rate of inertia the same without a mass. Second moments are ``xx, yy, zz, xy, xz, yz``.

A twist is (angular, linear), a wrench (force, moment): the half that no shift of origin changes is on top in both, so
one and the same matrix serves both ([Fang2003]_ app. A).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, kernel
from marey.lie import hat

Vector = tuple[float, float, float]
SymmetricMatrix = tuple[float, float, float, float, float, float]
Spatial = tuple[Vector, Vector]
InertiaRate = tuple[Vector, SymmetricMatrix]


@kernel
def row3(array: FloatArray, i: int) -> Vector:
    """Row ``i`` of an array ``(n, 3)``."""
    return array[i, 0], array[i, 1], array[i, 2]


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
def add3(a: Vector, b: Vector) -> Vector:
    """Sum of two vectors."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


@kernel
def subtract3(a: Vector, b: Vector) -> Vector:
    """Difference of two vectors."""
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@kernel
def scale3(s: float, a: Vector) -> Vector:
    """Vector ``a``, ``s`` times as long."""
    return s * a[0], s * a[1], s * a[2]


@kernel
def dot(a: Vector, b: Vector) -> float:
    """Scalar product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@kernel
def cross(a: Vector, b: Vector) -> Vector:
    """Vector product."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


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


def spatial_cross(v: ArrayLike) -> FloatArray:
    r"""Matrix ``(..., 6, 6)`` of the spatial cross product with a twist ``(..., 6)``, (A.7).

    .. math:: \tilde v = \begin{bmatrix}\tilde v_a & 0\\ \tilde v_b & \tilde v_a\end{bmatrix}
    """
    v = np.asarray(v, dtype=np.float64)
    return _stack_blocks(hat(v[..., :3]), np.zeros((*v.shape[:-1], 3, 3)), hat(v[..., 3:]), hat(v[..., :3]))


def spatial_transform(R: ArrayLike, r: ArrayLike) -> FloatArray:
    r"""Matrix ``(..., 6, 6)`` that takes twists and wrenches of frame i to its parent, (A.8).

    .. math:: X_i^\lambda = \begin{bmatrix}R & 0\\ \tilde r R & R\end{bmatrix}

    Args:
        R: rotation from frame i to its parent ``(..., 3, 3)``.
        r: origin of frame i in its parent ``(..., 3)`` [m].
    """
    turn, arm = np.asarray(R, dtype=np.float64), hat(np.asarray(r, dtype=np.float64))
    return _stack_blocks(turn, np.zeros_like(turn), arm @ turn, turn)


def inverse_transform(X: FloatArray) -> FloatArray:
    """Inverse of a spatial transform, for free: each 3x3 block is transposed where it stands."""
    a, b, c, d = X[..., :3, :3], X[..., :3, 3:], X[..., 3:, :3], X[..., 3:, 3:]
    return _stack_blocks(*(np.swapaxes(block, -1, -2) for block in (a, b, c, d)))


def spatial_inertia(mass: ArrayLike, centre: ArrayLike, inertia: ArrayLike) -> FloatArray:
    r"""Matrix ``(..., 6, 6)`` that takes a twist to a momentum about the frame's origin.

    .. math:: I = \begin{bmatrix}-m\tilde c & mE\\ I^c - m\tilde c\tilde c & m\tilde c\end{bmatrix}

    (A.16); as printed it loses a factor m and has the wrong sign.

    Args:
        mass: ``(...)`` [kg].
        centre: centre of mass ``(..., 3)`` [m].
        inertia: about the centre ``(..., 3, 3)`` [kg m^2].
    """
    m = np.asarray(mass, dtype=np.float64)[..., None, None]
    c = hat(np.asarray(centre, dtype=np.float64))
    return _stack_blocks(-m * c, m * np.broadcast_to(np.eye(3), c.shape), np.asarray(inertia) - m * c @ c, m * c)


def spatial_power(twist: ArrayLike, wrench: ArrayLike) -> FloatArray:
    """Power ``(...)`` of a wrench along a twist: halves are swapped, (A.18)."""
    v, f = np.asarray(twist, dtype=np.float64), np.asarray(wrench, dtype=np.float64)
    return np.einsum("...i,...i->...", v[..., :3], f[..., 3:]) + np.einsum("...i,...i->...", v[..., 3:], f[..., :3])


def _stack_blocks(a: FloatArray, b: FloatArray, c: FloatArray, d: FloatArray) -> FloatArray:
    return np.concatenate([np.concatenate([a, b], axis=-1), np.concatenate([c, d], axis=-1)], axis=-2)
