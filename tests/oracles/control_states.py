"""Contact states of a control step by enumeration, and the physics that follows from an actuation (Tournier 64, 65)."""

from __future__ import annotations

from itertools import product
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.control import Relaxation
from marey.control.problem import ROOT_SIZE, ControlProblem
from marey.control.solvers import ControlSolution, no_actuation, refine_contacts, solve_programme
from marey.numerics import SolveStatus, solve_qp

MOST_ENUMERATED: Final = 8  # one-sided rows whose 2^m states are tried


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
        found = solve_programme(problem, base, is_open, is_open)
        cost = problem.goal(found.planned_velocity) + _strength_cost(problem, base, found.actuation)
        if found.is_solved and cost < lowest:
            best, lowest = found, cost
    return no_actuation(problem, SolveStatus.INFEASIBLE) if best is None else best


def realised_velocity(problem: ControlProblem, actuation: FloatArray) -> FloatArray:
    r"""Velocity ``(d,)`` that follows from an actuation: :math:`\arg\min_{Jv\ge b}\frac12 v^TMv - (f + A^T\mu)^Tv`.

    Rows of friction are left out; a simulator has them.
    """
    pushed = np.array(problem.impulse)
    pushed[ROOT_SIZE:] += actuation
    hard = ~problem.is_friction
    upper = np.where(problem.is_equal, problem.ends, np.inf)
    return solve_qp(problem.inertia, -pushed, problem.rows[hard], problem.ends[hard], upper[hard]).x


def _strength_cost(problem: ControlProblem, relaxation: Relaxation, actuation: FloatArray) -> float:
    k = problem.num_actuators
    return float(relaxation.strength * actuation @ problem.kinetics.gram[:k, :k] @ actuation)


def solve_refined(problem: ControlProblem, relaxation: Relaxation | None = None) -> ControlSolution:
    """Actuation of a relaxation, then the best one for the contacts that it found.

    Each one-sided row is closed, and then stays, or open, and then pushes nothing, as in ``solve_exactly``; but the
    states are not enumerated: the relaxation gives the first, and rows that pull or sink are flipped.
    """
    relaxation = Relaxation() if relaxation is None else relaxation
    return refine_contacts(problem, relaxation)
