"""Limited-memory quasi-Newton with the adjoint gradient: the method of the thesis, with bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from marey.base import ConvergenceError, FloatArray
from marey.muscle._adjoint import compute_adjoint_gradient
from marey.muscle._optimise_result import ControlSearch
from marey.numerics import SolveStatus

LBFGS_MEMORY = 20  # pairs of steps and slopes that are kept
INFEASIBLE_COST = 1e100  # cost where the system cannot be stepped


class _StopError(Exception):
    """The caller asked for an end."""


def minimise_lbfgs(search: ControlSearch, checkpoints: int | None = None) -> None:
    """Minimise by L-BFGS-B; with a sparse term each unknown is the difference of two that are not negative."""
    from marey.muscle._control_scipy import minimize

    split = search.problem.sparse > 0.0
    lower, upper = search.ends()
    start, ends = search.unknowns, (lower, upper)
    if split:
        start = np.concatenate([np.maximum(start, 0.0), np.maximum(-start, 0.0)])
        ends = (
            np.concatenate([np.maximum(lower, 0.0), np.maximum(-upper, 0.0)]),
            np.concatenate([np.maximum(upper, 0.0), np.maximum(-lower, 0.0)]),
        )

    def cost(z: FloatArray) -> tuple[float, FloatArray]:
        value, slope = _cost_and_gradient(search, _join_halves(z, split), checkpoints)
        if not split:
            return value, slope
        weight = search.problem.sparse
        return value + weight * float(z.sum()), np.concatenate([slope + weight, weight - slope])

    first = cost(start)[0]
    if first >= INFEASIBLE_COST:
        search.status = SolveStatus.NOT_FINITE
        return
    if not search.note(first):
        return

    def each(intermediate_result: Any) -> None:
        search.iterations += 1
        search.unknowns = _join_halves(np.array(intermediate_result.x), split)
        if not search.note(float(intermediate_result.fun)):
            raise _StopError

    options = {"maxiter": search.max_iterations, "maxfun": 4 * search.max_iterations, "maxcor": LBFGS_MEMORY}
    options |= {"ftol": search.tolerance, "gtol": 1e-14}
    try:
        box = list(zip(*ends, strict=True))
        found = minimize(cost, start, jac=True, method="L-BFGS-B", bounds=box, callback=each, options=options)
    except _StopError:
        return
    search.unknowns = _join_halves(np.asarray(found.x, dtype=np.float64), split)
    search.status = {0: SolveStatus.CONVERGED, 1: SolveStatus.ITERATION_LIMIT}.get(found.status, SolveStatus.STALLED)


def _join_halves(z: FloatArray, split: bool) -> FloatArray:
    return z[: z.size // 2] - z[z.size // 2 :] if split else z


def _cost_and_gradient(
    search: ControlSearch, unknowns: FloatArray, checkpoints: int | None
) -> tuple[float, FloatArray]:
    search.evaluations += 1
    problem = search.problem
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            found = compute_adjoint_gradient(problem, problem.controls(unknowns), checkpoints=checkpoints)
    except ConvergenceError as error:
        search.trouble = f" ({error})"
        return INFEASIBLE_COST, np.zeros_like(unknowns)
    slope = np.asarray(problem.basis.T @ found.by_controls).ravel()
    if not np.isfinite(found.cost) or not np.isfinite(slope).all():
        return INFEASIBLE_COST, np.zeros_like(unknowns)
    return min(found.cost, INFEASIBLE_COST), slope
