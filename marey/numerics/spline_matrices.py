"""Sparse matrices of splines and their least-squares fits; loads scipy, so it is imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, sparse
from scipy.sparse.linalg import splu

from marey.base import FloatArray, InputError, IntArray, frozen

if TYPE_CHECKING:
    from scipy.sparse import csc_array, csr_array

    from marey.numerics.splines import UniformBSpline


_linalg: Any = linalg  # scipy has no stubs
_sparse: Any = sparse


def fit_coefficients(curve: UniformBSpline, t: FloatArray, values: ArrayLike, weights: ArrayLike | None) -> FloatArray:
    """Coefficients ``(K, *S)`` by banded normal equations, refined once.

    The basis is well conditioned (a few units for cubics), so that its square is harmless.
    """
    y = frozen(values, name="values")
    if y.ndim == 0 or len(y) != t.size:
        raise InputError(f"values have shape {y.shape}, there are {t.size} times")
    w = np.ones(t.size) if weights is None else frozen(weights, t.size, name="weights")
    if np.any(w <= 0.0):
        raise InputError("a weight is not positive", "Leave the sample out instead")
    _check_determined(curve, t)
    basis: Any = curve.basis_matrix(t)
    weighted: Any = basis.T.multiply(w).tocsr()
    factor = _banded_factor(weighted @ basis, curve.degree)
    flat = y.reshape(t.size, -1)
    solution = _solve_banded(factor, weighted @ flat)
    solution = solution + _solve_banded(factor, weighted @ (flat - basis @ solution))
    return solution.reshape(curve.num_coefficients, *y.shape[1:])


def sparse_rows(values: FloatArray, columns: IntArray, num_columns: int) -> csr_array:
    """Matrix ``(m, num_columns)`` with the given values ``(m, k)`` in the given columns of each row."""
    rows, width = values.shape
    starts = np.arange(rows + 1, dtype=np.int64) * np.int64(width)
    return cast("csr_array", _sparse.csr_array((values.ravel(), columns.ravel(), starts), (rows, num_columns)))


def times_differences(matrix: csr_array, weights: FloatArray) -> csr_array:
    """Multiply by the matrix that takes coefficients to weighted differences of neighbours."""
    shape = (weights.size, weights.size + 1)
    differences = _sparse.diags_array([-weights, weights], offsets=[0, 1], shape=shape)
    return cast("csr_array", _sparse.csr_array(matrix @ differences))


def _check_determined(curve: UniformBSpline, t: FloatArray) -> None:
    """Schoenberg-Whitney: a different sample under each basis function, in order."""
    times, knots = np.unique(t), curve.knots
    first = 0
    for k in range(curve.num_coefficients):
        low, high = knots[k], knots[k + curve.degree + 1]
        holds_low, holds_high = low == curve.start or curve.degree == 0, high == curve.stop
        while first < times.size and (times[first] < low or (times[first] == low and not holds_low)):
            first += 1
        if first == times.size or times[first] > high or (times[first] == high and not holds_high):
            raise InputError(
                f"no sample is left for coefficient {k}, between {low:g} and {high:g}",
                "Take fewer spans or more samples",
            )
        first += 1


def _banded_factor(normal: Any, degree: int) -> FloatArray:
    """Cholesky factor in LAPACK's lower banded form."""
    size: int = normal.shape[0]
    bands = np.zeros((degree + 1, size))
    for offset in range(min(degree, size - 1) + 1):
        bands[offset, : size - offset] = normal.diagonal(-offset)
    try:
        return cast(FloatArray, _linalg.cholesky_banded(bands, lower=True))
    except np.linalg.LinAlgError:
        raise InputError("samples are too close together to determine the coefficients", "Take fewer spans") from None


def _solve_banded(factor: FloatArray, right: FloatArray) -> FloatArray:
    return cast(FloatArray, _linalg.cho_solve_banded((factor, True), right))


_splu: Any = splu  # scipy has no stubs


def weighted_gram(design: Any, weights: FloatArray) -> csc_array:
    """Design' diag(weights) design ``(K, K)``."""
    return cast("csc_array", _sparse.csc_array(design.T @ _sparse.diags_array(weights) @ design))


def drop_zeros(matrix: FloatArray) -> csr_array:
    """Rows without their zeros."""
    return cast("csr_array", _sparse.csr_array(matrix))


def fit_with_smoothing(design: Any, gram: Any, samples: FloatArray, smoothing: float) -> FloatArray:
    """Coefficients ``(K, n)`` nearest to samples ``(T, n)``, with a share of the gram matrix against what none sees."""
    normal = design.T @ design
    share = smoothing * float(normal.diagonal().max()) / float(gram.diagonal().max())
    factor = _splu(_sparse.csc_array(normal + share * gram))
    return np.asarray(factor.solve(design.T @ samples), dtype=np.float64)
