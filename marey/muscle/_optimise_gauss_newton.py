"""Gauss-Newton for space-time control: a quadratic model of the whole motion at each iteration."""

from __future__ import annotations

import numpy as np

from marey.base import EPS, FloatArray, InputError
from marey.muscle._adjoint import GaussNewtonModel, make_gauss_newton_model
from marey.muscle._optimise_box import BoxQuadraticModel
from marey.muscle._optimise_result import ControlSearch
from marey.numerics import SolveStatus

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
