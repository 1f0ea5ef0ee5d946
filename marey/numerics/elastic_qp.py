"""The quadratic programme of one SQP iteration: elastic rows, a box, fixed variables left out.

It is solved by a primal-dual interior-point method on a banded normal matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from marey.base import FloatArray, IntArray
from marey.numerics.banded import BandSystem
from marey.numerics.programme import FIXED_WIDTH, NonlinearProgramme

START_SHARE = 0.02  # [-] of the penalty: first multiplier of an inequality
START_SLACK = 0.02  # first distance of a row from its ends, in scaled rows
START_BOX = 0.02  # [-] of the box: first distance of a variable from its bounds
START_BOX_GAP = 0.1  # [-] of the mean gap of the rows, for the bounds
DUAL_TOL = 1e-6  # [-] of the gradient
ROUNDING_GAP = 1e-3  # [-] of the tolerance; below it residuals only grow
BOUNDARY_SHARE = 0.995  # [-] of the way to the boundary that a step may take
LEAST = 1e-30  # what is positive stays above it, also where rounding would make it zero
MAX_STEPS = 60  # interior-point steps; 8 to 16 are usual

_sparse: Any = sparse  # scipy has no stubs


@dataclass(slots=True, eq=False)
class ElasticRows:
    r"""One-sided elastic rows :math:`\sigma (Jd)_i - b = t - s`, with :math:`s, t \ge 0` and cost :math:`\nu t`.

    The multiplier of an inequality lies between 0 and ν, that of an equality between −ν and ν.
    """

    rows: IntArray  # (S,) which row of J
    signs: FloatArray  # (S,) σ, 1 for an upper end or an equality, -1 for a lower end
    ends: FloatArray  # (S,) b
    floors: FloatArray  # (S,) least multiplier
    penalty: float  # ν, the largest


@dataclass(slots=True, eq=False)
class InteriorIterate:
    """An iterate; all but ``d`` are positive. Also a direction."""

    d: FloatArray  # (n,)
    s: FloatArray  # (S,) room to the end
    t: FloatArray  # (S,) violation
    w: FloatArray  # (S,) multiplier above its floor
    v: FloatArray  # (S,) multiplier below the penalty
    zl: FloatArray  # (n,) multipliers of the box
    zu: FloatArray  # (n,)


class InteriorPoint:
    r"""Minimise :math:`g^Td + \frac12 d^THd + \nu\sum t` over elastic rows and a box, by Mehrotra's method.

    Slacks and multipliers are eliminated row by row, so that each step factors
    :math:`H + J^T D J + \mathrm{diag}`, :math:`1/D = s/w + t/v`, whatever the number of rows.
    """

    def __init__(self, system: BandSystem, hessian: Any, jacobian: Any) -> None:
        self.system, self.hessian, self.jacobian = system, hessian, jacobian
        self.damping = 0.0  # added to the diagonal of H
        self.transposed: Any = jacobian.T

    def solve(
        self,
        gradient: FloatArray,
        sides: ElasticRows,
        low: FloatArray,
        high: FloatArray,
        tolerance: float,
        max_steps: int,
    ) -> tuple[InteriorIterate, int]:
        """Point whose gap is below the tolerance, and how many factorisations it took."""
        self.gradient, self.sides, self.low, self.high = gradient, sides, low, high
        # Start inside the box, with slacks that hold every row
        sides, width = self.sides, self.high - self.low
        d = np.clip(0.0, self.low + START_BOX * width, self.high - START_BOX * width)
        distance = sides.signs * (self.jacobian @ d)[sides.rows] - sides.ends
        s, t = np.maximum(-distance, 0.0) + START_SLACK, np.maximum(distance, 0.0) + START_SLACK
        span = sides.penalty - sides.floors
        w = np.where(sides.floors < 0.0, 0.5, START_SHARE) * span
        total, count = float(s @ w) + float(t @ (span - w)), 2 * s.size
        if not count:  # without rows the gradient bounds the multipliers of the box
            total, count = float(np.abs(self.gradient) @ width), max(d.size, 1)
        gap = total / count + 1e-9
        above, below = self._room(d)
        point = InteriorIterate(d, s, t, w, span - w, START_BOX_GAP * gap / below, START_BOX_GAP * gap / above)
        self.num_factors = 0
        scale = 1.0 + float(np.abs(gradient).max(initial=0.0))
        while self.num_factors < max_steps:
            gap = self._gap(point)
            # Residuals of stationarity and of the rows
            dual = (
                self.hessian @ point.d
                + self.damping * point.d
                + self.gradient
                + self._weighted_rows(point.w + sides.floors)
                + point.zu
                - point.zl
            )
            primal = sides.signs * (self.jacobian @ point.d)[sides.rows] - sides.ends - point.t + point.s
            is_rounded = self.num_factors > 0 and gap < ROUNDING_GAP * tolerance
            is_settled = float(np.abs(dual).max(initial=0.0)) < DUAL_TOL * scale or is_rounded
            if (gap < tolerance and is_settled) or not np.isfinite(gap):
                break
            try:
                # Factor H + J'DJ + diag, with 1/D = s/w + t/v
                above, below = self._room(point.d)
                weights = 1.0 / (point.t / point.v + point.s / point.w)
                self.row_weights = row_sums(sides.rows, weights, int(self.jacobian.shape[0]))
                self.num_factors += 1
                self.system.factor(self.row_weights, point.zu / above + point.zl / below + self.damping)
                # Predictor: towards products of zero
                pairs = (-point.s * point.w, -point.t * point.v, -above * point.zu, -below * point.zl)
                first = self._direction(point, weights, dual, primal, pairs)
                # Centring by the cube of what the predictor leaves of the gap
                length = self._length(point, first)
                count = 2 * (point.s.size + point.d.size)
                target = min(1.0, self._gap(_step_along(point, first, length)) / gap) ** 3 * gap / count
                # Corrector: the predictor's second-order terms are taken off
                corrected = (
                    pairs[0] + target - first.s * first.w,
                    pairs[1] + target - first.t * first.v,
                    pairs[2] + target + first.d * first.zu,
                    pairs[3] + target - first.d * first.zl,
                )
                second = self._direction(point, weights, dual, primal, corrected)
                point = _step_along(point, second, min(1.0, BOUNDARY_SHARE * self._length(point, second)))
            except np.linalg.LinAlgError:  # limited by rounding: return the current point
                break
        return point, self.num_factors

    def _room(self, d: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Distance from the upper and from the lower bounds, which rounding may have reached."""
        return np.maximum(self.high - d, LEAST), np.maximum(d - self.low, LEAST)

    def _gap(self, p: InteriorIterate) -> float:
        return float(p.s @ p.w + p.t @ p.v + (self.high - p.d) @ p.zu + (p.d - self.low) @ p.zl)

    def _weighted_rows(self, values: FloatArray) -> FloatArray:
        """J' of one value for each side."""
        sides = self.sides
        return self.transposed @ row_sums(sides.rows, sides.signs * values, int(self.jacobian.shape[0]))

    def _direction(
        self,
        p: InteriorIterate,
        weights: FloatArray,
        dual: FloatArray,
        primal: FloatArray,
        pairs: tuple[FloatArray, ...],
    ) -> InteriorIterate:
        """Newton step towards given changes of the products s w, t v and those of the box."""
        rs, rt, ru, rl = pairs
        above, below = self._room(p.d)
        shift = primal - rt / p.v + rs / p.w
        d = self.system.solve(-dual - self._weighted_rows(weights * shift) - ru / above + rl / below)
        # The eliminated slacks and multipliers follow row by row
        change = weights * (self.sides.signs * (self.jacobian @ d)[self.sides.rows] + shift)
        s, t = (rs - p.s * change) / p.w, (rt + p.t * change) / p.v
        return InteriorIterate(d, s, t, change, -change, (rl - p.zl * d) / below, (ru + p.zu * d) / above)

    def _length(self, p: InteriorIterate, step: InteriorIterate) -> float:
        """Share of the step at which something first reaches zero, at most far beyond one."""
        above, below = self._room(p.d)
        pairs = (
            (p.s, step.s), (p.t, step.t), (p.w, step.w), (p.v, step.v), (p.zl, step.zl), (p.zu, step.zu),
            (above, -step.d), (below, step.d),
        )  # fmt: skip
        worst = max(float((-change / values).max(initial=0.0)) for values, change in pairs)
        return 1.0 / max(worst, 1e-3)


def row_sums(rows: IntArray, values: FloatArray, num_rows: int) -> FloatArray:
    """Sum of the values that belong to each row ``(num_rows,)``."""
    return np.asarray(np.bincount(rows, values, minlength=num_rows), dtype=np.float64)


def _step_along(p: InteriorIterate, step: InteriorIterate, length: float) -> InteriorIterate:
    a = min(length, 1.0)
    return InteriorIterate(
        p.d + a * step.d,
        np.maximum(p.s + a * step.s, LEAST),
        np.maximum(p.t + a * step.t, LEAST),
        np.maximum(p.w + a * step.w, LEAST),
        np.maximum(p.v + a * step.v, LEAST),
        np.maximum(p.zl + a * step.zl, LEAST),
        np.maximum(p.zu + a * step.zu, LEAST),
    )


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

    def solve(self, rows: FloatArray, low: FloatArray, high: FloatArray, penalty: float, tolerance: float) -> QPStep:
        """Best step in the box for rows with the given values at its origin."""
        lower, upper = self.row_lower - rows, self.row_upper - rows
        counts = (self.equal.size + self.above.size, self.below.size)
        ends = np.concatenate([upper[self.equal], upper[self.above], -lower[self.below]])
        floors = np.zeros(ends.size)
        floors[: self.equal.size] = -penalty
        indices = np.concatenate([self.equal, self.above, self.below])
        sides = ElasticRows(indices, np.repeat([1.0, -1.0], counts), ends, floors, penalty)
        box = (low[self.free], high[self.free])
        point, count = self.solver.solve(self.gradient, sides, *box, tolerance, MAX_STEPS)
        inner = np.clip(np.where(np.isfinite(point.d), point.d, 0.0), *box)
        moved = rows + self.J @ inner
        left = np.maximum(np.maximum(self.row_lower - moved, moved - self.row_upper), 0.0)
        d = np.zeros(self.num_variables)
        d[self.free] = inner
        values = np.nan_to_num(sides.signs * (point.w + sides.floors))
        multipliers = row_sums(sides.rows, values, rows.size)
        model = float(self.gradient @ inner + 0.5 * inner @ (self.H @ inner + self.solver.damping * inner))
        return QPStep(d, multipliers, float(left.sum()), model, count)

    def correct(self, shift: FloatArray) -> FloatArray:
        """Change of the last step ``(n,)`` that takes a shift ``(m,)`` of its active rows back; a back-substitution."""
        d = np.zeros(self.num_variables)
        if self.solver.num_factors:
            d[self.free] = -self.system.solve(self.solver.transposed @ (self.solver.row_weights * shift))
        return d

    def linear(self, d: FloatArray) -> FloatArray:
        """Change of the linearised rows ``(m,)``."""
        return np.asarray(self.J @ d[self.free])


class FreeColumns:
    """Free columns of H and J for one pattern; an iteration only brings new values."""

    def __init__(self, hessian: Any, jacobian: Any, free: IntArray) -> None:
        hessian, jacobian = _canonical(hessian), _canonical(jacobian)
        self.pattern: tuple[IntArray, ...] = tuple(
            part.copy() for matrix in (hessian, jacobian) for part in (matrix.indptr, matrix.indices)
        )
        self.H, self.hessian_entries = _select_free(hessian, free, is_square=True)
        self.J, self.jacobian_entries = _select_free(jacobian, free, is_square=False)

    def fits(self, hessian: Any, jacobian: Any) -> bool:
        """Whether the pattern is still the same."""
        matrices = (_canonical(hessian), _canonical(jacobian))
        pattern = (part for matrix in matrices for part in (matrix.indptr, matrix.indices))
        return all(np.array_equal(one, other) for one, other in zip(self.pattern, pattern, strict=True))

    def take(self, hessian: Any, jacobian: Any) -> tuple[Any, Any]:
        """H and J with new values; the same matrices at every call."""
        self.H.data[:] = _canonical(hessian).data[self.hessian_entries]
        self.J.data[:] = _canonical(jacobian).data[self.jacobian_entries]
        return self.H, self.J


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
