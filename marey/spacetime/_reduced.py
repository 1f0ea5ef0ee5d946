"""Motions in a behaviour's space: solve, retry, sample, check ([Safonova2006]_ ch. 3)."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Final

from marey.base import InputError, MissingFileError
from marey.motion import Motion
from marey.numerics import SQPResult
from marey.spacetime._behaviour import BehaviourSpace
from marey.spacetime._durations import find_free_phases
from marey.spacetime._problem import SpacetimeProblem
from marey.spacetime._reduced_durations import optimise_durations
from marey.spacetime._reduced_search import (
    MORE_COORDINATES,
    OnIteration,
    ReducedSearch,
    refine_collocation,
    solve_with_restarts,
)
from marey.spacetime._reduced_solve import ReducedProblem, ReducedSettings, choose_settings
from marey.spacetime._reduced_track import check_track, motion_from_solution
from marey.spacetime._result import SpacetimeResult

RESULT_RATE_HZ: Final = 60.0


def optimize_reduced(
    problem: SpacetimeProblem,
    *,
    behaviour: BehaviourSpace | None = None,
    settings: ReducedSettings | None = None,
    stages: int | None = None,
    warm_start: Motion | None = None,
    on_iteration: OnIteration | None = None,
    time_limit_s: float | None = None,
    rate_hz: float = RESULT_RATE_HZ,
    solver: str = "sl1qp",
) -> SpacetimeResult:
    """Optimise a motion in the space of a behaviour.

    The search begins at a crouched hold, at first with the corner of the stretched leg rounded off: an exact one has no
    derivative by which an overstretched leg could bend again. A search that does not converge is begun again: without
    physics first, from a deeper crouch, without torques first, from a longer and a shorter flight, with more
    coordinates; the attempt with the smallest violation is kept. Free durations then follow the slope of the
    objective. Where the dense check finds forces that nothing gives, or an upper body beyond its limits, the solver is
    told to look there and goes on.

    Args:
        problem: phases, plants, keys, weights; ``basis`` names the behaviour's file.
        behaviour: instead of ``problem.basis``.
        settings: roll of the feet, limits of forces, depth of the guess; by default what the contacts suggest.
        stages: 1 or 2, without further attempts; 2 solves without physics first ([Safonova2006]_ §3.1.5).
        warm_start: a motion of the behaviour's skeleton to begin from.
        on_iteration: sees every iteration; returns True to stop.
        time_limit_s: wall time [s] of the whole.
        rate_hz: of the motion that is given back.
        solver: method of :func:`marey.numerics.solve_sqp`.
    """
    whole = read_problem_behaviour(problem) if behaviour is None else behaviour
    space = whole.with_energy() if behaviour is None else behaviour
    wider = whole.truncate(min(space.dimension + MORE_COORDINATES, whole.dimension))
    search = ReducedSearch(problem, space, settings or choose_settings(problem), on_iteration, time_limit_s, solver)
    search.wider = wider if wider.dimension > space.dimension else None
    built, result = solve_with_restarts(search, stages, warm_start)
    free = find_free_phases(problem)
    if free and result.is_solved:
        built, result = optimise_durations(search, built, result, free)
    built, result = refine_collocation(search, built, result)
    return _build_result(search, built, result, rate_hz)


def load_problem_behaviour(problem: SpacetimeProblem) -> BehaviourSpace:
    """Read the behaviour that a problem names, with as many coordinates as it needs."""
    return read_problem_behaviour(problem).with_energy()


def read_problem_behaviour(problem: SpacetimeProblem) -> BehaviourSpace:
    """Read the behaviour that a problem names: a file, or a shipped one.

    Raises:
        InputError: the problem names none.
        MissingFileError: there is no such file.
    """
    if not problem.basis:
        raise InputError(f"problem '{problem.name}' names no basis", "Give basis, the file of a behaviour")
    shipped = Path(__file__).parents[1] / "samples" / "problems"
    for path in (Path(problem.basis), shipped / problem.basis, shipped / f"{problem.basis}.safetensors"):
        if path.is_file():
            return BehaviourSpace.load(path)
    raise MissingFileError(problem.basis, "Fit a behaviour with BehaviourSpace.fit, or name a shipped one.")


def _build_result(search: ReducedSearch, built: ReducedProblem, result: SQPResult, rate_hz: float) -> SpacetimeResult:
    values = built.scene.variables.unpack(result.x)
    guess = built.scene.variables.unpack(built.start)
    terms = built.programme.terms(result.x)
    _, rows = built.programme.values(result.x)
    counts = {
        "unknowns": len(result.x),
        "rows": len(rows),
        "frames": built.scene.nodes.count,
        "amplitudes": built.scene.space.dimension,
    }
    return SpacetimeResult(
        status=result.status,
        motion=motion_from_solution(built, values, rate_hz, built.problem.name),
        guess=motion_from_solution(built, guess, rate_hz, f"{built.problem.name} guess"),
        violation=result.violation,
        iterations=search.iterations,
        seconds=perf_counter() - search.begin,
        objective=result.objective,
        terms={"accel": terms.accel, "torque": terms.torque, "prior": terms.prior, "border": terms.border},
        worst=result.worst,
        check=check_track(built, values),
        history=result.history,
        advice=result.advice if result.is_solved else " ".join([result.advice, *search.remarks]),
        problem=built.problem,
        counts=counts,
    )
