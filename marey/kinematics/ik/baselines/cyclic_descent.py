"""Compiled cyclic coordinate descent on ball joints."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, kernel
from marey.kinematics.ik.full_space import OUT_OF_ITERATIONS, REACHED, STATIONARY, is_all_reached
from marey.kinematics.ik.moves import clamp_vector, nearest_rotation_vector, project_to_box
from marey.kinematics.ik.state import (
    LOOK_AT,
    ORIENTATION,
    IKLayout,
    evaluate_residuals,
    forward_kinematics,
    rotate_vector,
)
from marey.lie.kernels import exponential, product

REGULARISATION = (
    1e-6  # [-] pull towards no turn, relative to the data: settles the twist that a single target leaves open
)


@kernel
def add_outer(B: FloatArray, weight: float, a: tuple[float, float, float], b: tuple[float, float, float]) -> None:
    """Add ``weight a b^T``."""
    for r in range(3):
        for c in range(3):
            B[r, c] += weight * a[r] * b[c]


@kernel
def best_rotation(B: FloatArray) -> FloatArray:
    """Quaternion of the rotation Q that maximises tr(Q^T B): the largest eigenvector of Davenport's matrix."""
    K, trace = np.empty((4, 4)), B[0, 0] + B[1, 1] + B[2, 2]
    K[0, 0] = trace
    K[0, 1] = K[1, 0] = B[2, 1] - B[1, 2]
    K[0, 2] = K[2, 0] = B[0, 2] - B[2, 0]
    K[0, 3] = K[3, 0] = B[1, 0] - B[0, 1]
    for r in range(3):
        for c in range(3):
            K[1 + r, 1 + c] = B[r, c] + B[c, r] - (trace if r == c else 0.0)
    return np.linalg.eigh(K)[1][:, 3].copy()


@kernel
def gather_goals(
    layout: IKLayout,
    targets: FloatArray,
    active: BoolArray,
    moved_by: BoolArray,
    j: int,
    positions: FloatArray,
    world: FloatArray,
    places: FloatArray,
    B: FloatArray,
) -> float:
    """Write what the blocks that joint j moves ask of its turn; return the sum of the data's weights."""
    B[:] = 0.0
    total = 0.0
    for b in range(targets.shape[0]):
        if not (active[b] and moved_by[b, j]):
            continue
        W, k, t = layout.blocks.weights, layout.blocks.joints[b], targets[b]
        weight = (W[b, 0, 0] + W[b, 1, 1] + W[b, 2, 2]) / 3.0
        if layout.blocks.kinds[b] == ORIENTATION:
            for c in range(3):
                x, y, z = 1.0 if c == 0 else 0.0, 1.0 if c == 1 else 0.0, 1.0 if c == 2 else 0.0
                add_outer(B, weight, rotate_vector(targets, b, x, y, z), rotate_vector(world, k, x, y, z))
            total += 3.0 * weight
            continue
        away = (t[0] - positions[j, 0], t[1] - positions[j, 1], t[2] - positions[j, 2])
        lever = (places[b, 0] - positions[j, 0], places[b, 1] - positions[j, 1], places[b, 2] - positions[j, 2])
        if layout.blocks.kinds[b] == LOOK_AT:
            a = layout.blocks.aims[b]
            lever = rotate_vector(world, k, a[0], a[1], a[2])
            away = (t[0] - places[b, 0], t[1] - places[b, 1], t[2] - places[b, 2])
            weight /= max(1e-9, np.sqrt(away[0] ** 2 + away[1] ** 2 + away[2] ** 2))
        add_outer(B, weight, away, lever)
        total += weight * np.sqrt(away[0] ** 2 + away[1] ** 2 + away[2] ** 2)
        total += weight * np.sqrt(lever[0] ** 2 + lever[1] ** 2 + lever[2] ** 2)
    return total


@kernel
def rotate_joint(
    layout: IKLayout, j: int, Q: FloatArray, wxyz: FloatArray, vectors: FloatArray, world: FloatArray
) -> None:
    """Turn a joint by a world rotation, staying in its box."""
    p = layout.tree.parents[j]
    a, b, c, d = Q[0], Q[1], Q[2], Q[3]
    if p >= 0:
        w = world[p]
        a, b, c, d = product(w[0], -w[1], -w[2], -w[3], a, b, c, d)
        a, b, c, d = product(a, b, c, d, w[0], w[1], w[2], w[3])
    a, b, c, d = product(a, b, c, d, wxyz[j, 0], wxyz[j, 1], wxyz[j, 2], wxyz[j, 3])
    scale = 1.0 / np.sqrt(a * a + b * b + c * c + d * d)
    wxyz[j, 0], wxyz[j, 1], wxyz[j, 2], wxyz[j, 3] = scale * a, scale * b, scale * c, scale * d
    if layout.box.boxed[j]:
        x, y, z = nearest_rotation_vector(layout.box, j, wxyz)
        clamp_vector(layout.box, j, vectors, x, y, z, vectors)
        a, b, c, d = exponential(vectors[j, 0], vectors[j, 1], vectors[j, 2])
        wxyz[j, 0], wxyz[j, 1], wxyz[j, 2], wxyz[j, 3] = a, b, c, d


@kernel
def shift_root(layout: IKLayout, active: BoolArray, errors: FloatArray, root: FloatArray) -> None:
    """Move the root by the weighted mean of what the points miss."""
    total, shift = 0.0, np.zeros(3)
    for b in range(errors.shape[0]):
        if active[b] and layout.blocks.kinds[b] != ORIENTATION and layout.blocks.kinds[b] != LOOK_AT:
            weight = (
                layout.blocks.weights[b, 0, 0] + layout.blocks.weights[b, 1, 1] + layout.blocks.weights[b, 2, 2]
            ) / 3.0
            total += weight
            for c in range(3):
                shift[c] += weight * errors[b, c]
    if total > 0.0:
        for c in range(3):
            root[c] += shift[c] / total


@kernel
def solve_ccd(
    layout: IKLayout,
    targets: FloatArray,
    active: BoolArray,
    root: FloatArray,
    wxyz: FloatArray,
    errors: FloatArray,
    max_iterations: int,
    history: FloatArray,
) -> tuple[int, int, int, float, float]:
    """Sweep from the tips to the root; each joint takes the turn that is best for all the goals it moves.

    For one goal this is the closed form of [Engell2012]_ §6 item 6 on a ball joint; for many it is Wahba's problem, so
    the objective falls with every turn. A turn that a limit spoils is taken back. Returns as ``solve_full``.
    """
    joints, blocks = wxyz.shape[0], errors.shape[0]
    positions, world = np.empty((joints, 3)), np.empty((joints, 4))
    places, vectors, B = np.empty((blocks, 3)), np.zeros((joints, 3)), np.zeros((3, 3))
    moved_by, old, old_v = np.zeros((blocks, joints), dtype=np.bool_), np.empty(4), np.empty(3)
    for b in range(blocks):
        for i in range(layout.lists.chain_start[b], layout.lists.chain_start[b + 1]):
            moved_by[b, layout.lists.chain[i]] = True
    project_to_box(layout.box, wxyz, vectors)
    forward_kinematics(layout.tree, root, wxyz, positions, world)
    cost = evaluate_residuals(layout, targets, active, positions, world, errors, places)
    status, iteration, evaluations = OUT_OF_ITERATIONS, 0, 1
    while iteration < max_iterations and not is_all_reached(layout.blocks.tolerances, active, errors):
        iteration += 1
        before = cost
        for j in range(joints - 1, -1, -1):
            if layout.springs.mobility[j] == 0.0:
                continue
            total = gather_goals(layout, targets, active, moved_by, j, positions, world, places, B)
            if total == 0.0:
                continue
            for c in range(3):
                B[c, c] += REGULARISATION * total
            old[:], old_v[:] = wxyz[j], vectors[j]
            rotate_joint(layout, j, best_rotation(B), wxyz, vectors, world)
            forward_kinematics(layout.tree, root, wxyz, positions, world)
            new_cost = evaluate_residuals(layout, targets, active, positions, world, errors, places)
            evaluations += 1
            if new_cost > cost:
                wxyz[j], vectors[j] = old, old_v
                forward_kinematics(layout.tree, root, wxyz, positions, world)
                new_cost = evaluate_residuals(layout, targets, active, positions, world, errors, places)
            cost = new_cost
        if layout.springs.mobility[joints] > 0.0:
            shift_root(layout, active, errors, root)
            forward_kinematics(layout.tree, root, wxyz, positions, world)
            cost = evaluate_residuals(layout, targets, active, positions, world, errors, places)
        if iteration <= history.shape[0]:
            history[iteration - 1, 0] = cost
        if before - cost < 1e-12 * before:
            status = STATIONARY
            break
    if is_all_reached(layout.blocks.tolerances, active, errors):
        status = REACHED
    return status, iteration, evaluations, cost, 0.0
