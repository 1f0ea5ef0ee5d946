"""A primal-dual interior-point method for quadratic programmes with elastic rows, on a banded normal matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from marey.base import FloatArray, IntArray
from marey.numerics._sparse_band import BandSystem

START_SHARE = 0.02  # [-] of the penalty: first multiplier of an inequality
START_SLACK = 0.02  # first distance of a row from its ends, in scaled rows
START_BOX = 0.02  # [-] of the box: first distance of a variable from its bounds
START_BOX_GAP = 0.1  # [-] of the mean gap of the rows, for the bounds
DUAL_TOL = 1e-6  # [-] of the gradient
ROUNDING_GAP = 1e-3  # [-] of the tolerance; below it residuals only grow
BOUNDARY_SHARE = 0.995  # [-] of the way to the boundary that a step may take
LEAST = 1e-30  # what is positive stays above it, also where rounding would make it zero


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
        point, self.num_factors = self._start(), 0
        scale = 1.0 + float(np.abs(gradient).max(initial=0.0))
        while self.num_factors < max_steps:
            gap = self._gap(point)
            dual, primal = self._residuals(point)
            is_rounded = self.num_factors > 0 and gap < ROUNDING_GAP * tolerance
            is_settled = float(np.abs(dual).max(initial=0.0)) < DUAL_TOL * scale or is_rounded
            if (gap < tolerance and is_settled) or not np.isfinite(gap):
                break
            try:
                point = self._advance(point, gap, dual, primal)
            except np.linalg.LinAlgError:  # rounding has the last word: the point in hand is the answer
                break
        return point, self.num_factors

    def correct(self, shift: FloatArray) -> FloatArray:
        """Change of the last step if rows are off by a shift ``(m,)`` and the same stay active; a back-substitution."""
        if not self.num_factors:
            return np.zeros(self.gradient.size)
        return -self.system.solve(self.transposed @ (self.row_weights * shift))

    def _start(self) -> InteriorIterate:
        sides, width = self.sides, self.high - self.low
        d = np.clip(0.0, self.low + START_BOX * width, self.high - START_BOX * width)
        distance = sides.signs * (self.jacobian @ d)[sides.rows] - sides.ends
        s, t = np.maximum(-distance, 0.0) + START_SLACK, np.maximum(distance, 0.0) + START_SLACK
        span = sides.penalty - sides.floors
        w = np.where(sides.floors < 0.0, 0.5, START_SHARE) * span
        total, count = float(s @ w) + float(t @ (span - w)), 2 * s.size
        if not count:  # without rows the gradient tells how hard the box may have to push
            total, count = float(np.abs(self.gradient) @ width), max(d.size, 1)
        gap = total / count + 1e-9
        above, below = self._room(d)
        return InteriorIterate(d, s, t, w, span - w, START_BOX_GAP * gap / below, START_BOX_GAP * gap / above)

    def _room(self, d: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Distance from the upper and from the lower bounds, which rounding may have reached."""
        return _clip_positive(self.high - d), _clip_positive(d - self.low)

    def _gap(self, p: InteriorIterate) -> float:
        return float(p.s @ p.w + p.t @ p.v + (self.high - p.d) @ p.zu + (p.d - self.low) @ p.zl)

    def _weighted_rows(self, values: FloatArray) -> FloatArray:
        """J' of one value for each side."""
        return self.transposed @ self._by_row(self.sides.signs * values)

    def _by_row(self, values: FloatArray) -> FloatArray:
        return row_sums(self.sides.rows, values, int(self.jacobian.shape[0]))

    def _residuals(self, p: InteriorIterate) -> tuple[FloatArray, FloatArray]:
        sides = self.sides
        dual = (
            self.hessian @ p.d
            + self.damping * p.d
            + self.gradient
            + self._weighted_rows(p.w + sides.floors)
            + p.zu
            - p.zl
        )
        return dual, sides.signs * (self.jacobian @ p.d)[sides.rows] - sides.ends - p.t + p.s

    def _advance(self, p: InteriorIterate, gap: float, dual: FloatArray, primal: FloatArray) -> InteriorIterate:
        """Predict, correct, move."""
        above, below = self._room(p.d)
        weights = 1.0 / (p.t / p.v + p.s / p.w)
        self.row_weights = self._by_row(weights)
        self.num_factors += 1
        self.system.factor(self.row_weights, p.zu / above + p.zl / below + self.damping)
        pairs = (-p.s * p.w, -p.t * p.v, -above * p.zu, -below * p.zl)
        first = self._direction(p, weights, dual, primal, pairs)
        length = self._length(p, first)
        count = 2 * (p.s.size + p.d.size)
        target = min(1.0, self._gap(_step_along(p, first, length)) / gap) ** 3 * gap / count
        corrected = (
            pairs[0] + target - first.s * first.w,
            pairs[1] + target - first.t * first.v,
            pairs[2] + target + first.d * first.zu,
            pairs[3] + target - first.d * first.zl,
        )
        second = self._direction(p, weights, dual, primal, corrected)
        return _step_along(p, second, min(1.0, BOUNDARY_SHARE * self._length(p, second)))

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
        change = weights * (self.sides.signs * (self.jacobian @ d)[self.sides.rows] + shift)
        s, t = (rs - p.s * change) / p.w, (rt + p.t * change) / p.v
        return InteriorIterate(d, s, t, change, -change, (rl - p.zl * d) / below, (ru + p.zu * d) / above)

    def _length(self, p: InteriorIterate, step: InteriorIterate) -> float:
        """Share of the step at which something first reaches zero, at most far beyond one."""
        above, below = self._room(p.d)
        worst = max(
            _largest_decrease(p.s, step.s),
            _largest_decrease(p.t, step.t),
            _largest_decrease(p.w, step.w),
            _largest_decrease(p.v, step.v),
            _largest_decrease(p.zl, step.zl),
            _largest_decrease(p.zu, step.zu),
            _largest_decrease(above, -step.d),
            _largest_decrease(below, step.d),
        )
        return 1.0 / max(worst, 1e-3)


def row_sums(rows: IntArray, values: FloatArray, num_rows: int) -> FloatArray:
    """Sum of the values that belong to each row ``(num_rows,)``."""
    return np.asarray(np.bincount(rows, values, minlength=num_rows), dtype=np.float64)


def _largest_decrease(values: FloatArray, change: FloatArray) -> float:
    return float((-change / values).max(initial=0.0))


def _step_along(p: InteriorIterate, step: InteriorIterate, length: float) -> InteriorIterate:
    a = min(length, 1.0)
    return InteriorIterate(
        p.d + a * step.d,
        _clip_positive(p.s + a * step.s),
        _clip_positive(p.t + a * step.t),
        _clip_positive(p.w + a * step.w),
        _clip_positive(p.v + a * step.v),
        _clip_positive(p.zl + a * step.zl),
        _clip_positive(p.zu + a * step.zu),
    )


def _clip_positive(values: FloatArray) -> FloatArray:
    return np.maximum(values, LEAST)
