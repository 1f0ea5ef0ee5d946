"""Compiled Newton-type steps on a dense linear model: damped, truncated and trust-region, and rows of joint limits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marey.base import FloatArray, kernel
from marey.kinematics.ik.coordinates import DenseModel
from marey.kinematics.ik.dual_step import factor_cholesky, solve_cholesky
from marey.kinematics.ik.state import IKState, LinearRows
from marey.kinematics.limits.learn import Bounds, check_bounds

PSEUDO_INVERSE, DLS, SVD_CLAMP, DOGLEG, MARQUARDT, MEREDITH_MADDOCK = 0, 1, 2, 3, 4, 5
CUTOFF = 1e-8  # [-] squared singular values below this part of the largest count as zero ([Engell2012]_ §4)


@kernel
def solve_truncated_inverse(at: DenseModel, cutoff: float) -> float:
    """Write the least step with J step = e, as far as singular values allow; return what of e is out of reach."""
    J, e, free, step, rows = at.J, at.e, at.free, at.step, at.J.shape[0]
    # J J^T of the free coordinates, and its eigenvectors
    A = np.zeros((rows, rows))
    for r in range(rows):
        for c in range(r + 1):
            total = 0.0
            for n in range(J.shape[1]):
                if free[n]:
                    total += J[r, n] * J[c, n]
            A[r, c] = A[c, r] = total
    values, vectors = np.linalg.eigh(A)
    # (J J^T)^+ e; what lies along the small eigenvalues is out of reach
    y, missed = np.zeros(rows), 0.0
    for k in range(rows):
        part = 0.0
        for r in range(rows):
            part += vectors[r, k] * e[r]
        if values[k] > cutoff * max(values[rows - 1], 1e-300):
            for r in range(rows):
                y[r] += vectors[r, k] * part / values[k]
        else:
            missed += part * part
    for n in range(J.shape[1]):
        step[n] = 0.0
        if free[n]:
            for r in range(rows):
                step[n] += J[r, n] * y[r]
    return np.sqrt(missed)


@kernel
def solve_damped_step(at: DenseModel, damping: float, is_relative: bool, metric: FloatArray, step: FloatArray) -> None:
    """Write the step of (J^T J + s + damping D) step = -g / 2 on the free coordinates, inside their room.

    D is the diagonal of J^T J + s when ``is_relative`` (Marquardt), else ``metric`` ``(n, n)``, or one without it.
    """
    J, g, s, free, H = at.J, at.g, at.s, at.free, at.H
    n = g.shape[0]
    # The upper triangle of J^T J + s
    for i in range(n):
        for j in range(i, n):
            H[i, j] = 0.0
    for r in range(J.shape[0]):
        for i in range(n):
            f = J[r, i]
            if f != 0.0 and free[i]:
                for j in range(i, n):
                    H[i, j] += f * J[r, j]
    trace = 0.0
    for i in range(n):
        H[i, i] += s[i]
        trace += H[i, i]
    # The damping
    for i in range(n):
        if is_relative:
            H[i, i] += damping * max(H[i, i], 1e-9 * trace / n)
        elif metric.shape[0] == n:
            for j in range(i, n):
                H[i, j] += damping * metric[i, j]
        else:
            H[i, i] += damping
    # Coordinates that may not move have a row of the identity; those that would leave their room end at its border
    normal = H.copy()
    held = ~free
    step[:] = 0.0
    for _ in range(n):
        H[:] = normal
        for i in range(n):
            if held[i]:
                continue
            at.taken[i] = -0.5 * g[i]
            for j in range(n):
                if held[j]:
                    at.taken[i] -= (normal[i, j] if i < j else normal[j, i]) * step[j]
        for i in range(n):
            if held[i]:
                H[i, i:] = 0.0
                H[:i, i] = 0.0
                H[i, i] = 1.0
                at.taken[i] = step[i]
        factor_cholesky(H)
        solve_cholesky(H, at.taken)
        is_inside = True
        for i in range(n):
            if not held[i] and not (at.room[0, i] <= at.taken[i] <= at.room[1, i]):
                held[i], is_inside = True, False
                step[i] = at.room[0, i] if at.taken[i] < at.room[0, i] else at.room[1, i]
        if is_inside:
            break
    step[:] = at.taken


@kernel
def predict_decrease(at: DenseModel) -> float:
    """How much the quadratic model of the objective falls along the step that was taken."""
    J, e, g, s, step = at.J, at.e, at.g, at.s, at.taken
    value = 0.0
    for n in range(g.shape[0]):
        value -= g[n] * step[n] + s[n] * step[n] * step[n]
    for r in range(e.shape[0]):
        along = 0.0
        for n in range(g.shape[0]):
            along += J[r, n] * step[n]
        value -= along * along
    return value


@kernel
def compute_dogleg_step(at: DenseModel, newton: FloatArray, radius: float) -> None:
    """Write the step on the path from the lowest point along the slope to the Gauss-Newton point, at a radius."""
    J, g, s, free, step = at.J, at.g, at.s, at.free, at.step
    # The lowest point along the slope, Cauchy's
    steep = bend = 0.0
    for n in range(g.shape[0]):
        if free[n]:
            steep += g[n] * g[n]
            bend += 2.0 * s[n] * g[n] * g[n]
    for r in range(J.shape[0]):
        along = 0.0
        for n in range(g.shape[0]):
            if free[n]:
                along += J[r, n] * g[n]
        bend += 2.0 * along * along
    t = steep / max(bend, 1e-300)
    # |cauchy + q (newton - cauchy)| = radius is a quadratic equation for q
    a, b, c = 0.0, 0.0, t * t * steep - radius * radius
    length = 0.0
    for n in range(g.shape[0]):
        cauchy = -t * g[n] if free[n] else 0.0
        a += (newton[n] - cauchy) ** 2
        b += (newton[n] - cauchy) * cauchy
        length += newton[n] ** 2
    part = 1.0 if length <= radius * radius else (-b + np.sqrt(max(b * b - a * c, 0.0))) / max(a, 1e-300)
    shrink = 1.0 if c < 0.0 or length <= radius * radius else radius / (t * np.sqrt(steep))
    part = 0.0 if shrink < 1.0 else part
    for n in range(g.shape[0]):
        cauchy = -t * g[n] if free[n] else 0.0
        step[n] = shrink * cauchy + part * (newton[n] - cauchy)


@kernel
def compute_step(method: int, option: float, damping: float, radius: float, at: DenseModel, metric: FloatArray) -> None:
    """Write the step of a method from the linearised problem."""
    if method == DLS:
        solve_damped_step(at, option * option, False, metric, at.step)
    elif method == MARQUARDT:
        solve_damped_step(at, damping, option > 0.0, metric, at.step)
    elif method == DOGLEG:
        # The Gauss-Newton point needs a little damping, as the Jacobian may lack rank
        newton = np.zeros(at.g.shape[0])
        solve_damped_step(at, 1e-6, False, metric, newton)
        compute_dogleg_step(at, newton, radius)
    else:
        missed = solve_truncated_inverse(at, CUTOFF)
        if method == MEREDITH_MADDOCK:
            # Halved while what is out of reach would be missed by more than the tolerance
            part = 1.0
            while part * missed > option and part > 1e-6:
                part *= 0.5
            at.step[:] *= part


class LimitViolation(NamedTuple):
    """How far the joints of a pose are outside their limits."""

    over: FloatArray  # (J,) [rad]
    push: FloatArray  # (J, 3) [rad] gradient of half its square, in the joint's own axes


@kernel
def new_limit_violation(joints: int) -> LimitViolation:
    """A wall that nothing touches."""
    return LimitViolation(np.zeros(joints), np.zeros((joints, 3)))


@kernel
def evaluate_violations(bounds: Bounds, weight: float, state: IKState, wall: LimitViolation) -> float:
    """Look up the violations of a pose; return what they cost."""
    _, over, push = check_bounds(bounds, state.wxyz.reshape((1, state.wxyz.shape[0], 4)))
    wall.over[:], wall.push[:] = over[0], push[0]
    cost = 0.0
    for j in range(wall.over.shape[0]):
        cost += weight * wall.over[j] * wall.over[j]
    return cost


@kernel
def write_violation_rows(weight: float, wall: LimitViolation, rows: LinearRows, at: DenseModel) -> float:
    """Write a row for each joint's violation below those of the goals; return the largest slope of what may move."""
    J, e, g, root_weight = at.J, at.e, at.g, np.sqrt(weight)
    first, gradient = at.J.shape[0] - wall.over.shape[0], 0.0
    for j in range(wall.over.shape[0]):
        row = first + j
        J[row], e[row] = 0.0, -root_weight * wall.over[j]
        if wall.over[j] == 0.0:
            continue
        # The gradient of the violation, carried to the coordinates of the model
        for c in range(3):
            t = root_weight * wall.push[j, c] / wall.over[j]
            if j == 0:
                J[row, 3 + c] = t
            else:
                for k in range(rows.model.shape[2]):
                    J[row, 6 + k] += t * rows.model[j, c, k]
        # What the row adds to the gradient of the objective
        for n in range(g.shape[0]):
            g[n] -= 2.0 * J[row, n] * e[row]
    for n in range(g.shape[0]):
        gradient = max(gradient, abs(g[n]) if at.free[n] else 0.0)
    return gradient
