r"""Trajectory optimisation in the full space of angles ([Fang2003]_), with fixed and with free phase durations.

At a solution the value of a problem changes with a duration :math:`T` as its Lagrangian does with the motion held,
:math:`dV/dT = \partial L/\partial T` (envelope theorem), so one more evaluation of the rows on stretched knots tells
where to go; every problem after the first starts at the last solution.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np

from marey.base import FloatArray
from marey.dynamics import JointTree
from marey.motion import Motion
from marey.numerics import OnIteration, SolveStatus, SQPResult, solve_sqp
from marey.spacetime.full.keys import validate_full
from marey.spacetime.full.layout import Derivatives, FullBodyModel, FullLayout, refine_layout, refine_unknowns
from marey.spacetime.full.physics_rows import CLOSED_ROOM_M, CLOSING_ROOM_M
from marey.spacetime.full.programme import FullProgramme, SimplifiedProgramme
from marey.spacetime.full.sampling import (
    GROSS_EXCESS,
    MAX_REFINEMENTS,
    Frames,
    NearPair,
    SupportFace,
    build_guess,
    compute_worst_excess,
    find_hand_crossings,
    find_hand_stands,
    find_near_pairs,
    find_passed_faces,
    find_weak_instants,
    measure_drift,
    motion_from_unknowns,
    sample_track,
    set_flight_unknowns,
)
from marey.spacetime.problem.definition import SpacetimeProblem, Style
from marey.spacetime.problem.solution import (
    MIN_SAMPLES,
    SpacetimeResult,
    check_solution,
    settle_status,
)

RATE_HZ = 120.0  # [Hz] of the motions handed out
WARM_PENALTY = 100.0  # first weight of violations where the start is nearly a solution
NEAR_VIOLATION = 0.01  # [-] of scaled rows, a millimetre
MAX_DRIFT_M = 1e-6  # [m] of plants, as a valid solution has it
TURNED_RAD = 0.5 * np.pi  # [rad] from the flat guess beyond which a planted one turns over
TURNED_REFERENCE = 0.5  # weight of the guess of a body that turns over
COARSE_ADVICE = "The finer spline was not solved; the motion is that of the coarser one."

Solution = TypeVar("Solution")  # of a problem at some durations, in either space


@dataclass(frozen=True, slots=True, eq=False)
class FullOptions:
    """Options of the solver, apart from the problem."""

    derivatives: Derivatives = "linear-time"
    solver: str = "sl1qp"
    on_iteration: OnIteration | None = None
    time_limit_s: float | None = None
    penalty: float = 10.0
    styles: tuple[Style, ...] = ()  # costs of a state, added to the objective
    S: FloatArray | None = None  # (D, d) of a simplified character

    def warm(self) -> FullOptions:
        """Options of a search whose start is nearly a solution."""
        return replace(self, penalty=max(self.penalty, WARM_PENALTY))

    def left_s(self, began: float) -> float | None:
        """What is left of the time limit [s], a little at least; ``began`` is of ``time.perf_counter``."""
        if self.time_limit_s is None:
            return None
        return max(self.time_limit_s - (time.perf_counter() - began), 1e-3)

    def is_over(self, began: float) -> bool:
        """Whether the time is spent."""
        return self.time_limit_s is not None and time.perf_counter() - began > self.time_limit_s


@dataclass(frozen=True, slots=True, eq=False)
class FullSolution:
    """Solution with the data for a warm start."""

    layout: FullLayout
    programme: FullProgramme
    start: FloatArray  # unscaled unknowns
    answer: SQPResult
    extra: Frames  # beyond the regular ones
    cuts: tuple[SupportFace, ...] = ()  # faces of supports beyond the regular rows
    near: tuple[NearPair, ...] = ()  # capsules that are kept out of something
    room_m: float = CLOSING_ROOM_M  # of contacts beyond the first, between the ends of their phases
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
    """Solve a problem with fixed durations; does not raise if it does not converge.

    The search begins at ``start`` (unscaled unknowns), at the motion ``warm_start``, or at the flat guess. Where hands
    carry the body alone it begins at the planted guess, near which a motion stays that turns over.
    """
    options, began = options or FullOptions(), time.perf_counter()
    layout = FullLayout.from_problem(problem, FullBodyModel.from_tree(tree))
    validate_full(layout)
    before: SQPResult | None = None
    if start is None:
        if warm_start is None and problem.has_torque_limits:
            # From the motion of a body of any strength: limits of torques hold a search back that begins far away
            plain = replace(problem, strength=None, torque_limits={}, refine=0)
            free = solve_full(plain, tree, options)
            if free.answer.is_solved:
                warm_start, before = motion_from_unknowns(free.layout, free.x, RATE_HZ, problem.name), free.answer
                options = options.warm()
        start = build_guess(layout, warm_start)
        if warm_start is None and find_hand_stands(problem):
            flat, start = start, build_guess(layout, is_planted=True)
            turned = np.abs(layout.points(start) - layout.points(flat))[:, layout.figure.root_angles]
            is_known = turned.max() <= TURNED_RAD and not find_hand_crossings(problem)
            if not is_known and problem.objective.reference == 0.0:
                # No pose that the objective knows says how to turn over, or how legs pass between the arms
                problem = replace(problem, objective=replace(problem.objective, reference=TURNED_REFERENCE))
                layout = replace(layout, problem=problem)
    reference = start if problem.objective.reference > 0.0 else None
    programme = _build_programme(layout, start, options, reference)
    start = set_flight_unknowns(layout, programme.settle_linear_rows(start))
    answer = _solve_programme(programme, start, options, began)
    if before is not None:
        spent = before.iterations + answer.iterations
        answer = replace(answer, iterations=spent, history=before.history + answer.history)
    solution = FullSolution(layout, programme, start, answer, ())
    return refine_solution(
        _solve_until_physics_holds(solution, options, reference, began), options, reference=reference, began=began
    )


def refine_solution(
    solution: FullSolution, options: FullOptions, *, began: float, reference: FloatArray | None = None
) -> FullSolution:
    """Halve the spans as often as the problem asks, each time from the last solution; the last solved one is kept.

    ``began`` is of ``time.perf_counter``; ``reference`` are unknowns of the motion to stay near, in the same layout.
    """
    for _ in range(solution.layout.problem.refine if solution.answer.is_solved else 0):
        layout, x = refine_layout(solution.layout), refine_unknowns(solution.layout, solution.x)
        if reference is not None:
            reference = refine_unknowns(solution.layout, reference)
        # Solve on the finer spline from the same motion; keep the coarse one if that fails
        programme = _build_programme(layout, x, options, reference, solution)
        answer = _solve_programme(programme, x, options.warm(), began, solution.answer)
        start = refine_unknowns(solution.layout, solution.start)
        levels = (*solution.levels, solution.answer.iterations - sum(solution.levels))
        finer = replace(solution, layout=layout, programme=programme, start=start, answer=answer, levels=levels)
        finer = _solve_until_physics_holds(finer, options, reference, began)
        if not finer.answer.is_solved and finer.answer.status is not SolveStatus.STOPPED:
            spent = replace(
                solution.answer, iterations=finer.answer.iterations, history=finer.answer.history, advice=COARSE_ADVICE
            )
            return replace(solution, answer=spent, levels=levels)
        solution = finer
    return solution


def _build_programme(
    layout: FullLayout,
    guess: FloatArray,
    options: FullOptions,
    reference: FloatArray | None,
    old: FullSolution | None = None,
) -> FullProgramme:
    """The programme with the frames, faces and capsules that an earlier solution asked for."""
    target = None if reference is None else layout.points(reference)
    own: dict[str, Any] = {"derivatives": options.derivatives, "reference": target, "styles": options.styles}
    if old is not None:
        own |= {"extra": old.extra, "cuts": old.cuts, "near": old.near, "room_m": old.room_m}
    return FullProgramme(layout, guess, **own)


def _solve_programme(
    programme: FullProgramme, start: FloatArray, options: FullOptions, began: float, old: SQPResult | None = None
) -> SQPResult:
    """Solve from unscaled unknowns within what is left of the quotas; iterations are added to those of ``old``."""
    spent, x = 0 if old is None else old.iterations, start / programme.layout.scales
    simple = None if options.S is None else SimplifiedProgramme(programme, programme.layout, options.S)
    answer = solve_sqp(
        programme if simple is None else simple,
        x if simple is None else simple.reduce(x),
        method="fang2003" if options.solver == "fang2003" else "sl1qp",
        max_iterations=max(programme.layout.problem.max_iterations - spent, 1),
        time_limit_s=options.left_s(began),
        penalty=options.penalty,
        on_iteration=options.on_iteration,
        on_failure="return",
    )
    if simple is not None:
        answer = replace(answer, x=simple.expand(answer.x))
    if old is None:
        return answer
    return replace(answer, iterations=spent + answer.iterations, history=old.history + answer.history)


def _solve_until_physics_holds(
    solution: FullSolution, options: FullOptions, reference: FloatArray | None, began: float
) -> FullSolution:
    """Solve again with frames where the last solution broke physics between them, a few times at most."""
    for _ in range(MAX_REFINEMENTS):
        if not solution.answer.is_solved or options.is_over(began):
            break
        layout, x = solution.layout, solution.x
        cuts, passed = find_passed_faces(layout, x)
        found = (*find_weak_instants(layout, x), *passed)
        weak = tuple(frame for frame in found if frame not in solution.extra)
        near = find_near_pairs(layout, x, solution.near)
        # Where a frame does not help, what closes a limb between the frames is to blame
        is_loose = solution.room_m > CLOSED_ROOM_M and any(
            frame in solution.extra and len(layout.timeline.phases[frame[0]].contacts) > 1 for frame in found
        )
        room_m = CLOSED_ROOM_M if is_loose else solution.room_m
        if measure_drift(layout, x) > MAX_DRIFT_M:
            room_m = 0.0  # a stretched limb cannot be closed
        if not (weak or near or cuts or room_m < solution.room_m):
            break
        more = replace(
            solution,
            extra=(*solution.extra, *weak),
            cuts=(*solution.cuts, *cuts),
            near=(*solution.near, *near),
            room_m=room_m,
        )
        programme = _build_programme(layout, x, options, reference, more)
        answer = _solve_programme(programme, x, options.warm(), began, solution.answer)
        if answer.status is SolveStatus.INFEASIBLE and near:
            # A motion that knew of nothing in its way may be too far inside: begin as at first, with all that it met.
            # One that is nearly right is held by the weight of violations alone
            is_far = answer.violation > NEAR_VIOLATION and not solution.near
            begin = solution.start if is_far else answer.x * layout.scales
            again = _solve_programme(programme, begin, options, began, answer)
            answer = again if again.is_solved else answer
        if not answer.is_solved and not near and compute_worst_excess(layout, x) < GROSS_EXCESS:
            break  # what was missing between frames is small: keep the motion that has it
        solution = replace(more, programme=programme, answer=answer)
    return solution


def build_full_result(solution: FullSolution, began: float, iterations: int | None = None) -> SpacetimeResult:
    """Turn a solution into motions, and check it on the dense grid; ``began`` is of ``time.perf_counter``."""
    layout, answer, x = solution.layout, solution.answer, solution.x
    problem = layout.problem
    seconds = time.perf_counter() - began
    total = answer.iterations if iterations is None else iterations
    # What holds at the frames only is not solved: at least a thousand samples, eight in a span or more, are measured
    per_span = max(8, -(-MIN_SAMPLES // layout.timeline.spline.num_spans))
    track = sample_track(layout, x, layout.timeline.grid(per_span))
    check = check_solution(layout.figure.tree, layout.problem, track)
    status, advice = settle_status(answer.status, check, answer.advice)
    return SpacetimeResult(
        status=status,
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
        advice=advice,
        problem=problem,
        counts={
            "unknowns": layout.num_unknowns,
            "control_points": layout.num_curve_unknowns,
            "rows": len(solution.programme.row_lower),
            "frames": len(solution.programme.instants.times),
            "spans": layout.timeline.spline.num_spans,
        },
        levels=(*solution.levels, total - sum(solution.levels)),
    )


DURATION_STEP: Final = 1e-5  # [-] of a duration, for the slope
FIRST_STEP: Final = 0.1  # [-] largest first change of a duration
MAX_SOLVES: Final = 12
SHORTEST_STEP: Final = 1e-3  # [-] of the durations; the search ends below


def find_free_phases(problem: SpacetimeProblem) -> list[int]:
    """Numbers of the phases whose duration is free."""
    ranges = [phase.duration_range_s for phase in problem.phases]
    return [i for i, ends in enumerate(ranges) if ends is not None and ends[0] < ends[1]]


def solve_durations(
    problem: SpacetimeProblem, tree: JointTree, options: FullOptions, *, warm_start: Motion | None = None
) -> SpacetimeResult:
    """Solve a problem with its free durations: downhill along the slope, shortening steps that do not pay."""
    began, levels = time.perf_counter(), problem.refine
    free, problem = find_free_phases(problem), replace(problem, refine=0)
    solution = solve_full(problem, tree, options, warm_start=warm_start)
    first, spent = solution.start, solution.answer.iterations

    def solve(best: FullSolution, durations: FloatArray) -> FullSolution:
        """Solve at other durations, from the last solution."""
        nonlocal spent
        left = replace(options, time_limit_s=options.left_s(began))
        found = solve_full(_retime(best.layout, free, durations), tree, left, start=best.x)
        spent += found.answer.iterations
        return found

    if solution.answer.is_solved:
        solution = descend_durations(
            solution,
            np.array([problem.phases[i].duration_s for i in free]),
            np.array([problem.phases[i].duration_range_s for i in free], dtype=np.float64),
            value=lambda found: found.answer.objective if found.answer.is_solved else np.inf,
            lagrangian=lambda found, durations: compute_lagrangian(found, free, durations),
            solve=solve,
            is_over=lambda: options.is_over(began),
        )
    if first.size == solution.start.size:
        solution = replace(solution, start=first)
    # Finer splines follow once the durations are known
    coarse = solution.answer.iterations
    asked = replace(solution.layout, problem=replace(solution.layout.problem, refine=levels))
    solution = refine_solution(replace(solution, layout=asked), options, began=began)
    return build_full_result(solution, began, spent + solution.answer.iterations - coarse)


def _retime(layout: FullLayout, free: list[int], durations: FloatArray) -> SpacetimeProblem:
    return replace_durations(layout.problem, free, durations, [len(layout.timeline.breaks(i)) - 1 for i in free])


def replace_durations(
    problem: SpacetimeProblem, free: list[int], durations: FloatArray, spans: Sequence[int]
) -> SpacetimeProblem:
    """Change some durations; knots keep their number, so that control points keep their meaning."""
    phases = list(problem.phases)
    for i, duration, count in zip(free, durations, spans, strict=True):
        span = float(duration) / float(count)
        phases[i] = replace(phases[i], duration_s=float(duration), span_s=span * (1.0 + 1e-12))
    return replace(problem, phases=tuple(phases))


def compute_lagrangian(solution: FullSolution, free: list[int], durations: FloatArray) -> float:
    r""":math:`f + \lambda^T c` at the solution's unknowns, with other durations of the free phases."""
    layout = FullLayout.from_problem(_retime(solution.layout, free, durations), solution.layout.figure)
    # Extra frames keep their shares of their phases
    old, new = solution.layout.timeline.edges, layout.timeline.edges
    shares = [(p, (t - old[p]) / (old[p + 1] - old[p])) for p, t in solution.extra]
    extra = tuple((p, float(new[p] + share * (new[p + 1] - new[p]))) for p, share in shares)
    programme = FullProgramme(layout, solution.start, extra=extra, cuts=solution.cuts, near=solution.near)
    value, rows = programme.values(solution.answer.x)
    return value + float(solution.answer.multipliers @ rows)


def compute_duration_slope(durations: FloatArray, lagrangian: Callable[[FloatArray], float]) -> FloatArray:
    r"""How the best value changes with each duration ``(n,)`` [1/s]: :math:`dV/dT = \partial L/\partial T`."""
    slope = np.zeros(len(durations))
    for k, step in enumerate(np.diag(DURATION_STEP * durations)):
        slope[k] = (lagrangian(durations + step) - lagrangian(durations - step)) / (2.0 * step[k])
    return slope


def descend_durations(
    best: Solution,
    durations: FloatArray,
    ranges: FloatArray,
    *,
    value: Callable[[Solution], float],
    lagrangian: Callable[[Solution, FloatArray], float],
    solve: Callable[[Solution, FloatArray], Solution],
    is_over: Callable[[], bool],
) -> Solution:
    """Change durations as long as the value falls, shortening steps that do not pay.

    Args:
        best: the solution at the durations to begin with.
        durations: these ``(n,)`` [s].
        ranges: lowest and highest of each ``(n, 2)`` [s].
        value: objective of a solution; infinite if it is none.
        lagrangian: of a solution's motion at other durations.
        solve: solves at other durations, from a solution.
        is_over: whether the time is spent.
    """
    low, high = ranges.T
    slope, step = compute_duration_slope(durations, partial(lagrangian, best)), FIRST_STEP
    for _ in range(MAX_SOLVES - 1):
        # Direction of falling value as a share of each duration, largest part one; none through a bound
        move = -slope * durations**2
        blocked = ((durations <= low) & (move < 0.0)) | ((durations >= high) & (move > 0.0))
        move = np.where(blocked, 0.0, move)
        largest = np.abs(move / durations).max(initial=0.0)
        move = (move / largest if largest > 0.0 else move) * step
        if is_over() or step < SHORTEST_STEP or np.abs(move).max(initial=0.0) < 1e-9:
            break
        trial = np.clip(durations + move, low, high)
        found = solve(best, trial)
        if not value(found) < value(best):
            step *= 0.35
            continue
        # A slope that turned round tells that the step was too long
        best, durations, before = found, trial, slope
        slope = compute_duration_slope(durations, partial(lagrangian, best))
        step *= 0.5 if float(slope @ before) < 0.0 else 1.5
    return best
