"""Polish: a plan that leans on contacts which it lifts is made true, contact by contact."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.control._problem import ControlProblem
from marey.control._relaxations import Relaxation
from marey.control._solve import ControlSolution, solve_control, solve_with_open_rows

CLOSED_WEIGHT: Final = 1e7  # [s²/m²] a contact that presses stays where it is
MAX_REFINEMENTS: Final = 3  # times that the contacts are looked at again
LIFTED: Final = 0.02  # [m/s] a contact that moves away faster may be meant to open
STILL_SPEED: Final = 1e-4  # [m/s] a contact that moves away faster has opened


def solve_refined(problem: ControlProblem, relaxation: Relaxation | None = None) -> ControlSolution:
    """Actuation of a relaxation, then the best one for the contacts that it found.

    Each one-sided row is closed, and then stays, or open, and then pushes nothing, as in ``solve_exactly``; but the
    states are not enumerated: the relaxation tells the first, and rows that pull or sink are flipped.
    """
    relaxation = Relaxation() if relaxation is None else relaxation
    first = solve_control(problem, relaxation)
    return refine_contacts(problem, relaxation, first) if first.is_solved else first


def refine_contacts(problem: ControlProblem, relaxation: Relaxation, first: ControlSolution) -> ControlSolution:
    """The best plan near another one in which contacts push only where they stay."""
    one_sided = ~problem.is_equal & ~problem.is_friction
    if not one_sided.any():
        return first
    bare = replace(relaxation, name="none")
    best, lowest = first, np.inf
    for closed in _initial_active_rows(problem, first):
        for _ in range(MAX_REFINEMENTS):
            found = _solve_with_closed(problem, bare, closed, one_sided & ~closed)
            cost = problem.goal(found.planned_velocity)
            if not found.is_solved or cost >= lowest:
                break
            best, lowest = found, cost
            flipped = _flip_rows(problem, found, closed, one_sided)
            if (flipped == closed).all():
                break
            closed = flipped
    return best


def _initial_active_rows(problem: ControlProblem, first: ControlSolution) -> list[BoolArray]:
    """Rows ``(m,)`` that may be closed: those that press, or only those that stay where they are."""
    away = problem.rows @ first.planned_velocity - problem.ends
    presses = find_pressing_rows(problem, first)
    stays = presses & (away < LIFTED)
    return [presses] if (stays == presses).all() else [presses, stays]


def find_pressing_rows(problem: ControlProblem, found: ControlSolution) -> BoolArray:
    """One-sided rows ``(m,)`` that push more than they move away, both as speeds, or stay where they are."""
    k = problem.num_actuators
    away = problem.rows @ found.planned_velocity - problem.ends
    presses = away < np.maximum(found.multipliers * np.diag(problem.gram)[k:], STILL_SPEED)
    return presses & ~problem.is_equal & ~problem.is_friction


def closed_contact_goals(problem: ControlProblem, closed: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Goals ``(d, d)`` and ``(d,)`` that keep contacts which press where they are."""
    rows, ends = problem.rows[closed], problem.ends[closed]
    pulled = 2.0 * CLOSED_WEIGHT * rows.T
    return pulled @ rows, -pulled @ ends


def _solve_with_closed(
    problem: ControlProblem, relaxation: Relaxation, closed: BoolArray, is_open: BoolArray
) -> ControlSolution:
    quadratic, linear = closed_contact_goals(problem, closed)
    held = problem.with_goals(problem.goal_matrix + quadratic, problem.goal_vector + linear)
    return solve_with_open_rows(held, relaxation, is_open)


def _flip_rows(problem: ControlProblem, found: ControlSolution, closed: BoolArray, one_sided: BoolArray) -> BoolArray:
    """Closed rows without force open where they are pulled; open rows that sink close."""
    away = problem.rows @ found.planned_velocity - problem.ends
    loose = closed & (found.multipliers <= 0.0) & (away > STILL_SPEED / 100.0)
    sunk = one_sided & ~closed & (away < STILL_SPEED)
    return (closed & ~loose) | sunk
