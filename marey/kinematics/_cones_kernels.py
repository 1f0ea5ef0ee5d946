"""Compiled swing-twist cones and spherical polygons."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.kinematics._limits_kernels import CheckArrays, clamp, left_jacobian_inverse_times, nearest_angle
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

ROOT_STEPS = 60  # most Newton steps, from the left on a falling convex function: they never overshoot; six are usual
ROOT_TOL = 1e-14  # [-] of the ellipse equation


@kernel
def nearest_in_ellipse(y: float, z: float, a: float, b: float) -> tuple[float, float]:
    r"""Nearest point of the ellipse :math:`(y/a)^2 + (z/b)^2 \le 1`; an infinite half-axis makes a strip.

    On the boundary :math:`y' = a^2 y / (t + a^2)`, :math:`z' = b^2 z / (t + b^2)`; ``t`` is the root of the ellipse
    equation, which falls for all :math:`t > 0` and is found by Newton steps from the left.
    """
    if np.isinf(a) or np.isinf(b):
        return clamp(y, -a, a), clamp(z, -b, b)
    if a == 0.0 or b == 0.0:
        return clamp(y, -a, a), clamp(z, -b, b)
    if (y / a) ** 2 + (z / b) ** 2 <= 1.0:
        return y, z
    if a == b:
        scale = a / np.sqrt(y * y + z * z)
        return scale * y, scale * z
    t = max(0.0, a * abs(y) - a * a, b * abs(z) - b * b)
    for _ in range(ROOT_STEPS):
        u, v = a * y / (t + a * a), b * z / (t + b * b)
        excess = u * u + v * v - 1.0
        if excess <= ROOT_TOL:
            break
        t += 0.5 * excess / (u * u / (t + a * a) + v * v / (t + b * b))
    return a * a * y / (t + a * a), b * b * z / (t + b * b)


@kernel
def split_swing_twist(q: Quaternion) -> tuple[Quaternion, float]:
    """Swing and twist angle about x of ``q = swing twist``."""
    angle = 2.0 * np.arctan2(q[1], q[0])
    back = (np.cos(0.5 * angle), -np.sin(0.5 * angle), 0.0, 0.0)
    return multiply(q, back), angle


@kernel
def twist_gradient(q: Quaternion) -> Vector:
    """Body gradient of the twist angle about x; a swing by half a turn has none."""
    w, x, y, z = q
    square = max(w * w + x * x, 1e-30)
    return 1.0, (x * y - w * z) / square, (w * y + x * z) / square


@kernel
def swing_gradient(angle: float, twist: Vector, g: Vector) -> Vector:
    """Body gradient of the whole rotation, from that of the swing, ``g``, in the frame of the swing."""
    k = rotate((np.cos(0.5 * angle), -np.sin(0.5 * angle), 0.0, 0.0), g)
    return k[0] * (1.0 - twist[0]), k[1] - k[0] * twist[1], k[2] - k[0] * twist[2]


@kernel
def check_cones(
    wxyz: FloatArray, centres: FloatArray, frames_wxyz: FloatArray, swing: FloatArray, twist: FloatArray
) -> CheckArrays:
    """Project rotations ``(F, J, 4)`` on elliptic cones of swing and intervals of twist.

    Args:
        wxyz: rotations.
        centres: ``(J, 4)`` rotation in the middle of the cone.
        frames_wxyz: ``(J, 4)`` frame whose x is the axis of twist.
        swing: ``(J, 2)`` [rad] half-angles of the swing about the frame's y and z.
        twist: ``(J, 2)`` [rad] lowest and highest twist.
    """
    frames, joints = wxyz.shape[0], wxyz.shape[1]
    out, violation, gradient = wxyz.copy(), np.zeros((frames, joints)), np.zeros((frames, joints, 3))
    for j in range(joints):
        centre, frame = quaternion_at(centres, j), quaternion_at(frames_wxyz, j)
        for f in range(frames):
            local = multiply(conjugate(centre), quaternion_at(wxyz[f], j))
            q = multiply(conjugate(frame), multiply(local, frame))
            turned, angle = split_swing_twist(q)
            s = log(turned)
            y, z = nearest_in_ellipse(s[1], s[2], swing[j, 0], swing[j, 1])
            at = nearest_angle(angle, twist[j, 0], twist[j, 1])
            t = clamp(at, twist[j, 0], twist[j, 1])
            square = (s[1] - y) ** 2 + (s[2] - z) ** 2 + (at - t) ** 2
            if square == 0.0:
                continue
            slope = twist_gradient(q)
            g = swing_gradient(angle, slope, left_jacobian_inverse_times(s, (0.0, s[1] - y, s[2] - z)))
            g = rotate(frame, (g[0] + (at - t) * slope[0], g[1] + (at - t) * slope[1], g[2] + (at - t) * slope[2]))
            q = multiply(exp((0.0, y, z)), exp((t, 0.0, 0.0)))
            write_rotation(out[f, j], multiply(centre, multiply(frame, multiply(q, conjugate(frame)))))
            violation[f, j] = np.sqrt(square)
            gradient[f, j, 0], gradient[f, j, 1], gradient[f, j, 2] = g
    return out, violation, gradient


@kernel
def _dot(a: Vector, b: Vector) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@kernel
def _cross(a: Vector, b: Vector) -> Vector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@kernel
def _unit(a: Vector) -> Vector:
    scale = 1.0 / np.sqrt(max(_dot(a, a), 1e-300))
    return scale * a[0], scale * a[1], scale * a[2]


@kernel
def _read_vector(rows: FloatArray, i: int) -> Vector:
    return rows[i, 0], rows[i, 1], rows[i, 2]


@kernel
def angle_between(a: Vector, b: Vector) -> float:
    """Angle of two unit vectors [rad], to a few ulp."""
    c = _cross(a, b)
    return np.arctan2(np.sqrt(_dot(c, c)), _dot(a, b))


@kernel
def nearest_on_arc(d: Vector, a: Vector, b: Vector) -> Vector:
    """Nearest point of the short great arc from ``a`` to ``b`` to the direction ``d``."""
    n = _unit(_cross(a, b))
    k = _dot(n, d)
    p = _unit((d[0] - k * n[0], d[1] - k * n[1], d[2] - k * n[2]))
    if _dot(_cross(a, p), n) >= 0.0 and _dot(_cross(p, b), n) >= 0.0:
        return p
    return a if _dot(d, a) >= _dot(d, b) else b


@kernel
def is_in_polygon(d: Vector, corners: FloatArray, count: int, inner: Vector) -> bool:
    r"""Whether a direction lies in a spherical polygon all of whose points are seen from ``inner``.

    It is in wedge i if :math:`(c \times v_i) \cdot d \ge 0` and :math:`(v_{i+1} \times c) \cdot d \ge 0`, and inside
    if then :math:`(v_i \times v_{i+1}) \cdot d \ge 0`. [Engell2012]_ §13, after Wilhelms and Van Gelder.
    """
    for i in range(count):
        v, w = _read_vector(corners, i), _read_vector(corners, (i + 1) % count)
        if _dot(_cross(inner, v), d) >= 0.0 and _dot(_cross(w, inner), d) >= 0.0:
            return _dot(_cross(v, w), d) >= 0.0
    return False


@kernel
def nearest_in_polygon(d: Vector, corners: FloatArray, count: int, inner: Vector) -> Vector:
    """Nearest direction of a spherical polygon: a linear search over its sides."""
    if count == 0 or is_in_polygon(d, corners, count, inner):
        return d
    best, found = -2.0, d
    for i in range(count):
        p = nearest_on_arc(d, _read_vector(corners, i), _read_vector(corners, (i + 1) % count))
        if _dot(p, d) > best:
            best, found = _dot(p, d), p
    return found


@kernel
def shortest_swing(d: Vector) -> Quaternion:
    """Shortest rotation that turns x into the unit vector ``d``."""
    if d[0] < -1.0 + 1e-15:
        return 0.0, 0.0, 0.0, 1.0
    w = np.sqrt(0.5 * (1.0 + d[0]))
    return w, 0.0, -0.5 * d[2] / w, 0.5 * d[1] / w


@kernel
def check_reach_cones(
    wxyz: FloatArray,
    centres: FloatArray,
    frames_wxyz: FloatArray,
    corners: FloatArray,
    counts: IntArray,
    inner: FloatArray,
    twist: FloatArray,
) -> CheckArrays:
    """Project rotations ``(F, J, 4)`` on spherical polygons of bone directions and intervals of twist.

    Args:
        wxyz: rotations.
        centres: ``(J, 4)`` rotation from which swing and twist are measured.
        frames_wxyz: ``(J, 4)`` frame whose x is the axis of twist.
        corners: ``(J, M, 3)`` unit vectors in that frame, anticlockwise seen from outside.
        counts: ``(J,)`` how many corners a joint has; none is a free joint.
        inner: ``(J, 3)`` unit vector from which all of the polygon is seen.
        twist: ``(J, 2)`` [rad] lowest and highest twist.
    """
    frames, joints = wxyz.shape[0], wxyz.shape[1]
    out, violation, gradient = wxyz.copy(), np.zeros((frames, joints)), np.zeros((frames, joints, 3))
    for j in range(joints):
        centre, frame = quaternion_at(centres, j), quaternion_at(frames_wxyz, j)
        for f in range(frames):
            local = multiply(conjugate(centre), quaternion_at(wxyz[f], j))
            q = multiply(conjugate(frame), multiply(local, frame))
            angle = 2.0 * np.arctan2(q[1], q[0])
            d = _unit(rotate(q, (1.0, 0.0, 0.0)))
            p = nearest_in_polygon(d, corners[j], counts[j], _read_vector(inner, j))
            at = nearest_angle(angle, twist[j, 0], twist[j, 1])
            t = clamp(at, twist[j, 0], twist[j, 1])
            away = angle_between(d, p)
            if away < 1e-15 and at == t:
                continue
            slope = twist_gradient(q)
            k = _dot(d, p)
            side = _unit((k * d[0] - p[0], k * d[1] - p[1], k * d[2] - p[2]))
            g = rotate(conjugate(q), (away * side[0], away * side[1], away * side[2]))
            g = ((at - t) * slope[0], (at - t) * slope[1] - g[2], (at - t) * slope[2] + g[1])  # plus x cross g
            g = rotate(frame, g)
            q = multiply(shortest_swing(p), exp((t, 0.0, 0.0)))
            write_rotation(out[f, j], multiply(centre, multiply(frame, multiply(q, conjugate(frame)))))
            violation[f, j] = np.sqrt(away * away + (at - t) ** 2)
            gradient[f, j, 0], gradient[f, j, 1], gradient[f, j, 2] = g
    return out, violation, gradient
