"""Compiled projected Levenberg-Marquardt in the full space, under limits of any kind.

The faces that joints are pressed on are found from projections alone; the step is taken inside them.

A step that leaves a joint's set is brought back by the set's own projection. What the projection took away is the
outward normal there: along it the joint goes as far as the projection says, and the step is solved anew for all else,
so the other joints take over. It is the active set of the boxes, found from the projection alone.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, kernel
from marey.kinematics.ik.coordinates import IKState, LinearRows, copy_state, new_state
from marey.kinematics.ik.dual_step import (
    add_prior_shift,
    assemble_dual_matrix,
    compute_compliances,
    compute_descent,
    multiply_compliance,
    predict_prior_change,
    solve_dual_step,
)
from marey.kinematics.ik.full_space import (
    GRADIENT_TOL,
    LOOSE_GRADIENT_TOL,
    MAX_BINDINGS,
    MAX_DAMPING,
    MIN_DAMPING,
    MIN_DECREASE,
    MIN_STEP,
    OUT_OF_ITERATIONS,
    REACHED,
    STATIONARY,
    is_all_reached,
)
from marey.kinematics.ik.moves import subtract_fixed_shift
from marey.kinematics.ik.state import (
    IKLayout,
    RotationVectorBox,
    evaluate_prior,
    evaluate_residuals,
    forward_kinematics,
    linearise,
    rotate_vector,
)
from marey.kinematics.limits.tables import Bounds, check_bounds, project_to_bounds
from marey.lie.kernels import exponential, logarithm, product

BLOCKED_RAD = 1e-9  # [rad] less than this taken from a step is rounding


class ActiveLimits(NamedTuple):
    """Where the joints may go: an orthonormal basis of each, in its own frame, and which of its axes are loose."""

    axes: FloatArray  # (J, 3, 3) columns
    loose: BoolArray  # (J, 3)
    held: FloatArray  # (J, 3) [rad] how far along the others
    walls: RotationVectorBox  # ``boxed`` marks joints with an axis that is not loose


class StepBuffers(NamedTuple):
    """Scratch of one step."""

    torques: FloatArray  # (J + 1, 3)
    slopes: FloatArray  # (J + 1, 3) half the negative gradient, world axes
    ease: FloatArray  # (J + 1,)
    eased: FloatArray  # (N, 3, 3)
    G: FloatArray  # (J, 3, 3)
    S: FloatArray  # (3 B, 3 B)
    y: FloatArray  # (3 B,)


@kernel
def new_active_limits(joints: int) -> ActiveLimits:
    """A face on which every joint is free."""
    ends = np.zeros((0, 3))
    walls = RotationVectorBox(np.zeros(joints, dtype=np.bool_), ends, ends)
    return ActiveLimits(np.zeros((joints, 3, 3)), np.ones((joints, 3), dtype=np.bool_), np.zeros((joints, 3)), walls)


@kernel
def new_step_buffers(layout: IKLayout) -> StepBuffers:
    """Room for a step."""
    joints, blocks = layout.tree.parents.shape[0], layout.blocks.kinds.shape[0]
    return StepBuffers(
        np.zeros((joints + 1, 3)),
        np.zeros((joints + 1, 3)),
        np.zeros(joints + 1),
        np.zeros((layout.lists.chain.shape[0], 3, 3)),
        np.zeros((joints, 3, 3)),
        np.zeros((3 * blocks, 3 * blocks)),
        np.zeros(3 * blocks),
    )


@kernel
def release_all_limits(face: ActiveLimits) -> None:
    """Take all walls away."""
    face.loose[:], face.held[:], face.walls.boxed[:], face.axes[:] = True, 0.0, False, 0.0
    for j in range(face.axes.shape[0]):
        for c in range(3):
            face.axes[j, c, c] = 1.0


@kernel
def write_world_axes(face: ActiveLimits, world: FloatArray, j: int, frames: FloatArray) -> None:
    """Write the world axes of a joint's basis."""
    for c in range(3):
        x, y, z = rotate_vector(world, j, face.axes[j, 0, c], face.axes[j, 1, c], face.axes[j, 2, c])
        frames[j, 0, c], frames[j, 1, c], frames[j, 2, c] = x, y, z


@kernel
def compute_joint_rotation(face: ActiveLimits, step: StepBuffers, frames: FloatArray, j: int, out: FloatArray) -> None:
    """Write a joint's turn ``(3,)`` [rad] in its own frame."""
    out[:] = 0.0
    for k in range(3):
        t = face.held[j, k]
        if face.loose[j, k]:
            t = frames[j, 0, k] * step.torques[j, 0] + frames[j, 1, k] * step.torques[j, 1]
            t = step.ease[j] * (t + frames[j, 2, k] * step.torques[j, 2])
        for c in range(3):
            out[c] += t * face.axes[j, c, k]


@kernel
def rotate_free_axes(face: ActiveLimits, j: int, normal: FloatArray) -> int:
    """Turn a joint's loose axes so that one of them is the unit vector ``normal`` of their span; return which."""
    best, most = -1, 0.0
    for k in range(3):
        if face.loose[j, k]:
            t = abs(face.axes[j, 0, k] * normal[0] + face.axes[j, 1, k] * normal[1] + face.axes[j, 2, k] * normal[2])
            if t > most:
                best, most = k, t
    for c in range(3):
        face.axes[j, c, best] = normal[c]
    for k in range(3):  # the others of the span, made upright on it and on one another
        if face.loose[j, k] and k != best:
            for m in range(3):
                if m < k or m == best or not face.loose[j, m]:
                    if m == k:
                        continue
                    t = 0.0
                    for c in range(3):
                        t += face.axes[j, c, k] * face.axes[j, c, m]
                    for c in range(3):
                        face.axes[j, c, k] -= t * face.axes[j, c, m]
            size = sqrt(face.axes[j, 0, k] ** 2 + face.axes[j, 1, k] ** 2 + face.axes[j, 2, k] ** 2)
            for c in range(3):
                face.axes[j, c, k] /= size
    return best


@kernel
def add_active_limit(face: ActiveLimits, j: int, wanted: FloatArray, got: FloatArray) -> bool:
    """Hold what a projection took from a joint's turn; tell whether that is news."""
    normal, size = np.zeros(3), 0.0
    for k in range(3):
        t = 0.0
        for c in range(3):
            t += face.axes[j, c, k] * (wanted[c] - got[c])
        if face.loose[j, k]:
            size += t * t
            for c in range(3):
                normal[c] += t * face.axes[j, c, k]
    if size > BLOCKED_RAD**2:
        best = rotate_free_axes(face, j, normal / sqrt(size))
        face.loose[j, best], face.walls.boxed[j] = False, True
    for k in range(3):
        if not face.loose[j, k]:
            t = got[0] * face.axes[j, 0, k] + got[1] * face.axes[j, 1, k] + got[2] * face.axes[j, 2, k]
            face.held[j, k] = t
    return size > BLOCKED_RAD**2


@kernel
def project_step(
    bounds: Bounds, face: ActiveLimits, step: StepBuffers, frames: FloatArray, state: IKState, trial: IKState
) -> bool:
    """Write the rotations after a step, inside the limits; wall in the joints that were not. Tell if there are any."""
    joints, is_any = state.wxyz.shape[0], False
    turns, got = np.zeros((joints, 3)), np.zeros(3)
    for j in range(joints):
        compute_joint_rotation(face, step, frames, j, turns[j])
        q = state.wxyz[j]
        a, b, c, d = exponential(turns[j, 0], turns[j, 1], turns[j, 2])
        a, b, c, d = product(q[0], q[1], q[2], q[3], a, b, c, d)
        scale = 1.5 - 0.5 * (a * a + b * b + c * c + d * d)
        trial.wxyz[j, 0], trial.wxyz[j, 1] = scale * a, scale * b
        trial.wxyz[j, 2], trial.wxyz[j, 3] = scale * c, scale * d
    out, violation, _ = check_bounds(bounds, trial.wxyz.reshape((1, joints, 4)))
    for j in range(joints):
        if violation[0, j] > 0.0:
            q, r = state.wxyz[j], out[0, j]
            trial.wxyz[j] = r
            a, b, c, d = product(q[0], -q[1], -q[2], -q[3], r[0], r[1], r[2], r[3])
            got[0], got[1], got[2] = logarithm(a, b, c, d)
            if add_active_limit(face, j, turns[j], got):
                write_world_axes(face, state.world, j, frames)
                is_any = True
    return is_any


@kernel
def solve_limited_step(
    layout: IKLayout,
    bounds: Bounds,
    damping: float,
    state: IKState,
    rows: LinearRows,
    face: ActiveLimits,
    step: StepBuffers,
    trial: IKState,
) -> float:
    """Write the pose after a damped step inside the limits; return the objective that it expects, springs apart."""
    blocks, lists, prior, joints = layout.blocks, layout.lists, layout.springs, state.wxyz.shape[0]
    release_all_limits(face)
    for j in range(joints):
        write_world_axes(face, state.world, j, rows.frames)
    expected = 0.0
    for _ in range(MAX_BINDINGS):
        compute_compliances(prior, face.walls, damping, rows.frames, face.loose, step.ease, step.G)
        multiply_compliance(lists, face.walls.boxed, rows.turns, step.ease, step.G, step.eased)
        assemble_dual_matrix(blocks, lists, damping, step.ease, True, rows.shifts, rows.turns, step.eased, step.S)
        for b in range(state.errors.shape[0]):
            for c in range(3):
                step.y[3 * b + c] = state.errors[b, c]
        add_prior_shift(lists, damping, float(step.ease[joints]), rows.shifts, step.eased, state.pulls, step.y)
        subtract_fixed_shift(lists, face.walls.boxed, rows.frames, face.held, rows.turns, step.y)
        expected = solve_dual_step(
            blocks, lists, damping, rows.shifts, rows.turns, state.pulls, step.S, step.y, step.torques
        )
        if not project_step(bounds, face, step, rows.frames, state, trial):
            break
    for c in range(3):
        trial.root[c] = state.root[c] + step.ease[joints] * step.torques[joints, c]
    return expected


@kernel
def largest_free_gradient(layout: IKLayout, face: ActiveLimits, step: StepBuffers, frames: FloatArray) -> float:
    """Largest component of the gradient of the whole objective along what is loose."""
    largest, last = 0.0, frames.shape[0]
    for j in range(last + 1):
        if layout.springs.mobility[j] == 0.0:
            continue
        for k in range(3):
            t = step.slopes[j, k]
            if j < last:
                t = frames[j, 0, k] * step.slopes[j, 0] + frames[j, 1, k] * step.slopes[j, 1]
                t += frames[j, 2, k] * step.slopes[j, 2]
            if j == last or face.loose[j, k]:
                largest = max(largest, 2.0 * abs(t))
    return largest


@kernel
def largest_pose_change(state: IKState, trial: IKState) -> float:
    """Largest change of a pose [m] or [rad]."""
    largest = 0.0
    for c in range(3):
        largest = max(largest, abs(trial.root[c] - state.root[c]))
    for j in range(state.wxyz.shape[0]):
        for c in range(4):
            largest = max(largest, 2.0 * abs(trial.wxyz[j, c] - state.wxyz[j, c]))
    return largest


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
