"""Compiled ellipsoids: the smallest one around points, and the nearest point of one."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.kinematics._limits_kernels import CheckArrays, left_jacobian_inverse_times
from marey.lie._rotation_kernels import Vector, conjugate, exp, log, multiply, quaternion_at, rotate, write_rotation

REFRESH = 100  # iterations after which rounding is swept out and inner points are dropped
ROOT_STEPS = 60  # most Newton steps, from the left on a falling convex function: they never overshoot; six are usual
ROOT_TOL = 1e-14  # [-] of the level


@kernel
def _quadratic_form(rows: FloatArray, i: int, matrix: FloatArray) -> float:
    """Quadratic form of a row."""
    total = 0.0
    for a in range(matrix.shape[0]):
        for b in range(matrix.shape[0]):
            total += rows[i, a] * matrix[a, b] * rows[i, b]
    return float(total)


@kernel
def _recompute_moments(rows: FloatArray, u: FloatArray, g: FloatArray, count: int) -> FloatArray:
    """Inverse moments of weighted rows; fills in the sensitivities."""
    size = rows.shape[1]
    moments = np.zeros((size, size))
    for i in range(count):
        for a in range(size):
            for b in range(size):
                moments[a, b] += u[i] * rows[i, a] * rows[i, b]
    inverse = np.zeros((size, size))
    inverse[:, :] = np.linalg.inv(moments)
    for i in range(count):
        g[i] = _quadratic_form(rows, i, inverse)
    return inverse


@kernel
def _drop_inner_points(rows: FloatArray, which: IntArray, u: FloatArray, g: FloatArray, count: int) -> int:
    r"""Drop points that cannot touch the ellipsoid, and return how many are left (Harman and Pronzato's bound).

    With :math:`\epsilon = \max g / d - 1`, those with
    :math:`g_i < d\,(1 + \epsilon/2 - \sqrt{\epsilon(4 + \epsilon - 4/d)}/2)`.
    """
    size = rows.shape[1]
    excess = max(g[:count].max() / size - 1.0, 0.0)
    bound = size * (1.0 + 0.5 * excess - 0.5 * np.sqrt(excess * (4.0 + excess - 4.0 / size)))
    left, weight = 0, 0.0
    for i in range(count):
        if g[i] >= bound * (1.0 - 1e-9):
            rows[left], which[left], u[left], g[left] = rows[i], which[i], u[i], g[i]
            weight += u[i]
            left += 1
    if left == count or left < size or weight <= 0.0:
        return count
    u[:left] /= weight
    return left


@kernel
def solve_minimum_volume_weights(points: FloatArray, tolerance: float, max_iterations: int) -> tuple[FloatArray, int]:
    r"""Weights ``(N,)`` of the minimum-volume ellipsoid around points ``(N, D)``, and the iterations used.

    Khachiyan's ascent with away steps on the lifted points :math:`(t, 1)`: the point that is farthest out gains
    weight, or the one farthest in with weight loses some. The sensitivities :math:`g_i = Q_i^T X^{-1} Q_i` follow each
    change of one weight by the Sherman-Morrison formula; points that cannot touch are dropped on the way.
    [Tournier2011]_ §12.2, after Kumar and Yıldırım.
    """
    count, size = points.shape[0], points.shape[1] + 1
    rows = np.ones((count, size))
    rows[:, :-1] = points
    which, u, g = np.arange(count, dtype=np.int64), np.full(count, 1.0 / count), np.empty(count)
    inverse, along = np.eye(size), np.empty(size)
    used = max_iterations
    for iteration in range(max_iterations):
        if iteration % REFRESH == 0:
            inverse = _recompute_moments(rows, u, g, count)
            left = _drop_inner_points(rows, which, u, g, count)
            if left < count:
                count = left
                inverse = _recompute_moments(rows, u, g, count)
        top, low = 0, -1
        for i in range(count):
            if g[i] > g[top]:
                top = i
            if u[i] > 0.0 and (low < 0 or g[i] < g[low]):
                low = i
        gain, loss = g[top] / size - 1.0, 1.0 - g[low] / size
        if max(gain, loss) < tolerance:
            used = iteration
            break
        j = top if gain >= loss else low
        step = (g[j] - size) / (size * (g[j] - 1.0)) if g[j] > 1.0 else -np.inf
        drop = gain < loss and step <= -u[j] / (1.0 - u[j])
        if drop:
            step = -u[j] / (1.0 - u[j])
        for i in range(count):
            u[i] *= 1.0 - step
        u[j] = 0.0 if drop else u[j] + step  # exactly nothing, or a rest too small to matter would be taken forever
        share = step / (1.0 - step + step * g[j])
        for a in range(size):
            along[a] = 0.0
            for b in range(size):
                along[a] += inverse[a, b] * rows[j, b]
        for i in range(count):
            d = 0.0
            for a in range(size):
                d += rows[i, a] * along[a]
            g[i] = (g[i] - share * d * d) / (1.0 - step)
        for a in range(size):
            for b in range(size):
                inverse[a, b] = (inverse[a, b] - share * along[a] * along[b]) / (1.0 - step)
    weights = np.zeros(points.shape[0])
    for i in range(count):
        weights[which[i]] = u[i]
    return weights, used


@kernel
def nearest_in_ellipsoid(y: Vector, s: FloatArray) -> Vector:
    r"""Nearest point of :math:`\sum_i (y_i/s_i)^2 \le 1`: :math:`y_i s_i^2/(t + s_i^2)` with ``t`` by Newton steps."""
    level = (y[0] / s[0]) ** 2 + (y[1] / s[1]) ** 2 + (y[2] / s[2]) ** 2
    if level <= 1.0:
        return y
    a, b, c = s[0] * s[0], s[1] * s[1], s[2] * s[2]
    t = max(0.0, s[0] * abs(y[0]) - a, s[1] * abs(y[1]) - b, s[2] * abs(y[2]) - c)
    for _ in range(ROOT_STEPS):
        u, v, w = s[0] * y[0] / (t + a), s[1] * y[1] / (t + b), s[2] * y[2] / (t + c)
        excess = u * u + v * v + w * w - 1.0
        if excess <= ROOT_TOL:
            break
        t += 0.5 * excess / (u * u / (t + a) + v * v / (t + b) + w * w / (t + c))
    return a * y[0] / (t + a), b * y[1] / (t + b), c * y[2] / (t + c)


@kernel
def check_ellipsoids(wxyz: FloatArray, centres: FloatArray, axes: FloatArray, semi: FloatArray) -> CheckArrays:
    """Project rotations ``(F, J, 4)`` on ellipsoids of rotation vectors about centres; infinite ones are free.

    Args:
        wxyz: rotations.
        centres: ``(J, 4)`` middle of each ellipsoid.
        axes: ``(J, 4)`` frame of its axes.
        semi: ``(J, 3)`` [rad] half its axes.
    """
    frames, joints = wxyz.shape[0], wxyz.shape[1]
    out, violation, gradient = wxyz.copy(), np.zeros((frames, joints)), np.zeros((frames, joints, 3))
    for j in range(joints):
        if np.isinf(semi[j, 0]):
            continue
        centre, frame = quaternion_at(centres, j), quaternion_at(axes, j)
        for f in range(frames):
            y = rotate(conjugate(frame), log(multiply(conjugate(centre), quaternion_at(wxyz[f], j))))
            p = nearest_in_ellipsoid(y, semi[j])
            d = (y[0] - p[0], y[1] - p[1], y[2] - p[2])
            square = d[0] * d[0] + d[1] * d[1] + d[2] * d[2]
            if square == 0.0:
                continue
            g = rotate(frame, left_jacobian_inverse_times(y, d))
            write_rotation(out[f, j], multiply(centre, exp(rotate(frame, p))))
            violation[f, j] = np.sqrt(square)
            gradient[f, j, 0], gradient[f, j, 1], gradient[f, j, 2] = g
    return out, violation, gradient


@kernel
def ellipsoid_levels(wxyz: FloatArray, centres: FloatArray, axes: FloatArray, semi: FloatArray) -> FloatArray:
    r"""Level :math:`f = x^T A x` and its body gradient :math:`2 J_r^{-T} A x`, ``(F, J, 4)``; zero for free joints."""
    frames, joints = wxyz.shape[0], wxyz.shape[1]
    out = np.zeros((frames, joints, 4))
    for j in range(joints):
        if np.isinf(semi[j, 0]):
            continue
        centre, frame = quaternion_at(centres, j), quaternion_at(axes, j)
        for f in range(frames):
            y = rotate(conjugate(frame), log(multiply(conjugate(centre), quaternion_at(wxyz[f], j))))
            a = (2.0 * y[0] / semi[j, 0] ** 2, 2.0 * y[1] / semi[j, 1] ** 2, 2.0 * y[2] / semi[j, 2] ** 2)
            out[f, j, 0] = 0.5 * (a[0] * y[0] + a[1] * y[1] + a[2] * y[2])
            out[f, j, 1], out[f, j, 2], out[f, j, 3] = rotate(frame, left_jacobian_inverse_times(y, a))
    return out
