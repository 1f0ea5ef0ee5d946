"""Compiled algebra of single rotations and 3-vectors, for the loops of all rooms.

Quaternions have the scalar first. Arguments are components one by one, or tuples of them.
"""

from __future__ import annotations

from math import atan2, cos, sin, sqrt

from marey.base import FloatArray, kernel
from marey.lie import formulas as _formulas

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]

SERIES_BELOW = 1.0  # [rad^2] the series below has all its digits there, and the closed form loses none above

product = kernel(_formulas.product)
rotate_xyz = kernel(_formulas.rotate_xyz)


@kernel
def sinc(theta: float) -> float:
    r"""Return :math:`\sin\theta/\theta`."""
    return sin(theta) / theta if theta > 1e-150 else 1.0


@kernel
def third_stumpff(square: float) -> float:
    r"""Return :math:`(\theta-\sin\theta)/\theta^3` from :math:`\theta^2`."""
    if square < SERIES_BELOW:
        total = 1.0
        for j in range(9, 0, -1):
            total = 1.0 - square * total / ((2 * j + 2) * (2 * j + 3))
        return total / 6.0
    theta = sqrt(square)
    return (theta - sin(theta)) / (theta * square)


@kernel
def exponential(x: float, y: float, z: float) -> Quaternion:
    """Unit quaternion of a rotation vector."""
    half = 0.5 * sqrt(x * x + y * y + z * z)
    scale = 0.5 * sinc(half)
    return cos(half), scale * x, scale * y, scale * z


@kernel
def logarithm(w: float, x: float, y: float, z: float) -> Vector:
    """Rotation vector, at most π long, of a unit quaternion or of its opposite."""
    sine = sqrt(x * x + y * y + z * z)
    if sine < 1e-150:
        return 0.0, 0.0, 0.0
    scale = 2.0 * atan2(sine, abs(w)) / sine
    if w < 0.0:
        scale = -scale
    return scale * x, scale * y, scale * z


@kernel
def right_jacobian_times(x: float, y: float, z: float, a: float, b: float, c: float) -> Vector:
    r"""Return :math:`J_r(\xi)\,v = v - c_2\,\xi\times v + c_3\,\xi\times(\xi\times v)`, ``xi = (x, y, z)``."""
    square = x * x + y * y + z * z
    half_sinc = sinc(0.5 * sqrt(square))
    c2, c3 = 0.5 * half_sinc * half_sinc, third_stumpff(square)
    p, q, r = y * c - z * b, z * a - x * c, x * b - y * a
    return (
        a - c2 * p + c3 * (y * r - z * q),
        b - c2 * q + c3 * (z * p - x * r),
        c - c2 * r + c3 * (x * q - y * p),
    )


@kernel
def multiply(p: Quaternion, q: Quaternion) -> Quaternion:
    """Product of two quaternions."""
    return product(p[0], p[1], p[2], p[3], q[0], q[1], q[2], q[3])


@kernel
def conjugate(q: Quaternion) -> Quaternion:
    """Inverse of a unit quaternion."""
    return q[0], -q[1], -q[2], -q[3]


@kernel
def rotate(q: Quaternion, v: Vector) -> Vector:
    """Turn a vector."""
    return rotate_xyz(q[0], q[1], q[2], q[3], v[0], v[1], v[2])


@kernel
def log(q: Quaternion) -> Vector:
    """Rotation vector of the nearer of ``q`` and ``-q``."""
    return logarithm(q[0], q[1], q[2], q[3])


@kernel
def exp(v: Vector) -> Quaternion:
    """Unit quaternion of a rotation vector."""
    return exponential(v[0], v[1], v[2])


@kernel
def quaternion_at(rows: FloatArray, i: int) -> Quaternion:
    """Row of an array ``(N, 4)``."""
    return rows[i, 0], rows[i, 1], rows[i, 2], rows[i, 3]


@kernel
def write_rotation(out: FloatArray, q: Quaternion) -> None:
    """Put a quaternion, normalised, into a row."""
    scale = 1.0 / sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
    out[0], out[1], out[2], out[3] = scale * q[0], scale * q[1], scale * q[2], scale * q[3]
