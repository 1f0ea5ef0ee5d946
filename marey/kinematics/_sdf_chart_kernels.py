"""Compiled charts of rotations in which fields live, and the limits that they make."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, kernel
from marey.kinematics._limits_kernels import TWO_PI, CheckArrays, clamp, left_jacobian_inverse_times
from marey.kinematics._sdf_kernels import GridTables, field_value, project_on_field
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

FREE, LOG, ZYZ = 0, 1, 2  # charts: no limit, rotation vector, Euler angles Z-Y-Z
LOCK_SINE = 1e-8  # [-] sine of the middle Z-Y-Z angle below which the first angle takes the whole turn


@kernel
def zyz_angles(q: Quaternion) -> Vector:
    r"""Angles of :math:`R_Z(\phi) R_Y(\psi) R_Z(\theta)` with :math:`0 \le \psi \le \pi`; no third one at the lock."""
    w, x, y, z = q
    r02, r12, r22 = 2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)
    r20, r21 = 2.0 * (x * z - w * y), 2.0 * (y * z + w * x)
    sine = np.sqrt(r20 * r20 + r21 * r21)
    psi = np.arctan2(sine, r22)
    if sine < LOCK_SINE:
        return np.arctan2(2.0 * (w * z - x * y), 1.0 - 2.0 * (x * x + z * z)), psi, 0.0
    return np.arctan2(r12, r02), psi, np.arctan2(r21, -r20)


@kernel
def quaternion_from_zyz(v: Vector) -> Quaternion:
    """Quaternion of Z-Y-Z angles."""
    first = (np.cos(0.5 * v[0]), 0.0, 0.0, np.sin(0.5 * v[0]))
    second = (np.cos(0.5 * v[1]), 0.0, np.sin(0.5 * v[1]), 0.0)
    third = (np.cos(0.5 * v[2]), 0.0, 0.0, np.sin(0.5 * v[2]))
    return multiply(first, multiply(second, third))


@kernel
def _zyz_gradient(v: Vector, g: Vector) -> Vector:
    r"""Body gradient of a function of Z-Y-Z angles; capped at the lock.

    Body velocity :math:`R_Z(-\theta)(-\sin\psi\,\dot\phi,\ \dot\psi,\ \cos\psi\,\dot\phi + \dot\theta)`.
    """
    sine, cosine = np.sin(v[1]), np.cos(v[1])
    if abs(sine) < LOCK_SINE:
        sine = LOCK_SINE if sine >= 0.0 else -LOCK_SINE
    a, b, c = (g[2] * cosine - g[0]) / sine, g[1], g[2]
    ct, st = np.cos(v[2]), np.sin(v[2])
    return ct * a + st * b, -st * a + ct * b, c


@kernel
def _nearest_grid_angle(angle: float, origin: float, step: float, count: int, periodic: bool) -> float:
    """Same angle, by whole turns nearest to the middle of the grid."""
    if periodic:
        return angle
    middle = origin + 0.5 * (count - 1) * step
    return angle - TWO_PI * np.round((angle - middle) / TWO_PI)


@kernel
def nearest_zyz(v: Vector, grid: GridTables) -> Vector:
    """Z-Y-Z angles by whole turns nearest to the grid."""
    shape, origin, spacing, periodic = grid
    return (
        _nearest_grid_angle(v[0], origin[0], spacing[0], shape[0], periodic[0]),
        _nearest_grid_angle(v[1], origin[1], spacing[1], shape[1], periodic[1]),
        _nearest_grid_angle(v[2], origin[2], spacing[2], shape[2], periodic[2]),
    )


@kernel
def _chart_point(chart: int, q: Quaternion, table: FloatArray, start: int, grid: GridTables) -> Vector:
    """Coordinates of a rotation; of the two Z-Y-Z triples, the one where the field is lower."""
    if chart == LOG:
        return log(q)
    v = zyz_angles(q)
    first, second = nearest_zyz(v, grid), nearest_zyz((v[0] + np.pi, -v[1], v[2] + np.pi), grid)
    if field_value(table, start, grid, second)[0] < field_value(table, start, grid, first)[0]:
        return second
    return first


@kernel
def _interval_excess(x: float, count: int, low: float, high: float) -> float:
    """How far a coordinate that has no grid axis is outside its interval."""
    return x - clamp(x, low, high) if count == 1 else 0.0


@kernel
def check_fields(
    wxyz: FloatArray,
    charts: IntArray,
    before: FloatArray,
    after: FloatArray,
    table: FloatArray,
    nearest: IntArray,
    starts: IntArray,
    shapes: IntArray,
    origins: FloatArray,
    spacings: FloatArray,
    periodic: BoolArray,
    across: FloatArray,
    epsilons: FloatArray,
    how: tuple[int, bool, bool],
) -> CheckArrays:
    """Project rotations ``(F, J, 4)`` on the feasible sets of one field a joint; see ``SdfLimits`` for the tables."""
    frames, joints = wxyz.shape[0], wxyz.shape[1]
    out, violation, gradient = wxyz.copy(), np.zeros((frames, joints)), np.zeros((frames, joints, 3))
    for j in range(joints):
        if charts[j] == FREE:
            continue
        left, right, start, eps = quaternion_at(before, j), quaternion_at(after, j), starts[j], epsilons[j]
        grid, n, (low, high) = (
            (shapes[j], origins[j], spacings[j], periodic[j]),
            shapes[j],
            (across[j, 0], across[j, 1]),
        )
        for f in range(frames):
            q = multiply(left, multiply(quaternion_at(wxyz[f], j), right))
            x = _chart_point(charts[j], q, table, start, grid)
            value, gx, gy, gz = field_value(table, start, grid, x)
            beyond = max(value - eps, 0.0)
            a = _interval_excess(x[0], n[0], low[0], high[0])
            b = _interval_excess(x[1], n[1], low[1], high[1])
            c = _interval_excess(x[2], n[2], low[2], high[2])
            square = beyond * beyond + a * a + b * b + c * c
            if square == 0.0:
                continue
            g = (beyond * gx + a, beyond * gy + b, beyond * gz + c)
            g = rotate(right, left_jacobian_inverse_times(x, g) if charts[j] == LOG else _zyz_gradient(x, g))
            p = project_on_field(table, nearest, start, grid, x, eps, how) if beyond > 0.0 else x
            p = (p[0] - a, p[1] - b, p[2] - c)
            r = exp(p) if charts[j] == LOG else quaternion_from_zyz(p)
            write_rotation(out[f, j], multiply(conjugate(left), multiply(r, conjugate(right))))
            violation[f, j] = np.sqrt(square)
            gradient[f, j, 0], gradient[f, j, 1], gradient[f, j, 2] = g
    return out, violation, gradient


@kernel
def chart_coordinates(wxyz: FloatArray, chart: int) -> FloatArray:
    """Rotation vectors or Z-Y-Z angles ``(N, 3)`` of quaternions ``(N, 4)``."""
    out = np.empty((wxyz.shape[0], 3))
    for n in range(wxyz.shape[0]):
        q = quaternion_at(wxyz, n)
        out[n, 0], out[n, 1], out[n, 2] = log(q) if chart == LOG else zyz_angles(q)
    return out


@kernel
def unwrap_angles(angles: FloatArray) -> FloatArray:
    """Z-Y-Z angles ``(N, 3)`` without jumps: each by the equal triple that is nearest to the one before."""
    out = angles.copy()
    for n in range(1, angles.shape[0]):
        best = np.inf
        for cover in range(2):
            square = 0.0
            triple = np.empty(3)
            for a in range(3):
                angle = angles[n, a] if cover == 0 else -angles[n, a] if a == 1 else angles[n, a] + np.pi
                triple[a] = angle - TWO_PI * np.round((angle - out[n - 1, a]) / TWO_PI)
                square += (triple[a] - out[n - 1, a]) ** 2
            if square < best:
                best = square
                out[n] = triple
    return out
