"""Compiled factor of an inertia, and quadratic programmes with bounds that are solved with it.

The programmes have an active set, after Stark and Parker's form of Lawson and Hanson's: the free unknowns are kept with
the upper factor of their part of A, which grows and shrinks one row at a time. Plain loops: library threads are slower
for small matrices.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, kernel

PIVOT_PART = 1e-14  # [-] of a diagonal entry; below it a pivot is rounding


@kernel
def cholesky(matrix: FloatArray) -> tuple[FloatArray, bool]:
    """Upper factor U of a symmetric matrix, :math:`M = U^T U`, and whether M is positive definite.

    Pivots are kept above rounding, so that the factor can be used whatever M is.
    """
    n, is_definite = matrix.shape[0], True
    U = np.zeros((n, n))
    for i in range(n):
        for j in range(i, n):
            U[i, j] = matrix[i, j]
    for k in range(n):
        # Pivot of row k
        least = PIVOT_PART * abs(matrix[k, k]) + 1e-300
        if not U[k, k] > least:
            is_definite = False
        pivot = sqrt(max(U[k, k], least))
        U[k, k] = pivot
        for j in range(k + 1, n):
            U[k, j] /= pivot
        # Right-looking update of the rows below
        for i in range(k + 1, n):
            f = U[k, i]
            if f != 0.0:
                for j in range(i, n):
                    U[i, j] -= f * U[k, j]
    return U, is_definite


@kernel
def forward_substitute(U: FloatArray, y: FloatArray) -> None:
    """Solve U^T x = y in place."""
    n = U.shape[0]
    for i in range(n):
        if y[i] != 0.0:
            f = y[i] / U[i, i]
            y[i] = f
            for k in range(i + 1, n):
                y[k] -= f * U[i, k]


@kernel
def back_substitute(U: FloatArray, y: FloatArray) -> None:
    """Solve U x = y in place."""
    for i in range(U.shape[0] - 1, -1, -1):
        total = y[i]
        for k in range(i + 1, U.shape[0]):
            total -= U[i, k] * y[k]
        y[i] = total / U[i, i]


@kernel
def solve_cholesky(U: FloatArray, y: FloatArray) -> FloatArray:
    """Solution of U^T U x = y."""
    x = y.copy()
    forward_substitute(U, x)
    back_substitute(U, x)
    return x


@kernel
def solve_symmetric(matrix: FloatArray, rhs: FloatArray) -> tuple[FloatArray, bool]:
    """Solution ``(d,)`` of a symmetric system, and whether its matrix is positive definite."""
    U, is_definite = cholesky(matrix)
    return solve_cholesky(U, rhs), is_definite


@kernel
def factor_and_solve(matrix: FloatArray, rhs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Upper factor ``(d, d)`` of a symmetric matrix, and the solution ``(d,)`` of its system."""
    U, _ = cholesky(matrix)
    return U, solve_cholesky(U, rhs)


class BoundedProgramme(NamedTuple):
    r"""Minimise :math:`\frac12 x^T A x - r^T x` with :math:`l \le x \le u`; A is positive definite."""

    A: FloatArray  # (m, m)
    r: FloatArray  # (m,)
    lower: FloatArray  # (m,) may be infinite
    upper: FloatArray  # (m,) may be infinite


class ActiveSet(NamedTuple):
    """Which unknowns are free; the others stay at a bound."""

    is_free: BoolArray  # (m,)
    free: IntArray  # (m,) those that are, the first ``count`` of it, in the order of the factor
    U: FloatArray  # (m, m) upper factor of their part of A, in its first ``count`` rows


@kernel
def _free_unknown(A: FloatArray, active: ActiveSet, count: int, i: int, shut: BoolArray) -> int:
    """Let an unknown go; return how many are free."""
    active.free[count], active.is_free[i], shut[i] = i, True, True
    # Update the Cholesky factor of the free rows by one column
    free, U = active.free, active.U
    new = free[count]
    rest = A[new, new]
    for row in range(count):
        total = A[free[row], new]
        for k in range(row):
            total -= U[k, row] * U[k, count]
        total /= U[row, row]
        U[row, count] = total
        rest -= total * total
    U[count, count] = sqrt(max(rest, PIVOT_PART * A[new, new]))
    return count + 1


@kernel
def _solve_free(programme: BoundedProgramme, x: FloatArray, active: ActiveSet, count: int) -> FloatArray:
    """Solution for the free unknowns with the others fixed ``(count,)``."""
    A, r, U, free = programme.A, programme.r, active.U, active.free
    z = np.empty(count)
    # Forward substitution with U^T of r - A x over the fixed unknowns
    for n in range(count):
        i = free[n]
        total = r[i]
        for j in range(x.shape[0]):
            if not active.is_free[j] and x[j] != 0.0:
                total -= A[i, j] * x[j]
        for k in range(n):
            total -= U[k, n] * z[k]
        z[n] = total / U[n, n]
    # Back substitution with U
    for n in range(count - 1, -1, -1):
        total = z[n]
        for k in range(n + 1, count):
            total -= U[n, k] * z[k]
        z[n] = total / U[n, n]
    return z


@kernel
def solve_bounded(
    programme: BoundedProgramme,
    kept: BoolArray,
    start: FloatArray,
    soft: FloatArray,
    tolerance: float,
    max_changes: int,
) -> tuple[FloatArray, int]:
    r"""Solution ``(m,)`` of a programme, and how often the set of free unknowns changed.

    At the end one proximal step takes out what the compliance left: x solves :math:`A x = r + E x` once more.

    Args:
        programme: with the compliance on the diagonal of A.
        kept: ``(m,)`` which are there at all; the others are nothing.
        start: ``(m,)`` first guess: what is strictly between its bounds is free at first.
        soft: ``(m,)`` compliance E.
        tolerance: gradients at a bound below this count as zero.
        max_changes: of the set of free ones; the count comes back, one more where this did not do.
    """
    A, r, lower, upper = programme
    m = r.shape[0]
    x, shut = np.zeros(m), ~kept
    active = ActiveSet(np.zeros(m, dtype=np.bool_), np.empty(m, dtype=np.int64), np.empty((m, m)))
    # Start from the guess: what is strictly between its bounds is free
    count = 0
    for i in range(m):
        if kept[i]:
            x[i] = min(max(start[i], lower[i]), upper[i])
            if lower[i] < x[i] < upper[i]:
                count = _free_unknown(A, active, count, i, shut)
    changes, newest = 0, -1
    while changes <= max_changes:
        # Newton step in the free unknowns, up to the first bound
        # Move the free unknowns to their target, or as far as bounds allow
        low, high, free = programme.lower, programme.upper, active.free
        z = _solve_free(programme, x, active, count)
        # Ratio test: the largest part of the step that keeps all within their bounds
        part, blocking = 1.0, -1
        for n in range(count):
            i = free[n]
            if z[n] < low[i] or z[n] > high[i]:
                way = ((low[i] if z[n] < low[i] else high[i]) - x[i]) / (z[n] - x[i])
                if way < part or blocking < 0:
                    part, blocking = min(way, 1.0), n
        for n in range(count):
            i = free[n]
            x[i] = z[n] if blocking < 0 else x[i] + part * (z[n] - x[i])
        # The blocking unknown lies on its bound exactly
        if blocking >= 0:
            i = free[blocking]
            x[i] = low[i] if z[blocking] < low[i] else high[i]
        if blocking >= 0:
            i = active.free[blocking]
            shut[i] = i == newest  # back at once: rounding brought it in
            # Downdate the factor: the column of the blocking unknown goes, rotations restore the triangle
            free, U = active.free, active.U
            active.is_free[free[blocking]] = False
            for c in range(blocking, count - 1):
                free[c] = free[c + 1]
                for row in range(c + 2):
                    U[row, c] = U[row, c + 1]
            for k in range(blocking, count - 1):
                a, b = U[k, k], U[k + 1, k]
                length = sqrt(a * a + b * b)
                c, s = a / length, b / length
                U[k, k] = length
                for j in range(k + 1, count - 1):
                    above, below = U[k, j], U[k + 1, j]
                    U[k, j], U[k + 1, j] = c * above + s * below, c * below - s * above
            count -= 1
        else:
            if newest >= 0 and active.is_free[newest]:  # true progress: what was shut out may try again
                shut = active.is_free | ~kept
            # Free the unknown at a bound whose gradient, in units of its diagonal, points inwards most
            best, newest = 0.0, -1
            for i in range(m):
                if shut[i]:
                    continue
                gradient = r[i]
                for j in range(m):
                    if x[j] != 0.0:
                        gradient -= A[i, j] * x[j]
                if (x[i] <= lower[i] and gradient > tolerance) or (x[i] >= upper[i] and gradient < -tolerance):
                    size = abs(gradient) / sqrt(A[i, i])
                    if size > best:
                        best, newest = size, i
            if newest < 0:
                break
            count = _free_unknown(A, active, count, newest, shut)
        changes += 1
    # Proximal step: solve A x = r + E x once with the set that was found
    refined, is_within = _solve_free(BoundedProgramme(A, r + soft * x, lower, upper), x, active, count), True
    for n in range(count):
        i = active.free[n]
        is_within = is_within and not (refined[n] < lower[i] or refined[n] > upper[i])
    if is_within:
        for n in range(count):
            x[active.free[n]] = refined[n]
    return x, changes
