"""Contact wrench cones: which forces and moments a support can give, as rows, as edges, and how far a wrench is off."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from marey.base import BoolArray, FloatArray, InputError, IntArray, frozen, kernel
from marey.lie.kernels import cross, row3

MAX_ROUNDS = 60  # columns taken in by one frame; 6 to 15 are usual
GAIN_TOL = 1e-10  # [-] a column whose slope is less than this part of the target's length brings nothing
NO_LENGTH = 1e-12  # what is left of a column that the others span


class FitScratch(NamedTuple):
    """Room for one fit of at most six columns."""

    used: IntArray  # (6,) numbers of the columns in use
    weights: FloatArray  # (6,) their weights
    solution: FloatArray  # (6,) their least-squares weights
    residual: FloatArray  # (6,) of the target
    Q: FloatArray  # (6, 6) factors of the columns in use
    R: FloatArray  # (6, 6)


@kernel
def allocate_fit() -> FitScratch:
    """Scratch that all frames share."""
    rows = np.zeros((3, 6))
    return FitScratch(np.zeros(6, dtype=np.int64), rows[0], rows[1], rows[2], np.zeros((6, 6)), np.zeros((6, 6)))


@kernel
def _solve_active_columns(A: FloatArray, target: FloatArray, count: int, room: FitScratch) -> int:
    """Least squares on the columns in use, without those whose weight would be negative; returns how many stay."""
    used, now, x, _, Q, R = room
    while count > 0:
        # QR factors of the columns in use, by modified Gram-Schmidt
        for j in range(count):
            for i in range(6):
                Q[i, j] = A[i, used[j]]
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
        # Least squares R x = Q^T target; a column that the others span gets nothing
        for j in range(count - 1, -1, -1):
            value = 0.0
            for i in range(6):
                value += Q[i, j] * target[i]
            for k in range(j + 1, count):
                value -= R[j, k] * x[k]
            x[j] = value / R[j, j] if R[j, j] > NO_LENGTH else 0.0
        # Inner loop of Lawson and Hanson: back to the boundary until all weights are positive
        step, is_inside = 1.0, True
        for k in range(count):
            if x[k] <= 0.0:
                is_inside = False
                step = min(step, now[k] / (now[k] - x[k]) if now[k] > x[k] else 0.0)
        if is_inside:
            now[:count] = x[:count]
            break
        # Go as far as none is negative, and keep the columns whose weight is still positive
        kept = 0
        for k in range(count):
            value = now[k] + step * (x[k] - now[k])
            if value > 1e-14:
                used[kept], now[kept] = used[k], value
                kept += 1
        count = min(kept, count - 1)  # rounding may have kept the one that should go
    return count


@kernel
def solve_nonnegative(A: FloatArray, num: int, target: FloatArray, weights: FloatArray, room: FitScratch) -> None:
    """Weights ``w >= 0`` of the columns ``(6, num)`` that bring ``A w`` nearest to ``target``: Lawson and Hanson."""
    used, x, residual = room.used, room.weights, room.residual
    count, square = 0, 0.0
    for i in range(6):
        residual[i] = target[i]
        square += target[i] * target[i]
    least = GAIN_TOL * max(np.sqrt(square), 1e-9)
    for _ in range(MAX_ROUNDS):
        # Outer loop: take in the column along which the residual is longest, if that is more than `least`
        best, slope = -1, least
        for j in range(num):
            gain = 0.0
            for i in range(6):
                gain += A[i, j] * residual[i]
            if gain > slope:
                best, slope = j, gain
        is_used = False
        for k in range(count):
            is_used = is_used or used[k] == best
        if best < 0 or count == 6 or is_used:
            break
        used[count], x[count] = best, 0.0
        count = _solve_active_columns(A, target, count + 1, room)
        # Residual of the new weights
        for i in range(6):
            residual[i] = target[i]
            for k in range(count):
                residual[i] -= A[i, used[k]] * x[k]
    weights[:num] = 0.0
    for k in range(count):
        weights[used[k]] = x[k]


@kernel
def fit_moving_cones(
    targets: FloatArray, arms: FloatArray, active: BoolArray, grips: BoolArray, edges: FloatArray, lever: float
) -> tuple[FloatArray, FloatArray]:
    """Generators of the wrenches of contacts at moving points.

    Args:
        targets: demanded force and moment ``(F, 6)``, the moment over ``lever``.
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
                # Columns of point `p`: edges of its friction pyramid, or all six directions of a grip
                arm = row3(arms[f], p)
                is_grip = grips[f, p]
                for e in range(6 if is_grip else len(edges)):
                    sign = 1.0 - 2.0 * (e // 3)
                    force = (sign * (e % 3 == 0), sign * (e % 3 == 1), sign * (e % 3 == 2))
                    if not is_grip:
                        force = row3(edges, e)
                    moment = cross(arm, force)
                    for i in range(3):
                        A[i, num], A[3 + i, num] = force[i], moment[i] / lever
                    owner[num] = p
                    num += 1
        solve_nonnegative(A, num, targets[f], weights, room)
        # The nearest wrench, and the force at each point
        for j in range(num):
            if weights[j] > 0.0:
                for i in range(6):
                    given[f, i] += weights[j] * A[i, j]
                for i in range(3):
                    forces[f, owner[j], i] += weights[j] * A[i, j]
    return given, forces


LEVER_M: Final = 1.0  # [m] a moment of body weight times this counts like a force of body weight
UNIT_TOL: Final = 1e-6  # [-] how far from unit length or from a right angle the axes of a support may be


def shift_wrench(wrenches: ArrayLike, point: ArrayLike) -> tuple[FloatArray, FloatArray]:
    r"""Force and moment about a point ``(3,)`` or ``(F, 3)``: :math:`n_p = n_0 - p\times f`."""
    values = np.asarray(wrenches, dtype=np.float64)
    if values.shape[-1:] != (6,):
        raise InputError(f"wrenches have shape {values.shape}, expected (..., 6)", "Force first, then moment")
    force, moment = values[..., :3], values[..., 3:]
    place = frozen(point, name="point")
    return force, moment - np.cross(np.broadcast_to(place, force.shape), force)


def compute_friction_edges(
    normal: ArrayLike, friction: float, edges: int = 8, *, ahead: ArrayLike | None = None, square: bool = False
) -> FloatArray:
    """Directions ``(edges, 3)`` of a friction pyramid inside the round cone, unit along the normal.

    Args:
        normal: unit ``(3,)``.
        friction: coefficient.
        edges: at least three.
        ahead: a direction across the normal that the pyramid is lined up with.
        square: with four edges, the pyramid around the round cone whose sides are at ``|f_x| = friction · f_n``.
    """
    if not (np.isfinite(friction) and friction >= 0.0):
        raise InputError(f"friction is {friction}", "It is 0 or more; shoes on a floor have 0.5 to 1")
    if edges < 3:
        raise InputError(f"{edges} edges make no pyramid", "Give at least 3")
    up = frozen(normal, 3, name="normal")
    if abs(np.linalg.norm(up) - 1.0) > UNIT_TOL:
        raise InputError(f"the normal has length {np.linalg.norm(up):g}", "Give a unit vector")
    # Some direction across the normal, unless one is given
    axis = np.eye(3)[int(np.argmin(np.abs(up)))]
    x = np.asarray(axis - up * (up @ axis) if ahead is None else ahead, dtype=np.float64)
    x = x / np.linalg.norm(x)
    angles = 2.0 * np.pi * (np.arange(edges) + 0.5) / edges
    reach = friction * (np.sqrt(2.0) if square else 1.0)
    return up + reach * (np.outer(np.cos(angles), x) + np.outer(np.sin(angles), np.cross(up, x)))
