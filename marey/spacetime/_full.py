"""Trajectory optimisation in the full space of angles ([Fang2003]_)."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

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
from marey.spacetime._result import SpacetimeResult

RATE_HZ = 120.0  # [Hz] of the motions handed out
CHECK_PER_SPAN = 8  # samples of the dense check in a span: four times the two frames of the solver

OnIteration = Callable[[SQPIteration], bool | None]


def solve_full(
    problem: Problem,
    tree: JointTree,
    *,
    derivatives: Derivatives = "linear-time",
    solver: str = "sl1qp",
    on_iteration: OnIteration | None = None,
    time_limit_s: float | None = None,
    warm_start: Motion | None = None,
    start: FloatArray | None = None,
) -> SpacetimeResult:
    """Solve a problem whose durations are fixed; never raises for want of convergence."""
    began = time.perf_counter()
    layout = Layout.of(problem, Figure.of(tree))
    if start is None:
        start = flat_guess(layout) if warm_start is None else warm_guess(layout, warm_start)
    reference = layout.points(start) if problem.objective.reference > 0.0 else None
    programme = FullProgramme(layout, start, derivatives=derivatives, reference=reference)
    start, scales = carry_flights(layout, programme.settled(start)), layout.scales
    answer = solve_sqp(
        programme,
        start / scales,
        method="fang2003" if solver == "fang2003" else "sl1qp",
        max_iterations=problem.max_iterations,
        time_limit_s=time_limit_s,
        on_iteration=on_iteration,
        on_failure="return",
    )
    return _result(layout, programme, start, answer, time.perf_counter() - began)


def _result(
    layout: Layout, programme: FullProgramme, start: FloatArray, answer: SQPResult, seconds: float
) -> SpacetimeResult:
    x = answer.x * layout.scales
    problem = layout.problem
    track = sample_track(layout, x, layout.timeline.grid(CHECK_PER_SPAN))
    return SpacetimeResult(
        status=answer.status,
        motion=to_motion(layout, x, RATE_HZ, problem.name),
        guess=to_motion(layout, start, RATE_HZ, f"{problem.name}, first guess"),
        violation=answer.violation,
        iterations=answer.iterations,
        seconds=seconds,
        objective=answer.objective,
        terms=programme.terms(x),
        worst=answer.worst,
        check=check_solution(layout.figure.tree, problem, track),
        history=answer.history,
        advice=answer.advice,
        problem=problem,
        counts=_counts(layout, programme),
    )


def _counts(layout: Layout, programme: FullProgramme) -> dict[str, int]:
    return {
        "unknowns": layout.num_unknowns,
        "rows": len(programme.row_lower),
        "frames": len(programme.instants.times),
        "spans": layout.timeline.spline.num_spans,
        "control_points": int(np.prod(layout.points(np.zeros(layout.num_unknowns)).shape)),
    }
