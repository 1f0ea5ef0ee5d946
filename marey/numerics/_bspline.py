"""B-splines over uniform knots: values, derivatives, fits, refinement."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, frozen
from marey.numerics._bspline_basis import blossom, clip_to_domain, difference_weights, local_basis, uniform_knots

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class UniformBSpline:
    r"""A curve :math:`x(t) = \sum_k c_k\,\phi_k(t)` over equal knot spans between ``start`` and ``stop``.

    At most ``degree + 1`` of the basis functions are not zero at any time. With clamped ends the first and last knots
    are repeated, so that the curve starts at the first coefficient and ends at the last. [Fang2003]_ §2.3.
    """

    coefficients: FloatArray  # (K, ...) one row for each basis function
    degree: int = 3
    start: float = 0.0  # [s]
    stop: float = 1.0  # [s]
    is_clamped: bool = True

    def __post_init__(self) -> None:
        coefficients = frozen(self.coefficients, name="coefficients")
        object.__setattr__(self, "coefficients", coefficients)
        object.__setattr__(self, "start", float(self.start))
        object.__setattr__(self, "stop", float(self.stop))
        if self.degree < 0:
            raise InputError(f"degree is {self.degree}", "It cannot be negative")
        if coefficients.ndim == 0 or len(coefficients) <= self.degree:
            raise InputError(f"{coefficients.shape} coefficients for degree {self.degree}", "Give more than the degree")
        if not (np.isfinite(self.start) and np.isfinite(self.stop) and self.start < self.stop):
            raise InputError(f"the curve goes from {self.start} to {self.stop}", "The stop must come after the start")

    @classmethod
    def fit(
        cls,
        times: ArrayLike,
        values: ArrayLike,
        *,
        num_spans: int,
        degree: int = 3,
        interval: tuple[float, float] | None = None,
        is_clamped: bool = True,
        weights: ArrayLike | None = None,
    ) -> UniformBSpline:
        r"""Curve nearest to samples: :math:`\min_c \sum_i w_i \|x(t_i) - y_i\|^2`.

        Args:
            times: when each sample was taken ``(m,)`` [s], in any order.
            values: samples ``(m, ...)``.
            num_spans: how many equal spans; the curve has ``num_spans + degree`` coefficients.
            degree: of the pieces.
            interval: start and stop [s]; those of the times by default.
            is_clamped: repeat the knots at the ends.
            weights: how much each sample counts ``(m,)``, positive.

        Raises:
            InputError: the samples leave a coefficient undetermined (Schoenberg-Whitney); the message tells where.
        """
        from marey.numerics._bspline_fit import fit_coefficients

        t = frozen(times, None, name="times")
        if num_spans < 1 or t.size == 0:
            raise InputError(f"a fit of {t.size} samples over {num_spans} spans", "Both must be at least one")
        start, stop = (float(t.min()), float(t.max())) if interval is None else interval
        empty = cls(np.zeros(num_spans + degree), degree, start, stop, is_clamped)
        return replace(empty, coefficients=fit_coefficients(empty, t, values, weights))

    @property
    def num_coefficients(self) -> int:
        """How many basis functions there are."""
        return len(self.coefficients)

    @property
    def num_spans(self) -> int:
        """How many polynomial pieces the curve has."""
        return self.num_coefficients - self.degree

    @property
    def knots(self) -> FloatArray:
        """Knot times ``(K + degree + 1,)`` [s]."""
        return uniform_knots(self.start, self.stop, self.num_spans, self.degree, self.is_clamped)

    @property
    def greville(self) -> FloatArray:
        """Time ``(K,)`` [s] at which each coefficient has most of its say: the mean of its inner knots."""
        if self.degree == 0:
            return 0.5 * (self.knots[:-1] + self.knots[1:])
        inner = np.lib.stride_tricks.sliding_window_view(self.knots[1:-1], self.degree)
        return inner.mean(axis=-1)

    def __call__(self, times: ArrayLike, derivative: int = 0) -> FloatArray:
        """Values ``(..., *S)`` at times ``(...)`` [s], or derivatives of any order, for coefficients ``(K, *S)``."""
        if derivative:
            return self.derivative(derivative)(times)
        t = np.asarray(times, dtype=np.float64)
        spans, basis = self._local(t.ravel())
        rows = self.coefficients[spans[:, None] + np.arange(self.degree + 1)]
        return np.einsum("mk,mk...->m...", basis, rows).reshape(t.shape + self.coefficients.shape[1:])

    def derivative(self, order: int = 1) -> UniformBSpline:
        r"""Return the derivative as a curve of lower degree.

        .. math:: c'_k = p\,\frac{c_{k+1} - c_k}{\tau_{k+p+1} - \tau_{k+1}}
        """
        if order < 0:
            raise InputError(f"derivative of order {order}", "It cannot be negative")
        curve = self
        for _ in range(order):
            curve = curve._differentiate()
        return curve

    def basis_matrix(self, times: ArrayLike, derivative: int = 0) -> csr_array:
        """Sparse matrix ``(m, K)`` that takes coefficients to values (or derivatives) at times ``(m,)`` [s]."""
        from marey.numerics._bspline_fit import sparse_rows, times_differences

        t = frozen(times, None, name="times")
        if derivative > self.degree:
            return sparse_rows(np.zeros((t.size, 0)), np.zeros((t.size, 0), dtype=np.int64), self.num_coefficients)
        lowered = self.derivative(derivative)
        spans, basis = lowered._local(t)
        matrix = sparse_rows(basis, spans[:, None] + np.arange(lowered.degree + 1), lowered.num_coefficients)
        for degree in range(lowered.degree + 1, self.degree + 1):
            knots = uniform_knots(self.start, self.stop, self.num_spans, degree, self.is_clamped)
            matrix = times_differences(matrix, difference_weights(knots, degree))
        return matrix

    def refine(self, factor: int = 2) -> UniformBSpline:
        """Same curve with every span cut into ``factor`` equal ones, by knot insertion (blossoms)."""
        if factor < 1:
            raise InputError(f"spans cut into {factor}", "The factor is at least one")
        finer = replace(self, coefficients=np.zeros(self.num_spans * factor + self.degree))
        new = finer.knots
        j = np.arange(finer.num_coefficients)
        arguments = new[j[:, None] + np.arange(1, self.degree + 1)]
        pieces = np.clip(j - self.degree // 2, 0, finer.num_spans - 1) // factor  # one piece under each new basis
        return replace(self, coefficients=blossom(self.knots, self.coefficients, self.degree, pieces, arguments))

    def _local(self, t: FloatArray) -> tuple[IntArray, FloatArray]:
        """Span index ``(m,)`` of each time, and the basis functions ``(m, degree + 1)`` there."""
        t = clip_to_domain(t, self.start, self.stop)
        width = (self.stop - self.start) / self.num_spans
        spans = np.clip(((t - self.start) / width).astype(np.int64), 0, self.num_spans - 1)
        return spans, local_basis(self.knots, self.degree, spans, t)

    def _differentiate(self) -> UniformBSpline:
        if self.degree == 0:
            return replace(self, coefficients=np.zeros_like(self.coefficients))
        weights = difference_weights(self.knots, self.degree)
        shape = (-1,) + (1,) * (self.coefficients.ndim - 1)
        slopes = weights.reshape(shape) * np.diff(self.coefficients, axis=0)
        return replace(self, coefficients=slopes, degree=self.degree - 1)

    def __repr__(self) -> str:
        ends = "clamped" if self.is_clamped else "open"
        shape = self.coefficients.shape[1:]
        return f"UniformBSpline(degree {self.degree}, {self.num_spans} spans, {ends}, values {shape})"
