"""Compiled projected Levenberg-Marquardt in the full space, under limits of any kind."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, kernel
from marey.kinematics._ik_dual_kernels import compute_descent, predict_prior_change
from marey.kinematics._ik_face_kernels import (
    ActiveLimits,
    StepBuffers,
    largest_free_gradient,
    largest_pose_change,
    new_active_limits,
    new_step_buffers,
    solve_limited_step,
)
from marey.kinematics._ik_kernels import (
    GRADIENT_TOL,
    LOOSE_GRADIENT_TOL,
    MAX_DAMPING,
    MIN_DAMPING,
    MIN_DECREASE,
    MIN_STEP,
    OUT_OF_ITERATIONS,
    REACHED,
    STATIONARY,
    is_all_reached,
)
from marey.kinematics._ik_layout import IKLayout
from marey.kinematics._ik_state_kernels import evaluate_prior, evaluate_residuals, forward_kinematics, linearise
from marey.kinematics._limits_all_kernels import project_to_bounds
from marey.kinematics._limits_tables import Bounds
from marey.kinematics._solvers_space_kernels import IKState, LinearRows, copy_state, new_state

STALL_WINDOW = 20  # iterations in which the objective has to fall by a part, or nothing more is to be expected
STALL_DECREASE, STALL_DECREASE_OPTIMUM = 2e-3, 1e-7  # [-] that part: goals alone; springs, whose optimum is asked for


@kernel
def solve_limited(
    layout: IKLayout,
    bounds: Bounds,
    targets: FloatArray,
    active: BoolArray,
    root: FloatArray,
    wxyz: FloatArray,
    errors: FloatArray,
    max_iterations: int,
    seek_optimum: bool,
    start_damping: float,
    history: FloatArray,
) -> tuple[int, int, int, float, float]:
    """As ``solve_full``, with every pose inside ``bounds``.

    On the curved sides of cones and fields steps get short long before the gradient is small: when the objective has
    hardly fallen in ``STALL_WINDOW`` iterations, the pose counts as stationary.
    """
    project_to_bounds(bounds, wxyz)
    state, trial = new_state(layout, root, wxyz, np.zeros(0)), new_state(layout, root, wxyz, np.zeros(0))
    rows, face, step = new_full_space_rows(layout), new_active_limits(wxyz.shape[0]), new_step_buffers(layout)
    cost = evaluate_pose(layout, targets, active, state)
    damping, gradient, evaluations, before = start_damping * cost, 0.0, 1, cost
    flat, stalled = (GRADIENT_TOL, STALL_DECREASE_OPTIMUM) if seek_optimum else (LOOSE_GRADIENT_TOL, STALL_DECREASE)
    status, iteration, accepted, rejected, is_new = OUT_OF_ITERATIONS, 0, 0, 0, True
    while iteration < max_iterations:
        if is_new:
            if not seek_optimum and is_all_reached(layout.blocks.tolerances, active, state.errors):
                break
            here, missing = state.positions, state.errors
            linearise(layout, targets, active, here, state.world, missing, state.places, rows.shifts, rows.turns)
            compute_descent(layout.blocks, layout.lists, missing, rows.shifts, rows.turns, state.pulls, step.slopes)
        iteration += 1
        damping = min(max(damping, MIN_DAMPING), MAX_DAMPING)
        expected = solve_limited_step(layout, bounds, damping, state, rows, face, step, trial)
        gradient = largest_free_gradient(layout, face, step, rows.frames)
        if gradient < flat * (1.0 + cost):
            status = STATIONARY
            break
        if iteration % STALL_WINDOW == 0:
            if cost > (1.0 - stalled) * before:
                status = STATIONARY
                break
            before = cost
        new_cost = evaluate_pose(layout, targets, active, trial)
        evaluations += 1
        change = largest_pose_change(state, trial)
        if not new_cost < cost:
            is_new = False
            rejected += 1
            damping *= 8.0 if rejected < 2 else 64.0
            if change < 1e-12 or damping > MAX_DAMPING:
                status = STATIONARY
                break
            continue
        won = cost - new_cost
        expected += (
            cost - compute_goal_cost(layout, state) + predict_limited_prior_change(layout, rows, face, step, state)
        )
        damping *= max(0.1, 1.0 - (2.0 * won / max(cost - expected, 1e-300) - 1.0) ** 3)
        copy_state(trial, state)
        cost, rejected, is_new = new_cost, 0, True
        if accepted < history.shape[0]:
            history[accepted, 0], history[accepted, 1] = cost, gradient
            history[accepted, 2], history[accepted, 3] = damping, change
        accepted += 1
        if won < MIN_DECREASE * cost and change < MIN_STEP:
            status = STATIONARY
            break
    if (
        project_to_bounds(bounds, state.wxyz) > 0.0
    ):  # where cells of a field meet, one projection may leave a little over
        cost = evaluate_pose(layout, targets, active, state)
    if is_all_reached(layout.blocks.tolerances, active, state.errors) and (status == STATIONARY or not seek_optimum):
        status = REACHED
    root[:], wxyz[:], errors[:] = state.root, state.wxyz, state.errors
    return status, iteration, evaluations, cost, gradient


@kernel
def new_full_space_rows(layout: IKLayout) -> LinearRows:
    """Room for a linearisation in the full space."""
    joints, blocks = layout.tree.parents.shape[0], layout.blocks.kinds.shape[0]
    turns = np.zeros((layout.lists.chain.shape[0], 3, 3))
    return LinearRows(np.zeros((blocks, 3, 3)), turns, np.zeros((joints, 3, 3)), np.zeros((0, 3, 0)))


@kernel
def predict_limited_prior_change(
    layout: IKLayout, rows: LinearRows, face: ActiveLimits, step: StepBuffers, state: IKState
) -> float:
    """Change of the springs' objective that a step expects."""
    springs_, walls, held = layout.springs, face.walls, face.held
    return predict_prior_change(springs_, walls, step.ease, step.G, rows.frames, held, state.pulls, step.torques)


@kernel
def evaluate_pose(layout: IKLayout, targets: FloatArray, active: BoolArray, state: IKState) -> float:
    """Work out everything from the pose and return the objective."""
    forward_kinematics(layout.tree, state.root, state.wxyz, state.positions, state.world)
    cost = evaluate_residuals(layout, targets, active, state.positions, state.world, state.errors, state.places)
    return cost + evaluate_prior(layout.springs, state.root, state.wxyz, state.world, state.pulls)


@kernel
def compute_goal_cost(layout: IKLayout, state: IKState) -> float:
    """Sum of e^T W e over the blocks: the objective without its springs."""
    total, W = 0.0, layout.blocks.weights
    for b in range(state.errors.shape[0]):
        for r in range(3):
            for c in range(3):
                total += state.errors[b, r] * W[b, r, c] * state.errors[b, c]
    return total


@kernel
def solve_limited_clip(
    layout: IKLayout,
    bounds: Bounds,
    targets: FloatArray,
    active: BoolArray,
    root: FloatArray,
    wxyz: FloatArray,
    max_iterations: int,
    seek_optimum: bool,
    start_damping: float,
    history: FloatArray,
    roots: FloatArray,
    rotations: FloatArray,
    errors: FloatArray,
    counts: FloatArray,
) -> int:
    """Solve frame after frame, each from the answer before; ``root`` and ``wxyz`` are overwritten by the last.

    Writes as ``follow_clip``, and returns the evaluations of all. One frame is a clip too.
    """
    tries = 0
    for f in range(targets.shape[0]):
        stop, count, evaluations, cost, gradient = solve_limited(
            layout,
            bounds,
            targets[f],
            active[f],
            root,
            wxyz,
            errors[f],
            max_iterations,
            seek_optimum,
            start_damping,
            history,
        )
        roots[f], rotations[f], tries = root, wxyz, tries + evaluations
        counts[f, 0], counts[f, 1], counts[f, 2], counts[f, 3] = stop, count, cost, gradient
    return tries
