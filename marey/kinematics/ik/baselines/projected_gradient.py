"""First-order and quasi-Newton baselines: projected and conjugate gradient, Jacobian transpose, active sets, BFGS."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, kernel
from marey.kinematics.ik.coordinates import (
    DenseModel,
    ModelSpace,
    evaluate_state,
    linearise_objective,
    new_dense_model,
    num_coordinates,
    project_and_evaluate,
    retract,
)
from marey.kinematics.ik.joint_types import TypedBody
from marey.kinematics.ik.levenberg_marquardt import StopRule
from marey.kinematics.ik.problem import Guess, SolverInputs, SolverOutcome
from marey.kinematics.ik.state import (
    DIVERGED,
    OUT_OF_ITERATIONS,
    REACHED,
    STATIONARY,
    Goals,
    IKLayout,
    IKState,
    PoseArrays,
    copy_state,
    is_all_reached,
    new_rows,
    new_state,
)

PG_BB, PG_UNIT, CONJUGATE, TRANSPOSE_FIXED, TRANSPOSE_BUSS = 0, 1, 2, 3, 4
ARMIJO_DECREASE, BACKTRACK_FACTOR, MIN_STEP = 1e-4, 0.5, 1e-8  # [-] of the slope, of the length, floor of the length
BB_RANGE = (1e-4, 1.0)  # [-] Barzilai-Borwein lengths are kept inside ([Engell2012]_ §4, step_init)


class GradientStep(NamedTuple):
    """Which first-order step is taken, and in which space."""

    space: ModelSpace
    method: int  # PG_BB, PG_UNIT, CONJUGATE, TRANSPOSE_FIXED or TRANSPOSE_BUSS
    length: float  # [-] of the fixed step
    unit_m: float  # [m] mean bone


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
    goals: Goals,
    state: IKState,
    cost: float,
    length: float,
    trial: IKState,
    at: DenseModel,
) -> tuple[float, float, int, float]:
    r"""Back-track along ``at.step`` until the projected step satisfies Armijo's rule.

    .. math:: f(P(\theta + \tau d)) < f(\theta) + \alpha\,\nabla f^T (P(\theta + \tau d) - \theta)

    [Engell2012]_ eq. 30-40. Returns the new objective, the length (0 when blocked), evaluations, and the slope along
    the step.
    """
    tries = 0
    while length >= MIN_STEP:
        change = retract(layout, space, state, length * at.step, trial, at.taken)
        if change == 0.0:
            break
        new_cost, along = evaluate_state(layout, space, goals, trial), inner_product(at.g, at.taken)
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
def update_conjugate_direction(at: DenseModel, old_g: FloatArray, was_free: BoolArray, count: int, unit: float) -> None:
    """Turn ``at.step`` into that of Polak-Ribiere (plus), or down the slope where a restart is due."""
    g, free, direction = at.g, at.free, at.step
    # Polak and Ribiere: beta = g . (g - old) / |old|^2, in units of the body
    change, old_size = 0.0, 0.0
    same = True
    for n in range(g.shape[0]):
        old_size += coordinate_scale(n, unit) * old_g[n] * old_g[n]
        change += coordinate_scale(n, unit) * g[n] * (g[n] - old_g[n]) if free[n] else 0.0
        same = same and free[n] == was_free[n]
    beta = max(0.0, change / old_size) if same and old_size > 0.0 and count % g.shape[0] != 0 else 0.0
    down = size = steep = 0.0
    for n in range(g.shape[0]):
        direction[n] = -coordinate_scale(n, unit) * g[n] + beta * direction[n] if free[n] else 0.0
        down += direction[n] * g[n]
        size += direction[n] ** 2 / coordinate_scale(n, unit)
        steep += coordinate_scale(n, unit) * g[n] ** 2 if free[n] else 0.0
    # A direction that hardly leads down starts again along the slope
    if down > -0.01 * np.sqrt(size * steep):
        for n in range(g.shape[0]):
            direction[n] = -coordinate_scale(n, unit) * g[n] if free[n] else 0.0


@kernel
def compute_buss_length(at: DenseModel, unit: float) -> float:
    """Step of the transpose that brings J D J^T e nearest to e, for a direction of 2 D J^T e. [Buss2004]_."""
    J, e, free = at.J, at.e, at.free
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
def initial_step_length(method: int, won: float, s: FloatArray, y: FloatArray, along: float, unit: float) -> float:
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
    layout: IKLayout, way: GradientStep, goals: Goals, pose: PoseArrays, stop: StopRule, history: FloatArray
) -> tuple[int, int, int, float, float]:
    """Iterate one of the methods from a pose, which is overwritten by the best one found.

    Returns how it ended, iterations, evaluations, objective and projected gradient; rows of ``history`` are objective,
    length, slope along the step, largest change.
    """
    space, method, unit, tolerances = way.space, way.method, way.unit_m, layout.blocks.tolerances
    state, trial = new_state(layout, pose), new_state(layout, pose)
    best, rows = new_state(layout, pose), new_rows(layout, pose.wxyz.shape[0], pose.x.shape[0])
    n = num_coordinates(layout, space)
    at, was_free = new_dense_model(3 * len(tolerances) + (1 if space.is_reduced else 0), n), np.ones(n, dtype=np.bool_)
    old_g, bend = np.zeros(n), np.zeros(n)
    # The start, inside its boxes
    cost = project_and_evaluate(layout, space, goals, state)
    copy_state(state, best)
    lowest, gradient, won, change = cost, 0.0, 0.0, 1.0
    status, iteration, evaluations = OUT_OF_ITERATIONS, 0, 1
    while True:
        if not stop.seek_optimum and is_all_reached(tolerances, goals.active, state.errors):
            break
        was_free[:], old_g[:] = at.free, at.g
        gradient = linearise_objective(layout, space, goals, state, rows, at)
        if gradient < 1e-9 * (1.0 + cost):
            status = STATIONARY
            break
        if iteration >= stop.max_iterations:
            break
        iteration += 1
        # The direction: down the slope, places in mean bones and turns in rad, or a conjugate one
        for k in range(n):
            bend[k] = at.g[k] - old_g[k]
        if method == CONJUGATE:
            update_conjugate_direction(at, old_g, was_free, iteration - 1, unit)
        else:
            for k in range(n):
                at.step[k] = -coordinate_scale(k, unit) * at.g[k] if at.free[k] else 0.0
        # The length: given, Buss's, or by Armijo's rule
        if method in (TRANSPOSE_FIXED, TRANSPOSE_BUSS):
            length = way.length if method == TRANSPOSE_FIXED else compute_buss_length(at, unit)
            change = retract(layout, space, state, length * at.step, trial, at.taken)
            new_cost, along = evaluate_state(layout, space, goals, trial), inner_product(at.g, at.taken)
            evaluations += 1
        else:
            length = 1.0
            if iteration > 1:
                length = initial_step_length(method, won, at.taken, bend, inner_product(at.g, at.step), unit)
            new_cost, length, tries, along = search_armijo(layout, space, goals, state, cost, length, trial, at)
            evaluations += tries
            change = 0.0
            for k in range(n):
                change = max(change, abs(at.taken[k]))
            if length == 0.0:
                status = STATIONARY
                break
        if not new_cost < DIVERGED:
            break
        # The new pose
        won = cost - new_cost
        copy_state(trial, state)
        cost = new_cost
        if iteration <= history.shape[0]:
            history[iteration - 1, 0], history[iteration - 1, 1] = cost, length
            history[iteration - 1, 2], history[iteration - 1, 3] = along, change
        # A transpose of fixed length may climb: the best pose is kept
        if cost < lowest:
            lowest = cost
            copy_state(state, best)
        if change < 1e-10:
            status = STATIONARY
            break
    pose.root[:], pose.wxyz[:], pose.x[:], pose.errors[:] = best.root, best.wxyz, best.x, best.errors
    if is_all_reached(tolerances, goals.active, pose.errors) and (status == STATIONARY or not stop.seek_optimum):
        status = REACHED
    return status, iteration, evaluations, lowest, gradient


FLAT = 1e-9  # [-] a projected gradient below this part of 1 + objective is zero


def solve_quasi_newton(run: SolverInputs, guess: Guess, method: str) -> SolverOutcome:
    r"""Minimise f = e^T W e by BFGS under bounds on rotation vectors; rows of the history end with the fallbacks.

    ``"active-set-qn"``: the direction is that of the free coordinates, and the step ends at the first bound that it
    meets, which becomes active ([Engell2012]_ §3, after Zhao and Badler). ``"projected-bfgs"``: the step
    :math:`P(\theta - \tau H g)`. A projected quasi-Newton direction may lead up ([Engell2012]_ §3); then the
    slope is taken instead, and counted.

    Raises:
        InputError: in the space of a model, or with a pose task.
    """
    p = run.problem
    if run.space is not None or p.layout.springs.stiffness.any():
        raise InputError(f"'{method}' works on a skeleton, without PoseTask", "Use 'projected-lm'")
    body = TypedBody(p.skeleton, {}, guess.root, guess.wxyz, p.layout.springs.mobility, p.layout.box)
    z, low, high = body.start.copy(), body.low, body.high
    e, r, columns = body.linearise(p, run.targets, run.active, z)
    cost, g, inverse = float(r @ r), -2.0 * columns.T @ r, np.eye(len(z))
    e_new, r_new = e, r
    stop, tries, fallbacks, slope, count = OUT_OF_ITERATIONS, 1, 0, 0.0, 0
    for count in range(run.max_iterations + 1):
        if (np.sqrt((e**2).sum(axis=1)) <= p.layout.blocks.tolerances).all():
            stop = REACHED
            break
        free = (low < high) & ~((z <= low) & (g > 0.0)) & ~((z >= high) & (g < 0.0))
        slope = float(np.abs(g[free]).max(initial=1e-300))
        if slope < FLAT * (1.0 + cost) or count == run.max_iterations:
            stop = STATIONARY if slope < FLAT * (1.0 + cost) else stop
            break
        # The direction: of the free coordinates alone, or of all of them and projected
        d = -inverse @ np.where(free, g, 0.0) if method == "active-set-qn" else -inverse @ g
        if method == "active-set-qn":
            d[~free] = 0.0
        trial = np.clip(z + d, low, high)
        is_down = d @ g < 0.0 if method == "active-set-qn" else (trial - z) @ g < 0.0
        if not is_down:
            d, fallbacks, inverse = np.where(free, -g, 0.0), fallbacks + 1, np.eye(len(z))
        if method == "active-set-qn":
            # Length of the step at which the first coordinate meets a bound
            with np.errstate(divide="ignore", invalid="ignore"):
                room = np.where(d > 0.0, (high - z) / d, np.where(d < 0.0, (low - z) / d, np.inf))
            ahead = room[np.isfinite(room) & (room > 0.0)]
            longest = float(ahead.min(initial=np.inf))
        else:
            longest = 1.0
        length, found = min(1.0, longest), False
        while length >= MIN_STEP:
            trial = np.clip(z + length * d, low, high)
            e_new, r_new, columns = body.linearise(p, run.targets, run.active, trial)
            tries += 1
            if float(r_new @ r_new) < cost + ARMIJO_DECREASE * float(g @ (trial - z)):
                found = True
                break
            length *= BACKTRACK_FACTOR
        if not found:
            if (np.eye(len(z)) == inverse).all():
                stop = STATIONARY
                break
            inverse = np.eye(len(z))
            continue
        # BFGS update of the inverse, where the curvature is positive
        g_new = -2.0 * columns.T @ r_new
        s, y = trial - z, g_new - g
        if s @ y > 1e-12 * float(np.linalg.norm(s) * np.linalg.norm(y)):
            inverse = (s @ y) / (y @ y) * np.eye(len(z)) if count == 0 else inverse
            V = np.eye(len(z)) - np.outer(s, y) / (s @ y)
            inverse = V @ inverse @ V.T + np.outer(s, s) / (s @ y)
        z, e, cost, g = trial, e_new, float(r_new @ r_new), g_new
        run.history[count : count + 1] = (cost, slope, length, fallbacks)  # nowhere, when no history is kept
    pose = body.pose(z)
    guess.root[:], guess.wxyz[:], run.errors[:] = pose.root, pose.wxyz, e
    return SolverOutcome(stop, count, tries, cost, slope)
