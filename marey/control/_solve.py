"""Solve one control step: a quadratic programme for the actuation, then the physics that follows from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from marey.base import BoolArray, FloatArray, InputError
from marey.control._problem import ROOT_SIZE, ControlProblem
from marey.control._relaxations import COMPLIANCE, Relaxation, control_objective
from marey.numerics import QPResult, SolveStatus, solve_qp

ROUNDING = 1e-11  # [-] of the scaled Hessian, which redundant contacts leave singular; more would hold contacts back
MOST_ENUMERATED = 8  # one-sided rows whose 2^m states are tried


@dataclass(frozen=True, slots=True, eq=False)
class ControlSolution:
    """Actuation of one step, and what was planned with it."""

    actuation: FloatArray  # (k,) impulses
    planned_velocity: FloatArray  # (d,) what the programme believes; the physics decides
    multipliers: FloatArray  # (m,) planned contact impulses
    gap: float  # [J] planned λ'(Jv - b): zero when contacts push only where they touch
    status: SolveStatus

    @property
    def is_solved(self) -> bool:
        """Whether there is a plan at all."""
        return self.status is SolveStatus.CONVERGED


@dataclass(frozen=True, slots=True, eq=False)
class Programme:
    r"""A control step as a quadratic programme in :math:`z = (\mu, \lambda, s)`: actuation, contacts, broken fences."""

    H: FloatArray  # (n, n)
    g: FloatArray  # (n,)
    A: FloatArray  # (r, n)
    lower: FloatArray  # (r,)
    upper: FloatArray  # (r,)
    low: FloatArray  # (n,) bounds of z
    high: FloatArray  # (n,)

    @property
    def units(self) -> FloatArray:
        """Sizes ``(n,)`` of the unknowns that make the diagonal of H one: modes and impulses differ by many decades."""
        return 1.0 / np.sqrt(np.maximum(np.diag(self.H), 1e-300))

    def solved(self) -> QPResult:
        """Solve in units in which no unknown is large or small."""
        units = self.units
        scaled = self.H * units[:, None] * units + ROUNDING * np.eye(units.size)
        bounds = (self.low / units, self.high / units)
        found = solve_qp(scaled, self.g * units, self.A * units, self.lower, self.upper, bounds=bounds)
        return replace(found, x=units * found.x)


def solve_control(problem: ControlProblem, relaxation: Relaxation | None = None) -> ControlSolution:
    """Actuation of least cost under a relaxation; if there is none, no actuation with the status that says why."""
    return plan(problem, Relaxation() if relaxation is None else relaxation, np.zeros_like(problem.is_equal))


def plan(problem: ControlProblem, relaxation: Relaxation, is_open: BoolArray) -> ControlSolution:
    """Actuation of least cost while some rows carry no force."""
    return _solve(problem, relaxation, ~problem.is_equal, is_open)


def solve_exactly(problem: ControlProblem, relaxation: Relaxation | None = None) -> ControlSolution:
    """Best of all contact states: each one-sided row is either closed, or open and without force.

    [Tournier2011]_ §16 leaves this to the future; it is exact, and costs :math:`2^m` programmes.
    """
    base = Relaxation("none") if relaxation is None else relaxation
    one_sided = np.flatnonzero(~problem.is_equal & ~problem.is_friction)
    if one_sided.size > MOST_ENUMERATED:
        raise InputError(f"{one_sided.size} contacts have too many states to try", f"Give {MOST_ENUMERATED} at most")
    best: ControlSolution | None = None
    lowest = np.inf
    for closed in product((True, False), repeat=one_sided.size):
        is_open = np.zeros_like(problem.is_equal)
        is_open[one_sided] = ~np.array(closed, dtype=bool)
        found = _solve(problem, base, is_open, is_open)
        cost = problem.goal(found.planned_velocity) + _strength(problem, base, found.actuation)
        if found.is_solved and cost < lowest:
            best, lowest = found, cost
    return idle(problem, SolveStatus.INFEASIBLE) if best is None else best


def realised_velocity(problem: ControlProblem, actuation: FloatArray) -> FloatArray:
    r"""Velocity ``(d,)`` that follows from an actuation: :math:`\arg\min_{Jv\ge b}\frac12 v^TMv - (f + A^T\mu)^Tv`.

    Rows of friction are left out; a simulator has them.
    """
    pushed = np.array(problem.impulse)
    pushed[ROOT_SIZE:] += actuation
    hard = ~problem.is_friction
    upper = np.where(problem.is_equal, problem.ends, np.inf)
    return solve_qp(problem.inertia, -pushed, problem.rows[hard], problem.ends[hard], upper[hard]).x


def programme_of(problem: ControlProblem, relaxation: Relaxation, may_open: BoolArray, is_open: BoolArray) -> Programme:
    """Programme of a control step; rows that may not open hold exactly, rows that are open carry no force."""
    k, m, s = problem.num_actuators, problem.ends.size, problem.fence_ends.size
    objective, slope = control_objective(problem, relaxation)
    mean = float(np.trace(problem.gram[k:, k:])) / max(m, 1)
    H, g = np.zeros((k + m + s, k + m + s)), np.zeros(k + m + s)
    H[: k + m, : k + m], g[: k + m] = objective, slope
    softness = np.repeat([0.0, COMPLIANCE * max(mean, 1e-12), 2.0 * problem.fence_weight], [k, m, s])
    H[np.diag_indices_from(H)] += softness
    hard = ~problem.is_friction
    short = (problem.ends - problem.rows @ problem.free_velocity)[hard]
    grip, fence = _grip_rows(problem, k + m), problem.fences @ problem.response
    A = np.zeros((short.size + len(grip) + s, k + m + s))
    A[: short.size, : k + m] = problem.gram[k:][hard]
    A[short.size : short.size + len(grip), : k + m] = grip
    A[len(A) - s :, : k + m], A[len(A) - s :, k + m :] = fence, np.eye(s)
    missing = problem.fence_ends - problem.fences @ problem.free_velocity
    lower = np.concatenate([short, np.zeros(len(grip)), missing])
    upper = np.concatenate([np.where(may_open[hard], np.inf, short), np.full(len(grip) + s, np.inf)])
    low = np.where(problem.is_equal | problem.is_friction, -np.inf, 0.0)
    high = np.where(is_open, 0.0, np.inf)
    return Programme(
        *(H, g, A, lower, upper),
        np.concatenate([-problem.strongest, low, np.zeros(s)]),
        np.concatenate([problem.strongest, high, np.full(s, np.inf)]),
    )


def solution_of(problem: ControlProblem, z: FloatArray, status: SolveStatus) -> ControlSolution:
    """What the unknowns of a programme mean."""
    k, m = problem.num_actuators, problem.ends.size
    velocity = problem.free_velocity + problem.response @ z[: k + m]
    multipliers = z[k : k + m]
    one_sided = ~problem.is_equal & ~problem.is_friction
    gap = float(np.abs(multipliers * (problem.rows @ velocity - problem.ends))[one_sided].sum())
    return ControlSolution(z[:k], velocity, multipliers, gap, status)


def idle(problem: ControlProblem, status: SolveStatus) -> ControlSolution:
    """No actuation, for want of a plan."""
    nothing = np.zeros(problem.num_actuators)
    return ControlSolution(nothing, problem.free_velocity, np.zeros(problem.ends.size), 0.0, status)


def _solve(problem: ControlProblem, relaxation: Relaxation, may_open: BoolArray, is_open: BoolArray) -> ControlSolution:
    found = programme_of(problem, relaxation, may_open, is_open).solved()
    return solution_of(problem, found.x, found.status) if found.is_solved else idle(problem, found.status)


def _grip_rows(problem: ControlProblem, size: int) -> FloatArray:
    r"""Rows ``(2 t, n)`` of :math:`g\lambda_n - \lambda_t \ge 0` and :math:`g\lambda_n + \lambda_t \ge 0`."""
    which, k = np.flatnonzero(problem.is_friction), problem.num_actuators
    rows = np.zeros((2 * which.size, size))
    pressing = k + problem.partners[which]
    for half, sign in ((slice(0, which.size), -1.0), (slice(which.size, None), 1.0)):
        part = rows[half]
        part[np.arange(which.size), pressing] = problem.grips[which]
        part[np.arange(which.size), k + which] = sign
    return rows


def _strength(problem: ControlProblem, relaxation: Relaxation, actuation: FloatArray) -> float:
    k = problem.num_actuators
    return float(relaxation.strength * actuation @ problem.gram[:k, :k] @ actuation)
