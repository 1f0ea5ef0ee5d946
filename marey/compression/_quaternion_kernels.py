"""Quaternions of one joint at a time, for compiled loops; scalar first."""

from __future__ import annotations

from math import cos, sin, sqrt

from marey.base import FloatArray, kernel

Three = tuple[float, float, float]
Four = tuple[float, float, float, float]


@kernel
def product(a: Four, b: Four) -> Four:
    """Hamilton product."""
    return (
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
        a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
        a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
        a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
    )


@kernel
def turn(q: Four, x: float, y: float, z: float) -> Three:
    """Turn a vector."""
    u = 2.0 * (q[2] * z - q[3] * y)
    v = 2.0 * (q[3] * x - q[1] * z)
    w = 2.0 * (q[1] * y - q[2] * x)
    return (
        x + q[0] * u + (q[2] * w - q[3] * v),
        y + q[0] * v + (q[3] * u - q[1] * w),
        z + q[0] * w + (q[1] * v - q[2] * u),
    )


@kernel
def inverse(q: Four) -> Four:
    """Conjugate of a unit quaternion."""
    return q[0], -q[1], -q[2], -q[3]


@kernel
def exponential(x: float, y: float, z: float) -> Four:
    """Unit quaternion of a rotation vector."""
    theta = sqrt(x * x + y * y + z * z)
    scale = 0.5 if theta < 1e-9 else sin(0.5 * theta) / theta
    return cos(0.5 * theta), scale * x, scale * y, scale * z


@kernel
def right_jacobian_column(x: float, y: float, z: float, axis: int) -> Three:
    r"""Column of :math:`J_r(v)`: how :math:`\exp v` turns, in its own frame, when one component of ``v`` grows."""
    square = x * x + y * y + z * z
    theta = sqrt(square)
    if square < 1e-4:
        b, c = 0.5 - square / 24.0, 1.0 / 6.0 - square / 120.0
    else:
        half = sin(0.5 * theta)
        b, c = 2.0 * half * half / square, (theta - sin(theta)) / (square * theta)
    e = (1.0 if axis == 0 else 0.0, 1.0 if axis == 1 else 0.0, 1.0 if axis == 2 else 0.0)
    p, q, r = y * e[2] - z * e[1], z * e[0] - x * e[2], x * e[1] - y * e[0]
    return (
        e[0] - b * p + c * (y * r - z * q),
        e[1] - b * q + c * (z * p - x * r),
        e[2] - b * r + c * (x * q - y * p),
    )


@kernel
def four(row: FloatArray) -> Four:
    """Quaternion held in a row of an array."""
    return row[0], row[1], row[2], row[3]
