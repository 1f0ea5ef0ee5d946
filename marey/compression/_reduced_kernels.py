"""Reduced inverse kinematics with the root fixed, compiled: end effectors to coordinates of a pose model."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.compression._quaternion_kernels import product, read_quaternion, rotate_vector
from marey.models._model_kernels import model_jacobian, model_rotations

FIRST_DAMPING = 1e-3
DAMPING_SHRINK, DAMPING_GROWTH = 0.3, 4.0
MIN_DAMPING, MAX_DAMPING = 1e-12, 1e8  # of the damping
MAX_ITERATIONS, MAX_FIRST_ITERATIONS = 20, 100  # of a frame that starts from the one before, and of the first
COST_TOL = 1e-8  # relative; smaller ends the search
STEP_TOL = 1e-10


@kernel
def _forward_kinematics(
    kind: int, mean: FloatArray, basis: FloatArray, parents: IntArray, offsets: FloatArray, x: FloatArray,
    local: FloatArray, world: FloatArray, places: FloatArray,
) -> None:  # fmt: skip
    """Joint rotations and places in the frame of the root."""
    model_rotations(kind, mean, basis, x, local)
    world[0, 0], world[0, 1], world[0, 2], world[0, 3] = 1.0, 0.0, 0.0, 0.0
    places[0, 0], places[0, 1], places[0, 2] = 0.0, 0.0, 0.0
    for j in range(1, parents.shape[0]):
        p = parents[j]
        q = product(read_quaternion(world[p]), read_quaternion(local[j]))
        u, v, w = rotate_vector(read_quaternion(world[p]), offsets[j, 0], offsets[j, 1], offsets[j, 2])
        world[j, 0], world[j, 1], world[j, 2], world[j, 3] = q
        places[j, 0], places[j, 1], places[j, 2] = places[p, 0] + u, places[p, 1] + v, places[p, 2] + w


@kernel
def _evaluate_cost(
    places: FloatArray, ends: IntArray, targets: FloatArray, x: FloatArray, rest: FloatArray, spring: float
) -> float:
    total = 0.0
    for e in range(ends.shape[0]):
        for c in range(3):
            gap = places[ends[e], c] - targets[e, c]
            total += gap * gap
    for i in range(x.shape[0]):
        total += spring * (x[i] - rest[i]) * (x[i] - rest[i])
    return total


@kernel
def _assemble_normal_equations(
    columns: FloatArray, parents: IntArray, world: FloatArray, places: FloatArray, ends: IntArray, targets: FloatArray,
    x: FloatArray, rest: FloatArray, spring: float, moves: FloatArray, normal: FloatArray, slope: FloatArray,
) -> None:  # fmt: skip
    """Gauss-Newton matrix and descent direction; ``moves`` is room ``(3, k)``."""
    k = x.shape[0]
    normal[:] = 0.0
    for i in range(k):
        slope[i] = spring * (rest[i] - x[i])
        normal[i, i] = spring
    for e in range(ends.shape[0]):
        end = int(ends[e])
        moves[:] = 0.0
        j = int(parents[end])
        while j > 0:
            a, b, c = places[end, 0] - places[j, 0], places[end, 1] - places[j, 1], places[end, 2] - places[j, 2]
            for i in range(k):
                x_, y_, z_ = rotate_vector(
                    read_quaternion(world[j]), columns[j, 0, i], columns[j, 1, i], columns[j, 2, i]
                )
                moves[0, i] += y_ * c - z_ * b
                moves[1, i] += z_ * a - x_ * c
                moves[2, i] += x_ * b - y_ * a
            j = int(parents[j])
        for c3 in range(3):
            gap = targets[e, c3] - places[end, c3]
            for i in range(k):
                slope[i] += moves[c3, i] * gap
                for m in range(i + 1):
                    normal[i, m] += moves[c3, i] * moves[c3, m]


@kernel
def _solve_damped_step(normal: FloatArray, slope: FloatArray, damping: float) -> FloatArray:
    k = slope.shape[0]
    matrix = np.empty((k, k))
    trace = 0.0
    for i in range(k):
        trace += normal[i, i]
    for i in range(k):
        for m in range(i):
            matrix[i, m] = normal[i, m]
            matrix[m, i] = normal[i, m]
        matrix[i, i] = normal[i, i] + damping * max(normal[i, i], 1e-9 * trace / k)
    return np.linalg.solve(matrix, slope)  # pyright: ignore[reportReturnType] (numpy's stub forgets the precision)


@kernel
def solve_reduced_clip(
    kind: int, mean: FloatArray, basis: FloatArray, parents: IntArray, offsets: FloatArray, ends: IntArray,
    targets: FloatArray, spring: float, rest: FloatArray, is_warm: bool,
) -> FloatArray:  # fmt: skip
    """Coordinates ``(F, k)`` that reach targets ``(F, E, 3)`` and stay near ``rest`` ``(F, k)``.

    The first frame starts from its rest; the others too, or from the frame before if ``is_warm``.
    """
    frames, joints, k = targets.shape[0], parents.shape[0], basis.shape[2]
    out = np.zeros((frames, k))
    if k == 0:
        return out
    local, world, places = np.empty((joints, 4)), np.empty((joints, 4)), np.empty((joints, 3))
    columns = np.empty((joints, 3, k))
    moves, normal, slope = np.empty((3, k)), np.empty((k, k)), np.empty(k)
    x = rest[0].copy()
    for f in range(frames):
        if not is_warm:
            x = rest[f].copy()
        damping = FIRST_DAMPING
        _forward_kinematics(kind, mean, basis, parents, offsets, x, local, world, places)
        cost = _evaluate_cost(places, ends, targets[f], x, rest[f], spring)
        for _ in range(MAX_ITERATIONS if f > 0 and is_warm else MAX_FIRST_ITERATIONS):
            model_jacobian(kind, mean, basis, x, columns)
            _assemble_normal_equations(
                columns, parents, world, places, ends, targets[f], x, rest[f], spring, moves, normal, slope
            )
            step = _solve_damped_step(normal, slope, damping)
            tried = x + step
            _forward_kinematics(kind, mean, basis, parents, offsets, tried, local, world, places)
            new = _evaluate_cost(places, ends, targets[f], tried, rest[f], spring)
            if new < cost:
                is_done = cost - new <= COST_TOL * cost or np.abs(step).max() < STEP_TOL
                x, cost, damping = tried, new, max(damping * DAMPING_SHRINK, MIN_DAMPING)
                if is_done:
                    break
            else:
                damping *= DAMPING_GROWTH
                _forward_kinematics(kind, mean, basis, parents, offsets, x, local, world, places)
                if damping > MAX_DAMPING or np.abs(step).max() < STEP_TOL:
                    break
        out[f] = x
    return out
