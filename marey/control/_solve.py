"""Solve one control step: a quadratic programme for the actuation, then the physics that follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from marey.base import BoolArray, FloatArray, InputError
from marey.control._problem import ROOT_SIZE, ControlProblem
from marey.control._relaxations import COMPLIANCE, Relaxation, control_objective
from marey.numerics import QPResult, SolveStatus, solve_qp

ROUNDING = 1e-7  # [-] of the scaled Hessian, which redundant contacts leave singular
MOST_ENUMERATED = 8  # one-sided rows whose 2^m states are tried


@dataclass(frozen=True, slots=True, eq=False)
class ControlSolution:
    """Actuation of one step, and what was planned with it."""

    actuation: FloatArray  # (k,) impulses
    planned_velocity: FloatArray  # (d,) what the programme believes; the physics decides
    multipliers: FloatArray  # (m,) planned contact impulses
    gap: float  # [J] planned λ'(Jv - b): zero when contacts push only where they touch
    status: SolveStatus


def solve_control(problem: ControlProblem, relaxation: Relaxation | None = None) -> ControlSolution:
    """Actuation of least cost under a relaxation; if there is none, no actuation with the status that says why."""
    relaxation = Relaxation() if relaxation is None else relaxation
    return _solve(problem, relaxation, ~problem.is_equal, np.zeros_like(problem.is_equal))


def solve_exactly(problem: ControlProblem, relaxation: Relaxation | None = None) -> ControlSolution:
    """Best of all contact states: each one-sided row is either closed, or open and without force.

    [Tournier2011]_ §16 leaves this to the future; it is exact, and costs :math:`2^m` programmes.
    """
    base = Relaxation("none") if relaxation is None else relaxation
    one_sided = np.flatnonzero(~problem.is_equal)
    if one_sided.size > MOST_ENUMERATED:
        raise InputError(f"{one_sided.size} contacts have too many states to try", f"Give {MOST_ENUMERATED} at most")
    best: ControlSolution | None = None
    lowest = np.inf
    for closed in product((True, False), repeat=one_sided.size):
        is_open = np.zeros_like(problem.is_equal)
        is_open[one_sided] = ~np.array(closed, dtype=bool)
        found = _solve(problem, base, is_open, is_open)
        cost = problem.goal(found.planned_velocity) + _strength(problem, base, found.actuation)
        if found.status is SolveStatus.CONVERGED and cost < lowest:
            best, lowest = found, cost
    return _idle(problem, SolveStatus.INFEASIBLE) if best is None else best


def realised_velocity(problem: ControlProblem, actuation: FloatArray) -> FloatArray:
    r"""Velocity ``(d,)`` that follows from an actuation: :math:`\arg\min_{Jv\ge b}\frac12 v^TMv - (f + A^T\mu)^Tv`."""
    pushed = np.array(problem.impulse)
    pushed[ROOT_SIZE:] += actuation
    upper = np.where(problem.is_equal, problem.ends, np.inf)
    return solve_qp(problem.inertia, -pushed, problem.rows, problem.ends, upper).x


def _solve(problem: ControlProblem, relaxation: Relaxation, may_open: BoolArray, is_open: BoolArray) -> ControlSolution:
    """Rows that may not open hold exactly; rows that are open carry no force."""
    k = problem.num_actuators
    H, g = control_objective(problem, relaxation)
    contacts = H.shape[0] - k
    mean = float(np.trace(problem.gram[k:, k:])) / max(contacts, 1)
    H = H + np.diag(np.repeat([0.0, COMPLIANCE * max(mean, 1e-12)], [k, contacts]))
    lowest = np.where(problem.is_equal, -np.inf, 0.0)
    highest = np.where(is_open, 0.0, np.inf)
    bounds = (np.concatenate([-problem.strongest, lowest]), np.concatenate([problem.strongest, highest]))
    short = problem.ends - problem.rows @ problem.free_velocity
    found = _solve_scaled(H, g, problem.gram[k:], short, np.where(may_open, np.inf, short), bounds)
    if not found.is_solved:
        return _idle(problem, found.status)
    units = _units(H)
    z = units * found.x
    velocity = problem.free_velocity + problem.response @ z
    multipliers = z[k:]
    gap = float(np.abs(multipliers * (problem.rows @ velocity - problem.ends))[~problem.is_equal].sum())
    return ControlSolution(z[:k], velocity, multipliers, gap, found.status)


def _units(hessian: FloatArray) -> FloatArray:
    """Size of each unknown for which the Hessian has a unit diagonal: modes and impulses differ by many decades."""
    return 1.0 / np.sqrt(np.maximum(np.diag(hessian), 1e-300))


def _solve_scaled(
    H: FloatArray,
    g: FloatArray,
    A: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    bounds: tuple[FloatArray, FloatArray],
) -> QPResult:
    """Solve in units in which no unknown is large or small."""
    units = _units(H)
    scaled = H * units[:, None] * units + ROUNDING * np.eye(units.size)
    return solve_qp(scaled, g * units, A * units, lower, upper, bounds=(bounds[0] / units, bounds[1] / units))


def _idle(problem: ControlProblem, status: SolveStatus) -> ControlSolution:
    nothing = np.zeros(problem.num_actuators)
    return ControlSolution(nothing, problem.free_velocity, np.zeros(problem.ends.size), 0.0, status)


def _strength(problem: ControlProblem, relaxation: Relaxation, actuation: FloatArray) -> float:
    k = problem.num_actuators
    return float(relaxation.strength * actuation @ problem.gram[:k, :k] @ actuation)
