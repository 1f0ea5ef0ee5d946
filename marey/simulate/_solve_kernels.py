r"""Compiled solution of one constrained step: a small quadratic programme in the multipliers of its rows.

The step :math:`\arg\min \frac12 v^T M v - f^T v` with rows :math:`J v = b`, :math:`J v \ge b` has the dual

.. math:: \min_{l \le \lambda \le u} \tfrac12 \lambda^T (J M^{-1} J^T + E)\,\lambda - (b - J M^{-1} f)^T \lambda,
          \qquad v = M^{-1}(f + J^T \lambda)

[Tournier2011]_ §10.3. E is a small compliance, so that the programme has one solution whatever the rows are.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, kernel
from marey.simulate._solve_bounded_kernels import BoundedProgramme, solve_bounded
from marey.simulate._solve_factor_kernels import back_substitute, forward_substitute_rows

BOUND_TOL = 1e-6  # [-] change of the bounds of friction at which normal and tangential impulses agree
PARALLEL = 1.0 - 1e-9  # [-] cosine above which two rows are one


class RowArrays(NamedTuple):
    """Rows of a step as its solution takes them; see ``Rows``."""

    J: FloatArray  # (m, d)
    b: FloatArray  # (m,)
    lower: FloatArray  # (m,) least multipliers
    upper: FloatArray  # (m,) greatest ones
    partners: IntArray  # (m,) row whose multiplier, times the grip, bounds this one's; -1 for none
    grips: FloatArray  # (m,) coefficients of friction of rows with partners


@kernel
def assemble_dual(
    U: FloatArray, rows: FloatArray, bounds: FloatArray, free_velocity: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Rows in the metric of M ``(m, d)``, :math:`J M^{-1} J^T` ``(m, m)`` and :math:`b - J v_{free}` ``(m,)``."""
    W = forward_substitute_rows(U, rows)
    m, d = rows.shape
    A, columns, r = np.zeros((m, m)), np.ascontiguousarray(W.T), bounds.copy()
    for i in range(m):
        for k in range(d):
            r[i] -= rows[i, k] * free_velocity[k]
            f = W[i, k]
            if f != 0.0:
                for j in range(i + 1):  # plain loops: so small a product does not pay for threads
                    A[i, j] += f * columns[k, j]
    for i in range(m):
        for j in range(i):
            A[j, i] = A[i, j]
    return W, A, r


@kernel
def primal_velocity(U: FloatArray, free_velocity: FloatArray, W: FloatArray, x: FloatArray) -> FloatArray:
    r"""Velocity :math:`v_{free} + U^{-1} W^T \lambda`."""
    d = U.shape[0]
    y = np.zeros(d)
    for i in range(x.shape[0]):
        if x[i] != 0.0:
            for k in range(d):
                y[k] += W[i, k] * x[i]
    back_substitute(U, y)
    return free_velocity + y


@kernel
def _drop_parallel(A: FloatArray, r: FloatArray, lower: FloatArray, upper: FloatArray, kept: BoolArray) -> None:
    """Keep only the tighter one of two one-sided rows that point the same way."""
    m = A.shape[0]
    for i in range(m):
        if not kept[i] or lower[i] != 0.0 or not np.isinf(upper[i]):
            continue
        for j in range(i + 1, m):
            if not kept[j] or lower[j] != 0.0 or not np.isinf(upper[j]):
                continue
            if A[i, j] > PARALLEL * sqrt(A[i, i] * A[j, j]):
                if r[i] * sqrt(A[j, j]) >= r[j] * sqrt(A[i, i]):
                    kept[j] = False
                else:
                    kept[i] = False
                    break


@kernel
def _disable_slack_rows(A: FloatArray, r: FloatArray, lower: FloatArray, upper: FloatArray) -> BoolArray:
    kept = np.ones(r.shape[0], dtype=np.bool_)
    for i in range(r.shape[0]):
        kept[i] = A[i, i] > 0.0  # a row that nothing can move is none
    _drop_parallel(A, r, lower, upper, kept)
    return kept


@kernel
def _update_friction_bounds(
    x: FloatArray, partners: IntArray, grips: FloatArray, low: FloatArray, high: FloatArray
) -> bool:
    """Bound tangential multipliers by normal ones; tell whether the bounds have settled."""
    moved, greatest = 0.0, 0.0
    for i in range(x.shape[0]):
        if partners[i] >= 0:
            bound = grips[i] * max(0.0, x[partners[i]])
            moved, greatest = max(moved, abs(bound - high[i])), max(greatest, bound)
            low[i], high[i] = -bound, bound
    return moved <= BOUND_TOL * greatest


@kernel
def _row_violations(rows: RowArrays, velocity: FloatArray) -> FloatArray:
    """How far a velocity breaks each row; rows with bounded multipliers may be broken."""
    J, b, lower, upper = rows.J, rows.b, rows.lower, rows.upper
    out = np.zeros(b.shape[0])
    for i in range(b.shape[0]):
        gap = b[i]
        for k in range(velocity.shape[0]):
            gap -= J[i, k] * velocity[k]
        if np.isinf(lower[i]):
            out[i] = abs(gap)
        elif np.isinf(upper[i]):
            out[i] = max(0.0, gap)
    return out


@kernel
def solve_constrained_velocity(
    U: FloatArray,
    free_velocity: FloatArray,
    rows: RowArrays,
    compliance: FloatArray,
    start: FloatArray,
    tolerance: float,
    max_passes: int,
) -> tuple[FloatArray, FloatArray, FloatArray, int, int]:
    """Velocity ``(d,)``, multipliers ``(m,)``, how far each row is missed ``(m,)``, changes and passes.

    Args:
        U: upper factor of the inertia ``(d, d)``.
        free_velocity: velocity without any row ``(d,)``.
        rows: what must hold.
        compliance: of each row ``(m,)``, as a part of its own diagonal entry.
        start: guess of the multipliers ``(m,)``.
        tolerance: [m/s] rows may be missed by this, relative to the largest right-hand side above one.
        max_passes: of normal and tangential impulses in turn.
    """
    W, A, r = assemble_dual(U, rows.J, rows.b, free_velocity)
    m = r.shape[0]
    size = 1.0
    for i in range(m):
        size = max(size, abs(r[i]))
    kept = _disable_slack_rows(A, r, rows.lower, rows.upper)
    soft = np.empty(m)
    for i in range(m):
        soft[i] = compliance[i] * A[i, i]
        A[i, i] += soft[i]
    programme = BoundedProgramme(A, r, rows.lower.copy(), rows.upper.copy())
    x, changes, passes = start.copy(), 0, 0
    while passes < max_passes:
        x, more = solve_bounded(programme, kept, x, soft, tolerance * size, 20 + 4 * m)
        changes += more
        passes += 1
        if _update_friction_bounds(x, rows.partners, rows.grips, programme.lower, programme.upper):
            break
    velocity = primal_velocity(U, free_velocity, W, x)
    return velocity, x, _row_violations(rows, velocity), changes, passes
