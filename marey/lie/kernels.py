"""Compiled algebra of single rotations and 3-vectors: the one home of it, for the loops of all rooms.

Quaternions have the scalar first. Vectors and quaternions are tuples; five functions that the innermost loops call on
columns of arrays take the components one by one instead: ``product``, ``rotate_xyz``, ``exponential``, ``logarithm``
and ``right_jacobian_times``.
"""

from __future__ import annotations

from math import atan2, cos, sin, sqrt

from marey.base import FloatArray, kernel
from marey.lie import quaternions as _quaternions

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]

SERIES_BELOW = 1.0  # [rad^2] the series below has all its digits there, and the closed form loses none above

product = kernel(_quaternions.product)
rotate_xyz = kernel(_quaternions.rotate_xyz)


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
    # c_2 = (1 - cos theta) / theta^2 and c_3 = (theta - sin theta) / theta^3
    half_sinc = sinc(0.5 * sqrt(square))
    c2, c3 = 0.5 * half_sinc * half_sinc, third_stumpff(square)
    # xi x v, and then xi x (xi x v)
    p, q, r = y * c - z * b, z * a - x * c, x * b - y * a
    return (
        a - c2 * p + c3 * (y * r - z * q),
        b - c2 * q + c3 * (z * p - x * r),
        c - c2 * r + c3 * (x * q - y * p),
    )


@kernel
def half_cotangent_remainder(square: float) -> float:
    r"""Return :math:`(1 - \frac\theta2\cot\frac\theta2)/\theta^2` from :math:`\theta^2`, to a few ulp below 2π.

    With :math:`x = \theta/2` it is :math:`(c_2(x) - c_3(x))/(4 c_1(x))` in Stumpff functions, which has nothing to
    cancel near zero, where the closed form loses all its digits.
    """
    quarter = 0.25 * square
    half_sinc = sinc(0.5 * sqrt(quarter))
    return (0.5 * half_sinc * half_sinc - third_stumpff(quarter)) / (4.0 * sinc(sqrt(quarter)))


@kernel
def right_jacobian_inverse_times(v: Vector, u: Vector) -> Vector:
    r"""Return :math:`J_r^{-1}(v)\,u = u + \frac12 v\times u + d\,v\times(v\times u)`: how ``log(R exp(u))`` moves."""
    d = half_cotangent_remainder(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])
    p, q, r = v[1] * u[2] - v[2] * u[1], v[2] * u[0] - v[0] * u[2], v[0] * u[1] - v[1] * u[0]
    return (
        u[0] + 0.5 * p + d * (v[1] * r - v[2] * q),
        u[1] + 0.5 * q + d * (v[2] * p - v[0] * r),
        u[2] + 0.5 * r + d * (v[0] * q - v[1] * p),
    )


@kernel
def left_jacobian_inverse_times(v: Vector, u: Vector) -> Vector:
    r"""Return :math:`J_l^{-1}(v)\,u = J_r^{-T}(v)\,u`: the body gradient of a function of ``v = log(R)``."""
    d = half_cotangent_remainder(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])
    p, q, r = v[1] * u[2] - v[2] * u[1], v[2] * u[0] - v[0] * u[2], v[0] * u[1] - v[1] * u[0]
    return (
        u[0] - 0.5 * p + d * (v[1] * r - v[2] * q),
        u[1] - 0.5 * q + d * (v[2] * p - v[0] * r),
        u[2] - 0.5 * r + d * (v[0] * q - v[1] * p),
    )


@kernel
def write_right_jacobian(v: Vector, out: FloatArray) -> None:
    r"""Write :math:`J_r(v) = I - c_2 [v]_\times + c_3 [v]_\times^2` into ``(3, 3)``."""
    square = v[0] * v[0] + v[1] * v[1] + v[2] * v[2]
    half_sinc = sinc(0.5 * sqrt(square))
    _write_powers_of_hat(v, -0.5 * half_sinc * half_sinc, third_stumpff(square), out)


@kernel
def write_right_jacobian_inverse(v: Vector, out: FloatArray) -> None:
    r"""Write :math:`J_r^{-1}(v) = I + \frac12 [v]_\times + d [v]_\times^2` into ``(3, 3)``."""
    _write_powers_of_hat(v, 0.5, half_cotangent_remainder(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]), out)


@kernel
def _write_powers_of_hat(v: Vector, a: float, b: float, out: FloatArray) -> None:
    r"""Write :math:`I + a [v]_\times + b [v]_\times^2`."""
    x, y, z = v
    out[0, 0], out[0, 1], out[0, 2] = 1.0 - b * (y * y + z * z), b * x * y - a * z, b * x * z + a * y
    out[1, 0], out[1, 1], out[1, 2] = b * x * y + a * z, 1.0 - b * (x * x + z * z), b * y * z - a * x
    out[2, 0], out[2, 1], out[2, 2] = b * x * z - a * y, b * y * z + a * x, 1.0 - b * (x * x + y * y)


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
def unrotate(q: Quaternion, v: Vector) -> Vector:
    """Turn a vector by the inverse of a unit quaternion."""
    return rotate_xyz(q[0], -q[1], -q[2], -q[3], v[0], v[1], v[2])


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


@kernel
def row3(rows: FloatArray, i: int) -> Vector:
    """Row of an array ``(N, 3)``."""
    return rows[i, 0], rows[i, 1], rows[i, 2]


@kernel
def put3(rows: FloatArray, i: int, a: Vector) -> None:
    """Write a vector into a row of an array ``(N, 3)``."""
    rows[i, 0], rows[i, 1], rows[i, 2] = a


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
def norm(a: Vector) -> float:
    """Length of a vector."""
    return sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2])


@kernel
def unit(a: Vector) -> Vector:
    """Vector of length one; zero stays zero."""
    return scale3(1.0 / max(norm(a), 1e-300), a)


@kernel
def perpendicular(v: Vector) -> Vector:
    """Some unit vector at right angles to the unit vector ``v``."""
    if abs(v[0]) < 0.6:
        return unit((1.0 - v[0] * v[0], -v[0] * v[1], -v[0] * v[2]))
    return unit((-v[1] * v[0], 1.0 - v[1] * v[1], -v[1] * v[2]))


@kernel
def shortest_rotation(a: Vector, b: Vector) -> Quaternion:
    """Rotation along the shortest arc from unit vector ``a`` to unit vector ``b``."""
    w = 1.0 + dot(a, b)
    if w < 1e-9:
        # Opposite vectors: any half turn about an axis at right angles to them.
        n = perpendicular(a)
        return 0.0, n[0], n[1], n[2]
    v = cross(a, b)
    scale = 1.0 / sqrt(w * w + dot(v, v))
    return scale * w, scale * v[0], scale * v[1], scale * v[2]


@kernel
def solve3(A: FloatArray, b: Vector, singular_below: float) -> Vector:
    """Solve ``A x = b`` with ``A`` of shape ``(3, 3)`` by Cramer's rule.

    A determinant smaller than ``singular_below`` counts as zero, and ``A`` as the identity.
    """
    first, second, third = (A[0, 0], A[1, 0], A[2, 0]), (A[0, 1], A[1, 1], A[2, 1]), (A[0, 2], A[1, 2], A[2, 2])
    c = cross(second, third)
    det = dot(first, c)
    if abs(det) < singular_below:
        return b
    return dot(b, c) / det, dot(b, cross(third, first)) / det, dot(b, cross(first, second)) / det
