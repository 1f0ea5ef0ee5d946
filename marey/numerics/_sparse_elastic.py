"""The quadratic programme of one SQP iteration: elastic rows, a box, fixed variables left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from marey.base import FloatArray, IntArray
from marey.numerics._sparse_band import BandSystem
from marey.numerics._sparse_interior import ElasticRows, InteriorPoint, row_sums
from marey.numerics._sqp_programme import FIXED_WIDTH, NonlinearProgramme

MAX_STEPS = 60  # interior-point steps; 8 to 16 are usual

_sparse: Any = sparse  # scipy has no stubs


@dataclass(frozen=True, slots=True, eq=False)
class QPStep:
    """Answer of one quadratic programme."""

    d: FloatArray  # (n,)
    multipliers: FloatArray  # (m,) of the rows
    left: float  # sum of the linearised violations that remain
    model: float  # change of the quadratic model of the objective
    num_factors: int


class ElasticQP:
    r"""Minimise :math:`g^Td + \frac12 d^T(H + \epsilon I)d + \nu\sum\mathrm{viol}(c + Jd)` over a box.

    Patterns are laid out once; an iteration only brings new values.
    """

    def __init__(self, programme: NonlinearProgramme) -> None:
        lower, upper = programme.row_lower, programme.row_upper
        self.row_lower, self.row_upper = lower, upper
        self.free = np.flatnonzero(programme.upper - programme.lower > FIXED_WIDTH)
        is_equal = lower == upper
        self.equal = np.flatnonzero(is_equal)
        self.above = np.flatnonzero(np.isfinite(upper) & ~is_equal)
        self.below = np.flatnonzero(np.isfinite(lower) & ~is_equal)
        self.num_variables = programme.lower.size
        self.columns: FreeColumns | None = None

    def set(self, gradient: FloatArray, hessian: Any, jacobian: Any) -> None:
        """Take the derivatives at an iterate."""
        if self.columns is None or not self.columns.fits(hessian, jacobian):
            self.columns = FreeColumns(hessian, jacobian, self.free)
            self.system = BandSystem(self.columns.H, self.columns.J)
        self.H, self.J = self.columns.take(hessian, jacobian)
        self.system.set_jacobian(self.J.data)
        self.gradient = gradient[self.free]
        self.plain = self.H.data.copy()
        self.mean_curvature = float(self.H.diagonal().mean()) if self.free.size else 0.0
        self.solver = InteriorPoint(self.system, self.H, self.J)
        self.stiffen(0.0, 0.0)

    def stiffen(self, stiffness: float, ridge: float) -> None:
        """Multiply the Hessian by 1 + stiffness, and add the ridge to its diagonal."""
        self.stiffness = stiffness
        self.H.data[:] = (1.0 + stiffness) * self.plain
        self.system.set_hessian(self.H.data)
        self.solver.damping = ridge

    def curvature(self, d: FloatArray) -> float:
        """Second derivative of the objective along a step, with the Hessian as given."""
        inner = d[self.free]
        return float(inner @ (self.H @ inner)) / (1.0 + self.stiffness)

    def slope(self, d: FloatArray) -> float:
        """First derivative of the objective along a step."""
        return float(self.gradient @ d[self.free])

    def solve(self, rows: FloatArray, low: FloatArray, high: FloatArray, penalty: float, tolerance: float) -> QPStep:
        """Best step in the box for rows with the given values at its origin."""
        sides = self._sides(rows, penalty)
        box = (low[self.free], high[self.free])
        point, count = self.solver.solve(self.gradient, sides, *box, tolerance, MAX_STEPS)
        inner = np.clip(np.where(np.isfinite(point.d), point.d, 0.0), *box)
        moved = rows + self.J @ inner
        left = np.maximum(np.maximum(self.row_lower - moved, moved - self.row_upper), 0.0)
        d = np.zeros(self.num_variables)
        d[self.free] = inner
        values = np.nan_to_num(sides.signs * (point.w + sides.floors))
        multipliers = row_sums(sides.rows, values, rows.size)
        return QPStep(d, multipliers, float(left.sum()), self._model(inner), count)

    def correct(self, shift: FloatArray) -> FloatArray:
        """Change of the last step ``(n,)`` that takes a shift of its active rows back."""
        d = np.zeros(self.num_variables)
        d[self.free] = self.solver.correct(shift)
        return d

    def linear(self, d: FloatArray) -> FloatArray:
        """Change of the linearised rows ``(m,)``."""
        return np.asarray(self.J @ d[self.free])

    def _model(self, d: FloatArray) -> float:
        return float(self.gradient @ d + 0.5 * d @ (self.H @ d + self.solver.damping * d))

    def _sides(self, rows: FloatArray, penalty: float) -> ElasticRows:
        lower, upper = self.row_lower - rows, self.row_upper - rows
        counts = (self.equal.size + self.above.size, self.below.size)
        ends = np.concatenate([upper[self.equal], upper[self.above], -lower[self.below]])
        floors = np.zeros(ends.size)
        floors[: self.equal.size] = -penalty
        indices = np.concatenate([self.equal, self.above, self.below])
        return ElasticRows(indices, np.repeat([1.0, -1.0], counts), ends, floors, penalty)


class FreeColumns:
    """Free columns of H and J for one pattern; an iteration only brings new values."""

    def __init__(self, hessian: Any, jacobian: Any, free: IntArray) -> None:
        hessian, jacobian = _canonical(hessian), _canonical(jacobian)
        self.pattern = tuple(part.copy() for part in _pattern(hessian, jacobian))
        self.H, self.hessian_entries = _select_free(hessian, free, is_square=True)
        self.J, self.jacobian_entries = _select_free(jacobian, free, is_square=False)

    def fits(self, hessian: Any, jacobian: Any) -> bool:
        """Whether the pattern is still the same."""
        pattern = _pattern(_canonical(hessian), _canonical(jacobian))
        return all(np.array_equal(one, other) for one, other in zip(self.pattern, pattern, strict=True))

    def take(self, hessian: Any, jacobian: Any) -> tuple[Any, Any]:
        """H and J with new values; the same matrices at every call."""
        self.H.data[:] = _canonical(hessian).data[self.hessian_entries]
        self.J.data[:] = _canonical(jacobian).data[self.jacobian_entries]
        return self.H, self.J


def _pattern(hessian: Any, jacobian: Any) -> tuple[IntArray, ...]:
    return hessian.indptr, hessian.indices, jacobian.indptr, jacobian.indices


def _canonical(matrix: Any) -> Any:
    """As csc without repeated entries, unchanged if it is so already."""
    if matrix.format != "csc" or not matrix.has_canonical_format:
        matrix = _sparse.csc_array(matrix, copy=True)
        matrix.sum_duplicates()
    return matrix


def _select_free(matrix: Any, free: IntArray, *, is_square: bool) -> tuple[Any, IntArray]:
    """Free columns (and rows, of a square matrix) with the places of their entries in the whole."""
    numbered = _sparse.csc_array((np.arange(1.0, matrix.data.size + 1.0), matrix.indices, matrix.indptr), matrix.shape)
    part = numbered[:, free]
    part = _sparse.csc_array(part[free] if is_square else part)
    entries = part.data.astype(np.int64) - 1
    return part, entries
