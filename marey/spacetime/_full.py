"""Trajectory optimisation in the full space of angles ([Fang2003]_)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from marey.base import FloatArray
from marey.dynamics import JointTree
from marey.motion import Motion
from marey.numerics import SolveStatus, SQPIteration, SQPResult, solve_sqp
from marey.spacetime._check import check_solution
from marey.spacetime._full_layout import FullLayout
from marey.spacetime._full_levels import refine_layout, refine_unknowns
from marey.spacetime._full_programme import FullProgramme
from marey.spacetime._full_refine import GROSS_EXCESS, MAX_REFINEMENTS, Frames, compute_worst_excess, find_weak_instants
from marey.spacetime._full_sample import motion_from_unknowns, sample_track, set_flight_unknowns
from marey.spacetime._full_state import Character, Derivatives
from marey.spacetime._guess import build_flat_guess, guess_from_motion
from marey.spacetime._problem import SpacetimeProblem
from marey.spacetime._refusals import validate_full
from marey.spacetime._result import SpacetimeResult

RATE_HZ = 120.0  # [Hz] of the motions handed out
WARM_PENALTY = 100.0  # first weight of violations where the start is nearly a solution
COARSE_ADVICE = "The finer spline was not solved; the motion is that of the coarser one."
BETWEEN_FRAMES_ADVICE = "It holds at its frames, not between them: raise frames_per_span or refine, or shorten span_s."
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

    layout: FullLayout
    programme: FullProgramme
    start: FloatArray  # unscaled unknowns
    answer: SQPResult
    extra: Frames  # beyond the regular ones
    levels: tuple[int, ...] = ()  # iterations of the coarser splines before this one

    @property
    def x(self) -> FloatArray:
        """Unscaled unknowns of the solution."""
        return self.answer.x * self.layout.scales


def solve_full(
    problem: SpacetimeProblem,
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
    options, began = options or FullOptions(), time.perf_counter()
    layout = FullLayout.from_problem(problem, Character.from_tree(tree))
    validate_full(layout)
    if start is None:
        start = build_flat_guess(layout) if warm_start is None else guess_from_motion(layout, warm_start)
    reference = start if problem.objective.reference > 0.0 else None
    programme = _build_programme(layout, start, options, reference)
    start = set_flight_unknowns(layout, programme.settled(start))
    solution = FullSolution(layout, programme, start, _solve_programme(programme, start, options, began), ())
    return refine_solution(
        _solve_until_physics_holds(solution, options, reference, began), options, reference=reference, began=began
    )


def refine_solution(
    solution: FullSolution, options: FullOptions, *, began: float, reference: FloatArray | None = None
) -> FullSolution:
    """Halve the spans as often as the problem asks, each time from the last solution; the last solved one is kept.

    Args:
        solution: on the coarse spline.
        options: how to solve.
        began: of ``time.perf_counter``, for the time limit.
        reference: unknowns of the motion to stay near, in the layout of the solution.
    """
    for _ in range(solution.layout.problem.refine if solution.answer.is_solved else 0):
        layout, x = refine_layout(solution.layout), refine_unknowns(solution.layout, solution.x)
        if reference is not None:
            reference = refine_unknowns(solution.layout, reference)
        programme = _build_programme(layout, x, options, reference, solution.extra)
        answer = _solve_programme(programme, x, _warm_options(options), began, solution.answer)
        start = refine_unknowns(solution.layout, solution.start)
        levels = (*solution.levels, solution.answer.iterations - sum(solution.levels))
        finer = FullSolution(layout, programme, start, answer, solution.extra, levels)
        finer = _solve_until_physics_holds(finer, options, reference, began)
        if not finer.answer.is_solved and finer.answer.status is not SolveStatus.STOPPED:
            spent = replace(
                solution.answer, iterations=finer.answer.iterations, history=finer.answer.history, advice=COARSE_ADVICE
            )
            return replace(solution, answer=spent, levels=levels)
        solution = finer
    return solution


def _build_programme(
    layout: FullLayout, guess: FloatArray, options: FullOptions, reference: FloatArray | None, extra: Frames = ()
) -> FullProgramme:
    near = None if reference is None else layout.points(reference)
    return FullProgramme(layout, guess, derivatives=options.derivatives, reference=near, extra=extra)


def _warm_options(options: FullOptions) -> FullOptions:
    return replace(options, penalty=max(options.penalty, WARM_PENALTY))


def _solve_programme(
    programme: FullProgramme, start: FloatArray, options: FullOptions, began: float, old: SQPResult | None = None
) -> SQPResult:
    """Solve from unscaled unknowns within what is left of the quotas; iterations are added to those of ``old``."""
    spent = 0 if old is None else old.iterations
    left = None if options.time_limit_s is None else options.time_limit_s - (time.perf_counter() - began)
    answer = solve_sqp(
        programme,
        start / programme.layout.scales,
        method="fang2003" if options.solver == "fang2003" else "sl1qp",
        max_iterations=max(programme.layout.problem.max_iterations - spent, 1),
        time_limit_s=None if left is None else max(left, 1e-3),
        penalty=options.penalty,
        on_iteration=options.on_iteration,
        on_failure="return",
    )
    if old is None:
        return answer
    return replace(answer, iterations=spent + answer.iterations, history=old.history + answer.history)


def _solve_until_physics_holds(
    solution: FullSolution, options: FullOptions, reference: FloatArray | None, began: float
) -> FullSolution:
    """Solve again with more frames until physics holds between them, a few times at most."""
    for _ in range(MAX_REFINEMENTS):
        finer = _solve_with_added_frames(solution, options, reference, began)
        if finer is None:
            break
        solution = finer
    return solution


def _solve_with_added_frames(
    solution: FullSolution, options: FullOptions, reference: FloatArray | None, began: float
) -> FullSolution | None:
    """Solve again with frames where the last solution broke physics between them; None if it nowhere did."""
    if not solution.answer.is_solved:
        return None
    weak = tuple(frame for frame in find_weak_instants(solution.layout, solution.x) if frame not in solution.extra)
    if not weak or (options.time_limit_s is not None and time.perf_counter() - began > options.time_limit_s):
        return None
    extra = (*solution.extra, *weak)
    layout = solution.layout
    finer = _build_programme(layout, solution.x, options, reference, extra)
    answer = _solve_programme(finer, solution.x, _warm_options(options), began, solution.answer)
    if not answer.is_solved and compute_worst_excess(layout, solution.x) < GROSS_EXCESS:
        return None  # what was missing between frames is small: keep the motion that has it
    return replace(solution, programme=finer, answer=answer, extra=extra)


def build_full_result(solution: FullSolution, began: float, iterations: int | None = None) -> SpacetimeResult:
    """Turn a solution into motions, and check it on the dense grid; ``began`` is of ``time.perf_counter``."""
    layout, answer, x = solution.layout, solution.answer, solution.x
    problem = layout.problem
    seconds = time.perf_counter() - began
    total = answer.iterations if iterations is None else iterations
    track = sample_track(layout, x, layout.timeline.grid(CHECK_PER_SPAN))
    check = check_solution(layout.figure.tree, problem, track)
    is_broken = answer.is_solved and not check.has_physics
    return SpacetimeResult(
        status=SolveStatus.STALLED if is_broken else answer.status,
        motion=motion_from_unknowns(layout, x, RATE_HZ, problem.name),
        guess=motion_from_unknowns(layout, solution.start, RATE_HZ, f"{problem.name}, first guess"),
        violation=answer.violation,
        iterations=total,
        seconds=seconds,
        objective=answer.objective,
        terms=solution.programme.terms(x),
        worst=answer.worst,
        check=check,
        history=answer.history,
        advice=BETWEEN_FRAMES_ADVICE if is_broken else answer.advice,
        problem=problem,
        counts=_count_rows(solution),
        levels=(*solution.levels, total - sum(solution.levels)),
    )


def _count_rows(solution: FullSolution) -> dict[str, int]:
    layout, programme = solution.layout, solution.programme
    return {
        "unknowns": layout.num_unknowns,
        "control_points": layout.num_curve_unknowns,
        "rows": len(programme.row_lower),
        "frames": len(programme.instants.times),
        "spans": layout.timeline.spline.num_spans,
    }
