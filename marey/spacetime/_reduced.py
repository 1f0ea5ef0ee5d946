"""Motions in a behaviour's space: solve, retry, sample, check ([Safonova2006]_ ch. 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from marey.base import FloatArray, InputError, MissingFileError
from marey.motion import Motion
from marey.numerics import SolveStatus, SQPIteration, SQPResult, solve_sqp
from marey.spacetime._behaviour import BehaviourSpace
from marey.spacetime._problem import Problem
from marey.spacetime._reduced_solve import Built, ReducedSettings, build, settings_for
from marey.spacetime._reduced_track import check_track, to_motion, weak_instants
from marey.spacetime._result import SpacetimeResult

DEEPER_M: Final = 0.05  # [m] how much lower the body is held in the next attempt
FILM_HZ: Final = 60.0
PATIENCE: Final = 80  # iterations before the next attempt
TOLERANCE: Final = 1e-4  # on scaled rows
SOFT_TOLERANCE: Final = 1e-3  # of a search that only gives the start of another
SOFT_ROUNDING: Final = 1e-5  # [m^4] of stretched legs in the first search, where an exact one cannot bend again
SHORT_STEPS: Final = 0.1  # first trust region of a search that overstretched a leg with the usual one
LOOKS: Final = 3  # how often the solver is told to look where the dense check found forces that nothing gives
LOOK_TOLERANCE: Final = 0.035  # [mg] 5 % is what is allowed

OnIteration = Callable[[SQPIteration], bool | None]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way to begin."""

    words: str
    stages: int = 1  # 2: without physics first
    deeper_m: float = 0.0
    torque_later: bool = False
    trust: float = 0.5


LADDER: Final = (
    Attempt("the crouched hold"),
    Attempt("no physics first", stages=2),
    Attempt("a deeper crouch, short steps", deeper_m=DEEPER_M, trust=SHORT_STEPS),
    Attempt("physics first, torques later", deeper_m=DEEPER_M, torque_later=True),
)


@dataclass(slots=True)
class Search:
    """What all attempts share."""

    problem: Problem
    behaviour: BehaviourSpace
    settings: ReducedSettings
    on_iteration: OnIteration | None
    time_limit_s: float | None
    solver: str
    begin: float
    iterations: int = 0

    @property
    def left_s(self) -> float | None:
        """Time that is left [s]; None without a limit."""
        return None if self.time_limit_s is None else max(self.time_limit_s - (perf_counter() - self.begin), 0.0)

    def build(self, **changes: Any) -> Built:
        """Pose the problem, with some settings changed."""
        return build(self.problem, self.behaviour, replace(self.settings, **changes))

    def solve(self, built: Built, start: FloatArray, trust: float, tolerance: float = TOLERANCE) -> SQPResult:
        """Solve once."""
        result = solve_sqp(
            built.programme,
            start,
            method="fang2003" if self.solver == "fang2003" else "sl1qp",
            max_iterations=min(self.problem.max_iterations, PATIENCE),
            tolerance=tolerance,
            time_limit_s=self.left_s,
            trust=trust,
            on_iteration=self.on_iteration,
            on_failure="return",
        )
        self.iterations += result.iterations
        return result


def optimize_reduced(
    problem: Problem,
    *,
    behaviour: BehaviourSpace | None = None,
    settings: ReducedSettings | None = None,
    stages: int | None = None,
    warm_start: Motion | None = None,
    on_iteration: OnIteration | None = None,
    time_limit_s: float | None = None,
    rate_hz: float = FILM_HZ,
    solver: str = "sl1qp",
) -> SpacetimeResult:
    """Optimise a motion in the space of a behaviour.

    The search begins at a crouched hold, at first with the corner of the stretched leg rounded off: an exact one has no
    derivative by which an overstretched leg could bend again. A search that does not converge is begun again: without
    physics first, from a deeper crouch, without torques first; the attempt with the smallest violation is kept. Where
    the dense check then finds forces that nothing gives, the solver is told to look there and goes on.

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
    space = load_basis(problem) if behaviour is None else behaviour
    posed = settings or settings_for(problem)
    search = Search(problem, space, posed, on_iteration, time_limit_s, solver, perf_counter())
    best: tuple[Built, SQPResult] | None = None
    for attempt in _ladder(stages, warm_start):
        if best is not None and search.left_s == 0.0:
            break
        built, result = _attempt(search, attempt, warm_start)
        if best is None or result.violation < best[1].violation:
            best = built, result
        if result.is_solved or result.status is SolveStatus.STOPPED:
            break
    assert best is not None
    built, result = _look_again(search, *best)
    return _answer(built, result, search.iterations, perf_counter() - search.begin, rate_hz)


def _ladder(stages: int | None, warm_start: Motion | None) -> tuple[Attempt, ...]:
    if warm_start is not None:
        return (Attempt("the given motion"),)
    return LADDER if stages is None else (replace(LADDER[0], stages=stages),)


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


def _attempt(search: Search, attempt: Attempt, warm_start: Motion | None) -> tuple[Built, SQPResult]:
    """Solve once; a first solve without physics or without torques gives the start of the second."""
    crouch = search.settings.crouch_m + attempt.deeper_m
    built = search.build(crouch_m=crouch)
    start = built.start
    if warm_start is not None:
        from marey.spacetime._reduced_warm import warm_vector

        start = warm_vector(built, warm_start)
    if attempt.stages == 2 or attempt.torque_later:
        easier = replace(search.problem, objective=replace(search.problem.objective, torque=0.0))
        settings = replace(search.settings, crouch_m=crouch, has_physics=attempt.stages != 2, rounding=SOFT_ROUNDING)
        start = search.solve(build(easier, search.behaviour, settings), start, 0.5, SOFT_TOLERANCE).x
    soft = search.solve(search.build(crouch_m=crouch, rounding=SOFT_ROUNDING), start, attempt.trust, SOFT_TOLERANCE)
    if soft.status is SolveStatus.STOPPED:
        return built, replace(search.solve(built, soft.x, attempt.trust, 1.0), status=SolveStatus.STOPPED)
    return built, search.solve(built, soft.x, SHORT_STEPS)


def _look_again(search: Search, built: Built, result: SQPResult) -> tuple[Built, SQPResult]:
    """Add nodes where the dense check found forces that nothing gives, and go on from the solution."""
    looks: tuple[tuple[int, float], ...] = ()
    for _ in range(LOOKS):
        if not result.is_solved or search.left_s == 0.0:
            break
        weak = weak_instants(built, built.scene.variables.unpack(result.x), LOOK_TOLERANCE)
        if not weak:
            break
        looks = (*looks, *weak)
        again = build(built.problem, search.behaviour, replace(built.settings, looks=looks))
        better = search.solve(again, result.x, SHORT_STEPS)
        if not better.is_solved:
            break
        built, result = again, better
    return built, result


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
