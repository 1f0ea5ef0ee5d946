"""The compiled Levenberg-Marquardt loops of inverse kinematics: linearise, step, judge, change the damping.

======================  ==========  ================================================================================
loop                    ``bounds``
======================  ==========  ================================================================================
``solve_dual_steps``    none        full space, a small system for all joints; boxes, regions by an active set
``solve_dual_steps``    given       the same under limits of any kind, an active set found from projections
``solve_dense_steps``   none        full space or that of a model: Marquardt, dogleg, DLS, truncated inverse
``solve_dense_steps``   given       Marquardt in the space of a model; violated limits are rows with a weight
======================  ==========  ================================================================================

The compiler drops the branches of arguments that are ``None``, so each combination is a kernel of its own size.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from marey.base import FloatArray, inline_kernel, kernel, patient_kernel
from marey.kinematics.ik.active_set import (
    ActiveLimits,
    along_axis,
    apply_box_step,
    narrow_to_regions,
    new_active_limits,
    project_to_box,
    release_coordinates,
    solve_active_set_step,
)
from marey.kinematics.ik.coordinates import (
    ModelSpace,
    evaluate_state,
    linearise_objective,
    new_dense_model,
    num_coordinates,
    project_and_evaluate,
    project_coordinates,
    retract,
)
from marey.kinematics.ik.dense_step import (
    DOGLEG,
    MARQUARDT,
    compute_step,
    evaluate_violations,
    new_limit_violation,
    predict_decrease,
    write_violation_rows,
)
from marey.kinematics.ik.dual_step import compute_descent, new_step_buffers, predict_prior_change
from marey.kinematics.ik.state import (
    DIVERGED,
    OUT_OF_ITERATIONS,
    REACHED,
    STATIONARY,
    CoordinateBox,
    Goals,
    IKLayout,
    IKState,
    JointArrays,
    KinematicChains,
    MassPoints,
    PoseArrays,
    PosePrior,
    TaskBlocks,
    copy_state,
    evaluate_parts,
    evaluate_pose,
    has_springs,
    is_all_reached,
    linearise,
    new_rows,
    new_state,
)
from marey.kinematics.limits.learn import Bounds, project_to_bounds

MIN_DECREASE = 1e-10  # [-] relative decrease of the objective below which nothing more is won
MIN_STEP = 1e-8  # [rad] or [m], the step that goes with it
GRADIENT_TOL = 1e-9  # [-] a projected gradient below this part of 1 + objective is zero, when an optimum is asked for
LOOSE_GRADIENT_TOL = 1e-5  # [-] the same for goals alone
DENSE_GRADIENT_TOL = 1e-10  # [-] the same for dense steps
MAX_REJECTED_STEPS = 10  # iterations after which goals are suspected to be out of reach
MIN_DAMPING, MAX_DAMPING = 1e-9, 1e9  # of dual steps
MIN_DENSE_DAMPING, MAX_DENSE_DAMPING = 1e-12, 1e12
STALL_WINDOW = 20  # iterations in which the objective has to fall by a part, or nothing more is to be expected
STALL_DECREASE, STALL_DECREASE_OPTIMUM = 2e-3, 1e-7  # [-] that part: goals alone; springs, whose optimum is asked for
LOOSE_PART = 0.03  # [-] of the objective at the start: the loose steps have done their part
ALLOWED_RAD = 1e-6  # [rad] a pose of a model is inside the limits to this

REGION_TOL_RAD = 1e-3  # [rad] a pose is inside coupled regions to this: their tables have steps of 0.01 rad

Outcome = tuple[int, int, int, float, float, float]
"""REACHED, STATIONARY or OUT_OF_ITERATIONS, iterations, evaluations, objective, projected gradient, violation [rad]"""


class StopRule(NamedTuple):
    """When the loop ends."""

    max_iterations: int  # most linear systems to solve
    seek_optimum: bool  # go on to a stationary point after all tolerances are met: there are springs or priorities


class DualStep(NamedTuple):
    """Steps of the full space by one small system for all joints."""

    start_damping: float  # first damping, as a part of the objective
    keeps_regions: bool  # coordinates stay in the regions of the box, too
    loose_steps: int = 0  # most of the first steps without the box, after which the pose is brought inside


class DenseStep(NamedTuple):
    """Steps on the Jacobian of all coordinates."""

    space: ModelSpace
    method: int  # MARQUARDT, DOGLEG, DLS, PSEUDO_INVERSE, SVD_CLAMP or MEREDITH_MADDOCK
    option: float  # damping [m] of DLS, tolerance [m] of Meredith-Maddock, 1 for Marquardt's own relative damping
    penalty: float  # [1/rad²] weight of squared violations of bounds; 0 without bounds
    metric: FloatArray  # (n, n) of the damping, or (0, 0)


@kernel
def solve_dual_steps(
    layout: IKLayout,
    bounds: Bounds | None,
    dual: DualStep,
    goals: Goals,
    pose: PoseArrays,
    stop: StopRule,
    history: FloatArray,
) -> Outcome:
    """Iterate from a pose, which is overwritten by the answer, by steps that stay inside the limits.

    Rows of ``history`` ``(H, 4)``, one for each accepted step: objective, projected gradient, damping, largest change.
    On the curved sides of cones and fields steps get short long before the gradient is small: when the objective has
    hardly fallen in ``STALL_WINDOW`` iterations, the pose counts as stationary.
    """
    joints, tolerances, seek_optimum = pose.wxyz.shape[0], layout.blocks.tolerances, stop.seek_optimum
    limited = joints if bounds is not None else 0
    for j in range(joints):
        limited = joints if layout.box.boxed[j] else limited
    # The pose that is kept, and the one that is judged: at first the start, inside the limits
    state, trial = new_state(layout, pose), new_state(layout, pose)
    rows, step, face = (
        new_rows(layout, limited, 0),
        new_step_buffers(layout, limited),
        new_active_limits(layout, limited),
    )
    flat, stalled = (GRADIENT_TOL, STALL_DECREASE_OPTIMUM) if seek_optimum else (LOOSE_GRADIENT_TOL, STALL_DECREASE)
    # Most of the way to goals far away takes a third of the time without the box, and need not be inside
    is_loose = dual.loose_steps > 0 and limited > 0 and not seek_optimum and stop.max_iterations > dual.loose_steps
    moving = face.is_moving.copy()
    if is_loose:
        face.is_moving[:] = False
    else:
        project_start(layout, bounds, dual, face, trial)
    cost, bent, damping, gradient, before, won, change, expected = np.inf, 0.0, 0.0, 0.0, np.inf, 0.0, 0.0, 0.0
    status, iteration, evaluations, accepted, rejected = OUT_OF_ITERATIONS, 0, 0, 0, 0
    is_drawn, is_moved, is_settled = has_springs(layout.springs), False, False

    # Each of the large steps stands here once: the compiler copies it to wherever it is called
    while True:
        if is_loose and (iteration >= dual.loose_steps or cost < LOOSE_PART * before):
            project_start(layout, bounds, dual, face, trial)
            face.is_moving[:], is_loose, is_settled, cost = moving, False, False, np.inf
        new_cost, new_bent = evaluate_parts(layout, goals, trial)
        evaluations += 0 if is_moved else 1
        is_first = cost == np.inf
        is_new = is_moved or is_first or new_cost < cost
        if is_first:
            damping, before = dual.start_damping * new_cost, new_cost
        elif not is_new:
            # A step that wins nothing is tried again with more damping
            rejected += 1
            damping *= 8.0 if rejected < 2 else 64.0
            is_settled = change < 1e-12 or damping > MAX_DAMPING
        elif not is_moved:
            # Nielsen's rule: the better the model, the less damping
            won, rejected = cost - new_cost, 0
            away = 2.0 * won / max(cost - expected, 1e-300) - 1.0
            damping *= max(0.1, 1.0 - away * away * away)
            # Borders of regions move with the other coordinates, and the pose with them
            is_moved = dual.keeps_regions and not is_loose and narrow_to_regions(layout.box, face, trial)
            if is_moved:
                continue
        if is_new:
            state, trial = trial, state
            cost, bent, is_moved = new_cost, new_bent, False
            if not is_first:
                accepted = write_history(history, accepted, (cost, gradient, damping, change))
                is_settled = won < MIN_DECREASE * cost and change < MIN_STEP
            if not (seek_optimum or is_loose) and is_all_reached(tolerances, goals.active, state.errors):
                break

        # How the blocks move; does any step lead down?
        is_last = iteration >= stop.max_iterations
        if is_new or is_settled or is_last:
            linearise(layout, goals, state, rows)
            is_limited = limited > 0 and not is_loose
            if is_limited or seek_optimum or is_settled or is_last or iteration >= MAX_REJECTED_STEPS:
                compute_descent(layout, state, rows, step.slopes)
                if bounds is None:
                    gradient = release_coordinates(layout, state, step.slopes, face)
                    is_settled |= gradient < flat * (1.0 + cost)
        if (is_settled or is_last) and not is_loose:
            status = STATIONARY if is_settled else OUT_OF_ITERATIONS
            break
        iteration += 1

        # The step, what its linear model expects, and the pose after it
        damping = min(max(damping, MIN_DAMPING), MAX_DAMPING)
        expected = solve_active_set_step(layout, bounds, damping, state, rows, face, step, trial)
        if is_drawn:
            springs, pulls = layout.springs, state.pulls
            expected += bent + predict_prior_change(springs, face.is_bound, face.held, rows.frames, pulls, step)
        if bounds is not None:
            # Only now is it known which limits are active, and so what the projected gradient is
            gradient = compute_projected_gradient(layout, face, rows.frames, step.slopes)
            is_window = iteration % STALL_WINDOW == 0
            if gradient < flat * (1.0 + cost) or (is_window and cost > (1.0 - stalled) * before):
                status = STATIONARY
                break
            before = cost if is_window else before
            for c in range(3):
                trial.root[c] = state.root[c] + step.ease[joints] * step.torques[joints, c]
            change = compute_largest_change(state, trial)
        else:
            change = apply_box_step(layout.box, face, step, state, trial)

    # The answer, and whether it is what was asked for
    if bounds is not None and project_to_bounds(bounds, state.wxyz) > 0.0:
        # Where cells of a field meet, one projection may leave a little over
        cost = evaluate_pose(layout, goals, state)
    if is_all_reached(tolerances, goals.active, state.errors) and (status == STATIONARY or not seek_optimum):
        status = REACHED
    write_answer(state, pose)
    return status, iteration, evaluations, cost, gradient, 0.0


@inline_kernel
def project_start(layout: IKLayout, bounds: Bounds | None, dual: DualStep, face: ActiveLimits, start: IKState) -> None:
    """Bring the first pose inside the limits."""
    if bounds is not None:
        project_to_bounds(bounds, start.wxyz)
    else:
        project_to_box(layout.box, start.wxyz, start.vectors)
        if dual.keeps_regions:
            narrow_to_regions(layout.box, face, start)


@inline_kernel
def write_answer(state: IKState, pose: PoseArrays) -> None:
    """Overwrite a pose and its errors by those of a state."""
    for c in range(3):
        pose.root[c] = state.root[c]
        for b in range(pose.errors.shape[0]):
            pose.errors[b, c] = state.errors[b, c]
    for j in range(pose.wxyz.shape[0]):
        for c in range(4):
            pose.wxyz[j, c] = state.wxyz[j, c]


@inline_kernel
def compute_projected_gradient(layout: IKLayout, face: ActiveLimits, frames: FloatArray, slopes: FloatArray) -> float:
    """Largest component of the gradient of the whole objective along what no limit holds."""
    gradient, last = 0.0, frames.shape[0]
    for j in range(last + 1):
        if layout.springs.mobility[j] == 0.0:
            continue
        for k in range(3):
            if j == last:
                gradient = max(gradient, 2.0 * abs(slopes[j, k]))
            elif face.loose[j, k]:
                gradient = max(gradient, 2.0 * abs(along_axis(frames, j, k, slopes)))
    return gradient


@inline_kernel
def compute_largest_change(before: IKState, after: IKState) -> float:
    """Largest change of the root's place [m] and of a joint's rotation [rad] between two poses."""
    change = 0.0
    for c in range(3):
        change = max(change, abs(after.root[c] - before.root[c]))
    for j in range(before.wxyz.shape[0]):
        for c in range(4):
            change = max(change, 2.0 * abs(after.wxyz[j, c] - before.wxyz[j, c]))
    return change


@kernel
def solve_dense_steps(
    layout: IKLayout,
    bounds: Bounds | None,
    dense: DenseStep,
    goals: Goals,
    pose: PoseArrays,
    stop: StopRule,
    history: FloatArray,
) -> Outcome:
    """Iterate from a pose, which is overwritten by the best one, by steps that press on limits.

    Rows of ``history`` ``(H, 4)``, one for each accepted step: objective, damping or radius, decrease expected, largest
    change. SVD-clamp must be given a layout without boxes; it is clamped afterwards.
    """
    joints, tolerances, seek_optimum = pose.wxyz.shape[0], layout.blocks.tolerances, stop.seek_optimum
    state, trial, best = new_state(layout, pose), new_state(layout, pose), new_state(layout, pose)
    rows = new_rows(layout, joints, pose.x.shape[0])
    is_guarded, size, goal_rows = (
        dense.method in (MARQUARDT, DOGLEG),
        num_coordinates(layout, dense.space),
        3 * len(tolerances),
    )

    # The start: its objective, with the violations of limits, and the first damping
    if dense.space.is_reduced:
        # One row more, for the ellipsoid of the coordinates
        project_coordinates(dense.space, state.x)
        goal_rows += 1
    walls = joints if bounds is not None else 0
    at, wall, met = new_dense_model(goal_rows + walls, size), new_limit_violation(walls), new_limit_violation(walls)
    violation = 0.0
    if bounds is not None:
        cost = evaluate_state(layout, dense.space, goals, state)
        cost += evaluate_violations(bounds, dense.penalty, state, wall)
        violation = wall.over.max()
    else:
        cost = project_and_evaluate(layout, dense.space, goals, state)
    copy_state(state, best)
    damping = 1e-3 if dense.option > 0.0 and dense.method == MARQUARDT else 1e-2 * max(cost, 1e-6)
    most_damping, radius, gradient, lowest = MAX_DENSE_DAMPING * max(1.0, dense.penalty), 1.0, 0.0, cost
    status, iteration, evaluations, accepted, is_new = OUT_OF_ITERATIONS, 0, 1, 0, True

    while True:
        # A new pose: is it good enough, how do the blocks move, does any step lead down?
        if is_new:
            if not seek_optimum and violation <= ALLOWED_RAD and is_all_reached(tolerances, goals.active, state.errors):
                break
            gradient = linearise_objective(layout, dense.space, goals, state, rows, at)
            if bounds is not None:
                gradient = write_violation_rows(dense.penalty, wall, rows, at)
            if gradient < DENSE_GRADIENT_TOL * (1.0 + cost):
                status = STATIONARY
                break
        if iteration >= stop.max_iterations:
            break
        iteration, evaluations = iteration + 1, evaluations + 1

        # The step, the decrease that its linear model expects, the pose after it and its objective
        compute_step(dense.method, dense.option, damping, radius, at, dense.metric)
        change = retract(layout, dense.space, state, at.step, trial, at.taken)
        decrease = predict_decrease(at)
        new_cost = evaluate_state(layout, dense.space, goals, trial)
        if bounds is not None:
            new_cost += evaluate_violations(bounds, dense.penalty, trial, met)
        elif not new_cost < DIVERGED:
            break

        # A step that wins nothing is tried again with more damping; Nielsen's rule: the better the model, the less
        won = cost - new_cost
        quality = won / decrease if decrease > 0.0 else -1.0
        if is_guarded and (not won > 0.0 or (dense.method == DOGLEG and quality < 1e-4)):
            is_new, radius, damping = False, 0.25 * radius, 4.0 * damping
            if change < 1e-12 or damping > most_damping:
                status = STATIONARY
                break
            continue
        damping = max(damping * max(0.1, 1.0 - (2.0 * quality - 1.0) ** 3), MIN_DENSE_DAMPING)
        radius *= 0.5 if quality < 0.25 else 2.0 if quality > 0.75 else 1.0
        state, trial = trial, state
        cost, is_new = new_cost, True
        if bounds is not None:
            wall.over[:], wall.push[:] = met.over, met.push
            violation = wall.over.max()
        if cost < lowest:
            lowest = cost
            copy_state(state, best)
        size_of_step = radius if dense.method == DOGLEG else damping
        accepted = write_history(history, accepted, (cost, size_of_step, decrease, change))
        if change < 1e-10 or (is_guarded and won < MIN_DECREASE * cost and change < MIN_STEP):
            status = STATIONARY
            break

    # The answer: the best pose, and whether it is one that was asked for
    is_met = violation <= ALLOWED_RAD and is_all_reached(tolerances, goals.active, best.errors)
    if is_met and (status == STATIONARY or not seek_optimum):
        status = REACHED
    pose.root[:], pose.wxyz[:], pose.x[:], pose.errors[:] = best.root, best.wxyz, best.x, best.errors
    return status, iteration, evaluations, lowest, gradient, violation


@inline_kernel
def write_history(history: FloatArray, row: int, values: tuple[float, float, float, float]) -> int:
    """Write a row, if there is room; return the next."""
    if row < history.shape[0]:
        for c in range(4):
            history[row, c] = values[c]
    return row + 1


@kernel
def propose_step(
    layout: IKLayout, goals: Goals, pose: PoseArrays, damping: float
) -> tuple[FloatArray, FloatArray, float]:
    """One damped step without limits: the new root, the new rotations, and the largest slope at the old pose."""
    state, trial = new_state(layout, pose), new_state(layout, pose)
    rows, step, face = new_rows(layout, 0, 0), new_step_buffers(layout, 0), new_active_limits(layout, 0)
    evaluate_pose(layout, goals, state)
    linearise(layout, goals, state, rows)
    compute_descent(layout, state, rows, step.slopes)
    gradient = release_coordinates(layout, state, step.slopes, face)
    solve_active_set_step(layout, None, min(max(damping, MIN_DAMPING), MAX_DAMPING), state, rows, face, step, trial)
    apply_box_step(layout.box, face, step, state, trial)
    return trial.root, trial.wxyz, gradient


@patient_kernel
def solve_pose(
    fields: tuple[Any, ...],
    bounds: Bounds | None,
    goals: tuple[Any, ...],
    pose: tuple[Any, ...],
    stop: tuple[Any, ...],
    dual: tuple[float, bool],
    history: FloatArray,
) -> Outcome:
    """:func:`solve_dual_steps` for calls from Python: plain tuples of the same fields cost it 10 µs less.

    ``fields`` holds a tuple for each part of the layout.
    """
    tree, blocks, lists, mass, springs, box = fields
    layout = IKLayout(
        JointArrays(*tree),
        TaskBlocks(*blocks),
        KinematicChains(*lists),
        MassPoints(*mass),
        PosePrior(*springs),
        CoordinateBox(*box),
    )
    goal, place = Goals(*goals), PoseArrays(*pose)
    return solve_dual_steps(layout, bounds, DualStep(*dual), goal, place, StopRule(*stop), history)
