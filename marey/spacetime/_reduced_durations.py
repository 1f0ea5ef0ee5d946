r"""Free phase durations in reduced space: downhill along the slope that the multipliers give.

As in the full space, :math:`dV/dT = \partial L/\partial T` at a solution, and every problem after the first starts at
the last solution. The Lagrangian is :math:`f + \lambda^T (c - b)`: the ends :math:`b` of rows of flights change with
their durations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from marey.base import FloatArray
from marey.numerics import SQPResult
from marey.spacetime._durations import (
    DURATION_STEP,
    FIRST_STEP,
    MAX_SOLVES,
    SHORTEST_STEP,
    descent_direction,
    replace_durations,
)
from marey.spacetime._reduced_search import SHORT_STEPS, ReducedSearch, count_phase_spans, transfer_vector
from marey.spacetime._reduced_solve import ReducedProblem, build_reduced_problem


@dataclass(frozen=True, slots=True, eq=False)
class ReducedDurationResult:
    """A solution at some durations."""

    built: ReducedProblem
    result: SQPResult
    durations: FloatArray  # (n,) [s] of the free phases


def optimise_durations(
    search: ReducedSearch, built: ReducedProblem, result: SQPResult, free: list[int]
) -> tuple[ReducedProblem, SQPResult]:
    """Change the free durations within their ranges as long as that pays, halving steps that do not."""
    ranges = np.array([search.problem.phases[p].duration_range_s for p in free], dtype=np.float64)
    best = ReducedDurationResult(built, result, np.array([search.problem.phases[p].duration_s for p in free]))
    slope, step = compute_reduced_duration_slope(best, free), FIRST_STEP
    for _ in range(MAX_SOLVES - 1):
        move = descent_direction(slope, best.durations, *ranges.T) * step
        if search.is_over or step < SHORTEST_STEP or np.abs(move).max(initial=0.0) < 1e-9:
            break
        found = _solve_at_durations(search, best, free, np.clip(best.durations + move, *ranges.T))
        if not (found.result.is_solved and found.result.objective < best.result.objective):
            step *= 0.35
            continue
        before, best = slope, found
        slope = compute_reduced_duration_slope(best, free)
        step *= 0.5 if float(slope @ before) < 0.0 else 1.5
    return best.built, best.result


def compute_reduced_duration_slope(timed: ReducedDurationResult, free: list[int]) -> FloatArray:
    """How the best value changes with the duration of each free phase ``(n,)`` [1/s]."""
    slope = np.zeros(len(free))
    for k in range(len(free)):
        step = DURATION_STEP * timed.durations[k] * np.eye(len(free))[k]
        ends = [
            _lagrangian(timed, rebuild_at_durations(timed, free, timed.durations + sign * step)) for sign in (1.0, -1.0)
        ]
        slope[k] = (ends[0] - ends[1]) / (2.0 * step[k])
    return slope


def rebuild_at_durations(timed: ReducedDurationResult, free: list[int], durations: FloatArray) -> ReducedProblem:
    """The problem at other durations; knots keep their number, and nodes that were added their share of a phase."""
    built = timed.built
    problem = replace_durations(built.problem, free, durations, count_phase_spans(built, free))
    old = built.scene.layout.edges
    new = np.concatenate([[0.0], np.cumsum([phase.duration_s for phase in problem.phases])])
    looks = tuple((p, float(np.interp(t, old[p : p + 2], new[p : p + 2]))) for p, t in built.settings.looks)
    return build_reduced_problem(problem, built.scene.behaviour, replace(built.settings, looks=looks))


def _solve_at_durations(
    search: ReducedSearch, timed: ReducedDurationResult, free: list[int], durations: FloatArray
) -> ReducedDurationResult:
    again = rebuild_at_durations(timed, free, durations)
    return ReducedDurationResult(
        again, search.solve(again, transfer_vector(timed.built, timed.result.x, again), SHORT_STEPS), durations
    )


def _lagrangian(timed: ReducedDurationResult, other: ReducedProblem) -> float:
    r""":math:`f + \lambda^T(c - b)` of the solution's curves on another time line; f alone if its rows are others."""
    value, rows = other.programme.values(transfer_vector(timed.built, timed.result.x, other))
    force = timed.result.multipliers
    if len(force) != len(rows):
        return value
    ends = np.where(force > 0.0, other.programme.row_upper, other.programme.row_lower)
    held = force != 0.0
    return value + float(force[held] @ (rows[held] - ends[held]))
