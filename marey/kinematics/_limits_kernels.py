"""Compiled boxes of rotation vectors and of Euler angles.

The compiler's cache watches each file alone: kernels elsewhere call these, so after a change here delete
``__pycache__``.
"""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.lie._rotation_kernels import (
    Quaternion,
    Vector,
    conjugate,
    exp,
    log,
    multiply,
    quaternion_at,
    rotate,
    write_rotation,
)

CheckArrays = tuple[FloatArray, FloatArray, FloatArray]

TWO_PI = 2.0 * np.pi
LOCK_COS = 1e-9  # [-] cosine of the middle Euler angle below which the gradient is capped: gimbal lock


@kernel
def left_jacobian_inverse_times(v: Vector, g: Vector) -> Vector:
    r"""Body gradient of a function of ``v = log(R)``: :math:`J_r^{-T}(v)\,g = J_l^{-1}(v)\,g`."""
    square = v[0] * v[0] + v[1] * v[1] + v[2] * v[2]
    if square < 1e-4:
        k = 1.0 / 12.0 + square / 720.0 + square * square / 30240.0
    else:
        half = 0.5 * np.sqrt(square)
        k = (1.0 - half / np.tan(half)) / square
    c0, c1, c2 = v[1] * g[2] - v[2] * g[1], v[2] * g[0] - v[0] * g[2], v[0] * g[1] - v[1] * g[0]
    d0, d1, d2 = v[1] * c2 - v[2] * c1, v[2] * c0 - v[0] * c2, v[0] * c1 - v[1] * c0
    return g[0] - 0.5 * c0 + k * d0, g[1] - 0.5 * c1 + k * d1, g[2] - 0.5 * c2 + k * d2


@kernel
def clamp(value: float, low: float, high: float) -> float:
    """Nearest number of an interval."""
    return low if value < low else high if value > high else value


@kernel
def nearest_angle(angle: float, low: float, high: float) -> float:
    """Same angle, by whole turns nearest to the middle of an interval; as it is where the interval has no end."""
    if not (np.isfinite(low) and np.isfinite(high)):
        return angle
    return angle - TWO_PI * np.round((angle - 0.5 * (low + high)) / TWO_PI)


@kernel
def _box_distance_squared(v: Vector, low: FloatArray, high: FloatArray) -> float:
    """Squared distance of a vector to a box."""
    total = 0.0
    for i in range(3):
        d = v[i] - clamp(v[i], low[i], high[i])
        total += d * d
    return total


@kernel
def check_box(wxyz: FloatArray, low: FloatArray, high: FloatArray) -> CheckArrays:
    r"""Project rotations ``(F, J, 4)`` on boxes of rotation vectors ``(J, 3)``; violation and gradient too.

    A rotation by :math:`\theta` about an axis is also one by :math:`\theta - 2\pi`; the vector nearer to the box
    counts.
    """
    frames, joints = wxyz.shape[0], wxyz.shape[1]
    out, violation, gradient = wxyz.copy(), np.zeros((frames, joints)), np.zeros((frames, joints, 3))
    for f in range(frames):
        for j in range(joints):
            v = log(quaternion_at(wxyz[f], j))
            square = _box_distance_squared(v, low[j], high[j])
            if square == 0.0:
                continue
            angle = np.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])
            if angle > 0.0:
                back = 1.0 - TWO_PI / angle
                other = (back * v[0], back * v[1], back * v[2])
                again = _box_distance_squared(other, low[j], high[j])
                if again == 0.0:
                    continue
                if again < square:
                    v, square = other, again
            p = (
                clamp(v[0], low[j, 0], high[j, 0]),
                clamp(v[1], low[j, 1], high[j, 1]),
                clamp(v[2], low[j, 2], high[j, 2]),
            )
            g = left_jacobian_inverse_times(v, (v[0] - p[0], v[1] - p[1], v[2] - p[2]))
            write_rotation(out[f, j], exp(p))
            violation[f, j] = np.sqrt(square)
            gradient[f, j, 0], gradient[f, j, 1], gradient[f, j, 2] = g
    return out, violation, gradient


@kernel
def euler_angles(q: Quaternion) -> Vector:
    """Angles ``(a, b, c)`` of ``R = R_z(c) R_y(b) R_x(a)``, with ``|b| <= pi/2``; sound at gimbal lock."""
    w, x, y, z = q
    a = np.arctan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
    ca, sa = np.cos(a), np.sin(a)
    sc = sa * 2.0 * (x * z + w * y) - ca * 2.0 * (x * y - w * z)
    cc = ca * (1.0 - 2.0 * (x * x + z * z)) - sa * 2.0 * (y * z - w * x)
    c = np.arctan2(sc, cc)
    cb = np.cos(c) * (1.0 - 2.0 * (y * y + z * z)) + np.sin(c) * 2.0 * (x * y + w * z)
    return a, np.arctan2(2.0 * (w * y - x * z), cb), c


@kernel
def quaternion_from_euler(v: Vector) -> Quaternion:
    """Quaternion of ``R_z(c) R_y(b) R_x(a)``."""
    rx = (np.cos(0.5 * v[0]), np.sin(0.5 * v[0]), 0.0, 0.0)
    ry = (np.cos(0.5 * v[1]), 0.0, np.sin(0.5 * v[1]), 0.0)
    rz = (np.cos(0.5 * v[2]), 0.0, 0.0, np.sin(0.5 * v[2]))
    return multiply(rz, multiply(ry, rx))


@kernel
def _shift_to_intervals(v: Vector, low: FloatArray, high: FloatArray) -> Vector:
    return (
        nearest_angle(v[0], low[0], high[0]),
        nearest_angle(v[1], low[1], high[1]),
        nearest_angle(v[2], low[2], high[2]),
    )


@kernel
def _euler_gradient(v: Vector, g: Vector) -> Vector:
    """Body gradient of a function of the Euler angles; capped where the lock makes it infinite."""
    sa, ca, sb, cb = np.sin(v[0]), np.cos(v[0]), np.sin(v[1]), np.cos(v[1])
    if abs(cb) < LOCK_COS:
        cb = LOCK_COS if cb >= 0.0 else -LOCK_COS
    third = (g[2] + g[0] * sb) / cb
    return g[0], g[1] * ca + third * sa, -g[1] * sa + third * ca


@kernel
def _permute_axes(q: Quaternion, order: IntArray, sign: float) -> Quaternion:
    """Rename the axes, so that those of ``order`` become x, y, z; an odd exchange reverses the angles."""
    xyz = np.array([q[1], q[2], q[3]])
    return q[0], sign * float(xyz[order[0]]), sign * float(xyz[order[1]]), sign * float(xyz[order[2]])


@kernel
def _restore_axes(v: Vector, order: IntArray, sign: float) -> Vector:
    out = np.empty(3)
    for i in range(3):
        out[order[i]] = sign * v[i]
    return float(out[0]), float(out[1]), float(out[2])


@kernel
def check_euler_box(
    wxyz: FloatArray, frames_wxyz: FloatArray, orders: IntArray, signs: FloatArray, low: FloatArray, high: FloatArray
) -> CheckArrays:
    """Project rotations ``(F, J, 4)`` on boxes of Euler angles; a joint whose bounds are infinite is free.

    Args:
        wxyz: rotations.
        frames_wxyz: ``(J, 4)`` frame in which the angles of a joint are measured.
        orders: ``(J, 3)`` axes in the order in which they act.
        signs: ``(J,)`` one if the order is cyclic, minus one if not.
        low: ``(J, 3)`` [rad] lower bounds in the order of the axes, already multiplied by the sign.
        high: ``(J, 3)`` [rad] upper bounds likewise.
    """
    frames, joints = wxyz.shape[0], wxyz.shape[1]
    out, violation, gradient = wxyz.copy(), np.zeros((frames, joints)), np.zeros((frames, joints, 3))
    for j in range(joints):
        if np.isinf(low[j, 0]) and np.isinf(high[j, 0]):
            continue
        frame = quaternion_at(frames_wxyz, j)
        for f in range(frames):
            q = multiply(conjugate(frame), multiply(quaternion_at(wxyz[f], j), frame))
            first = euler_angles(_permute_axes(q, orders[j], signs[j]))
            second = (first[0] + np.pi, np.pi - first[1], first[2] + np.pi)
            v, other = _shift_to_intervals(first, low[j], high[j]), _shift_to_intervals(second, low[j], high[j])
            square, again = _box_distance_squared(v, low[j], high[j]), _box_distance_squared(other, low[j], high[j])
            if again < square:
                v, square = other, again
            if square == 0.0:
                continue
            p = (
                clamp(v[0], low[j, 0], high[j, 0]),
                clamp(v[1], low[j, 1], high[j, 1]),
                clamp(v[2], low[j, 2], high[j, 2]),
            )
            g = _euler_gradient(v, (v[0] - p[0], v[1] - p[1], v[2] - p[2]))
            g = rotate(frame, _restore_axes(g, orders[j], signs[j]))
            r = quaternion_from_euler(p)
            xyz = _restore_axes((r[1], r[2], r[3]), orders[j], signs[j])
            write_rotation(out[f, j], multiply(frame, multiply((r[0], xyz[0], xyz[1], xyz[2]), conjugate(frame))))
            violation[f, j] = np.sqrt(square)
            gradient[f, j, 0], gradient[f, j, 1], gradient[f, j, 2] = g
    return out, violation, gradient
