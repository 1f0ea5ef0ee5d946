"""Gauss-Newton for space-time control: a quadratic model of the whole motion at each iteration.

The quadratic models are small and dense, with bounds on the variables and a cost on their absolute values.
"""

from __future__ import annotations

import numpy as np

from marey.base import EPS, BoolArray, FloatArray, InputError
from marey.muscle.optimal_control.adjoint import ControlSearch, GaussNewtonModel, make_gauss_newton_model
from marey.numerics import SolveStatus

MAX_PASSES = 100  # each pass changes the set of free variables; a handful is usual
SLOPE_TOL = 1e-11  # [-] of the largest slope at the start
ARMIJO = 1e-4  # [-] share of the promised decrease that a pass has to bring
MIN_STEP_FRACTION = 1e-10  # [-] of a full step; below, rounding stops the descent


class BoxQuadraticModel:
    r"""Minimise :math:`\frac12d^THd + g^Td + \lambda\|u+d\|_1` with :math:`l \le u + d \le h`.

    Newton's method on the variables that no end holds, inside the orthant that the slopes choose: an end of an orthant
    is zero, so that variables become exactly zero and stay there while their slope is below λ.
    """

    def __init__(
        self, H: FloatArray, g: FloatArray, u: FloatArray, ends: tuple[FloatArray, FloatArray], weight: float
    ) -> None:
        self.H, self.g, self.u, self.weight = H, g, u, weight
        self.lower, self.upper = ends

    def value(self, y: FloatArray) -> float:
        """Value at ``y = u + d``, relative to the smooth cost at ``u``."""
        d = y - self.u
        return float(0.5 * d @ (self.H @ d) + self.g @ d + self.weight * np.abs(y).sum())

    def solve(self) -> tuple[FloatArray, BoolArray]:
        """Minimiser ``y = u + d`` and which variables are free there."""
        y = np.clip(self.u, self.lower, self.upper)
        scale = SLOPE_TOL * max(1.0, float(np.max(np.abs(self.g), initial=0.0)))
        free = np.zeros(y.size, dtype=np.bool_)
        for _ in range(MAX_PASSES):
            slope, low, high = self._orthant_bounds(y)
            free = ~((y <= low) & (slope >= 0.0)) & ~((y >= high) & (slope <= 0.0))
            if not free.any() or float(np.abs(slope[free]).max()) <= scale:
                break
            step = np.zeros_like(y)
            step[free] = -solve_positive(self.H[np.ix_(free, free)], slope[free])
            moved = self._search_line(y, step, slope, low, high)
            if moved is None:
                break
            y = moved
        return y, free

    def _orthant_bounds(self, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Slope at y with the cost of absolute values, and the ends of the orthant that it points into."""
        slope = self.H @ (y - self.u) + self.g
        if self.weight == 0.0:
            return slope, self.lower, self.upper
        leaving = np.where(np.abs(slope) > self.weight, -np.sign(slope), 0.0)
        sign = np.where(y != 0.0, np.sign(y), leaving)
        low = np.where(sign > 0.0, np.maximum(self.lower, 0.0), np.where(sign == 0.0, 0.0, self.lower))
        high = np.where(sign < 0.0, np.minimum(self.upper, 0.0), np.where(sign == 0.0, 0.0, self.upper))
        return np.where(sign == 0.0, 0.0, slope + self.weight * sign), low, high

    def _search_line(
        self, y: FloatArray, step: FloatArray, slope: FloatArray, low: FloatArray, high: FloatArray
    ) -> FloatArray | None:
        """Halve the step until the model falls; nothing if rounding is all that is left."""
        here, share = self.value(y), 1.0
        while share > MIN_STEP_FRACTION:
            moved = np.clip(y + share * step, low, high)
            gain = float(slope @ (moved - y))
            if self.value(moved) <= here + ARMIJO * gain + EPS * abs(here):
                return None if np.array_equal(moved, y) else moved
            share *= 0.5
        return None


def solve_positive(H: FloatArray, g: FloatArray) -> FloatArray:
    """Solve ``H x = g`` for a positive matrix; a share of its diagonal is added until it is one."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    share, diagonal = 0.0, np.maximum(np.diag(H), EPS * max(1.0, float(np.max(np.diag(H)))))
    while True:
        try:
            factor = cho_factor(H + np.diag(share * diagonal), check_finite=False)
            return np.asarray(cho_solve(factor, g, check_finite=False), dtype=np.float64)
        except LinAlgError:
            share = max(1e-12, 10.0 * share)


FIRST_DAMPING = 1e-8  # [-] of the diagonal: next to none
MIN_DAMPING, MAX_DAMPING = 1e-12, 1e8
GOOD, POOR = 0.75, 0.25  # [-] share of the promised decrease above which damping falls, below which it grows
SHRINK, GROW, REJECT = 0.1, 4.0, 10.0  # factors of damping
DIAGONAL_FLOOR = 1e-9  # [-] of the largest diagonal; unknowns without effect are damped too
MAX_UNKNOWNS = 6000  # a matrix of so many rows takes 0.3 GB
COST_ROUNDING = 64 * EPS  # [-] of the cost; promises below are noise


def minimise_gauss_newton(search: ControlSearch) -> None:
    r"""Minimise by damped Gauss-Newton steps inside the bounds; the search ends where no step promises more.

    .. math:: \min_d\ g^Td + \tfrac12d^T(H + \lambda\,\mathrm{diag}H)d + \lambda_1\|u+d\|_1

    The thesis used a quasi-Newton method; here 3 to 5 iterations do ([Engell2012]_ §28).
    """
    if search.unknowns.size > MAX_UNKNOWNS:
        raise InputError(f"{search.unknowns.size} unknowns are too many for Gauss-Newton", "Use knots, or 'lbfgs'")
    ends, damping = search.ends(), FIRST_DAMPING
    cost, controls, states = search.run(search.unknowns)
    if not np.isfinite(cost):
        search.status = SolveStatus.NOT_FINITE
        return
    if not search.note(cost):
        return
    for _ in range(search.max_iterations):
        model = make_gauss_newton_model(search.problem, controls, states)
        found = _find_accepted_step(search, model, cost, ends, damping)
        if found is None:
            return
        (new_cost, controls, states), damping, promised = found
        search.iterations += 1
        settled = promised <= search.tolerance * (abs(cost) + EPS) or cost - new_cost <= COST_ROUNDING * abs(cost)
        cost = new_cost
        if not search.note(cost):
            return
        if settled:
            search.status = SolveStatus.CONVERGED
            return


def _find_accepted_step(
    search: ControlSearch, model: GaussNewtonModel, cost: float, ends: tuple[FloatArray, FloatArray], damping: float
) -> tuple[tuple[float, FloatArray, FloatArray], float, float] | None:
    """First damped step that lowers the cost: its run, the next damping, what it promised; sets the status if none."""
    diagonal = np.diag(model.hessian)
    scale = np.maximum(diagonal, DIAGONAL_FLOOR * max(float(diagonal.max(initial=0.0)), EPS))
    sparse = search.problem.sparse
    while damping <= MAX_DAMPING:
        damped = model.hessian + np.diag(damping * scale)
        box = BoxQuadraticModel(damped, model.gradient, search.unknowns, ends, sparse)
        y, _ = box.solve()
        promised = box.value(search.unknowns) - box.value(y)
        if promised <= COST_ROUNDING * (abs(cost) + EPS):
            search.status = SolveStatus.CONVERGED
            return None
        run = search.run(y)
        ratio = (cost - run[0]) / promised
        if ratio > EPS:
            search.unknowns = y
            factor = SHRINK if ratio > GOOD else GROW if ratio < POOR else 1.0
            return run, max(MIN_DAMPING, damping * factor), promised
        damping *= REJECT
    search.status = SolveStatus.STALLED
    return None
