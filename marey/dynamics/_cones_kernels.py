"""Nearest wrench that contacts can give: non-negative least squares on the edges of friction cones, frame by frame."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, kernel

MAX_ROUNDS = 60  # columns taken in by one frame; 6 to 15 are usual
GAIN_TOL = 1e-10  # [-] a column whose slope is less than this part of the target's length brings nothing


@kernel
def _least_squares(columns: FloatArray, count: int, target: FloatArray, x: FloatArray) -> None:
    """Solve for ``x[:count]``: least squares on the first columns ``(6, count)`` by modified Gram-Schmidt."""
    R = np.zeros((6, 6))
    Q = np.empty((6, 6))
    for j in range(count):
        for i in range(6):
            Q[i, j] = columns[i, j]
        for k in range(j):
            dot = 0.0
            for i in range(6):
                dot += Q[i, k] * Q[i, j]
            R[k, j] = dot
            for i in range(6):
                Q[i, j] -= dot * Q[i, k]
        norm = 0.0
        for i in range(6):
            norm += Q[i, j] * Q[i, j]
        norm = np.sqrt(norm)
        R[j, j] = norm
        for i in range(6):
            Q[i, j] = Q[i, j] / norm if norm > 1e-12 else 0.0
    for j in range(count - 1, -1, -1):
        value = 0.0
        for i in range(6):
            value += Q[i, j] * target[i]
        for k in range(j + 1, count):
            value -= R[j, k] * x[k]
        x[j] = value / R[j, j] if R[j, j] > 1e-12 else 0.0


@kernel
def nearest_in_cone(A: FloatArray, num: int, target: FloatArray, weights: FloatArray) -> None:
    """Weights ``w >= 0`` of the columns ``(6, num)`` that bring ``A w`` nearest to ``target``: Lawson and Hanson."""
    passive = np.empty(6, dtype=np.int64)
    count = 0
    chosen = np.zeros((6, 6))
    x = np.zeros(6)
    y = np.zeros(6)
    residual = target.copy()
    scale = 0.0
    for i in range(6):
        scale += target[i] * target[i]
    scale = np.sqrt(scale)
    for _ in range(MAX_ROUNDS):
        best, slope = -1, GAIN_TOL * max(scale, 1e-9)
        for j in range(num):
            gain = 0.0
            for i in range(6):
                gain += A[i, j] * residual[i]
            if gain > slope:
                best, slope = j, gain
        if best < 0 or count == 6:
            break
        taken = False
        for k in range(count):
            taken = taken or passive[k] == best
        if taken:
            break
        passive[count] = best
        x[count] = 0.0
        count += 1
        while True:
            for k in range(count):
                for i in range(6):
                    chosen[i, k] = A[i, passive[k]]
            _least_squares(chosen, count, target, y)
            step, is_inside = 1.0, True
            for k in range(count):
                if y[k] <= 0.0:
                    is_inside = False
                    step = min(step, x[k] / (x[k] - y[k]) if x[k] > y[k] else 0.0)
            if is_inside:
                for k in range(count):
                    x[k] = y[k]
                break
            kept = 0
            for k in range(count):
                value = x[k] + step * (y[k] - x[k])
                if value > 1e-14:
                    passive[kept] = passive[k]
                    x[kept] = value
                    kept += 1
            if kept == count:  # rounding kept the one that should go
                kept -= 1
            count = kept
            if count == 0:
                break
        for i in range(6):
            residual[i] = target[i]
            for k in range(count):
                residual[i] -= A[i, passive[k]] * x[k]
    for j in range(num):
        weights[j] = 0.0
    for k in range(count):
        weights[passive[k]] = x[k]


@kernel
def fit_fixed_cone(columns: FloatArray, targets: FloatArray) -> FloatArray:
    """Weights ``(F, n)`` of the same columns ``(6, n)`` for each target ``(F, 6)``."""
    weights = np.zeros((len(targets), columns.shape[1]))
    for f in range(len(targets)):
        nearest_in_cone(columns, columns.shape[1], targets[f], weights[f])
    return weights


@kernel
def fit_moving_cones(
    targets: FloatArray, arms: FloatArray, active: BoolArray, grips: BoolArray, edges: FloatArray, lever: float
) -> tuple[FloatArray, FloatArray]:
    """What contacts at moving points can give.

    Args:
        targets: wanted force and moment ``(F, 6)``, the moment over ``lever``.
        arms: points ``(F, P, 3)`` relative to the point about which moments are taken.
        active: which of them touch ``(F, P)``.
        grips: which of them hold on ``(F, P)``: they can push in every direction.
        edges: directions ``(E, 3)`` in which the others can push.
        lever: length [m] that makes moments forces.

    Returns:
        the nearest wrench ``(F, 6)`` scaled as the targets, and the force at each point ``(F, P, 3)``.
    """
    num_frames, num_points, num_edges = arms.shape[0], arms.shape[1], max(len(edges), 6)
    given = np.zeros((num_frames, 6))
    forces = np.zeros((num_frames, num_points, 3))
    A = np.zeros((6, num_points * num_edges))
    owner = np.zeros(num_points * num_edges, dtype=np.int64)
    weights = np.zeros(num_points * num_edges)
    for f in range(num_frames):
        num = 0
        for p in range(num_points):
            if not active[f, p]:
                continue
            rx, ry, rz = arms[f, p, 0], arms[f, p, 1], arms[f, p, 2]
            for e in range(6 if grips[f, p] else len(edges)):
                x, y, z = 0.0, 0.0, 0.0
                if not grips[f, p]:
                    x, y, z = edges[e, 0], edges[e, 1], edges[e, 2]
                elif e % 3 == 0:
                    x = 1.0 - 2.0 * (e // 3)
                elif e % 3 == 1:
                    y = 1.0 - 2.0 * (e // 3)
                else:
                    z = 1.0 - 2.0 * (e // 3)
                A[0, num], A[1, num], A[2, num] = x, y, z
                A[3, num] = (ry * z - rz * y) / lever
                A[4, num] = (rz * x - rx * z) / lever
                A[5, num] = (rx * y - ry * x) / lever
                owner[num] = p
                num += 1
        if num == 0:
            continue
        nearest_in_cone(A, num, targets[f], weights)
        for j in range(num):
            if weights[j] > 0.0:
                for i in range(6):
                    given[f, i] += weights[j] * A[i, j]
                for i in range(3):
                    forces[f, owner[j], i] += weights[j] * A[i, j]
    return given, forces
