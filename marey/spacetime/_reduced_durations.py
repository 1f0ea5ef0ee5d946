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
from marey.spacetime._durations import FIRST_STEP, MAX_SOLVES, SHORTEST_STEP, STRETCH, downhill, with_durations
from marey.spacetime._reduced_search import SHORT_STEPS, Search, carry, span_counts
from marey.spacetime._reduced_solve import Built, build


@dataclass(frozen=True, slots=True, eq=False)
class Timed:
    """A solution at some durations."""

    built: Built
    result: SQPResult
    durations: FloatArray  # (n,) [s] of the free phases


def free_durations(search: Search, built: Built, result: SQPResult, free: list[int]) -> tuple[Built, SQPResult]:
    """Change the free durations within their ranges as long as that pays, halving steps that do not."""
    ranges = np.array([search.problem.phases[p].duration_range_s for p in free], dtype=np.float64)
    best = Timed(built, result, np.array([search.problem.phases[p].duration_s for p in free]))
    slope, step = duration_slope(best, free), FIRST_STEP
    for _ in range(MAX_SOLVES - 1):
        move = downhill(slope, best.durations, *ranges.T) * step
        if search.is_over or step < SHORTEST_STEP or np.abs(move).max(initial=0.0) < 1e-9:
            break
        found = _solved_at(search, best, free, np.clip(best.durations + move, *ranges.T))
        if not (found.result.is_solved and found.result.objective < best.result.objective):
            step *= 0.35
            continue
        before, best = slope, found
        slope = duration_slope(best, free)
        step *= 0.5 if float(slope @ before) < 0.0 else 1.5
    return best.built, best.result


def duration_slope(timed: Timed, free: list[int]) -> FloatArray:
    """How the best value changes with the duration of each free phase ``(n,)`` [1/s]."""
    slope = np.zeros(len(free))
    for k in range(len(free)):
        step = STRETCH * timed.durations[k] * np.eye(len(free))[k]
        ends = [_lagrangian(timed, stretched(timed, free, timed.durations + sign * step)) for sign in (1.0, -1.0)]
        slope[k] = (ends[0] - ends[1]) / (2.0 * step[k])
    return slope


def stretched(timed: Timed, free: list[int], durations: FloatArray) -> Built:
    """The problem at other durations; knots keep their number, and nodes that were added their share of a phase."""
    built = timed.built
    problem = with_durations(built.problem, free, durations, span_counts(built, free))
    old = built.scene.layout.edges
    new = np.concatenate([[0.0], np.cumsum([phase.duration_s for phase in problem.phases])])
    looks = tuple((p, float(np.interp(t, old[p : p + 2], new[p : p + 2]))) for p, t in built.settings.looks)
    return build(problem, built.scene.behaviour, replace(built.settings, looks=looks))


def _solved_at(search: Search, timed: Timed, free: list[int], durations: FloatArray) -> Timed:
    again = stretched(timed, free, durations)
    return Timed(again, search.solve(again, carry(timed.built, timed.result.x, again), SHORT_STEPS), durations)


def _lagrangian(timed: Timed, other: Built) -> float:
    r""":math:`f + \lambda^T(c - b)` of the solution's curves on another time line; f alone if its rows are others."""
    value, rows = other.programme.values(carry(timed.built, timed.result.x, other))
    force = timed.result.multipliers
    if len(force) != len(rows):
        return value
    ends = np.where(force > 0.0, other.programme.row_upper, other.programme.row_lower)
    held = force != 0.0
    return value + float(force[held] @ (rows[held] - ends[held]))
