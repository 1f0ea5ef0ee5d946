"""Attempts at a problem in reduced space: where to begin, what to ease first, where to look again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.motion import Motion
from marey.numerics import SolveStatus, SQPIteration, SQPResult, solve_sqp
from marey.spacetime._behaviour import BehaviourSpace
from marey.spacetime._durations import replace_durations
from marey.spacetime._problem import SpacetimeProblem
from marey.spacetime._reduced_solve import ReducedProblem, ReducedSettings, build_reduced_problem
from marey.spacetime._reduced_track import find_stray_coordinates, find_weak_nodes

DEEPER_CROUCH_M: Final = 0.05  # [m] how much lower the body is held in the next attempt
MAX_ITERATIONS: Final = 80  # iterations before the next attempt
TOLERANCE: Final = 1e-4  # on scaled rows
SOFT_TOLERANCE: Final = 1e-3  # of a search that only gives the start of another
SOFT_ROUNDING: Final = 1e-5  # [m^4] of stretched legs in the first search, where an exact one cannot bend again
SHORT_STEPS: Final = 0.1  # first trust region of a search that overstretched a leg with the usual one
DETOUR_FRACTION: Final = 0.15  # [-] by which flights are longer or shorter on the way to the asked ones
MORE_COORDINATES: Final = 3
MAX_REFINEMENTS: Final = 3  # how often the solver is told to look where the dense check found forces that nothing gives
REFINEMENT_TOLERANCE: Final = 0.035  # [mg] 5 % is what is allowed
STRAY_RAD: Final = 0.05  # [rad] beyond its limits by which a coordinate of the upper body gets rows of its own

OnIteration = Callable[[SQPIteration], bool | None]


@dataclass(frozen=True, slots=True)
class RestartSettings:
    """One way to begin."""

    words: str
    stages: int = 1  # 2: without physics first
    deeper_m: float = 0.0
    torque_later: bool = False
    trust: float = 0.5
    flight: float = 1.0  # of the asked time, in a first search
    is_wider: bool = False  # with more coordinates


RESTARTS: Final = (
    RestartSettings("the crouched hold"),
    RestartSettings("no physics first", stages=2),
    RestartSettings("a deeper crouch, short steps", deeper_m=DEEPER_CROUCH_M, trust=SHORT_STEPS),
    RestartSettings("physics first, torques later", deeper_m=DEEPER_CROUCH_M, torque_later=True),
    RestartSettings("a longer flight first", flight=1.0 + DETOUR_FRACTION),
    RestartSettings("a shorter flight first", flight=1.0 - DETOUR_FRACTION),
    RestartSettings("more coordinates", is_wider=True),
)


@dataclass(slots=True)
class ReducedSearch:
    """What all attempts share."""

    problem: SpacetimeProblem
    behaviour: BehaviourSpace
    settings: ReducedSettings
    on_iteration: OnIteration | None = None
    time_limit_s: float | None = None
    solver: str = "sl1qp"
    wider: BehaviourSpace | None = None  # the behaviour with more coordinates, if there are any
    begin: float = field(default_factory=perf_counter)
    iterations: int = 0
    remarks: list[str] = field(default_factory=list[str])
    tried: list[str] = field(default_factory=list[str])

    @property
    def left_s(self) -> float | None:
        """Time that is left [s]; None without a limit."""
        return None if self.time_limit_s is None else max(self.time_limit_s - (perf_counter() - self.begin), 0.0)

    @property
    def is_over(self) -> bool:
        """Whether the time is spent."""
        return self.left_s == 0.0

    def solve(self, built: ReducedProblem, start: FloatArray, trust: float, tolerance: float = TOLERANCE) -> SQPResult:
        """Solve once."""
        result = solve_sqp(
            built.programme,
            start,
            method="fang2003" if self.solver == "fang2003" else "sl1qp",
            max_iterations=min(self.problem.max_iterations, MAX_ITERATIONS),
            tolerance=tolerance,
            time_limit_s=self.left_s,
            trust=trust,
            on_iteration=self.on_iteration,
            on_failure="return",
        )
        self.iterations += result.iterations
        return result


def solve_with_restarts(
    search: ReducedSearch, stages: int | None, warm_start: Motion | None
) -> tuple[ReducedProblem, SQPResult]:
    """Attempt after attempt until one converges; the one with the smallest violation is kept."""
    best: tuple[ReducedProblem, SQPResult] | None = None
    for attempt in restart_schedule(search, stages, warm_start):
        if best is not None and search.is_over:
            break
        search.tried.append(attempt.words)
        built, result = _solve_restart(search, attempt, warm_start)
        if best is None or result.violation < best[1].violation:
            best = built, result
        if result.is_solved or result.status is SolveStatus.STOPPED:
            break
    assert best is not None
    return best


def restart_schedule(
    search: ReducedSearch, stages: int | None, warm_start: Motion | None
) -> tuple[RestartSettings, ...]:
    """Attempts that make sense: one from a given motion, no other flight times without a flight."""
    if warm_start is not None:
        return (RestartSettings("the given motion"),)
    if stages is not None:
        return (replace(RESTARTS[0], stages=stages),)
    flies = any(phase.is_flight for phase in search.problem.phases)
    return tuple(a for a in RESTARTS if (flies or a.flight == 1.0) and (search.wider or not a.is_wider))


def _solve_restart(
    search: ReducedSearch, attempt: RestartSettings, warm_start: Motion | None
) -> tuple[ReducedProblem, SQPResult]:
    """Solve with the corner of stretched legs rounded off, then exactly."""
    settings = replace(search.settings, crouch_m=search.settings.crouch_m + attempt.deeper_m)
    behaviour = search.wider if attempt.is_wider and search.wider is not None else search.behaviour
    built = build_reduced_problem(search.problem, behaviour, settings)
    round_ = build_reduced_problem(search.problem, behaviour, replace(settings, rounding=SOFT_ROUNDING))
    start = _start_vector(search, attempt, built, round_, warm_start)
    soft = search.solve(round_, start, attempt.trust, SOFT_TOLERANCE)
    if soft.status is SolveStatus.STOPPED:
        return built, replace(search.solve(built, soft.x, attempt.trust, 1.0), status=SolveStatus.STOPPED)
    return built, search.solve(built, soft.x, SHORT_STEPS)


def _start_vector(
    search: ReducedSearch,
    attempt: RestartSettings,
    built: ReducedProblem,
    round_: ReducedProblem,
    warm_start: Motion | None,
) -> FloatArray:
    """Where an attempt begins: at the guess, at a given motion, or at the solution of an easier problem."""
    if warm_start is not None:
        from marey.spacetime._reduced_warm import vector_from_motion

        return vector_from_motion(built, warm_start)
    if attempt.stages == 2 or attempt.torque_later:
        problem = replace(search.problem, objective=replace(search.problem.objective, torque=0.0))
        settings = replace(round_.settings, has_physics=attempt.stages != 2)
        easier = build_reduced_problem(problem, search.behaviour, settings)
        return search.solve(easier, built.start, 0.5, SOFT_TOLERANCE).x
    return _start_from_other_durations(search, attempt.flight, round_) if attempt.flight != 1.0 else built.start


def _start_from_other_durations(search: ReducedSearch, share: float, built: ReducedProblem) -> FloatArray:
    """Start for the asked flight times from a solution for others."""
    flights = built.scene.variables.flights
    durations = np.array([built.problem.phases[p].duration_s for p in flights])
    problem = replace_durations(built.problem, flights, share * durations, count_phase_spans(built, flights))
    other = build_reduced_problem(problem, built.scene.behaviour, built.settings)
    result = search.solve(other, other.start, 0.5, SOFT_TOLERANCE)
    if result.is_solved:
        times = ", ".join(f"'{problem.phases[p].name}' {problem.phases[p].duration_s:.2f} s" for p in flights)
        search.remarks.append(f"Other flight times can be solved: {times}.")
    return transfer_vector(other, result.x, built)


def count_phase_spans(built: ReducedProblem, phases: list[int]) -> FloatArray:
    """How many spans phases have."""
    return np.array([len(built.scene.layout.breaks[p]) - 1 for p in phases], dtype=np.float64)


def transfer_vector(old: ReducedProblem, x: FloatArray, new: ReducedProblem) -> FloatArray:
    """The vector of a motion on other durations with the same number of spans; what is fixed there stays."""
    variables = new.scene.variables
    lower, upper = new.programme.lower, new.programme.upper
    return np.clip(variables.pack(old.scene.variables.unpack(x)), lower, upper)


def refine_collocation(
    search: ReducedSearch, built: ReducedProblem, result: SQPResult
) -> tuple[ReducedProblem, SQPResult]:
    """Add nodes where nothing gives the forces, and rows where the upper body leaves its limits; go on from there."""
    for _ in range(MAX_REFINEMENTS):
        if not result.is_solved or search.is_over:
            break
        values = built.scene.variables.unpack(result.x)
        weak = find_weak_nodes(built, values, REFINEMENT_TOLERANCE)
        stray = find_stray_coordinates(built, values, STRAY_RAD)
        if not weak and not stray:
            break
        settings = replace(
            built.settings, looks=(*built.settings.looks, *weak), watched=(*built.settings.watched, *stray)
        )
        again = build_reduced_problem(built.problem, built.scene.behaviour, settings)
        better = search.solve(again, result.x, SHORT_STEPS)
        if not better.is_solved:
            break
        built, result = again, better
    return built, result
