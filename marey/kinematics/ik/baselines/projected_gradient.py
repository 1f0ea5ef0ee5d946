"""Compiled first-order solvers: projected gradient and conjugate gradient with Armijo search, Jacobian transpose."""

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
from marey.kinematics.ik.full_space import OUT_OF_ITERATIONS, REACHED, STATIONARY, is_all_reached
from marey.kinematics.ik.state import IKLayout

PG_BB, PG_UNIT, CONJUGATE, TRANSPOSE_FIXED, TRANSPOSE_BUSS = 0, 1, 2, 3, 4
ARMIJO_DECREASE, BACKTRACK_FACTOR, MIN_STEP = (
    1e-4,
    0.5,
    1e-8,
)  # [-] sufficient decrease, back-tracking, floor of the step length
BB_RANGE = (1e-4, 1.0)  # [-] Barzilai-Borwein lengths are kept inside ([Engell2012]_ §4, step_init)
DIVERGED = 1e12  # an objective this large has diverged


@kernel
def inner_product(a: FloatArray, b: FloatArray) -> float:
    """Inner product."""
    total = 0.0
    for n in range(a.shape[0]):
        total += a[n] * b[n]
    return total


@kernel
def search_armijo(
    layout: IKLayout,
    space: ModelSpace,
    targets: FloatArray,
    active: BoolArray,
    state: IKState,
    cost: float,
    g: FloatArray,
    direction: FloatArray,
    length: float,
    trial: IKState,
    taken: FloatArray,
) -> tuple[float, float, int, float]:
    r"""Back-track along a direction until the projected step satisfies Armijo's rule.

    .. math:: f(P(\theta + \tau d)) < f(\theta) + \alpha\,\nabla f^T (P(\theta + \tau d) - \theta)

    [Engell2012]_ eq. 30-40. Returns the new objective, the length (0 when blocked), evaluations, and the slope along
    the step.
    """
    step, tries = np.empty(g.shape[0]), 0
    while length >= MIN_STEP:
        for n in range(g.shape[0]):
            step[n] = length * direction[n]
        change = retract(layout, space, state, step, trial, taken)
        if change == 0.0:
            break
        new_cost, along = evaluate_state(layout, space, targets, active, trial), inner_product(g, taken)
        tries += 1
        if new_cost < cost + ARMIJO_DECREASE * along:
            return new_cost, length, tries, along
        length *= BACKTRACK_FACTOR
    return cost, 0.0, tries, 0.0


@kernel
def coordinate_scale(n: int, unit: float) -> float:
    """Scale of a coordinate's slope: places count in mean bones ``unit`` [m] and turns in rad, as in [Engell2012]_."""
    return 1.0 if n < 3 else 1.0 / unit**2


@kernel
def update_conjugate_direction(
    g: FloatArray,
    old_g: FloatArray,
    free: BoolArray,
    was_free: BoolArray,
    count: int,
    direction: FloatArray,
    unit: float,
) -> None:
    """Turn ``direction`` into that of Polak-Ribiere (plus), or down the slope where a restart is due."""
    change, size, old_size = 0.0, 0.0, 0.0
    same = True
    for n in range(g.shape[0]):
        old_size += coordinate_scale(n, unit) * old_g[n] * old_g[n]
        change += coordinate_scale(n, unit) * g[n] * (g[n] - old_g[n]) if free[n] else 0.0
        same = same and free[n] == was_free[n]
    beta = max(0.0, change / old_size) if same and old_size > 0.0 and count % g.shape[0] != 0 else 0.0
    down = 0.0
    size = 0.0
    steep = 0.0
    for n in range(g.shape[0]):
        direction[n] = -coordinate_scale(n, unit) * g[n] + beta * direction[n] if free[n] else 0.0
        down += direction[n] * g[n]
        size += direction[n] ** 2 / coordinate_scale(n, unit)
        steep += coordinate_scale(n, unit) * g[n] ** 2 if free[n] else 0.0
    if down > -0.01 * np.sqrt(size * steep):
        for n in range(g.shape[0]):
            direction[n] = -coordinate_scale(n, unit) * g[n] if free[n] else 0.0


@kernel
def compute_buss_length(J: FloatArray, e: FloatArray, free: BoolArray, unit: float) -> float:
    """Step of the transpose that brings J D J^T e nearest to e, for a direction of 2 D J^T e. [Buss2004]_."""
    y = np.zeros(J.shape[1])
    for n in range(J.shape[1]):
        if free[n]:
            for r in range(e.shape[0]):
                y[n] += coordinate_scale(n, unit) * J[r, n] * e[r]
    up = down = 0.0
    for r in range(e.shape[0]):
        z = 0.0
        for n in range(J.shape[1]):
            z += J[r, n] * y[n]
        up, down = up + e[r] * z, down + z * z
    return 0.5 * up / max(down, 1e-300)


@kernel
def initial_step_length(
    method: int, cost: float, won: float, s: FloatArray, y: FloatArray, along: float, unit: float
) -> float:
    """Length to try first: one, or that of Barzilai and Borwein from the last step s and change of slope y."""
    if method == PG_UNIT:
        return 1.0
    if method == CONJUGATE:
        return min(1.0, max(1e-6, 2.02 * won / max(-along, 1e-300))) if won > 0.0 else 1.0
    bent, size = inner_product(s, y), 0.0
    for n in range(s.shape[0]):
        size += s[n] * s[n] / coordinate_scale(n, unit)
    return min(BB_RANGE[1], max(BB_RANGE[0], size / bent)) if bent > 0.0 else BB_RANGE[1]


@kernel
def solve_gradient(
    layout: IKLayout,
    space: ModelSpace,
    targets: FloatArray,
    active: BoolArray,
    root: FloatArray,
    wxyz: FloatArray,
    x: FloatArray,
    errors: FloatArray,
    max_iterations: int,
    seek_optimum: bool,
    method: int,
    option: float,
    unit: float,
    history: FloatArray,
) -> tuple[int, int, int, float, float]:
    """Iterate one of the methods from a pose, which is overwritten by the best one found.

    ``option`` is the length of the fixed step, ``unit`` the mean bone [m]. Returns as ``solve_full``; rows of
    ``history`` are objective, length,
    slope along the step, largest change.
    """
    state, trial, rows = new_state(layout, root, wxyz, x), new_state(layout, root, wxyz, x), new_rows(layout, space)
    best = new_state(layout, root, wxyz, x)
    n, m = num_coordinates(layout, space), 3 * errors.shape[0]
    J, e, g, s = np.zeros((m, n)), np.zeros(m), np.zeros(n), np.zeros(n)
    old_g, direction, taken, bend = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    free, was_free = np.ones(n, dtype=np.bool_), np.ones(n, dtype=np.bool_)
    cost = project_and_evaluate(layout, space, targets, active, state)
    copy_state(state, best)
    lowest, gradient, won, change = cost, 0.0, 0.0, 1.0
    status, iteration, evaluations = OUT_OF_ITERATIONS, 0, 1
    while True:
        if not seek_optimum and is_all_reached(layout.blocks.tolerances, active, state.errors):
            break
        was_free[:], old_g[:] = free, g
        gradient = linearise_objective(layout, space, targets, active, state, rows, J, e, g, s, free)
        if gradient < 1e-9 * (1.0 + cost):
            status = STATIONARY
            break
        if iteration >= max_iterations:
            break
        iteration += 1
        for k in range(n):
            bend[k] = g[k] - old_g[k]
        if method == CONJUGATE:
            update_conjugate_direction(g, old_g, free, was_free, iteration - 1, direction, unit)
        else:
            for k in range(n):
                direction[k] = -coordinate_scale(k, unit) * g[k] if free[k] else 0.0
        if method in (TRANSPOSE_FIXED, TRANSPOSE_BUSS):
            length = option if method == TRANSPOSE_FIXED else compute_buss_length(J, e, free, unit)
            change = retract(layout, space, state, length * direction, trial, taken)
            new_cost, along = evaluate_state(layout, space, targets, active, trial), inner_product(g, taken)
            evaluations += 1
        else:
            length = (
                1.0
                if iteration == 1
                else initial_step_length(method, cost, won, taken, bend, inner_product(g, direction), unit)
            )
            new_cost, length, tries, along = search_armijo(
                layout, space, targets, active, state, cost, g, direction, length, trial, taken
            )
            evaluations += tries
            change = 0.0
            for k in range(n):
                change = max(change, abs(taken[k]))
            if length == 0.0:
                status = STATIONARY
                break
        if not new_cost < DIVERGED:
            break
        won = cost - new_cost
        copy_state(trial, state)
        cost = new_cost
        if iteration <= history.shape[0]:
            history[iteration - 1, 0], history[iteration - 1, 1] = cost, length
            history[iteration - 1, 2], history[iteration - 1, 3] = along, change
        if cost < lowest:
            lowest = cost
            copy_state(state, best)
        if change < 1e-10:
            status = STATIONARY
            break
    root[:], wxyz[:], x[:], errors[:] = best.root, best.wxyz, best.x, best.errors
    if is_all_reached(layout.blocks.tolerances, active, errors) and (status == STATIONARY or not seek_optimum):
        status = REACHED
    return status, iteration, evaluations, lowest, gradient
