"""Sparse matrices of a knot spline; loads scipy, so it is imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from marey.base import FloatArray

if TYPE_CHECKING:
    from scipy.sparse import csc_array, csr_array

_sparse: Any = sparse  # scipy has no stubs
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
