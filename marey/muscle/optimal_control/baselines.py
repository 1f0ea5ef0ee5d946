"""Other methods of space-time control, chosen by name.

The iterative linear-quadratic regulator is Gauss-Newton step by step backwards, with feedback. The limited-memory
quasi-Newton method with the adjoint gradient is that of [Engell2012]_, with bounds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from marey.base import EPS, ConvergenceError, FloatArray, InputError
from marey.muscle.optimal_control.adjoint import (
    BoxQuadraticModel,
    ControlSearch,
    compute_adjoint_gradient,
    compute_total_cost,
    solve_positive,
)
from marey.muscle.optimal_control.problem import OptimalControlProblem
from marey.numerics import SolveStatus

FIRST_DAMPING, MIN_DAMPING, MAX_DAMPING = 0.0, 1e-9, 1e10  # [-] of the diagonal of a step's matrix
STEP_FRACTIONS = tuple(0.5**i for i in range(8))  # of the change of controls, tried in turn

StepJacobians = list[tuple[FloatArray, FloatArray]]  # of every step by state (m, m) and by control (m, s)


class FeedbackPolicy(NamedTuple):
    """Change of controls and feedback on the change of state, for every step."""

    change: FloatArray  # (N, s)
    feedback: FloatArray  # (N, s, m)
    promised: float  # decrease of cost by the whole change


def minimise_ilqr(search: ControlSearch) -> None:
    r"""Minimise by Riccati sweeps, with bounds on the controls of each step held by a small programme.

    .. math:: Q_{aa} = eI + B^TVB + \lambda D,\quad \delta a = -Q_{aa}^{-1}Q_a - Q_{aa}^{-1}Q_{aq}\,\delta q
    """
    problem = search.problem
    if problem.knots is not None or problem.sparse or problem.rate or problem.smooth:
        raise InputError(
            "method 'ilqr' treats every step by itself: no knots, sparse, rate or smooth term",
            "Use 'gauss-newton' or 'lbfgs'",
        )
    cost, controls, states = search.run(search.unknowns)
    if not search.note(cost):
        return
    lower, upper = problem.bounds or (-np.inf, np.inf)
    damping, m, s = FIRST_DAMPING, problem.system.num_states, problem.system.num_controls
    dq, da = np.hstack([np.eye(m), np.zeros((m, s))]), np.hstack([np.zeros((s, m)), np.eye(s)])
    for _ in range(search.max_iterations):
        # Derivatives of every step by state (m, m) and by control (m, s).
        both = (problem.system.jvp(states[t], controls[t], t, states[t + 1], dq, da) for t in range(problem.steps))
        slopes = [(J[:, :m], J[:, m:]) for J in both]
        found = None
        while found is None and damping <= MAX_DAMPING:
            policy = _sweep_riccati(problem, controls, states, slopes, damping)
            if policy.promised <= 64 * EPS * (abs(cost) + EPS):
                search.status = SolveStatus.CONVERGED
                return
            # The largest share of the change that lowers the cost, under feedback
            for share in STEP_FRACTIONS:
                new, reached = np.empty_like(controls), np.empty_like(states)
                reached[0] = states[0]
                search.evaluations += 1
                try:
                    for t in range(problem.steps):
                        reply = policy.feedback[t] @ (reached[t] - states[t])
                        new[t] = np.clip(controls[t] + share * policy.change[t] + reply, lower, upper)
                        reached[t + 1] = problem.system.step(reached[t], new[t], t)
                    value = compute_total_cost(problem, new, reached)
                except ConvergenceError:
                    continue
                if np.isfinite(value) and value < cost:
                    found = value, new, reached
                    break
            damping = 0.1 * damping if found else max(MIN_DAMPING, 10.0 * damping)
        if found is None:
            search.status = SolveStatus.STALLED
            return
        new_cost, controls, states = found
        search.iterations += 1
        search.unknowns = controls.ravel()
        settled, cost = cost - new_cost <= search.tolerance * (abs(cost) + EPS), new_cost
        if not search.note(cost):
            return
        if settled:
            search.status = SolveStatus.CONVERGED
            return


def _sweep_riccati(
    problem: OptimalControlProblem,
    controls: FloatArray,
    states: FloatArray,
    slopes: StepJacobians,
    damping: float,
) -> FeedbackPolicy:
    """From the last step to the first: value of the rest of the motion, and the best control before it."""
    m, (steps, s) = problem.system.num_states, problem.shape
    curve, slope, promised = np.zeros((m, m)), np.zeros(m), 0.0
    change, feedback = np.zeros((steps, s)), np.zeros((steps, s, m))
    lower, upper = problem.bounds or (np.full(s, -np.inf), np.full(s, np.inf))
    for t in range(steps - 1, -1, -1):
        q = states[t + 1]
        for goal in (g for g in problem.goals if g.step == t + 1):
            C = goal.pick(np.eye(q.size))
            weights = problem.goal_weight * goal.weight
            curve, slope = curve + C.T @ (weights[:, None] * C), slope + C.T @ (weights * goal.residual(q))
        A, B = slopes[t]
        Qa, Qq = B.T @ slope + problem.effort * (controls[t] - problem.rest), A.T @ slope
        Qaa, Qaq, Qqq = B.T @ curve @ B + problem.effort * np.eye(s), B.T @ curve @ A, A.T @ curve @ A
        damped = Qaa + np.diag(damping * np.diag(Qaa) + EPS * max(1.0, float(np.trace(Qaa))))
        y, free = BoxQuadraticModel(damped, Qa, controls[t], (lower, upper), 0.0).solve()
        k, K = y - controls[t], np.zeros((s, m))
        if free.any():
            K[free] = -solve_positive(damped[np.ix_(free, free)], Qaq[free])
        promised -= float(Qa @ k + 0.5 * k @ (Qaa @ k))
        slope = Qq + K.T @ (Qaa @ k + Qa) + Qaq.T @ k
        curve = Qqq + K.T @ Qaa @ K + K.T @ Qaq + Qaq.T @ K
        change[t], feedback[t] = k, K
    return FeedbackPolicy(change, feedback, promised)


LBFGS_MEMORY = 20  # pairs of steps and slopes that are kept
INFEASIBLE_COST = 1e100  # cost where the system cannot be stepped


class _StopError(Exception):
    """The caller asked for an end."""


def minimise_lbfgs(search: ControlSearch) -> None:
    """Minimise by L-BFGS-B; with a sparse term each unknown is the difference of two that are not negative."""
    from scipy.optimize import minimize

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
        unknowns, problem = _join_halves(z, split), search.problem
        value, slope = INFEASIBLE_COST, np.zeros_like(unknowns)
        search.evaluations += 1
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                found = compute_adjoint_gradient(problem, problem.controls(unknowns))
            by_unknowns = np.asarray(problem.basis.T @ found.by_controls).ravel()
            if np.isfinite(found.cost) and np.isfinite(by_unknowns).all():
                value, slope = min(found.cost, INFEASIBLE_COST), by_unknowns
        except ConvergenceError as error:
            search.trouble = f" ({error})"
        if not split:
            return value, slope
        weight = problem.sparse
        return value + weight * float(z.sum()), np.concatenate([slope + weight, weight - slope])

    first = cost(start)[0]
    if not search.note(first if first < INFEASIBLE_COST else np.inf):
        return

    def each(intermediate_result: Any) -> None:
        search.iterations += 1
        search.unknowns = _join_halves(np.array(intermediate_result.x), split)
        if not search.note(float(intermediate_result.fun)):
            raise _StopError

    try:
        found = minimize(
            cost,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(*ends, strict=True)),
            callback=each,
            options={
                "maxiter": search.max_iterations,
                "maxfun": 4 * search.max_iterations,
                "maxcor": LBFGS_MEMORY,
                "ftol": search.tolerance,
                "gtol": 1e-14,
            },
        )
    except _StopError:
        return
    search.unknowns = _join_halves(np.asarray(found.x, dtype=np.float64), split)
    search.status = {0: SolveStatus.CONVERGED, 1: SolveStatus.ITERATION_LIMIT}.get(found.status, SolveStatus.STALLED)


def _join_halves(z: FloatArray, split: bool) -> FloatArray:
    return z[: z.size // 2] - z[z.size // 2 :] if split else z
