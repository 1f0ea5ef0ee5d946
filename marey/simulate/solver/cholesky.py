"""Compiled factor of an inertia, and what is solved with it.

Plain loops: library threads are slower for small matrices.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from marey.base import FloatArray, kernel

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
