"""Compiled Newton-type solvers in full or reduced space: damped, truncated and trust-region steps."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, kernel
from marey.kinematics.ik.coordinates import (
    IKState,
    ModelSpace,
    copy_state,
    evaluate_state,
    linearise_objective,
    new_rows,
    new_state,
    num_coordinates,
    project_and_evaluate,
    retract,
)
from marey.kinematics.ik.dual_step import factor_cholesky, solve_cholesky
from marey.kinematics.ik.full_space import OUT_OF_ITERATIONS, REACHED, STATIONARY, is_all_reached
from marey.kinematics.ik.moves import interpolate_rotation, largest_joint_step, max_joint_step
from marey.kinematics.ik.state import IKLayout, SpeedLimits


@kernel
def limit_state_step(
    layout: IKLayout,
    space: ModelSpace,
    pace: SpeedLimits,
    targets: FloatArray,
    active: BoolArray,
    f: int,
    last: IKState,
    state: IKState,
    counts: FloatArray,
) -> bool:
    """Bring a pose that went too far in frame f back on its way, in the coordinates of the model.

    Writes how it ended, its objective and the flag of ``counts`` ``(6,)``; tells whether there was anything to do.
    """
    most = max_joint_step(layout, pace, targets, active, f)
    turn = largest_joint_step(last.wxyz, state.wxyz, last.root, state.root, pace.limb_m)
    if not turn > most:
        return False
    part = most / turn
    for c in range(3):
        state.root[c] = last.root[c] + part * (state.root[c] - last.root[c])
    for i in range(state.x.shape[0]):
        state.x[i] = last.x[i] + part * (state.x[i] - last.x[i])
    for j in range(1 if space.is_reduced else state.wxyz.shape[0]):
        interpolate_rotation(last.wxyz[j], state.wxyz[j].copy(), part, state.wxyz[j])
    counts[2] = evaluate_state(layout, space, targets[f], active[f], state)
    counts[0] = REACHED if is_all_reached(layout.blocks.tolerances, active[f], state.errors) else STATIONARY
    counts[5] = 1.0
    return True


PSEUDO_INVERSE, DLS, SVD_CLAMP, DOGLEG, MARQUARDT, MEREDITH_MADDOCK = 0, 1, 2, 3, 4, 5
CUTOFF = 1e-8  # [-] squared singular values below this part of the largest count as zero ([Engell2012]_ §4)
DIVERGED = 1e12  # an objective this large has diverged


@kernel
def solve_truncated_inverse(J: FloatArray, free: BoolArray, e: FloatArray, cutoff: float, step: FloatArray) -> float:
    """Write the least step with J step = e, as far as singular values allow; return what of e is out of reach."""
    rows = J.shape[0]
    A = np.zeros((rows, rows))
    for r in range(rows):
        for c in range(r + 1):
            total = 0.0
            for n in range(J.shape[1]):
                if free[n]:
                    total += J[r, n] * J[c, n]
            A[r, c] = A[c, r] = total
    values, vectors = np.linalg.eigh(A)
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
def solve_damped_step(
    J: FloatArray,
    g: FloatArray,
    s: FloatArray,
    free: BoolArray,
    damping: float,
    is_relative: bool,
    metric: FloatArray,
    H: FloatArray,
    step: FloatArray,
) -> None:
    """Write the step of (J^T J + s + damping D) step = -g / 2 on the free coordinates.

    D is the diagonal of J^T J + s when ``is_relative`` (Marquardt), else ``metric`` ``(n, n)``, or one without it.
    """
    n = g.shape[0]
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
    for i in range(n):
        if is_relative:
            H[i, i] += damping * max(H[i, i], 1e-9 * trace / n)
        elif metric.shape[0] == n:
            for j in range(i, n):
                H[i, j] += damping * metric[i, j]
        else:
            H[i, i] += damping
    for i in range(n):
        step[i] = -0.5 * g[i] if free[i] else 0.0
        if not free[i]:
            H[i, i:] = 0.0
            H[:i, i] = 0.0
            H[i, i] = 1.0
    factor_cholesky(H)
    solve_cholesky(H, step)


@kernel
def predict_decrease(J: FloatArray, e: FloatArray, g: FloatArray, s: FloatArray, step: FloatArray) -> float:
    """How much the quadratic model of the objective falls along a step."""
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
def compute_dogleg_step(
    J: FloatArray, g: FloatArray, s: FloatArray, free: BoolArray, newton: FloatArray, radius: float, step: FloatArray
) -> None:
    """Write the step on the path from the lowest point along the slope to the Gauss-Newton point, at a radius."""
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
    a, b, c = 0.0, 0.0, t * t * steep - radius * radius  # |cauchy + q (newton - cauchy)| = radius
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
def compute_step(
    method: int,
    option: float,
    damping: float,
    radius: float,
    J: FloatArray,
    e: FloatArray,
    g: FloatArray,
    s: FloatArray,
    free: BoolArray,
    metric: FloatArray,
    H: FloatArray,
    step: FloatArray,
) -> None:
    """Write the step of a method from the linearised problem."""
    if method == DLS:
        solve_damped_step(J, g, s, free, option * option, False, metric, H, step)
    elif method == MARQUARDT:
        solve_damped_step(J, g, s, free, damping, option > 0.0, metric, H, step)
    elif method == DOGLEG:
        newton = np.zeros(g.shape[0])
        solve_damped_step(J, g, s, free, 1e-6, False, metric, H, newton)
        compute_dogleg_step(J, g, s, free, newton, radius, step)
    else:
        missed = solve_truncated_inverse(J, free, e, CUTOFF, step)
        if method == MEREDITH_MADDOCK:
            part = 1.0
            while part * missed > option and part > 1e-6:
                part *= 0.5
            step *= part


@kernel
def solve_newton(
    layout: IKLayout,
    space: ModelSpace,
    targets: FloatArray,
    active: BoolArray,
    root: FloatArray,
    wxyz: FloatArray,
    x: FloatArray,
    errors: FloatArray,
    metric: FloatArray,
    max_iterations: int,
    seek_optimum: bool,
    method: int,
    option: float,
    history: FloatArray,
) -> tuple[int, int, int, float, float]:
    """Iterate one of the methods from a pose, which is overwritten by the best one found.

    ``option`` is the damping [m] of DLS, the tolerance [m] of Meredith-Maddock, and for Marquardt whether damping is
    relative to the diagonal. SVD-clamp must be given a layout without boxes; it is clamped afterwards.
    Returns as ``solve_full``; rows of ``history`` are objective, damping or radius, fall expected, largest change.
    """
    state, trial, rows = new_state(layout, root, wxyz, x), new_state(layout, root, wxyz, x), new_rows(layout, space)
    best = new_state(layout, root, wxyz, x)
    n, m = num_coordinates(layout, space), 3 * errors.shape[0]
    J, H, e = np.zeros((m, n)), np.zeros((n, n)), np.zeros(m)
    g, s, step, taken = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    free, is_guarded = np.ones(n, dtype=np.bool_), method in (MARQUARDT, DOGLEG)
    cost = project_and_evaluate(layout, space, targets, active, state)
    copy_state(state, best)
    lowest, damping, radius, gradient = cost, 1e-2 * max(cost, 1e-6), 1.0, 0.0
    if option > 0.0 and method == MARQUARDT:
        damping = 1e-3
    status, iteration, evaluations, accepted, is_new = OUT_OF_ITERATIONS, 0, 1, 0, True
    while True:
        if is_new:
            if not seek_optimum and is_all_reached(layout.blocks.tolerances, active, state.errors):
                break
            gradient = linearise_objective(layout, space, targets, active, state, rows, J, e, g, s, free)
            if gradient < 1e-10 * (1.0 + cost):
                status = STATIONARY
                break
        if iteration >= max_iterations:
            break
        iteration += 1
        compute_step(method, option, damping, radius, J, e, g, s, free, metric, H, step)
        change = retract(layout, space, state, step, trial, taken)
        new_cost = evaluate_state(layout, space, targets, active, trial)
        evaluations += 1
        if not new_cost < DIVERGED:
            break
        expected, won = predict_decrease(J, e, g, s, taken), cost - new_cost
        quality = won / expected if expected > 0.0 else -1.0
        if is_guarded and (won <= 0.0 or (method == DOGLEG and quality < 1e-4)):
            is_new = False
            damping *= 4.0
            radius *= 0.25
            if change < 1e-12 or damping > 1e12:
                status = STATIONARY
                break
            continue
        damping = max(damping * max(0.1, 1.0 - (2.0 * quality - 1.0) ** 3), 1e-12)
        radius *= 0.5 if quality < 0.25 else 2.0 if quality > 0.75 else 1.0
        copy_state(trial, state)
        cost, is_new = new_cost, True
        if accepted < history.shape[0]:
            history[accepted, 0], history[accepted, 1] = cost, radius if method == DOGLEG else damping
            history[accepted, 2], history[accepted, 3] = expected, change
        accepted += 1
        if cost < lowest:
            lowest = cost
            copy_state(state, best)
        if change < 1e-10 or (is_guarded and won < 1e-10 * cost and change < 1e-8):
            status = STATIONARY
            break
    root[:], wxyz[:], x[:], errors[:] = best.root, best.wxyz, best.x, best.errors
    if is_all_reached(layout.blocks.tolerances, active, errors) and (status == STATIONARY or not seek_optimum):
        status = REACHED
    return status, iteration, evaluations, lowest, gradient


@kernel
def solve_newton_clip(
    layout: IKLayout,
    space: ModelSpace,
    targets: FloatArray,
    active: BoolArray,
    root: FloatArray,
    wxyz: FloatArray,
    x: FloatArray,
    metric: FloatArray,
    max_iterations: int,
    seek_optimum: bool,
    method: int,
    option: float,
    pace: SpeedLimits,
    history: FloatArray,
    roots: FloatArray,
    rotations: FloatArray,
    coordinates: FloatArray,
    errors: FloatArray,
    counts: FloatArray,
) -> int:
    """Solve frame after frame, each from the answer before; ``root``, ``wxyz`` and ``x`` end as the last.

    Writes as ``follow_clip``, and ``coordinates`` ``(F, k)``; returns the evaluations of all. One frame is a clip too.
    """
    tries, state, last = 0, new_state(layout, root, wxyz, x), new_state(layout, root, wxyz, x)
    for f in range(targets.shape[0]):
        last.root[:], last.wxyz[:], last.x[:] = root, wxyz, x
        stop, count, evaluations, cost, gradient = solve_newton(
            layout,
            space,
            targets[f],
            active[f],
            root,
            wxyz,
            x,
            errors[f],
            metric,
            max_iterations,
            seek_optimum,
            method,
            option,
            history,
        )
        counts[f, 0], counts[f, 1], counts[f, 2], counts[f, 3] = stop, count, cost, gradient
        state.root[:], state.wxyz[:], state.x[:] = root, wxyz, x
        if limit_state_step(layout, space, pace, targets, active, f, last, state, counts[f]):
            root[:], wxyz[:], x[:], errors[f] = state.root, state.wxyz, state.x, state.errors
        roots[f], rotations[f], coordinates[f], tries = root, wxyz, x, tries + evaluations
    return tries
