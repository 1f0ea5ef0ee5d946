"""Trajectory optimisation in the full space of angles ([Fang2003]_)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from marey.base import FloatArray
from marey.dynamics import JointTree
from marey.motion import Motion
from marey.numerics import SQPIteration, SQPResult, solve_sqp
from marey.spacetime._check import check_solution
from marey.spacetime._full_layout import Layout
from marey.spacetime._full_programme import FullProgramme
from marey.spacetime._full_sample import carry_flights, sample_track, to_motion
from marey.spacetime._full_state import Derivatives, Figure
from marey.spacetime._guess import flat_guess, warm_guess
from marey.spacetime._problem import Problem
from marey.spacetime._refusals import check_full
from marey.spacetime._result import SpacetimeResult

RATE_HZ = 120.0  # [Hz] of the motions handed out
CHECK_PER_SPAN = 8  # samples of the dense check in a span: four times the two frames of the solver

OnIteration = Callable[[SQPIteration], bool | None]


@dataclass(frozen=True, slots=True)
class FullOptions:
    """How a problem is solved, as opposed to what it asks."""

    derivatives: Derivatives = "linear-time"
    solver: str = "sl1qp"
    on_iteration: OnIteration | None = None
    time_limit_s: float | None = None
    penalty: float = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class FullSolution:
    """What the solver left behind: enough to start again from."""

    layout: Layout
    programme: FullProgramme
    start: FloatArray  # unscaled unknowns
    answer: SQPResult

    @property
    def x(self) -> FloatArray:
        """Unscaled unknowns of the solution."""
        return self.answer.x * self.layout.scales


def solve_full(
    problem: Problem,
    tree: JointTree,
    options: FullOptions | None = None,
    *,
    warm_start: Motion | None = None,
    start: FloatArray | None = None,
) -> FullSolution:
    """Solve a problem whose durations are fixed; never raises for want of convergence.

    Args:
        problem: what is wanted.
        tree: the character.
        options: how to solve it.
        warm_start: motion to begin at, instead of the flat guess.
        start: unscaled unknowns to begin at.
    """
    options = options or FullOptions()
    layout = Layout.of(problem, Figure.of(tree))
    check_full(layout)
    if start is None:
        start = flat_guess(layout) if warm_start is None else warm_guess(layout, warm_start)
    reference = layout.points(start) if problem.objective.reference > 0.0 else None
    programme = FullProgramme(layout, start, derivatives=options.derivatives, reference=reference)
    start = carry_flights(layout, programme.settled(start))
    answer = solve_sqp(
        programme,
        start / layout.scales,
        method="fang2003" if options.solver == "fang2003" else "sl1qp",
        max_iterations=problem.max_iterations,
        time_limit_s=options.time_limit_s,
        penalty=options.penalty,
        on_iteration=options.on_iteration,
        on_failure="return",
    )
    return FullSolution(layout, programme, start, answer)


def full_result(solution: FullSolution, began: float, iterations: int | None = None) -> SpacetimeResult:
    """Turn a solution into motions, and check it on the dense grid; ``began`` is of ``time.perf_counter``."""
    layout, answer, x = solution.layout, solution.answer, solution.x
    problem = layout.problem
    seconds = time.perf_counter() - began
    track = sample_track(layout, x, layout.timeline.grid(CHECK_PER_SPAN))
    return SpacetimeResult(
        status=answer.status,
        motion=to_motion(layout, x, RATE_HZ, problem.name),
        guess=to_motion(layout, solution.start, RATE_HZ, f"{problem.name}, first guess"),
        violation=answer.violation,
        iterations=answer.iterations if iterations is None else iterations,
        seconds=seconds,
        objective=answer.objective,
        terms=solution.programme.terms(x),
        worst=answer.worst,
        check=check_solution(layout.figure.tree, problem, track),
        history=answer.history,
        advice=answer.advice,
        problem=problem,
        counts=_counts(solution),
    )


def _counts(solution: FullSolution) -> dict[str, int]:
    layout, programme = solution.layout, solution.programme
    return {
        "unknowns": layout.num_unknowns,
        "control_points": layout.num_curve_unknowns,
        "rows": len(programme.row_lower),
        "frames": len(programme.instants.times),
        "spans": layout.timeline.spline.num_spans,
    }
