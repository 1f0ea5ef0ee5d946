r"""Compiled Cholesky solve of a small dense system, which says when the matrix is not positive definite."""

from __future__ import annotations

from math import sqrt

import numpy as np

from marey.base import FloatArray, kernel

SMALLEST = 1e-14  # of the entry on the diagonal: below, a pivot is rounding


@kernel
def factored(matrix: FloatArray) -> tuple[FloatArray, bool]:
    """Lower factor of a symmetric matrix ``(d, d)``, and whether it is positive definite."""
    size = matrix.shape[0]
    lower = np.zeros((size, size))
    for i in range(size):
        for j in range(i + 1):
            total = matrix[i, j]
            for m in range(j):
                total -= lower[i, m] * lower[j, m]
            if i > j:
                lower[i, j] = total / lower[j, j]
            elif total > SMALLEST * abs(matrix[i, i]):
                lower[i, i] = sqrt(total)
            else:
                return lower, False
    return lower, True


@kernel
def solved(lower: FloatArray, rhs: FloatArray) -> FloatArray:
    """Solution ``(d,)`` of a factored system."""
    x, size = rhs.copy(), rhs.shape[0]
    for i in range(size):
        for m in range(i):
            x[i] -= lower[i, m] * x[m]
        x[i] /= lower[i, i]
    for i in range(size - 1, -1, -1):
        x[i] /= lower[i, i]
        for m in range(i):
            x[m] -= lower[i, m] * x[i]
    return x


@kernel
def solution(matrix: FloatArray, rhs: FloatArray) -> tuple[FloatArray, bool]:
    """Solution ``(d,)`` of a symmetric system, and whether its matrix is positive definite."""
    lower, is_definite = factored(matrix)
    return (solved(lower, rhs), True) if is_definite else (rhs.copy(), False)
