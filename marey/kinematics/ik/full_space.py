"""Compiled projected Levenberg-Marquardt in the full space."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, kernel
from marey.kinematics.ik.dual_step import (
    add_prior_shift,
    assemble_dual_matrix,
    compute_compliances,
    compute_descent,
    multiply_compliance,
    predict_prior_change,
    solve_dual_step,
)
from marey.kinematics.ik.moves import (
    apply_step,
    bind_coordinates,
    compute_box_frames,
    project_to_box,
    release_coordinates,
    subtract_fixed_shift,
)
from marey.kinematics.ik.state import (
    IKLayout,
    JointArrays,
    KinematicChains,
    MassPoints,
    PosePrior,
    RotationVectorBox,
    TaskBlocks,
    evaluate_prior,
    evaluate_residuals,
    forward_kinematics,
    linearise,
)

REACHED, STATIONARY, OUT_OF_ITERATIONS = 0, 1, 2
MIN_DECREASE = 1e-10  # [-] relative decrease of the objective below which nothing more is won
MIN_STEP = 1e-8  # [rad] or [m], the step that goes with it
GRADIENT_TOL, LOOSE_GRADIENT_TOL = (
    1e-9,
    1e-5,
)  # [-] a projected gradient below this part of 1 + objective is zero: springs, goals alone
MAX_BINDINGS = 4  # times that a step is solved anew with the coordinates held that it would carry over a bound
MAX_REJECTED_STEPS = 10  # iterations after which goals are suspected to be out of reach
MIN_DAMPING, MAX_DAMPING = 1e-9, 1e9


@kernel
def is_all_reached(tolerances: FloatArray, active: BoolArray, errors: FloatArray) -> bool:
    """Tell whether every active block is within its tolerance."""
    for b in range(errors.shape[0]):
        square = errors[b, 0] ** 2 + errors[b, 1] ** 2 + errors[b, 2] ** 2
        if active[b] and square > tolerances[b] ** 2:
            return False
    return True


@kernel
def solve_full(
    layout: IKLayout,
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
    """Projected Levenberg-Marquardt from the pose in ``root`` and ``wxyz``, which are overwritten by the answer.

    Args:
        layout: the body, its tasks and its limits.
        targets: ``(B, 4)`` places, padded, or quaternions.
        active: ``(B,)`` blocks that count.
        root: ``(3,)`` [m].
        wxyz: ``(J, 4)``.
        errors: ``(B, 3)``, written: what is missing in the end.
        max_iterations: most linear systems to solve.
        seek_optimum: go on to a stationary point after all tolerances are met (there are springs or priorities).
        start_damping: first damping, as a part of the objective.
        history: ``(H, 4)``, written: objective, projected gradient, damping, largest change, one row an accepted step.

    Returns:
        REACHED, STATIONARY or OUT_OF_ITERATIONS, iterations, evaluations, objective, projected gradient.
    """
    tree, blocks, lists, prior, box = layout.tree, layout.blocks, layout.lists, layout.springs, layout.box
    joints, count, entries = wxyz.shape[0], errors.shape[0], lists.chain.shape[0]
    positions, world, places = np.empty((joints, 3)), np.empty((joints, 4)), np.empty((count, 3))
    new_root, new_wxyz, new_vectors = np.empty(3), wxyz.copy(), np.zeros((joints, 3))
    new_positions, new_world = np.empty((joints, 3)), np.empty((joints, 4))
    new_errors, new_pulls = np.empty((count, 3)), np.zeros((joints + 1, 3))
    shifts, turns, eased = np.empty((count, 3, 3)), np.empty((entries, 3, 3)), np.empty((entries, 3, 3))
    pulls, torques, ease = np.zeros((joints + 1, 3)), np.empty((joints + 1, 3)), np.empty(joints + 1)
    S, y = np.empty((3 * count, 3 * count)), np.empty(3 * count)
    is_limited, has_springs = bool(box.boxed.any()), bool(prior.stiffness.any())
    limited = joints if is_limited else 0
    vectors, frames = np.zeros((joints, 3)), np.zeros((limited, 3, 3))
    G, free = np.empty((limited, 3, 3)), np.ones((limited, 3), dtype=np.bool_)
    loose, held = np.ones((limited, 3), dtype=np.bool_), np.zeros((limited, 3))
    if is_limited:
        project_to_box(box, wxyz, vectors)
    forward_kinematics(tree, root, wxyz, positions, world)
    cost = evaluate_residuals(layout, targets, active, positions, world, errors, places)
    bent = evaluate_prior(prior, root, wxyz, world, pulls) if has_springs else 0.0
    cost += bent
    damping, gradient, evaluations = start_damping * cost, 0.0, 1
    status, iteration, accepted, rejected, is_new = OUT_OF_ITERATIONS, 0, 0, 0, True
    while True:
        if is_new:
            if not seek_optimum and is_all_reached(blocks.tolerances, active, errors):
                status = REACHED
                break
            linearise(layout, targets, active, positions, world, errors, places, shifts, turns)
            if is_limited or seek_optimum or iteration >= MAX_REJECTED_STEPS:
                compute_box_frames(box, world, vectors, frames)
                compute_descent(blocks, lists, errors, shifts, turns, pulls, torques)
                gradient = release_coordinates(prior, box, vectors, frames, torques, free)
                if gradient < (GRADIENT_TOL if seek_optimum else LOOSE_GRADIENT_TOL) * (1.0 + cost):
                    status = STATIONARY
                    break
        if iteration >= max_iterations:
            break
        iteration += 1
        damping = min(max(damping, MIN_DAMPING), MAX_DAMPING)
        loose[:], held[:], expected = free, 0.0, 0.0
        for _ in range(MAX_BINDINGS):
            compute_compliances(prior, box, damping, frames, loose, ease, G)
            multiply_compliance(lists, box.boxed, turns, ease, G, eased)
            assemble_dual_matrix(blocks, lists, damping, ease, is_limited, shifts, turns, eased, S)
            for b in range(count):
                for c in range(3):
                    y[3 * b + c] = errors[b, c]
            if has_springs:
                add_prior_shift(lists, damping, float(ease[joints]), shifts, eased, pulls, y)
            if is_limited:
                subtract_fixed_shift(lists, box.boxed, frames, held, turns, y)
            expected = solve_dual_step(blocks, lists, damping, shifts, turns, pulls, S, y, torques)
            if not is_limited or not bind_coordinates(box, torques, ease, frames, vectors, loose, held):
                break
        if has_springs:
            expected += bent + predict_prior_change(prior, box, ease, G, frames, held, pulls, torques)
        change = apply_step(
            box, torques, ease, frames, loose, held, root, wxyz, vectors, world, new_root, new_wxyz, new_vectors
        )
        forward_kinematics(tree, new_root, new_wxyz, new_positions, new_world)
        new_cost = evaluate_residuals(layout, targets, active, new_positions, new_world, new_errors, places)
        new_bent = evaluate_prior(prior, new_root, new_wxyz, new_world, new_pulls) if has_springs else 0.0
        new_cost += new_bent
        evaluations += 1
        if not new_cost < cost:
            is_new = False
            rejected += 1
            damping *= 8.0 if rejected < 2 else 64.0
            if change < 1e-12 or damping > MAX_DAMPING:
                status = STATIONARY
                break
            continue
        won, quality = cost - new_cost, (cost - new_cost) / max(cost - expected, 1e-300)
        damping *= max(0.1, 1.0 - (2.0 * quality - 1.0) ** 3)
        cost, bent, rejected, is_new = new_cost, new_bent, 0, True
        root[:], wxyz[:], vectors[:], errors[:] = new_root, new_wxyz, new_vectors, new_errors
        positions, new_positions = new_positions, positions
        world, new_world = new_world, world
        pulls, new_pulls = new_pulls, pulls
        if accepted < history.shape[0]:
            history[accepted, 0], history[accepted, 1] = cost, gradient
            history[accepted, 2], history[accepted, 3] = damping, change
        accepted += 1
        if won < MIN_DECREASE * cost and change < MIN_STEP:
            status = STATIONARY
            break
    if is_all_reached(blocks.tolerances, active, errors) and (status == STATIONARY or not seek_optimum):
        status = REACHED
    if status != REACHED:
        evaluate_residuals(layout, targets, active, positions, world, errors, places)
        linearise(layout, targets, active, positions, world, errors, places, shifts, turns)
        compute_box_frames(box, world, vectors, frames)
        compute_descent(blocks, lists, errors, shifts, turns, pulls, torques)
        gradient = release_coordinates(prior, box, vectors, frames, torques, free)
    return status, iteration, evaluations, cost, gradient


@kernel
def evaluate_goals(
    layout: IKLayout, targets: FloatArray, active: BoolArray, root: FloatArray, wxyz: FloatArray, errors: FloatArray
) -> tuple[float, bool]:
    """Write what is missing in a pose ``(B, 3)``; return its objective and whether all goals are reached."""
    joints = wxyz.shape[0]
    positions, world, pulls = np.empty((joints, 3)), np.empty((joints, 4)), np.zeros((joints + 1, 3))
    forward_kinematics(layout.tree, root, wxyz, positions, world)
    cost = evaluate_residuals(layout, targets, active, positions, world, errors, np.empty(errors.shape))
    cost += evaluate_prior(layout.springs, root, wxyz, world, pulls)
    return cost, is_all_reached(layout.blocks.tolerances, active, errors)


@kernel
def propose_step(
    layout: IKLayout, targets: FloatArray, active: BoolArray, root: FloatArray, wxyz: FloatArray, damping: float
) -> tuple[FloatArray, FloatArray, float]:
    """One damped step without limits: the new root, the new rotations, and the largest slope at the old pose."""
    lists, blocks, prior, box = layout.lists, layout.blocks, layout.springs, layout.box
    joints, count, entries = wxyz.shape[0], blocks.kinds.shape[0], lists.chain.shape[0]
    positions, world, pulls = np.empty((joints, 3)), np.empty((joints, 4)), np.zeros((joints + 1, 3))
    errors, places, torques = np.empty((count, 3)), np.empty((count, 3)), np.empty((joints + 1, 3))
    shifts, turns, eased = np.empty((count, 3, 3)), np.empty((entries, 3, 3)), np.empty((entries, 3, 3))
    nothing, free, ease = np.zeros((0, 3, 3)), np.ones((0, 3), dtype=np.bool_), np.empty(joints + 1)
    S, vectors, new_root, new_wxyz = np.empty((3 * count, 3 * count)), np.zeros((joints, 3)), np.empty(3), wxyz.copy()
    forward_kinematics(layout.tree, root, wxyz, positions, world)
    evaluate_residuals(layout, targets, active, positions, world, errors, places)
    evaluate_prior(prior, root, wxyz, world, pulls)
    linearise(layout, targets, active, positions, world, errors, places, shifts, turns)
    compute_descent(blocks, lists, errors, shifts, turns, pulls, torques)
    gradient = release_coordinates(prior, box, vectors, nothing, torques, free)
    damping = min(max(damping, MIN_DAMPING), MAX_DAMPING)
    compute_compliances(prior, box, damping, nothing, free, ease, nothing)
    multiply_compliance(lists, box.boxed, turns, ease, nothing, eased)
    assemble_dual_matrix(blocks, lists, damping, ease, False, shifts, turns, eased, S)
    y = errors.copy().reshape(-1)
    add_prior_shift(lists, damping, float(ease[joints]), shifts, eased, pulls, y)
    solve_dual_step(blocks, lists, damping, shifts, turns, pulls, S, y, torques)
    apply_step(
        box, torques, ease, nothing, free, np.zeros((0, 3)), root, wxyz, vectors, world, new_root, new_wxyz, vectors
    )
    return new_root, new_wxyz, gradient


@kernel
def solve_flat(
    parents: IntArray,
    offsets: FloatArray,
    kinds: IntArray,
    carriers: IntArray,
    points: FloatArray,
    aims: FloatArray,
    axes: FloatArray,
    weights: FloatArray,
    softness: FloatArray,
    tolerances: FloatArray,
    chain_start: IntArray,
    chain: IntArray,
    pair_start: IntArray,
    pair_first: IntArray,
    pair_second: IntArray,
    mass_joints: IntArray,
    mass_points: FloatArray,
    mass_weights: FloatArray,
    mobility: FloatArray,
    stiffness: FloatArray,
    reference: FloatArray,
    reference_root: FloatArray,
    boxed: BoolArray,
    low: FloatArray,
    high: FloatArray,
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
    """As :func:`solve_full`, with the fields of the layout one by one: a call from Python costs 10 µs less so."""
    layout = IKLayout(
        JointArrays(parents, offsets),
        TaskBlocks(kinds, carriers, points, aims, axes, weights, softness, tolerances),
        KinematicChains(chain_start, chain, pair_start, pair_first, pair_second),
        MassPoints(mass_joints, mass_points, mass_weights),
        PosePrior(mobility, stiffness, reference, reference_root),
        RotationVectorBox(boxed, low, high),
    )
    return solve_full(layout, targets, active, root, wxyz, errors, max_iterations, seek_optimum, start_damping, history)
