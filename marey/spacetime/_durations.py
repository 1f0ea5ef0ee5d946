r"""Free phase durations: a line search over solved problems, led by the slope the multipliers give.

At a solution the value of a problem changes with a duration :math:`T` as its Lagrangian does with the motion held,
:math:`dV/dT = \partial L/\partial T` (envelope theorem), so one more evaluation of the rows on stretched knots tells
where to go; every problem after the first starts at the last solution.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.dynamics import JointTree
from marey.motion import Motion
from marey.spacetime._full import FullOptions, FullSolution, build_full_result, refine_solution, solve_full
from marey.spacetime._full_layout import FullLayout
from marey.spacetime._full_programme import FullProgramme
from marey.spacetime._full_refine import Frames
from marey.spacetime._problem import SpacetimeProblem
from marey.spacetime._result import SpacetimeResult

DURATION_STEP: Final = 1e-5  # [-] of a duration, for the slope
FIRST_STEP: Final = 0.1  # [-] largest first change of a duration
MAX_SOLVES: Final = 12
SHORTEST_STEP: Final = 1e-3  # [-] of the durations; the search ends below


@dataclass(frozen=True, slots=True, eq=False)
class DurationResult:
    """A solved problem at some durations, its value and the value's slope by the free ones."""

    solution: FullSolution
    value: float
    slope: FloatArray  # (n,) [1/s]


def find_free_phases(problem: SpacetimeProblem) -> list[int]:
    """Numbers of the phases whose duration is free."""
    free = [i for i, phase in enumerate(problem.phases) if phase.duration_range_s is not None]
    return [i for i in free if _duration_range(problem, i)[0] < _duration_range(problem, i)[1]]


def solve_durations(
    problem: SpacetimeProblem, tree: JointTree, options: FullOptions, *, warm_start: Motion | None = None
) -> SpacetimeResult:
    """Solve a problem with its free durations: downhill along the slope, halving steps that do not pay."""
    began, levels = time.perf_counter(), problem.refine
    free, problem = find_free_phases(problem), replace(problem, refine=0)
    low, high = (np.array([_duration_range(problem, i)[end] for i in free]) for end in (0, 1))
    first = best = _evaluate_solution(solve_full(problem, tree, options, warm_start=warm_start), free)
    durations = np.array([problem.phases[i].duration_s for i in free])
    spent, step = best.solution.answer.iterations, FIRST_STEP
    for _ in range(MAX_SOLVES - 1):
        move = descent_direction(best.slope, durations, low, high) * step
        if (
            _is_out_of_time(options, began)
            or not best.solution.answer.is_solved
            or np.abs(move).max(initial=0.0) < 1e-9
        ):
            break
        trial = np.clip(durations + move, low, high)
        found = _evaluate_solution(_solve_at_durations(best.solution, free, trial, tree, options, began), free)
        spent += found.solution.answer.iterations
        if found.solution.answer.is_solved and found.value < best.value:
            turned = float(found.slope @ best.slope) < 0.0
            best, durations, step = found, trial, step * (0.5 if turned else 1.5)
        else:
            step *= 0.35
        if step < SHORTEST_STEP:
            break
    solution = replace(best.solution, start=_pick_start(first, best))
    coarse = solution.answer.iterations
    asked = replace(solution.layout, problem=replace(solution.layout.problem, refine=levels))
    solution = refine_solution(replace(solution, layout=asked), options, began=began)
    return build_full_result(solution, began, spent + solution.answer.iterations - coarse)


def _pick_start(first: DurationResult, best: DurationResult) -> FloatArray:
    same = first.solution.start.size == best.solution.start.size
    return first.solution.start if same else best.solution.start


def _duration_range(problem: SpacetimeProblem, phase: int) -> tuple[float, float]:
    span = problem.phases[phase].duration_range_s
    assert span is not None
    return span


def replace_durations(
    problem: SpacetimeProblem, free: list[int], durations: FloatArray, spans: FloatArray
) -> SpacetimeProblem:
    """Change some durations; knots keep their number, so that control points keep their meaning."""
    phases = list(problem.phases)
    for i, duration, count in zip(free, durations, spans, strict=True):
        span = float(duration) / float(count)
        phases[i] = replace(phases[i], duration_s=float(duration), span_s=span * (1.0 + 1e-12))
    return replace(problem, phases=tuple(phases))


def _count_spans(layout: FullLayout, free: list[int]) -> FloatArray:
    return np.array([len(layout.timeline.breaks(i)) - 1 for i in free], dtype=np.float64)


def _solve_at_durations(
    solution: FullSolution, free: list[int], durations: FloatArray, tree: JointTree, options: FullOptions, began: float
) -> FullSolution:
    """Solve at other durations, from the last solution."""
    problem = replace_durations(solution.layout.problem, free, durations, _count_spans(solution.layout, free))
    left = options.time_limit_s
    if left is not None:
        left = max(left - (time.perf_counter() - began), 1e-3)
    return solve_full(problem, tree, replace(options, time_limit_s=left), start=solution.x)


def _is_out_of_time(options: FullOptions, began: float) -> bool:
    return options.time_limit_s is not None and time.perf_counter() - began > options.time_limit_s


def _evaluate_solution(solution: FullSolution, free: list[int]) -> DurationResult:
    return DurationResult(solution, solution.answer.objective, compute_duration_slope(solution, free))


def compute_duration_slope(solution: FullSolution, free: list[int]) -> FloatArray:
    """How the best value changes with the duration of each free phase ``(n,)`` [1/s]."""
    layout = solution.layout
    counts = _count_spans(layout, free)
    now = np.array([layout.problem.phases[i].duration_s for i in free])
    slope = np.zeros(len(free))
    for k in range(len(free)):
        ends: list[float] = []
        for sign in (1.0, -1.0):
            moved = now.copy()
            moved[k] *= 1.0 + sign * DURATION_STEP
            problem = replace_durations(layout.problem, free, moved, counts)
            ends.append(_lagrangian(FullLayout.from_problem(problem, layout.figure), solution))
        slope[k] = (ends[0] - ends[1]) / (2.0 * DURATION_STEP * now[k])
    return slope


def _lagrangian(layout: FullLayout, solution: FullSolution) -> float:
    r""":math:`f + \lambda^T c` at the solution's unknowns on another time line."""
    programme = FullProgramme(layout, solution.start, extra=_rescale_frames(solution, layout))
    value, rows = programme.values(solution.answer.x)
    return value + float(solution.answer.multipliers @ rows)


def _rescale_frames(solution: FullSolution, layout: FullLayout) -> Frames:
    """Extra frames at the same shares of their phases."""
    old, new = solution.layout.timeline.edges, layout.timeline.edges
    shares = [(p, (t - old[p]) / (old[p + 1] - old[p])) for p, t in solution.extra]
    return tuple((p, float(new[p] + share * (new[p + 1] - new[p]))) for p, share in shares)


def descent_direction(slope: FloatArray, durations: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Direction of falling value as a share of each duration, largest part one; none through a bound."""
    move = -slope * durations**2
    blocked = ((durations <= low) & (move < 0.0)) | ((durations >= high) & (move > 0.0))
    move = np.where(blocked, 0.0, move)
    largest = np.abs(move / durations).max(initial=0.0)
    return move / largest if largest > 0.0 else move
