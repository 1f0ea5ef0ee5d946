r"""Compiled projections on principal geodesics.

The exact one minimises :math:`\sum_j w_j^2 \|\rho_j\|^2`, :math:`\rho_j = \log(q_j^{-1} f_j(x))`, by Gauss-Newton steps
with :math:`\partial\rho_j/\partial x = J_r^{-1}(\rho_j)\,\partial^b f_j/\partial x`. [Tournier2011]_ §8.1.2.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from marey.base import FloatArray, kernel
from marey.models._model_kernels import (
    exponential,
    logarithm,
    model_jacobian,
    model_rotations,
    product,
    sine_over,
    third_stumpff,
)

MAX_STEPS = 30  # Gauss-Newton settles in three or four; more only where a joint passes a half turn
MAX_HALVINGS = 12
STEP_TOL = 1e-12  # [rad] a decade above the rounding of the residuals
DAMPING = 1e-13  # [-] of the trace: keeps the matrix regular when a mode turns nothing there

Three = tuple[float, float, float]


@kernel
def between(a: FloatArray, b: FloatArray) -> Three:
    r"""Return :math:`\log(a^{-1} b)` of two unit quaternions."""
    w = a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]
    x = a[0] * b[1] - a[1] * b[0] - a[2] * b[3] + a[3] * b[2]
    y = a[0] * b[2] + a[1] * b[3] - a[2] * b[0] - a[3] * b[1]
    z = a[0] * b[3] - a[1] * b[2] + a[2] * b[1] - a[3] * b[0]
    return logarithm(w, x, y, z)


@kernel
def tangents(mean_wxyz: FloatArray, wxyz: FloatArray) -> FloatArray:
    r"""Return :math:`\log(\mu_j^{-1} q_j)` ``(F, J, 3)`` of poses ``(F, J, 4)``."""
    out = np.empty((wxyz.shape[0], wxyz.shape[1], 3))
    for f in range(wxyz.shape[0]):
        for j in range(wxyz.shape[1]):
            out[f, j, 0], out[f, j, 1], out[f, j, 2] = between(mean_wxyz[j], wxyz[f, j])
    return out


@kernel
def linear_coordinates(mean_wxyz: FloatArray, basis: FloatArray, metric: FloatArray, wxyz: FloatArray) -> FloatArray:
    r"""Coordinates ``(F, k)``: :math:`\sum_j w_j^2 B_j^T \log(\mu_j^{-1} q_j)`."""
    out = np.zeros((wxyz.shape[0], basis.shape[2]))
    for f in range(wxyz.shape[0]):
        for j in range(1, wxyz.shape[1]):
            a, b, c = between(mean_wxyz[j], wxyz[f, j])
            a, b, c = metric[j] * a, metric[j] * b, metric[j] * c
            for i in range(basis.shape[2]):
                out[f, i] += basis[j, 0, i] * a + basis[j, 1, i] * b + basis[j, 2, i] * c
    return out


@kernel
def greedy_coordinates(mean_wxyz: FloatArray, basis: FloatArray, metric: FloatArray, wxyz: FloatArray) -> FloatArray:
    """Coordinates ``(F, k)`` of the second kind, one geodesic after the other: what is left is divided by each."""
    joints, count = wxyz.shape[1], basis.shape[2]
    out = np.zeros((wxyz.shape[0], count))
    left, back, turn = np.empty((joints, 4)), np.empty(4), np.empty(4)
    for f in range(wxyz.shape[0]):
        for j in range(joints):
            turn[0], turn[1], turn[2], turn[3] = exponential(0.0, 0.0, 0.0)
            m = mean_wxyz[j]
            back[0], back[1], back[2], back[3] = m[0], -m[1], -m[2], -m[3]
            q = wxyz[f, j]
            left[j, 0], left[j, 1], left[j, 2], left[j, 3] = product(back, q[0], q[1], q[2], q[3])
        for i in range(count):
            x = 0.0
            for j in range(1, joints):
                a, b, c = logarithm(left[j, 0], left[j, 1], left[j, 2], left[j, 3])
                x += metric[j] * (basis[j, 0, i] * a + basis[j, 1, i] * b + basis[j, 2, i] * c)
            out[f, i] = x
            for j in range(1, joints):
                turn[0], turn[1], turn[2], turn[3] = exponential(
                    -x * basis[j, 0, i], -x * basis[j, 1, i], -x * basis[j, 2, i]
                )
                q = left[j]
                left[j, 0], left[j, 1], left[j, 2], left[j, 3] = product(turn, q[0], q[1], q[2], q[3])
    return out


@kernel
def inverse_jacobian_times(x: float, y: float, z: float, a: float, b: float, c: float) -> Three:
    r"""Return :math:`J_r^{-1}(\rho)\,v = v + \frac12\rho\times v + d\,\rho\times(\rho\times v)`."""
    quarter = 0.25 * (x * x + y * y + z * z)
    half_sinc = sine_over(0.5 * sqrt(quarter))
    d = (0.5 * half_sinc * half_sinc - third_stumpff(quarter)) / (4.0 * sine_over(sqrt(quarter)))
    p, q, r = y * c - z * b, z * a - x * c, x * b - y * a
    return (
        a + 0.5 * p + d * (y * r - z * q),
        b + 0.5 * q + d * (z * p - x * r),
        c + 0.5 * r + d * (x * q - y * p),
    )


@kernel
def pose_error(metric: FloatArray, q: FloatArray, made: FloatArray) -> float:
    """Weighted squared geodesic distance [rad^2] between two poses ``(J, 4)``, without the root."""
    total = 0.0
    for j in range(1, q.shape[0]):
        a, b, c = between(q[j], made[j])
        total += metric[j] * (a * a + b * b + c * c)
    return total


@kernel
def squared_errors(
    kind: int, mean_wxyz: FloatArray, basis: FloatArray, metric: FloatArray, wxyz: FloatArray, x: FloatArray
) -> FloatArray:
    """Weighted squared geodesic distance ``(F,)`` between poses and what their coordinates decode to."""
    made = np.empty((wxyz.shape[1], 4))
    out = np.empty(wxyz.shape[0])
    for f in range(wxyz.shape[0]):
        model_rotations(kind, mean_wxyz, basis, x[f], made)
        out[f] = pose_error(metric, wxyz[f], made)
    return out


@kernel
def refine(
    kind: int, mean_wxyz: FloatArray, basis: FloatArray, metric: FloatArray, wxyz: FloatArray, x: FloatArray
) -> None:
    """Improve coordinates ``(F, k)`` in place; the error of no frame ever grows."""
    joints, count = wxyz.shape[1], basis.shape[2]
    made, columns = np.empty((joints, 4)), np.empty((joints, 3, count))
    if count == 0:
        return
    for f in range(wxyz.shape[0]):
        model_rotations(kind, mean_wxyz, basis, x[f], made)
        error = pose_error(metric, wxyz[f], made)
        for _ in range(MAX_STEPS):
            model_jacobian(kind, mean_wxyz, basis, x[f], columns)
            step = _newton_step(metric, wxyz[f], made, columns)
            found, error = _shortened(kind, mean_wxyz, basis, metric, wxyz[f], x[f], step, error, made)
            if not found or np.abs(step).max() < STEP_TOL:
                break


@kernel
def _newton_step(metric: FloatArray, q: FloatArray, made: FloatArray, columns: FloatArray) -> FloatArray:
    """Gauss-Newton step ``(k,)`` of the residuals between one pose and its model."""
    count = columns.shape[2]
    normal, slope = np.zeros((count, count)), np.zeros(count)
    row = np.empty((3, count))
    for j in range(1, q.shape[0]):
        if metric[j] == 0.0:
            continue
        a, b, c = between(q[j], made[j])
        for i in range(count):
            row[0, i], row[1, i], row[2, i] = inverse_jacobian_times(
                a, b, c, columns[j, 0, i], columns[j, 1, i], columns[j, 2, i]
            )
        for i in range(count):
            slope[i] -= metric[j] * (row[0, i] * a + row[1, i] * b + row[2, i] * c)
            for n in range(i + 1):
                normal[i, n] += metric[j] * (row[0, i] * row[0, n] + row[1, i] * row[1, n] + row[2, i] * row[2, n])
    trace = 0.0
    for i in range(count):
        trace += normal[i, i]
        for n in range(i):
            normal[n, i] = normal[i, n]
    for i in range(count):
        normal[i, i] += DAMPING * trace + 1e-300
    return np.linalg.solve(normal, slope)


@kernel
def _shortened(
    kind: int,
    mean_wxyz: FloatArray,
    basis: FloatArray,
    metric: FloatArray,
    q: FloatArray,
    x: FloatArray,
    step: FloatArray,
    error: float,
    made: FloatArray,
) -> tuple[bool, float]:
    """Take the step, or a half, a quarter of it, whichever first lowers the error; ``step`` is what was taken."""
    tried = np.empty(x.shape[0])
    for _ in range(MAX_HALVINGS):
        for i in range(x.shape[0]):
            tried[i] = x[i] + step[i]
        model_rotations(kind, mean_wxyz, basis, tried, made)
        lower = pose_error(metric, q, made)
        if lower < error:
            x[:] = tried
            return True, lower
        for i in range(x.shape[0]):
            step[i] *= 0.5
    model_rotations(kind, mean_wxyz, basis, x, made)
    return False, error
