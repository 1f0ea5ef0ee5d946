"""Compiled Levenberg-Marquardt in the space of a pose model, inside joint limits: violations stand behind walls."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, kernel
from marey.kinematics.ik.coordinates import (
    IKState,
    LinearRows,
    ModelSpace,
    copy_state,
    evaluate_state,
    linearise_objective,
    new_rows,
    new_state,
    num_coordinates,
    retract,
)
from marey.kinematics.ik.full_space import OUT_OF_ITERATIONS, REACHED, STATIONARY, is_all_reached
from marey.kinematics.ik.reduced import limit_state_step, predict_decrease, solve_damped_step
from marey.kinematics.ik.state import IKLayout, SpeedLimits
from marey.kinematics.limits.tables import Bounds, check_bounds

PENALTY_FACTORS = (1.0, 1e3, 1e6, 1e8)  # [-] of the first; goals 10 m away press a joint 1e-7 rad into the last
ALLOWED_RAD = 1e-6  # [rad] a pose of a model is inside the limits to this


class LimitViolation(NamedTuple):
    """How far the joints of a pose are outside their limits."""

    over: FloatArray  # (J,) [rad]
    push: FloatArray  # (J, 3) [rad] gradient of half its square, in the joint's own axes


class StepModel(NamedTuple):
    """Arrays of one linear model, m rows of goals and one for each joint, n coordinates."""

    J: FloatArray  # (m + J, n)
    e: FloatArray  # (m + J,)
    H: FloatArray  # (n, n)
    g: FloatArray  # (n,) slope
    s: FloatArray  # (n,) springs
    step: FloatArray  # (n,)
    taken: FloatArray  # (n,)
    free: BoolArray  # (n,)


@kernel
def new_step_model(m: int, n: int) -> StepModel:
    """Room for a linear model of m rows and n coordinates."""
    rows, square, free = np.zeros((m, n)), np.zeros((n, n)), np.ones(n, dtype=np.bool_)
    return StepModel(rows, np.zeros(m), square, np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), free)


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
def write_violation_rows(
    weight: float, wall: LimitViolation, rows: LinearRows, first: int, J: FloatArray, e: FloatArray, g: FloatArray
) -> None:
    """Write a row for each joint's violation from row ``first`` on, its weight taken in; add its slope to g."""
    root_weight = np.sqrt(weight)
    for j in range(wall.over.shape[0]):
        row = first + j
        J[row], e[row] = 0.0, -root_weight * wall.over[j]
        if wall.over[j] == 0.0:
            continue
        for c in range(3):
            t = root_weight * wall.push[j, c] / wall.over[j]
            if j == 0:
                J[row, 3 + c] = t
            else:
                for k in range(rows.model.shape[2]):
                    J[row, 6 + k] += t * rows.model[j, c, k]
        for n in range(g.shape[0]):
            g[n] -= 2.0 * J[row, n] * e[row]


@kernel
def linearise_with_penalty(
    layout: IKLayout,
    space: ModelSpace,
    targets: FloatArray,
    active: BoolArray,
    state: IKState,
    rows: LinearRows,
    weight: float,
    wall: LimitViolation,
    at: StepModel,
) -> float:
    """Write the linear model of goals and walls; return the largest slope of what may move."""
    m, gradient = 3 * layout.blocks.kinds.shape[0], 0.0
    linearise_objective(layout, space, targets, active, state, rows, at.J[:m], at.e[:m], at.g, at.s, at.free)
    write_violation_rows(weight, wall, rows, m, at.J, at.e, at.g)
    for k in range(at.g.shape[0]):
        gradient = max(gradient, abs(at.g[k]) if at.free[k] else 0.0)
    return gradient


@kernel
def solve_penalised(
    layout: IKLayout,
    space: ModelSpace,
    bounds: Bounds,
    weight: float,
    targets: FloatArray,
    active: BoolArray,
    state: IKState,
    metric: FloatArray,
    max_iterations: int,
    seek_optimum: bool,
    is_relative: bool,
    history: FloatArray,
) -> tuple[int, int, int, float, float, float]:
    """Marquardt steps with one weight [1/rad²] of squared violations; the state is overwritten by the answer.

    Returns as ``solve_newton``, then the largest violation [rad].
    """
    joints = state.wxyz.shape[0]
    trial, rows = new_state(layout, state.root, state.wxyz, state.x), new_rows(layout, space)
    wall, met = new_limit_violation(joints), new_limit_violation(joints)
    at = new_step_model(3 * layout.blocks.kinds.shape[0] + joints, num_coordinates(layout, space))
    cost = evaluate_state(layout, space, targets, active, state) + evaluate_violations(bounds, weight, state, wall)
    damping, gradient = 1e-3 if is_relative else 1e-2 * max(cost, 1e-6), 0.0
    status, iteration, evaluations, accepted, is_new = OUT_OF_ITERATIONS, 0, 1, 0, True
    while iteration < max_iterations:
        if is_new:
            is_met = is_all_reached(layout.blocks.tolerances, active, state.errors) and wall.over.max() <= ALLOWED_RAD
            if is_met and not seek_optimum:
                break
            gradient = linearise_with_penalty(layout, space, targets, active, state, rows, weight, wall, at)
            if gradient < 1e-10 * (1.0 + cost):
                status = STATIONARY
                break
        iteration += 1
        solve_damped_step(at.J, at.g, at.s, at.free, damping, is_relative, metric, at.H, at.step)
        change = retract(layout, space, state, at.step, trial, at.taken)
        new_cost = evaluate_state(layout, space, targets, active, trial) + evaluate_violations(
            bounds, weight, trial, met
        )
        evaluations += 1
        expected, won = predict_decrease(at.J, at.e, at.g, at.s, at.taken), cost - new_cost
        if not won > 0.0:
            is_new = False
            damping *= 4.0
            if change < 1e-12 or damping > 1e12 * max(1.0, weight):
                status = STATIONARY
                break
            continue
        quality = won / expected if expected > 0.0 else -1.0
        damping = max(damping * max(0.1, 1.0 - (2.0 * quality - 1.0) ** 3), 1e-12)
        copy_state(trial, state)
        wall.over[:], wall.push[:], cost, is_new = met.over, met.push, new_cost, True
        if accepted < history.shape[0]:
            history[accepted, 0], history[accepted, 1] = cost, damping
            history[accepted, 2], history[accepted, 3] = expected, change
        accepted += 1
        if change < 1e-10 or (won < 1e-10 * cost and change < 1e-8):
            status = STATIONARY
            break
    violation = wall.over.max()
    is_met = is_all_reached(layout.blocks.tolerances, active, state.errors) and violation <= ALLOWED_RAD
    if is_met and (status == STATIONARY or not seek_optimum):
        status = REACHED
    return status, iteration, evaluations, cost, gradient, violation


@kernel
def solve_penalised_clip(
    layout: IKLayout,
    space: ModelSpace,
    bounds: Bounds,
    first_weight: float,
    targets: FloatArray,
    active: BoolArray,
    root: FloatArray,
    wxyz: FloatArray,
    x: FloatArray,
    metric: FloatArray,
    max_iterations: int,
    seek_optimum: bool,
    is_relative: bool,
    pace: SpeedLimits,
    history: FloatArray,
    roots: FloatArray,
    rotations: FloatArray,
    coordinates: FloatArray,
    errors: FloatArray,
    counts: FloatArray,
) -> int:
    """Solve frame after frame behind ever stiffer walls, each frame from the answer before.

    Overwrites ``root``, ``wxyz`` and ``x`` by the last answer, writes ``roots`` ``(F, 3)``, ``rotations``
    ``(F, J, 4)``, ``coordinates`` ``(F, k)``, ``errors`` ``(F, B, 3)`` and ``counts`` ``(F, 6)``: how it ended,
    iterations, objective, projected gradient, violation [rad], 1 where the pose was held back. Returns the
    evaluations of all. One frame is a clip too.
    """
    state, last, total = new_state(layout, root, wxyz, x), new_state(layout, root, wxyz, x), 0
    wall = new_limit_violation(wxyz.shape[0])
    for f in range(targets.shape[0]):
        spent = 0
        copy_state(state, last)
        for stage in range(len(PENALTY_FACTORS)):
            stop, count, tries, cost, gradient, violation = solve_penalised(
                layout,
                space,
                bounds,
                first_weight * PENALTY_FACTORS[stage],
                targets[f],
                active[f],
                state,
                metric,
                max_iterations,
                seek_optimum,
                is_relative,
                history[spent:],
            )
            spent, total = spent + count, total + tries
            counts[f, 0], counts[f, 2], counts[f, 3], counts[f, 4] = stop, cost, gradient, violation
            if violation <= ALLOWED_RAD:
                break
        counts[f, 1] = spent
        if limit_state_step(layout, space, pace, targets, active, f, last, state, counts[f]):
            evaluate_violations(bounds, 1.0, state, wall)
            counts[f, 4] = wall.over.max()
        roots[f], rotations[f], coordinates[f], errors[f] = state.root, state.wxyz, state.x, state.errors
    root[:], wxyz[:], x[:] = state.root, state.wxyz, state.x
    return total
