"""The adjoint method, and Gauss-Newton for space-time control.

One backward sweep gives the gradient of the cost of controls, forward sensitivities its Gauss-Newton matrix. Each
iteration solves a quadratic model of the whole motion, small and dense, with bounds on the variables and a cost on
their absolute values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from marey.base import EPS, BoolArray, ConvergenceError, FloatArray, InputError
from marey.muscle.optimal_control.problem import RATE_SMOOTHING, OptimalControlProblem, StateGoal, freeze_controls
from marey.numerics import SolveStatus


class ControlGradient(NamedTuple):
    """Smooth part of the cost of controls and its gradient."""

    cost: float
    by_controls: FloatArray  # (N, s)
    stored: int  # most states that were held at once


def simulate_controls(problem: OptimalControlProblem, controls: ArrayLike) -> FloatArray:
    """States ``(N + 1, m)`` under controls ``(N, s)``, the first of them the start."""
    given = freeze_controls(problem, controls)
    return _simulate_stretch(problem, given, problem.start, 0, problem.steps)


def _simulate_stretch(
    problem: OptimalControlProblem, controls: FloatArray, q: FloatArray, first: int, last: int
) -> FloatArray:
    states = np.empty((last - first + 1, q.size))
    states[0] = q
    for t in range(first, last):
        if not np.abs(states[t - first]).max() < EXPLODED:
            raise ConvergenceError(f"the system explodes at step {t}")
        states[t - first + 1] = problem.system.step(states[t - first], controls[t], t)
    return states


EXPLODED = 1e12  # [m, m/s] states beyond are none of a body


def compute_control_cost(problem: OptimalControlProblem, controls: FloatArray) -> float:
    """Smooth cost of the controls alone: effort, rate, smoothness."""
    cost = 0.5 * problem.effort * float(np.sum((controls - problem.rest) ** 2))
    change = np.diff(controls, axis=0)
    corner = float(np.sum(np.sqrt(change**2 + RATE_SMOOTHING**2) - RATE_SMOOTHING)) if problem.rate else 0.0
    return cost + 0.5 * problem.rate * corner + 0.5 * problem.smooth * float(np.sum(change**2))


def compute_control_gradient(problem: OptimalControlProblem, controls: FloatArray) -> FloatArray:
    """Gradient ``(N, s)`` of :func:`compute_control_cost`."""
    gradient = problem.effort * (controls - problem.rest)
    change = np.diff(controls, axis=0)
    slope = problem.smooth * change + 0.5 * problem.rate * change / np.sqrt(change**2 + RATE_SMOOTHING**2)
    gradient[1:] += slope
    gradient[:-1] -= slope
    return gradient


def compute_goal_cost(problem: OptimalControlProblem, goal: StateGoal, q: FloatArray) -> float:
    """Cost of missing one goal."""
    miss = goal.residual(q)
    return 0.5 * problem.goal_weight * float(miss @ (goal.weight * miss))


def compute_total_cost(problem: OptimalControlProblem, controls: FloatArray, states: FloatArray) -> float:
    """Smooth cost of controls and of the states they lead to; the sparse term is not in it."""
    return compute_control_cost(problem, controls) + sum(
        compute_goal_cost(problem, g, states[g.step]) for g in problem.goals
    )


def compute_adjoint_gradient(
    problem: OptimalControlProblem, controls: ArrayLike, *, checkpoints: int | None = None
) -> ControlGradient:
    r"""Gradient of the cost by one sweep back through the motion.

    .. math:: r^N = \Big(\frac{\partial\phi}{\partial q^N}\Big)^T,\quad
        \nabla_{\alpha^i}\phi = \Big(\frac{\partial F^i}{\partial\alpha^i}\Big)^T r^{i+1}
        + \frac{\partial\phi}{\partial\alpha^i},\quad
        r^i = \Big(\frac{\partial F^i}{\partial q^i}\Big)^T r^{i+1} + \Big(\frac{\partial\phi}{\partial q^i}\Big)^T

    [Engell2012]_ §25.2-25.3, with the indices of Eq. 132 put right. Time is linear in the number of steps. Memory is
    too, or goes with its square root with ``checkpoints``: so many states are kept, and the stretches between them
    are run once more, last first.

    Args:
        problem: what is steered.
        controls: ``(N, s)``.
        checkpoints: states to keep; all of them by default.
    """
    given = freeze_controls(problem, controls)
    gradient = compute_control_gradient(problem, given)
    cost, stored = compute_control_cost(problem, given), 0
    goals: dict[int, list[StateGoal]] = {}
    for goal in problem.goals:
        goals.setdefault(goal.step, []).append(goal)
    r = np.zeros(problem.system.num_states)
    for first, states, held in _iterate_stretches(problem, given, checkpoints):
        stored = max(stored, held)
        for t in range(first + len(states) - 2, first - 1, -1):
            q, q_next = states[t - first], states[t - first + 1]
            for goal in goals.get(t + 1, ()):
                cost += compute_goal_cost(problem, goal, q_next)
                r = r + goal.put(problem.goal_weight * goal.weight * goal.residual(q_next), r.size)
            r, by_control = problem.system.vjp(q, given[t], t, q_next, r)
            gradient[t] += by_control
    return ControlGradient(cost, gradient, stored)


def _iterate_stretches(
    problem: OptimalControlProblem, controls: FloatArray, checkpoints: int | None
) -> Iterator[tuple[int, FloatArray, int]]:
    """Stretches of states, last first: number of the first, states, and how many are held in memory."""
    steps = problem.steps
    if checkpoints is None:
        yield 0, _simulate_stretch(problem, controls, problem.start, 0, steps), steps + 1
        return
    if not 1 <= checkpoints <= steps:
        raise InputError(f"checkpoints is {checkpoints}", f"Keep from 1 to {steps} states")
    length = -(-steps // checkpoints)
    firsts = list(range(0, steps, length))
    kept = [problem.start]
    for first in firsts[:-1]:
        q = kept[-1]
        for t in range(first, first + length):
            q = problem.system.step(q, controls[t], t)
        kept.append(q)
    for first, q in zip(reversed(firsts), reversed(kept), strict=True):
        states = _simulate_stretch(problem, controls, q, first, min(first + length, steps))
        yield first, states, len(kept) + len(states) - 1


class GaussNewtonModel(NamedTuple):
    """Gauss-Newton model of the smooth cost about some controls."""

    gradient: FloatArray  # (n,) by the unknowns
    hessian: FloatArray  # (n, n) positive semi-definite


def make_gauss_newton_model(
    problem: OptimalControlProblem, controls: FloatArray, states: FloatArray
) -> GaussNewtonModel:
    r"""Gradient and Gauss-Newton matrix :math:`\mu\sum_i S_i^TC_i^TW_iC_iS_i + \ldots` by forward sensitivities.

    :math:`S_{i+1} = (\partial F/\partial q)S_i + (\partial F/\partial\alpha)\,\partial\alpha^i/\partial u`; only the
    unknowns that had a say so far are carried.
    """
    from scipy import sparse

    n, count = problem.num_unknowns, problem.system.num_controls
    # Curvature of the controls' own cost; the rounded rate term by its weights |.|/x.
    steps = problem.steps
    spread = sparse.kron(problem.basis, sparse.eye_array(count), format="csr")
    total = problem.effort * (spread.T @ spread)
    if steps > 1 and (problem.rate or problem.smooth):
        change = np.diff(controls, axis=0)
        rates = problem.smooth + 0.5 * problem.rate / np.sqrt(change**2 + RATE_SMOOTHING**2)
        lag = sparse.eye_array(steps - 1, steps, k=1) - sparse.eye_array(steps - 1, steps)
        D = sparse.kron(lag, sparse.eye_array(count), format="csr") @ spread
        total = total + D.T @ sparse.diags_array(rates.ravel()) @ D
    hessian = np.asarray(total.toarray(), dtype=np.float64)
    gradient = (problem.basis.T @ compute_control_gradient(problem, controls)).ravel()
    # Sensitivities of the state, step by step.
    S = np.zeros((problem.system.num_states, n))
    basis = np.asarray(problem.basis.toarray(), dtype=np.float64)
    last = max(goal.step for goal in problem.goals)
    reach = np.maximum.accumulate([int(np.max(np.nonzero(row)[0], initial=0)) + 1 for row in basis])
    for t in range(last):
        used = int(reach[t]) * count
        by_unknowns = np.asarray(np.kron(basis[t : t + 1, : int(reach[t])], np.eye(count)), dtype=np.float64)
        S[:, :used] = problem.system.jvp(states[t], controls[t], t, states[t + 1], S[:, :used], by_unknowns)
        for goal in (g for g in problem.goals if g.step == t + 1):
            J = goal.pick(S[:, :used])
            weights = problem.goal_weight * goal.weight
            gradient[:used] += J.T @ (weights * goal.residual(states[t + 1]))
            hessian[:used, :used] += J.T @ (weights[:, None] * J)
    return GaussNewtonModel(gradient, hessian)


OnIteration = Callable[[int, float], bool | None]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ControlResult:
    """Controls that were found and the motion they give; every number is finite."""

    status: SolveStatus
    controls: FloatArray  # (N, s)
    states: FloatArray  # (N + 1, m)
    cost: float
    goal_errors: FloatArray  # (G,) distance from each goal, in its own units, by step
    iterations: int
    evaluations: int  # simulations of the whole motion
    seconds: float
    history: tuple[float, ...]  # cost after each iteration, the start first
    goal_weight: float  # μ of the last round
    reached: bool  # whether every goal is within the tolerance that was asked for
    advice: str  # what to do next, one sentence

    @property
    def goal_error(self) -> float:
        """Largest distance from a goal."""
        return float(self.goal_errors.max())

    def __repr__(self) -> str:
        return (
            f"ControlResult({self.status}, {self.iterations} iterations, cost {self.cost:.4g}, "
            f"goal error {self.goal_error:.3g}, {self.seconds:.2f} s)"
        )


@dataclass(slots=True)
class ControlSearch:
    """State of an optimiser; one for each round."""

    problem: OptimalControlProblem
    unknowns: FloatArray  # (n,)
    max_iterations: int
    tolerance: float
    on_iteration: OnIteration | None
    damping: float = 1e-8  # [-] of the diagonal, that Gauss-Newton begins with: next to none
    status: SolveStatus = SolveStatus.ITERATION_LIMIT
    iterations: int = 0
    evaluations: int = 0
    history: list[float] | None = None
    trouble: str = ""  # why the last motion that could not be run could not

    def run(self, unknowns: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Cost, controls and states of unknowns; an infinite cost where the system cannot be stepped."""
        controls = self.problem.controls(unknowns)
        self.evaluations += 1
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                states = simulate_controls(self.problem, controls)
                cost = compute_total_cost(self.problem, controls, states)
        except ConvergenceError as error:
            self.trouble = f" ({error})"
            return np.inf, controls, np.zeros((0, self.problem.system.num_states))
        cost += self.problem.sparse * float(np.abs(unknowns).sum())
        return (cost if np.isfinite(cost) else np.inf), controls, states

    def note(self, cost: float) -> bool:
        """Record the cost of an iteration; return whether to continue. An infinite cost cannot be simulated."""
        if not np.isfinite(cost):
            self.status = SolveStatus.NOT_FINITE
            return False
        self.history = [*(self.history or []), cost]
        if self.on_iteration is not None and self.on_iteration(self.iterations, cost) is False:
            self.status = SolveStatus.STOPPED
            return False
        return True

    def ends(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends of the unknowns ``(n,)``."""
        bounds = self.problem.bounds
        if bounds is None:
            return np.full(self.unknowns.size, -np.inf), np.full(self.unknowns.size, np.inf)
        times = self.unknowns.size // bounds[0].size
        return np.tile(bounds[0], times), np.tile(bounds[1], times)


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
            # Slope at y with the cost of absolute values, and the ends of the orthant that it points into.
            slope, low, high = self.H @ (y - self.u) + self.g, self.lower, self.upper
            if self.weight != 0.0:
                leaving = np.where(np.abs(slope) > self.weight, -np.sign(slope), 0.0)
                sign = np.where(y != 0.0, np.sign(y), leaving)
                low = np.where(sign > 0.0, np.maximum(low, 0.0), np.where(sign == 0.0, 0.0, low))
                high = np.where(sign < 0.0, np.minimum(high, 0.0), np.where(sign == 0.0, 0.0, high))
                slope = np.where(sign == 0.0, 0.0, slope + self.weight * sign)
            free = ~((y <= low) & (slope >= 0.0)) & ~((y >= high) & (slope <= 0.0))
            if not free.any() or float(np.abs(slope[free]).max()) <= scale:
                break
            step = np.zeros_like(y)
            step[free] = -solve_positive(self.H[np.ix_(free, free)], slope[free])
            # Halve the step until the model falls; rounding is all that is left if it does not.
            here, share, moved = self.value(y), 1.0, y
            while share > MIN_STEP_FRACTION:
                tried = np.clip(y + share * step, low, high)
                if self.value(tried) <= here + ARMIJO * float(slope @ (tried - y)) + EPS * abs(here):
                    moved = tried
                    break
                share *= 0.5
            if np.array_equal(moved, y):
                break
            y = moved
        return y, free


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
    ends, damping = search.ends(), search.damping
    cost, controls, states = search.run(search.unknowns)
    if not search.note(cost):
        return
    for _ in range(search.max_iterations):
        model = make_gauss_newton_model(search.problem, controls, states)
        diagonal = np.diag(model.hessian)
        scale = np.maximum(diagonal, DIAGONAL_FLOOR * max(float(diagonal.max(initial=0.0)), EPS))
        # The first damped step that lowers the cost; none is left where nothing more is promised
        while True:
            if damping > MAX_DAMPING:
                search.status = SolveStatus.STALLED
                return
            damped = model.hessian + np.diag(damping * scale)
            box = BoxQuadraticModel(damped, model.gradient, search.unknowns, ends, search.problem.sparse)
            y, _ = box.solve()
            promised = box.value(search.unknowns) - box.value(y)
            if promised <= COST_ROUNDING * (abs(cost) + EPS):
                search.status = SolveStatus.CONVERGED
                return
            new_cost, new_controls, new_states = search.run(y)
            ratio = (cost - new_cost) / promised
            if ratio > EPS:
                break
            damping *= REJECT
        # The damping follows how well the model foresaw the decrease
        search.unknowns, controls, states = y, new_controls, new_states
        damping = max(MIN_DAMPING, damping * (SHRINK if ratio > GOOD else GROW if ratio < POOR else 1.0))
        search.iterations += 1
        settled = promised <= search.tolerance * (abs(cost) + EPS) or cost - new_cost <= COST_ROUNDING * abs(cost)
        cost = new_cost
        if not search.note(cost):
            return
        if settled:
            search.status = SolveStatus.CONVERGED
            return
