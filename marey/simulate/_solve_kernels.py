r"""Compiled solution of one constrained step: a small quadratic programme in the multipliers of its rows.

The step :math:`\arg\min \frac12 v^T M v - f^T v` with rows :math:`J v = b`, :math:`J v \ge b` has the dual

.. math:: \min_{l \le \lambda \le u} \tfrac12 \lambda^T (J M^{-1} J^T + E)\,\lambda - (b - J M^{-1} f)^T \lambda,
          \qquad v = M^{-1}(f + J^T \lambda)

[Tournier2011]_ §10.3. E is a small compliance, so that the programme has one solution whatever the rows are. It is
solved by an active set with bounds on both sides (Stark and Parker's form of Lawson and Hanson's method).
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, kernel

PIVOT_PART = 1e-14  # [-] of a diagonal entry; below it a pivot is rounding
SETTLED = 1e-6  # [-] change of the bounds of friction at which normal and tangential impulses agree
PARALLEL = 1.0 - 1e-9  # [-] cosine above which two rows are one


@kernel
def cholesky(matrix: FloatArray) -> FloatArray:
    """Upper factor U of a positive definite matrix, :math:`M = U^T U`; pivots are kept above rounding."""
    n = matrix.shape[0]
    U = np.zeros((n, n))
    for i in range(n):
        for j in range(i, n):
            U[i, j] = matrix[i, j]
    for k in range(n):
        pivot = sqrt(max(U[k, k], PIVOT_PART * abs(matrix[k, k]) + 1e-300))
        U[k, k] = pivot
        for j in range(k + 1, n):
            U[k, j] /= pivot
        for i in range(k + 1, n):
            f = U[k, i]
            if f != 0.0:
                for j in range(i, n):
                    U[i, j] -= f * U[k, j]
    return U


@kernel
def _lower(U: FloatArray, y: FloatArray) -> None:
    """Solve U^T x = y in place."""
    n = U.shape[0]
    for i in range(n):
        if y[i] != 0.0:
            f = y[i] / U[i, i]
            y[i] = f
            for k in range(i + 1, n):
                y[k] -= f * U[i, k]


@kernel
def _raise(U: FloatArray, y: FloatArray) -> None:
    """Solve U x = y in place."""
    for i in range(U.shape[0] - 1, -1, -1):
        total = y[i]
        for k in range(i + 1, U.shape[0]):
            total -= U[i, k] * y[k]
        y[i] = total / U[i, i]


@kernel
def solved(U: FloatArray, y: FloatArray) -> FloatArray:
    """Solution of U^T U x = y."""
    x = y.copy()
    _lower(U, x)
    _raise(U, x)
    return x


@kernel
def lowered(U: FloatArray, rows: FloatArray) -> FloatArray:
    """Rows ``(m, d)`` of :math:`(U^{-T} J^T)^T`."""
    out = rows.copy()
    for r in range(rows.shape[0]):
        _lower(U, out[r])
    return out


@kernel
def drop_parallel(A: FloatArray, r: FloatArray, lower: FloatArray, upper: FloatArray, kept: BoolArray) -> None:
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
def _append(A: FloatArray, U: FloatArray, free: IntArray, count: int) -> None:
    """Extend the upper factor of the free rows by the last of them."""
    new = free[count]
    rest = A[new, new]
    for i in range(count):
        total = A[free[i], new]
        for k in range(i):
            total -= U[k, i] * U[k, count]
        total /= U[i, i]
        U[i, count] = total
        rest -= total * total
    U[count, count] = sqrt(max(rest, PIVOT_PART * A[new, new]))


@kernel
def _remove(U: FloatArray, free: IntArray, count: int, place: int) -> None:
    """Take one row out of the factor: its column goes, and rotations bring the rest back to a triangle."""
    for c in range(place, count - 1):
        free[c] = free[c + 1]
        for i in range(c + 2):
            U[i, c] = U[i, c + 1]
    for k in range(place, count - 1):
        a, b = U[k, k], U[k + 1, k]
        length = sqrt(a * a + b * b)
        c, s = a / length, b / length
        U[k, k] = length
        for j in range(k + 1, count - 1):
            x, y = U[k, j], U[k + 1, j]
            U[k, j], U[k + 1, j] = c * x + s * y, c * y - s * x


@kernel
def _target(
    A: FloatArray, r: FloatArray, x: FloatArray, is_free: BoolArray, U: FloatArray, free: IntArray, count: int
) -> FloatArray:
    """Where the free multipliers want to go while the others stay."""
    z = np.empty(count)
    for n in range(count):
        i = free[n]
        total = r[i]
        for j in range(x.shape[0]):
            if not is_free[j] and x[j] != 0.0:
                total -= A[i, j] * x[j]
        for k in range(n):
            total -= U[k, n] * z[k]
        z[n] = total / U[n, n]
    for n in range(count - 1, -1, -1):
        total = z[n]
        for k in range(n + 1, count):
            total -= U[n, k] * z[k]
        z[n] = total / U[n, n]
    return z


@kernel
def _most_wanted(
    A: FloatArray,
    r: FloatArray,
    x: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    shut: BoolArray,
    tolerance: float,
) -> int:
    """Multiplier at a bound that should leave it most, or -1; ``shut`` ones do not count."""
    best, found = 0.0, -1
    for i in range(x.shape[0]):
        if shut[i]:
            continue
        w = r[i]
        for j in range(x.shape[0]):
            if x[j] != 0.0:
                w -= A[i, j] * x[j]
        if (x[i] <= lower[i] and w > tolerance) or (x[i] >= upper[i] and w < -tolerance):
            size = abs(w) / sqrt(A[i, i])
            if size > best:
                best, found = size, i
    return found


@kernel
def _hardened(
    A: FloatArray,
    r: FloatArray,
    x: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    is_free: BoolArray,
    U: FloatArray,
    free: IntArray,
    count: int,
) -> None:
    """Move the free multipliers to their next target, if that is within all bounds."""
    z = _target(A, r, x, is_free, U, free, count)
    for n in range(count):
        if z[n] < lower[free[n]] or z[n] > upper[free[n]]:
            return
    for n in range(count):
        x[free[n]] = z[n]


@kernel
def _freed(
    A: FloatArray, U: FloatArray, free: IntArray, count: int, i: int, is_free: BoolArray, shut: BoolArray
) -> int:
    """Let a multiplier go; return how many are free."""
    free[count], is_free[i], shut[i] = i, True, True
    _append(A, U, free, count)
    return count + 1


@kernel
def _moved(
    A: FloatArray,
    r: FloatArray,
    x: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    is_free: BoolArray,
    U: FloatArray,
    free: IntArray,
    count: int,
) -> int:
    """Move the free multipliers to their target, or as far as bounds allow; return which of them is at one, or -1."""
    z = _target(A, r, x, is_free, U, free, count)
    part, blocking = 1.0, -1
    for n in range(count):
        i = free[n]
        if z[n] < lower[i] or z[n] > upper[i]:
            way = ((lower[i] if z[n] < lower[i] else upper[i]) - x[i]) / (z[n] - x[i])
            if way < part or blocking < 0:
                part, blocking = min(way, 1.0), n
    for n in range(count):
        i = free[n]
        x[i] = z[n] if blocking < 0 else x[i] + part * (z[n] - x[i])
    if blocking >= 0:
        i = free[blocking]
        x[i] = lower[i] if z[blocking] < lower[i] else upper[i]
    return blocking


@kernel
def bounded_programme(
    A: FloatArray,
    r: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    kept: BoolArray,
    start: FloatArray,
    soft: FloatArray,
    tolerance: float,
    max_changes: int,
) -> tuple[FloatArray, int]:
    r"""Minimise :math:`\frac12 x^T A x - r^T x` with :math:`l \le x \le u`; A is positive definite.

    At the end one proximal step takes out what the compliance left: x solves :math:`A x = r + E x` once more.

    Args:
        A: ``(m, m)``, with the compliance.
        r: ``(m,)``.
        lower: ``(m,)``, may be infinite.
        upper: ``(m,)``, may be infinite.
        kept: ``(m,)`` which are there at all; the others are nothing.
        start: ``(m,)`` first guess: what is strictly between its bounds is free at first.
        soft: ``(m,)`` compliance E, on the diagonal of A.
        tolerance: a slope at a bound below this is none.
        max_changes: of the set of free ones; the count comes back, one more where this did not do.
    """
    m = r.shape[0]
    x, is_free, shut = np.zeros(m), np.zeros(m, dtype=np.bool_), ~kept
    U, free, count = np.empty((m, m)), np.empty(m, dtype=np.int64), 0
    for i in range(m):
        if kept[i]:
            x[i] = min(max(start[i], lower[i]), upper[i])
            if lower[i] < x[i] < upper[i]:
                count = _freed(A, U, free, count, i, is_free, shut)
    changes, newest = 0, -1
    while changes <= max_changes:
        blocking = _moved(A, r, x, lower, upper, is_free, U, free, count)
        if blocking >= 0:
            i = free[blocking]
            is_free[i], shut[i] = False, i == newest  # back at once: rounding brought it in
            _remove(U, free, count, blocking)
            count -= 1
        else:
            if newest >= 0 and is_free[newest]:  # true progress: what was shut out may try again
                shut = is_free | ~kept
            newest = _most_wanted(A, r, x, lower, upper, shut, tolerance)
            if newest < 0:
                break
            count = _freed(A, U, free, count, newest, is_free, shut)
        changes += 1
    _hardened(A, r + soft * x, x, lower, upper, is_free, U, free, count)
    return x, changes


@kernel
def dual_system(
    U: FloatArray, rows: FloatArray, bounds: FloatArray, free_velocity: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Rows in the metric of M ``(m, d)``, :math:`J M^{-1} J^T` ``(m, m)`` and :math:`b - J v_{free}` ``(m,)``."""
    W = lowered(U, rows)
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
def regained(U: FloatArray, free_velocity: FloatArray, W: FloatArray, x: FloatArray) -> FloatArray:
    r"""Velocity :math:`v_{free} + U^{-1} W^T \lambda`."""
    d = U.shape[0]
    y = np.zeros(d)
    for i in range(x.shape[0]):
        if x[i] != 0.0:
            for k in range(d):
                y[k] += W[i, k] * x[i]
    _raise(U, y)
    return free_velocity + y


@kernel
def _drop_loose(A: FloatArray, r: FloatArray, lower: FloatArray, upper: FloatArray) -> BoolArray:
    kept = np.ones(r.shape[0], dtype=np.bool_)
    for i in range(r.shape[0]):
        kept[i] = A[i, i] > 0.0  # a row that nothing can move is none
    drop_parallel(A, r, lower, upper, kept)
    return kept


@kernel
def _rebounded(x: FloatArray, partners: IntArray, grips: FloatArray, low: FloatArray, high: FloatArray) -> bool:
    """Bound tangential multipliers by normal ones; tell whether the bounds have settled."""
    moved, greatest = 0.0, 0.0
    for i in range(x.shape[0]):
        if partners[i] >= 0:
            bound = grips[i] * max(0.0, x[partners[i]])
            moved, greatest = max(moved, abs(bound - high[i])), max(greatest, bound)
            low[i], high[i] = -bound, bound
    return moved <= SETTLED * greatest


@kernel
def constrained_velocity(
    U: FloatArray,
    free_velocity: FloatArray,
    J: FloatArray,
    b: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    partners: IntArray,
    grips: FloatArray,
    compliance: FloatArray,
    start: FloatArray,
    tolerance: float,
    max_passes: int,
) -> tuple[FloatArray, FloatArray, FloatArray, int, int]:
    """Velocity ``(d,)``, multipliers ``(m,)``, how far each row is missed ``(m,)``, changes and passes.

    Args:
        U: upper factor of the inertia ``(d, d)``.
        free_velocity: velocity without any row ``(d,)``.
        J: rows ``(m, d)``.
        b: their bounds ``(m,)``.
        lower: least multipliers ``(m,)``.
        upper: greatest ones.
        partners: row whose multiplier, times the grip, bounds this one's; -1 for none.
        grips: coefficients of friction ``(m,)`` of rows with partners.
        compliance: of each row ``(m,)``, as a part of its own diagonal entry.
        start: guess of the multipliers ``(m,)``.
        tolerance: [m/s] rows may be missed by this, relative to the largest right-hand side above one.
        max_passes: of normal and tangential impulses in turn.
    """
    W, A, r = dual_system(U, J, b, free_velocity)
    m = r.shape[0]
    size = 1.0
    for i in range(m):
        size = max(size, abs(r[i]))
    kept = _drop_loose(A, r, lower, upper)
    soft = np.empty(m)
    for i in range(m):
        soft[i] = compliance[i] * A[i, i]
        A[i, i] += soft[i]
    low, high, x = lower.copy(), upper.copy(), start.copy()
    changes, passes = 0, 0
    while passes < max_passes:
        x, more = bounded_programme(A, r, low, high, kept, x, soft, tolerance * size, 20 + 4 * m)
        changes += more
        passes += 1
        if _rebounded(x, partners, grips, low, high):
            break
    velocity = regained(U, free_velocity, W, x)
    return velocity, x, _missed(J, b, lower, upper, velocity), changes, passes


@kernel
def _missed(J: FloatArray, b: FloatArray, lower: FloatArray, upper: FloatArray, velocity: FloatArray) -> FloatArray:
    """How far a velocity breaks each row; rows with bounded multipliers may be broken."""
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
