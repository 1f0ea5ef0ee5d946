"""Space-time control: the one door to all methods."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from marey.base import InputError, UnknownNameError
from marey.muscle.optimal_control.adjoint import ControlResult, ControlSearch, OnIteration
from marey.muscle.optimal_control.baselines import minimise_ilqr, minimise_lbfgs
from marey.muscle.optimal_control.gauss_newton import minimise_gauss_newton
from marey.muscle.optimal_control.problem import OptimalControlProblem, check_number
from marey.numerics import SolveStatus
from marey.numerics.status import OnFailure, check_on_failure, raise_if_asked

Method = Literal["gauss-newton", "lbfgs", "ilqr"]

METHODS: Final[dict[str, Callable[[ControlSearch], None]]] = {
    "gauss-newton": minimise_gauss_newton,
    "lbfgs": minimise_lbfgs,
    "ilqr": minimise_ilqr,
}
MAX_ITERATIONS: Final = {"gauss-newton": 60, "lbfgs": 1000, "ilqr": 200}
WEIGHT_GROWTH = 10.0  # [-] factor of the goal weight from round to round
MAX_ROUNDS = 8  # the weight grows by seven decades at most
MIN_IMPROVEMENT = 0.999  # [-] of the last goal error; a round that ends above has shown that the goal is out of reach

ADVICE: Final = {
    SolveStatus.CONVERGED: "Nothing is left to do.",
    SolveStatus.ITERATION_LIMIT: "Allow more iterations, or start from these controls.",
    SolveStatus.STALLED: "No step improves; check the derivatives of the system, or its contacts, for jumps.",
    SolveStatus.STOPPED: "The caller ended the search; start from these controls to go on.",
    SolveStatus.NOT_FINITE: "The first controls cannot be run; shorten the time step or start from others.",
}


def solve_control(
    problem: OptimalControlProblem,
    *,
    method: Method = "gauss-newton",
    start: ArrayLike | None = None,
    max_iterations: int | None = None,
    tolerance: float = 1e-10,
    goal_tolerance: float | None = None,
    on_iteration: OnIteration | None = None,
    on_failure: OnFailure = "return",
) -> ControlResult:
    """Controls that take a system to its goals with the least cost ([Engell2012]_ §25).

    "gauss-newton" solves a quadratic model of the whole motion in a few iterations, "lbfgs" is the quasi-Newton method
    of the thesis on the adjoint gradient (for very many unknowns), "ilqr" works step by step. With ``goal_tolerance``
    the weight of the goals grows tenfold from round to round until every goal is met, or until it no longer helps: the
    result is then the nearest motion, and ``reached`` is false.

    Args:
        problem: the system, its start, its goals and its costs.
        method: by name.
        start: first controls ``(N, s)``; at rest by default.
        max_iterations: per round; 60 for Gauss-Newton, 200 for ilqr, 1000 for lbfgs by default.
        tolerance: share of the cost below which a promised decrease ends the search.
        goal_tolerance: largest distance from a goal, in the units of its target.
        on_iteration: called with the iteration and the cost; returning ``False`` ends the search.
        on_failure: "return" hands back the best controls with their status, "raise" raises.

    Raises:
        ConvergenceError: it did not converge and ``on_failure`` is "raise"; the report is the result.
    """
    check_on_failure(on_failure)
    if method not in METHODS:
        raise UnknownNameError("method", method, "solve_control", METHODS)
    for name, value in (
        ("tolerance", tolerance),
        ("goal_tolerance", goal_tolerance),
        ("max_iterations", max_iterations),
    ):
        if value is not None and check_number(name, value) <= 0.0:
            raise InputError(f"{name} is {value}", "Give a number above zero")
    began, limit = time.perf_counter(), int(max_iterations or MAX_ITERATIONS[method])
    search = ControlSearch(problem, problem.unknowns(start), limit, tolerance, on_iteration)
    METHODS[method](search)
    result = _make_result(search, goal_tolerance, began)
    for _ in range(MAX_ROUNDS - 1 if goal_tolerance else 0):
        if result.reached or search.status in (SolveStatus.STOPPED, SolveStatus.NOT_FINITE):
            break
        search.problem = replace(search.problem, goal_weight=WEIGHT_GROWTH * search.problem.goal_weight)
        search.status = SolveStatus.ITERATION_LIMIT
        METHODS[method](search)
        last, result = result, _make_result(search, goal_tolerance, began)
        if not result.reached and result.goal_error > MIN_IMPROVEMENT * last.goal_error:
            break
    raise_if_asked("solve_control", result.status, result.advice, result, on_failure)
    return result


def _make_result(search: ControlSearch, goal_tolerance: float | None, began: float) -> ControlResult:
    cost, controls, states = search.run(search.unknowns)
    problem = search.problem
    if not np.isfinite(cost):
        states = np.tile(problem.start, (problem.steps + 1, 1))
        cost = float(np.finfo(np.float64).max)
    misses = [(goal.weight > 0.0) * goal.residual(states[goal.step]) for goal in problem.goals]
    errors = np.array([float(np.linalg.norm(miss)) for miss in misses])
    reached = goal_tolerance is None or bool(errors.max() <= goal_tolerance)
    advice = ADVICE[search.status] + (search.trouble if search.status is SolveStatus.NOT_FINITE else "")
    if goal_tolerance is not None and not reached:
        worst = problem.goals[int(errors.argmax())].step
        advice = f"The goal at step {worst} is missed by {errors.max():.3g}: it may be out of reach. {advice}"
    return ControlResult(
        search.status,
        controls,
        states,
        cost,
        errors,
        search.iterations,
        search.evaluations,
        time.perf_counter() - began,
        tuple(search.history or ()),
        problem.goal_weight,
        reached and search.status is not SolveStatus.NOT_FINITE,
        advice,
    )
