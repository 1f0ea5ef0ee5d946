"""The compiled Levenberg-Marquardt loop of inverse kinematics, with a choice of steps.

One loop linearises, takes a step, judges it and changes the damping. Which step it takes depends on its arguments:

========  ==========  ===================================================================================
step      ``bounds``
========  ==========  ===================================================================================
``dual``  none        full space, one small system for all joints; boxes of the layout by an active set
``dual``  given       the same under limits of any kind, the active set found from their projections
dense     none        full space or that of a model: Marquardt, dogleg, DLS, truncated inverse
dense     given       Marquardt in the space of a model; violations of the limits are rows with a weight
========  ==========  ===================================================================================

The compiler drops the branches of arguments that are ``None``, so each combination is a kernel of its own size.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from marey.base import FloatArray, inline_kernel, kernel
from marey.kinematics.ik.active_set import (
    ActiveLimits,
    apply_box_step,
    copy_intervals,
    largest_free_gradient,
    largest_pose_change,
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
    LinearRows,
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
from marey.kinematics.limits.tables import Bounds, project_to_bounds

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


class DenseStep(NamedTuple):
    """Steps on the Jacobian of all coordinates."""

    space: ModelSpace
    method: int  # MARQUARDT, DOGLEG, DLS, PSEUDO_INVERSE, SVD_CLAMP or MEREDITH_MADDOCK
    option: float  # damping [m] of DLS, tolerance [m] of Meredith-Maddock, 1 for Marquardt's own relative damping
    penalty: float  # [1/rad²] weight of squared violations of bounds; 0 without bounds
    metric: FloatArray  # (n, n) of the damping, or (0, 0)


@kernel
def solve_damped(
    layout: IKLayout,
    bounds: Bounds | None,
    dual: DualStep | None,
    dense: DenseStep | None,
    goals: Goals,
    pose: PoseArrays,
    stop: StopRule,
    history: FloatArray,
) -> Outcome:
    """Iterate from a pose, which is overwritten by the answer; dual steps stay inside limits, dense ones press on them.

    Rows of ``history`` ``(H, 4)``, one for each accepted step: objective, projected gradient, damping, largest change;
    of dense steps: objective, damping or radius, decrease expected, largest change.

    SVD-clamp must be given a layout without boxes; it is clamped afterwards. On the curved sides of cones and fields
    steps get short long before the gradient is small: when the objective has hardly fallen in ``STALL_WINDOW``
    iterations, the pose counts as stationary.
    """
    joints, tolerances, seek_optimum = pose.wxyz.shape[0], layout.blocks.tolerances, stop.seek_optimum
    state = new_state(layout, pose.root, pose.wxyz, pose.x)
    trial = new_state(layout, pose.root, pose.wxyz, pose.x)
    best, wall, met = state, new_limit_violation(0), new_limit_violation(0)
    limited = joints if bounds is not None or dense is not None or layout.box.boxed.any() else 0
    rows, step = new_rows(layout, limited, pose.x.shape[0]), new_step_buffers(layout, limited)
    face, at = new_active_limits(layout, limited), new_dense_model(0, 0)
    cost = bent = new_cost = new_bent = gradient = violation = change = decrease = quality = second = third = 0.0
    damping, radius, most_damping, is_worse, is_guarded, is_still = 0.0, 1.0, MAX_DAMPING, False, True, False
    whole = layout.box
    flat, stalled = (GRADIENT_TOL, STALL_DECREASE_OPTIMUM) if seek_optimum else (LOOSE_GRADIENT_TOL, STALL_DECREASE)

    # The start: inside the limits, its objective, the first damping
    if dual is not None:
        if bounds is not None:
            project_to_bounds(bounds, state.wxyz)
        else:
            project_to_box(layout.box, state.wxyz, state.vectors)
            if dual.keeps_regions:
                layout = copy_intervals(layout)
                narrow_to_regions(whole, layout.box, face.is_narrow, state)
        cost, bent = evaluate_parts(layout, goals, state)
        damping = dual.start_damping * cost
    elif dense is not None:
        best, is_guarded = new_state(layout, pose.root, pose.wxyz, pose.x), dense.method in (MARQUARDT, DOGLEG)
        size, goal_rows = num_coordinates(layout, dense.space), 3 * len(tolerances)
        if dense.space.is_reduced:
            # One row more, for the ellipsoid of the coordinates
            project_coordinates(dense.space, state.x)
            goal_rows += 1
        if bounds is not None:
            at, wall, met = (
                new_dense_model(goal_rows + joints, size),
                new_limit_violation(joints),
                new_limit_violation(joints),
            )
            cost = evaluate_state(layout, dense.space, goals, state)
            cost += evaluate_violations(bounds, dense.penalty, state, wall)
            violation = wall.over.max()
        else:
            at = new_dense_model(goal_rows, size)
            cost = project_and_evaluate(layout, dense.space, goals, state)
        copy_state(state, best)
        damping = 1e-3 if dense.option > 0.0 and dense.method == MARQUARDT else 1e-2 * max(cost, 1e-6)
        most_damping = MAX_DENSE_DAMPING * max(1.0, dense.penalty)
    lowest, before, is_drawn = cost, cost, has_springs(layout.springs)
    status, iteration, evaluations, accepted, rejected, is_new = OUT_OF_ITERATIONS, 0, 1, 0, 0, True

    while True:
        # A new pose: is it good enough, how do the blocks move, does any step lead down?
        if is_new:
            if not seek_optimum and violation <= ALLOWED_RAD and is_all_reached(tolerances, goals.active, state.errors):
                break
            if dual is not None:
                linearise(layout, goals, state, rows)
                if bounds is not None:
                    compute_descent(layout, state, rows, step.slopes)
                elif limited > 0 or seek_optimum or iteration >= MAX_REJECTED_STEPS:
                    gradient = compute_box_gradient(layout, state, rows, face, step.slopes)
                    if gradient < flat * (1.0 + cost):
                        status = STATIONARY
                        break
            elif dense is not None:
                gradient = linearise_objective(layout, dense.space, goals, state, rows, at)
                if bounds is not None:
                    gradient = write_violation_rows(dense.penalty, wall, rows, at)
                if gradient < DENSE_GRADIENT_TOL * (1.0 + cost):
                    status = STATIONARY
                    break
        if iteration >= stop.max_iterations:
            break
        iteration += 1

        # The step, the decrease that its linear model expects, the pose after it and its objective
        if dual is not None:
            damping = min(max(damping, MIN_DAMPING), MAX_DAMPING)
            expected = solve_active_set_step(layout, bounds, damping, state, rows, face, step, trial)
            if is_drawn:
                change = predict_prior_change(layout.springs, face.is_bound, face.held, rows.frames, state.pulls, step)
                expected += bent + change
            decrease = cost - expected
            if bounds is not None:
                # Only now is it known which limits are active, and so what the projected gradient is
                gradient = largest_free_gradient(layout, face, step, rows.frames)
                is_window = iteration % STALL_WINDOW == 0
                if gradient < flat * (1.0 + cost) or (is_window and cost > (1.0 - stalled) * before):
                    status = STATIONARY
                    break
                before = cost if is_window else before
                for c in range(3):
                    trial.root[c] = state.root[c] + step.ease[joints] * step.torques[joints, c]
                change = largest_pose_change(state, trial)
            else:
                change = apply_box_step(layout.box, face, step, state, trial)
            new_cost, new_bent = evaluate_parts(layout, goals, trial)
        elif dense is not None:
            compute_step(dense.method, dense.option, damping, radius, at, dense.metric)
            change = retract(layout, dense.space, state, at.step, trial, at.taken)
            decrease = predict_decrease(at)
            new_cost = evaluate_state(layout, dense.space, goals, trial)
            if bounds is not None:
                new_cost += evaluate_violations(bounds, dense.penalty, trial, met)
            elif not new_cost < DIVERGED:
                evaluations += 1
                break
        evaluations += 1

        # The judgement: a step that wins nothing is tried again with more damping
        won = cost - new_cost
        if dual is not None:
            quality, is_worse = won / max(decrease, 1e-300), not new_cost < cost
        elif dense is not None:
            quality = won / decrease if decrease > 0.0 else -1.0
            is_worse = is_guarded and (not won > 0.0 or (dense.method == DOGLEG and quality < 1e-4))
        if is_worse:
            is_new, rejected, radius = False, rejected + 1, 0.25 * radius
            damping *= 4.0 if dual is None else 8.0 if rejected < 2 else 64.0
            if change < 1e-12 or damping > most_damping:
                status = STATIONARY
                break
            continue

        # Nielsen's rule: the better the linear model, the less damping
        damping *= max(0.1, 1.0 - (2.0 * quality - 1.0) ** 3)
        state, trial = trial, state
        cost, bent, rejected, is_new = new_cost, new_bent, 0, True
        is_kept = dual is not None and bounds is None and dual.keeps_regions
        # Borders of regions move with the other coordinates
        if is_kept and narrow_to_regions(whole, layout.box, face.is_narrow, state):
            cost, bent = evaluate_parts(layout, goals, state)
        is_still = is_guarded and won < MIN_DECREASE * cost and change < MIN_STEP
        second, third = gradient, damping
        if dense is not None:
            damping = max(damping, MIN_DENSE_DAMPING)
            radius *= 0.5 if quality < 0.25 else 2.0 if quality > 0.75 else 1.0
            second, third = radius if dense.method == DOGLEG else damping, decrease
            is_still = is_still or change < 1e-10
            if bounds is not None:
                wall.over[:], wall.push[:] = met.over, met.push
                violation = wall.over.max()
            if cost < lowest:
                lowest = cost
                copy_state(state, best)
        if accepted < history.shape[0]:
            history[accepted, 0], history[accepted, 1] = cost, second
            history[accepted, 2], history[accepted, 3] = third, change
        accepted += 1
        if is_still:
            status = STATIONARY
            break

    # The answer: the best pose, and whether it is one that was asked for
    if dense is not None:
        state, cost = best, lowest
    elif bounds is not None and project_to_bounds(bounds, state.wxyz) > 0.0:
        # Where cells of a field meet, one projection may leave a little over
        cost = evaluate_pose(layout, goals, state)
    is_met = violation <= ALLOWED_RAD and is_all_reached(tolerances, goals.active, state.errors)
    if is_met and (status == STATIONARY or not seek_optimum):
        status = REACHED
    if dual is not None and bounds is None and status != REACHED:
        linearise(layout, goals, state, rows)
        gradient = compute_box_gradient(layout, state, rows, face, step.slopes)
    pose.root[:], pose.wxyz[:], pose.x[:], pose.errors[:] = state.root, state.wxyz, state.x, state.errors
    return status, iteration, evaluations, cost, gradient, violation


@inline_kernel
def compute_box_gradient(
    layout: IKLayout, state: IKState, rows: LinearRows, face: ActiveLimits, slopes: FloatArray
) -> float:
    """Write half the descent of a linearised pose and the coordinates that may move; return the projected gradient."""
    compute_descent(layout, state, rows, slopes)
    return release_coordinates(layout, state, slopes, face)


@kernel
def propose_step(
    layout: IKLayout, goals: Goals, pose: PoseArrays, damping: float
) -> tuple[FloatArray, FloatArray, float]:
    """One damped step without limits: the new root, the new rotations, and the largest slope at the old pose."""
    state, trial = new_state(layout, pose.root, pose.wxyz, pose.x), new_state(layout, pose.root, pose.wxyz, pose.x)
    rows, step, face = new_rows(layout, 0, 0), new_step_buffers(layout, 0), new_active_limits(layout, 0)
    evaluate_pose(layout, goals, state)
    linearise(layout, goals, state, rows)
    gradient = compute_box_gradient(layout, state, rows, face, step.slopes)
    solve_active_set_step(layout, None, min(max(damping, MIN_DAMPING), MAX_DAMPING), state, rows, face, step, trial)
    apply_box_step(layout.box, face, step, state, trial)
    return trial.root, trial.wxyz, gradient


@kernel
def solve_pose(
    fields: tuple[Any, ...],
    bounds: Bounds | None,
    goals: tuple[Any, ...],
    pose: tuple[Any, ...],
    stop: tuple[Any, ...],
    dual: tuple[float, bool],
    history: FloatArray,
) -> Outcome:
    """Dual steps of :func:`solve_damped` for calls from Python: plain tuples of the same fields cost it 10 µs less.

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
    return solve_damped(
        layout, bounds, DualStep(*dual), None, Goals(*goals), PoseArrays(*pose), StopRule(*stop), history
    )
