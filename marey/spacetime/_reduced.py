"""Motions in a behaviour's space: solve, retry, sample, check ([Safonova2006]_ ch. 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, MissingFileError
from marey.motion import Motion
from marey.numerics import SolveStatus, SQPIteration, SQPResult, solve_sqp
from marey.spacetime._behaviour import BehaviourSpace
from marey.spacetime._problem import Problem
from marey.spacetime._reduced_solve import Built, ReducedSettings, build
from marey.spacetime._reduced_track import check_track, to_motion
from marey.spacetime._result import SpacetimeResult

DEEPER_M: Final = 0.05  # [m] how much lower the body is held in the next attempt
FILM_HZ: Final = 60.0
PATIENCE: Final = 60  # iterations before the next attempt

OnIteration = Callable[[SQPIteration], bool | None]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way to begin: how low the body is held, and whether torques come later."""

    words: str
    deeper_m: float = 0.0
    torque_later: bool = False


LADDER: Final = (
    Attempt("the crouched hold"),
    Attempt("a deeper crouch", DEEPER_M),
    Attempt("physics first, torques later", 0.0, True),
    Attempt("a still deeper crouch", 2.0 * DEEPER_M, True),
)


def optimize_reduced(
    problem: Problem,
    *,
    behaviour: BehaviourSpace | None = None,
    settings: ReducedSettings | None = None,
    stages: int = 1,
    warm_start: Motion | None = None,
    on_iteration: OnIteration | None = None,
    time_limit_s: float | None = None,
    rate_hz: float = FILM_HZ,
    solver: str = "sl1qp",
) -> SpacetimeResult:
    """Optimise a motion in the space of a behaviour.

    A search that does not converge is begun again from a deeper crouch, then without torques first; the attempt with
    the smallest violation is kept.

    Args:
        problem: phases, plants, keys, weights; ``basis`` names the behaviour's file.
        behaviour: instead of ``problem.basis``.
        settings: roll of the feet, limits of forces, depth of the guess.
        stages: 2 solves without physics first ([Safonova2006]_ §3.1.5).
        warm_start: a motion of the behaviour's skeleton to begin from.
        on_iteration: sees every iteration; returns True to stop.
        time_limit_s: wall time [s] of the whole.
        rate_hz: of the motion that is given back.
        solver: method of :func:`marey.numerics.solve_sqp`.
    """
    begin = perf_counter()
    space = load_basis(problem) if behaviour is None else behaviour
    settings = settings or ReducedSettings()
    best: tuple[Built, SQPResult] | None = None
    spent = 0
    for attempt in LADDER:
        left = None if time_limit_s is None else time_limit_s - (perf_counter() - begin)
        if best is not None and left is not None and left <= 0.0:
            break
        built, result = _attempt(problem, space, settings, attempt, stages, warm_start, on_iteration, left, solver)
        spent += result.iterations
        if best is None or result.violation < best[1].violation:
            best = built, result
        if result.is_solved or result.status is SolveStatus.STOPPED or warm_start is not None:
            break
    assert best is not None
    return _answer(*best, spent, perf_counter() - begin, rate_hz)


def load_basis(problem: Problem) -> BehaviourSpace:
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
            return BehaviourSpace.load(path).with_energy()
    raise MissingFileError(problem.basis, "Fit a behaviour with BehaviourSpace.fit, or name a shipped one.")


def _attempt(
    problem: Problem,
    behaviour: BehaviourSpace,
    settings: ReducedSettings,
    attempt: Attempt,
    stages: int,
    warm_start: Motion | None,
    on_iteration: OnIteration | None,
    time_limit_s: float | None,
    solver: str,
) -> tuple[Built, SQPResult]:
    """Solve once; a first solve without physics or without torques gives the start of the second."""
    settings = replace(settings, crouch_m=settings.crouch_m + attempt.deeper_m)
    built = build(problem, behaviour, settings)
    start, before = built.start, 0
    if warm_start is not None:
        from marey.spacetime._reduced_warm import warm_vector

        start = warm_vector(built, warm_start)
    if stages == 2 or attempt.torque_later:
        easier = replace(problem, objective=replace(problem.objective, torque=0.0))
        first = build(easier, behaviour, replace(settings, has_physics=stages != 2))
        head = _solve(first, start, on_iteration, time_limit_s, solver, problem.max_iterations)
        start, before = head.x, head.iterations
    result = _solve(built, start, on_iteration, time_limit_s, solver, problem.max_iterations)
    return built, replace(result, iterations=result.iterations + before)


def _solve(
    built: Built,
    start: FloatArray,
    on_iteration: OnIteration | None,
    time_limit_s: float | None,
    solver: str,
    max_iterations: int,
) -> SQPResult:
    return solve_sqp(
        built.programme,
        start,
        method="fang2003" if solver == "fang2003" else "sl1qp",
        max_iterations=min(max_iterations, PATIENCE),
        time_limit_s=time_limit_s,
        on_iteration=on_iteration,
        on_failure="return",
    )


def _answer(built: Built, result: SQPResult, iterations: int, seconds: float, rate_hz: float) -> SpacetimeResult:
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
        motion=to_motion(built, values, rate_hz, built.problem.name),
        guess=to_motion(built, guess, rate_hz, f"{built.problem.name} guess"),
        violation=result.violation,
        iterations=iterations,
        seconds=seconds,
        objective=result.objective,
        terms={"accel": terms.accel, "torque": terms.torque, "prior": terms.prior, "border": terms.border},
        worst=result.worst,
        check=check_track(built, values),
        history=result.history,
        advice=result.advice,
        problem=built.problem,
        counts=counts,
    )


assert np is not None
