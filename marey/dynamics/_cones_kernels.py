"""Nearest wrench that contacts can give: non-negative least squares on the edges of friction cones, frame by frame."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, kernel
from marey.dynamics._spatial_kernels import Vector, cross, row3

MAX_ROUNDS = 60  # columns taken in by one frame; 6 to 15 are usual
GAIN_TOL = 1e-10  # [-] a column whose slope is less than this part of the target's length brings nothing
NO_LENGTH = 1e-12  # what is left of a column that the others span

# room for one fit: numbers of the columns in use (6,); their weights, the least-squares ones, the residual (3, 6); the
# columns, and their factors Q and R (3, 6, 6)
FitScratch = tuple[IntArray, FloatArray, FloatArray]


@kernel
def allocate_fit() -> FitScratch:
    """Scratch that all frames share."""
    return np.zeros(6, dtype=np.int64), np.zeros((3, 6)), np.zeros((3, 6, 6))


@kernel
def _factorise(columns: FloatArray, count: int, Q: FloatArray, R: FloatArray) -> None:
    """Orthogonal factors of the first columns ``(6, count)``, by modified Gram-Schmidt."""
    for j in range(count):
        for i in range(6):
            Q[i, j] = columns[i, j]
        for k in range(j):
            share = 0.0
            for i in range(6):
                share += Q[i, k] * Q[i, j]
            R[k, j] = share
            for i in range(6):
                Q[i, j] -= share * Q[i, k]
        square = 0.0
        for i in range(6):
            square += Q[i, j] * Q[i, j]
        length = np.sqrt(square)
        R[j, j] = length
        for i in range(6):
            Q[i, j] = Q[i, j] / length if length > NO_LENGTH else 0.0


@kernel
def _solve_factorised(count: int, target: FloatArray, Q: FloatArray, R: FloatArray, x: FloatArray) -> None:
    """Solve for ``x[:count]`` with the factors of the columns; a column that the others span gets nothing."""
    for j in range(count - 1, -1, -1):
        value = 0.0
        for i in range(6):
            value += Q[i, j] * target[i]
        for k in range(j + 1, count):
            value -= R[j, k] * x[k]
        x[j] = value / R[j, j] if R[j, j] > NO_LENGTH else 0.0


@kernel
def _find_steepest_column(A: FloatArray, num: int, residual: FloatArray, least: float) -> int:
    """Number of the column along which the residual is longest, -1 if it is nowhere longer than ``least``."""
    best, slope = -1, least
    for j in range(num):
        gain = 0.0
        for i in range(6):
            gain += A[i, j] * residual[i]
        if gain > slope:
            best, slope = j, gain
    return best


@kernel
def _is_used(used: IntArray, count: int, column: int) -> bool:
    found = False
    for k in range(count):
        found = found or used[k] == column
    return found


@kernel
def _step_to_boundary(used: IntArray, count: int, x: FloatArray, y: FloatArray) -> int:
    """Go from weights ``x`` towards ``y`` as far as none is negative, drop those at zero, and count what is left."""
    step, is_inside = 1.0, True
    for k in range(count):
        if y[k] <= 0.0:
            is_inside = False
            step = min(step, x[k] / (x[k] - y[k]) if x[k] > y[k] else 0.0)
    if is_inside:
        x[:count] = y[:count]
        return count
    kept = 0
    for k in range(count):
        value = x[k] + step * (y[k] - x[k])
        if value > 1e-14:
            used[kept], x[kept] = used[k], value
            kept += 1
    return min(kept, count - 1)  # rounding may have kept the one that should go


@kernel
def _solve_active_columns(A: FloatArray, target: FloatArray, count: int, room: FitScratch) -> int:
    """Least squares on the columns in use, without those whose weight would be negative; returns how many stay."""
    used, rows, (chosen, Q, R) = room[0], room[1], (room[2][0], room[2][1], room[2][2])
    while count > 0:
        for k in range(count):
            for i in range(6):
                chosen[i, k] = A[i, used[k]]
        _factorise(chosen, count, Q, R)
        _solve_factorised(count, target, Q, R, rows[1])
        left = _step_to_boundary(used, count, rows[0], rows[1])
        if left == count:
            break
        count = left
    return count


@kernel
def solve_nonnegative(A: FloatArray, num: int, target: FloatArray, weights: FloatArray, room: FitScratch) -> None:
    """Weights ``w >= 0`` of the columns ``(6, num)`` that bring ``A w`` nearest to ``target``: Lawson and Hanson."""
    used, x, residual = room[0], room[1][0], room[1][2]
    count, square = 0, 0.0
    for i in range(6):
        residual[i] = target[i]
        square += target[i] * target[i]
    least = GAIN_TOL * max(np.sqrt(square), 1e-9)
    for _ in range(MAX_ROUNDS):
        best = _find_steepest_column(A, num, residual, least)
        if best < 0 or count == 6 or _is_used(used, count, best):
            break
        used[count], x[count] = best, 0.0
        count = _solve_active_columns(A, target, count + 1, room)
        for i in range(6):
            residual[i] = target[i]
            for k in range(count):
                residual[i] -= A[i, used[k]] * x[k]
    weights[:num] = 0.0
    for k in range(count):
        weights[used[k]] = x[k]


@kernel
def fit_fixed_cone(columns: FloatArray, targets: FloatArray) -> FloatArray:
    """Weights ``(F, n)`` of the same columns ``(6, n)`` for each target ``(F, 6)``."""
    weights, room = np.zeros((len(targets), columns.shape[1])), allocate_fit()
    for f in range(len(targets)):
        solve_nonnegative(columns, columns.shape[1], targets[f], weights[f], room)
    return weights


@kernel
def _axis_direction(e: int) -> Vector:
    """Direction ``e`` of the six along the axes."""
    sign = 1.0 - 2.0 * (e // 3)
    return sign * (e % 3 == 0), sign * (e % 3 == 1), sign * (e % 3 == 2)


@kernel
def _add_point_columns(
    A: FloatArray, owner: IntArray, num: int, p: int, arm: Vector, edges: FloatArray, is_grip: bool, lever: float
) -> int:
    """Add what point ``p`` can give to the columns ``(6, num)``; returns how many there are then."""
    for e in range(6 if is_grip else len(edges)):
        force = _axis_direction(e) if is_grip else row3(edges, e)
        moment = cross(arm, force)
        for i in range(3):
            A[i, num], A[3 + i, num] = force[i], moment[i] / lever
        owner[num] = p
        num += 1
    return num


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
    num_frames, num_points = arms.shape[0], arms.shape[1]
    most = num_points * max(len(edges), 6)
    given, forces = np.zeros((num_frames, 6)), np.zeros((num_frames, num_points, 3))
    A, owner, weights, room = np.zeros((6, most)), np.zeros(most, dtype=np.int64), np.zeros(most), allocate_fit()
    for f in range(num_frames):
        num = 0
        for p in range(num_points):
            if active[f, p]:
                num = _add_point_columns(A, owner, num, p, row3(arms[f], p), edges, grips[f, p], lever)
        solve_nonnegative(A, num, targets[f], weights, room)
        for j in range(num):
            if weights[j] > 0.0:
                for i in range(6):
                    given[f, i] += weights[j] * A[i, j]
                for i in range(3):
                    forces[f, owner[j], i] += weights[j] * A[i, j]
    return given, forces
