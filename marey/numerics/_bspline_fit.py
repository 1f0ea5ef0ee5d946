"""Least-squares fit of a spline; loads scipy, so it is imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_solve_banded, cholesky_banded

from marey.base import FloatArray, InputError, frozen

if TYPE_CHECKING:
    from marey.numerics._bspline import UniformBSpline


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
    solution = _solve(factor, weighted @ flat)
    solution = solution + _solve(factor, weighted @ (flat - basis @ solution))
    return solution.reshape(curve.num_coefficients, *y.shape[1:])


def _check_determined(curve: UniformBSpline, t: FloatArray) -> None:
    """Schoenberg-Whitney: a different sample under each basis function, in order."""
    times, knots = np.unique(t), curve.knots
    first = 0
    for k in range(curve.num_coefficients):
        low, high = knots[k], knots[k + curve.degree + 1]
        while first < times.size and times[first] <= low and not (times[first] == low == curve.start):
            first += 1
        if first == times.size or (times[first] >= high and not (times[first] == high == curve.stop)):
            raise InputError(
                f"no sample is left for coefficient {k}, between {low:g} and {high:g}", "Take fewer spans or more samples"
            )
        first += 1


def _banded_factor(normal: Any, degree: int) -> FloatArray:
    """Cholesky factor in LAPACK's lower banded form."""
    size: int = normal.shape[0]
    bands = np.zeros((degree + 1, size))
    for offset in range(min(degree, size - 1) + 1):
        bands[offset, : size - offset] = normal.diagonal(-offset)
    try:
        return cast(FloatArray, cholesky_banded(bands, lower=True))
    except np.linalg.LinAlgError:
        raise InputError("samples are too close together to tell the coefficients apart", "Take fewer spans") from None


def _solve(factor: FloatArray, right: FloatArray) -> FloatArray:
    return cast(FloatArray, cho_solve_banded((factor, True), right))
