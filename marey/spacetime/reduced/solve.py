r"""Motions in the space of a behaviour: solve, restart, sample, check ([Safonova2006]_ ch. 3).

Restarts choose where to begin, which rows to relax first, and where to refine. Free phase durations follow the slope
that the multipliers give.

As in the full space, :math:`dV/dT = \partial L/\partial T` at a solution, and every problem after the first starts at
the last solution. The Lagrangian is :math:`f + \lambda^T (c - b)`: the ends :math:`b` of rows of flights change with
their durations.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, MissingFileError
from marey.dynamics import GRAVITY, compute_aggregate, compute_point_positions
from marey.motion import Motion
from marey.numerics import OnIteration, SolveStatus, SQPResult, solve_sqp
from marey.spacetime.full.solve import descend_durations, find_free_phases, replace_durations
from marey.spacetime.problem.definition import SpacetimeProblem
from marey.spacetime.problem.obstacles import find_nearest, is_crossed, measure_gaps
from marey.spacetime.problem.solution import SpacetimeResult, settle_status
from marey.spacetime.problem.supply import SolutionTrack, measure_supply, separating_face
from marey.spacetime.reduced.assembly import (
    ReducedProblem,
    ReducedSettings,
    SeparatingPlane,
    build_reduced_problem,
    build_reduced_space,
    choose_settings,
)
from marey.spacetime.reduced.behaviour import BehaviourSpace
from marey.spacetime.reduced.nodes import SNAP_S
from marey.spacetime.reduced.track import (
    check_track,
    find_stray_coordinates,
    motion_from_solution,
    sample_contacts,
    vector_from_motion,
)

DEEPER_CROUCH_M: Final = 0.05  # [m] how much lower the body is held in the next attempt
MAX_ITERATIONS: Final = 80  # iterations before the next attempt
TOLERANCE: Final = 1e-4  # on scaled rows
SOFT_TOLERANCE: Final = 2e-2  # of a search that only gives the start of another
STILL_OBJECTIVE: Final = 1e-3  # [-] relative change of the objective at which nodes are looked for; rows are exact
SOFT_ROUNDING: Final = 1e-5  # [m^4] of stretched legs in the first search, where an exact one cannot bend again
SHORT_STEPS: Final = 0.1  # first trust region of a search that overstretched a leg with the usual one
DETOUR_FRACTION: Final = 0.15  # [-] by which flights are longer or shorter on the way to the asked ones
MORE_COORDINATES: Final = 3
MAX_REFINEMENTS: Final = 5  # how often nodes are added where the dense check finds unsupplied forces
REFINEMENT_TOLERANCE: Final = 0.03  # [mg] 5 % is what is allowed
COP_TOLERANCE_M: Final = 0.006  # [m] 10 mm are allowed
LATER_ALLOWED: Final = 1.4  # [-] times these, with which a solution that was refined once is let be: 4.2 %, 8.4 mm
LOOK_SAMPLES: Final = 400  # of the looks between searches; the check of the result has a thousand
PLANE_DEPTH_M: Final = 0.005  # [m] a part of the body this deep in something is kept out of it
PLANES_PER_STRETCH: Final = 4
PLANE_STEPS: Final = 0.5  # first trust region of a search with new planes
CUT_SIZE: Final = 0.02  # [mg] a wrench this far outside shows which face of the cone it passed
STRAY_RAD: Final = 0.012  # [rad] beyond its limits by which a coordinate of the upper body gets rows of its own

ReducedSolution = tuple[ReducedProblem, SQPResult]


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
    """Shared state of all restarts."""

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

    def solve(
        self,
        built: ReducedProblem,
        start: FloatArray,
        trust: float,
        tolerance: float = TOLERANCE,
        still: float | None = None,
    ) -> SQPResult:
        """Solve once, to a tolerance of the rows and of the objective, which may have one of its own."""
        result = solve_sqp(
            built.programme,
            start,
            method="fang2003" if self.solver == "fang2003" else "sl1qp",
            max_iterations=min(self.problem.max_iterations, MAX_ITERATIONS),
            tolerance=tolerance,
            objective_tolerance=still,
            time_limit_s=self.left_s,
            trust=trust,
            on_iteration=self.on_iteration,
            on_failure="return",
        )
        self.iterations += result.iterations
        return result


def solve_with_restarts(search: ReducedSearch, stages: int | None, warm_start: Motion | None) -> ReducedSolution:
    """Attempt after attempt until one converges; the one with the smallest violation is kept."""
    best: ReducedSolution | None = None
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


def _solve_restart(search: ReducedSearch, attempt: RestartSettings, warm_start: Motion | None) -> ReducedSolution:
    """Solve with the corner of stretched legs rounded off, then exactly."""
    settings = replace(search.settings, crouch_m=search.settings.crouch_m + attempt.deeper_m)
    behaviour = search.wider if attempt.is_wider and search.wider is not None else search.behaviour
    round_ = build_reduced_problem(search.problem, behaviour, replace(settings, rounding=SOFT_ROUNDING))
    # Start of the attempt: the guess, a given motion, or the solution of an easier problem
    if warm_start is not None:
        start = vector_from_motion(round_, warm_start)
    elif attempt.stages == 2 or attempt.torque_later:
        lighter = replace(search.problem.objective, torque=0.0)
        problem = replace(search.problem, objective=lighter, strength=None, torque_limits={})
        lighter_settings = replace(round_.settings, has_physics=attempt.stages != 2)
        easier = build_reduced_problem(problem, search.behaviour, lighter_settings)
        start = search.solve(easier, round_.start, 0.5, SOFT_TOLERANCE).x
    elif attempt.flight == 1.0:
        start = round_.start
    else:
        # From a solution for other flight times
        flights = round_.scene.variables.flights
        durations = np.array([round_.problem.phases[p].duration_s for p in flights])
        spans = count_phase_spans(round_, flights)
        problem = replace_durations(round_.problem, flights, attempt.flight * durations, spans)
        other = build_reduced_problem(problem, round_.scene.behaviour, round_.settings)
        result = search.solve(other, other.start, 0.5, SOFT_TOLERANCE)
        if result.is_solved:
            times = ", ".join(f"'{problem.phases[p].name}' {problem.phases[p].duration_s:.2f} s" for p in flights)
            search.remarks.append(f"Other flight times can be solved: {times}.")
        start = transfer_vector(other, result.x, round_)
    # First with a rounded corner, by which an overstretched leg can bend again
    soft = search.solve(round_, start, attempt.trust, SOFT_TOLERANCE)
    if soft.status is SolveStatus.STOPPED:
        built = build_reduced_problem(search.problem, behaviour, settings)
        return built, replace(search.solve(built, soft.x, attempt.trust, 1.0), status=SolveStatus.STOPPED)
    if soft.is_solved and settings.has_physics:
        # Nodes, cuts, limits and planes that the rounded solution asks for are those that the exact one would ask for
        found = replace(find_refinements(round_, soft.x), rounding=settings.rounding)
        built = build_reduced_problem(search.problem, behaviour, found)
        trust = SHORT_STEPS if found.planes == settings.planes else PLANE_STEPS
        result = search.solve(built, soft.x, trust, still=STILL_OBJECTIVE)
        if result.is_solved or found == settings:
            return built, result
    built = build_reduced_problem(search.problem, behaviour, settings)
    return built, search.solve(built, soft.x, SHORT_STEPS)


def count_phase_spans(built: ReducedProblem, phases: list[int]) -> list[int]:
    """How many spans phases have."""
    return [len(built.scene.layout.breaks[p]) - 1 for p in phases]


def transfer_vector(old: ReducedProblem, x: FloatArray, new: ReducedProblem) -> FloatArray:
    """The vector of a motion on other durations with the same number of spans; what is fixed there stays."""
    variables = new.scene.variables
    lower, upper = new.programme.lower, new.programme.upper
    return np.clip(variables.pack(old.scene.variables.unpack(x)), lower, upper)


def find_separating_planes(built: ReducedProblem, track: SolutionTrack) -> list[SeparatingPlane]:
    """Planes that keep parts of the body out of what they enter: that of the nearest face where they are deepest.

    Where the way leads over the shape the plane is that of its top.

    Shapes are convex, so what is beyond the plane is outside; a later solution may choose another plane.
    """
    tree, found = built.scene.space.tree, list[SeparatingPlane]()
    for capsule, obstacle, gap in measure_gaps(tree, built.problem, track.q, track.phases):
        inside = gap < -PLANE_DEPTH_M
        starts = np.flatnonzero(inside & ~np.concatenate([[False], inside[:-1]]))
        ends = np.flatnonzero(inside & ~np.concatenate([inside[1:], [False]]))
        for a, b in zip(starts, ends, strict=True):
            # The deepest instant decides the face; the stretch before and after it keeps to the same
            deepest = a + int(np.argmin(gap[a : b + 1]))
            chosen = np.unique(np.linspace(max(a - 6, 0), min(b + 6, len(gap) - 1), PLANES_PER_STRETCH).round())
            chosen = np.unique([*chosen.astype(int), deepest])
            chosen = chosen[track.phases[chosen] == track.phases[deepest]]
            at = compute_point_positions(tree, track.q[chosen], [capsule.link] * 2, capsule.ends)
            shares, gaps = find_nearest(obstacle, at, capsule.radii)
            k = int(np.flatnonzero(chosen == deepest)[0])
            near = at[:, 0] + shares[:, None] * (at[:, 1] - at[:, 0])
            normal = obstacle.distance(near[k : k + 1])[1][0]
            radius = capsule.radii[0] + shares[k] * (capsule.radii[1] - capsule.radii[0])
            surface = float(near[k] @ normal) - (float(gaps[k]) + radius)
            if is_crossed(built.problem, int(track.phases[deepest]), obstacle):
                normal, surface = np.array([0.0, 1.0, 0.0]), obstacle.top_m
            for n in chosen:
                for end, size in zip(capsule.ends, capsule.radii, strict=True):
                    found.append(
                        SeparatingPlane(
                            int(track.phases[n]),
                            float(track.times[n]),
                            capsule.link,
                            (float(end[0]), float(end[1]), float(end[2])),
                            (float(normal[0]), float(normal[1]), float(normal[2])),
                            surface + size,
                        )
                    )
    return found


def find_refinements(built: ReducedProblem, x: FloatArray, allowed: float = 1.0) -> ReducedSettings:
    """Settings with nodes where forces are not supplied, cuts of the cones that they passed, limits and planes.

    Args:
        built: what was solved.
        x: the solution.
        allowed: times the tolerances that force and pressure may be off.
    """
    # Look where the dense check finds forces that nothing gives
    scene, old = built.scene, built.settings
    track, nodes, points = sample_contacts(built, scene.variables.unpack(x), LOOK_SAMPLES)
    whole = compute_aggregate(scene.space.tree, track.q, track.qd, track.qdd, gravity=scene.gravity)
    wrench = whole.wrench / (scene.space.tree.mass * GRAVITY)
    about_com = wrench[:, 3:] - np.cross(whole.com, wrench[:, :3])
    missing, cone, cop, _ = measure_supply(wrench, points, ~nodes.is_flight)
    # Moment in flight, and what the soles cannot give, each over what is allowed
    moments, lacks = np.linalg.norm(about_com, axis=1), np.linalg.norm(missing, axis=1)
    size = np.asarray(np.where(nodes.is_flight, moments, lacks), dtype=np.float64)
    size = np.maximum(np.maximum(size, cone) / REFINEMENT_TOLERANCE, cop / COP_TOLERANCE_M)
    # Peaks above the tolerance get a node, and their supports the face of the cone that they passed
    padded = np.concatenate([[0.0], size, [0.0]])
    peaks = np.flatnonzero((size > 1.0) & (size >= padded[:-2]) & (size >= padded[2:]))
    peaks = peaks if (size > allowed).any() else peaks[:0]
    weak = [(int(nodes.phases[n]), float(nodes.times[n])) for n in peaks]
    weak = [(p, t) for p, t in weak if abs(scene.nodes.times[scene.nodes.at(p, t)] - t) > SNAP_S]
    far = [int(n) for n in peaks if not nodes.is_flight[n] and np.linalg.norm(missing[n]) > CUT_SIZE]
    states = np.column_stack([nodes.phases, nodes.feet])[far].tolist()
    cuts = [(*state, separating_face(points, missing, n)) for state, n in zip(states, far, strict=True)]
    return replace(
        old,
        looks=(*old.looks, *weak),
        watched=(*old.watched, *find_stray_coordinates(built, track, STRAY_RAD)),
        cuts=(*old.cuts, *cuts),
        planes=(*old.planes, *find_separating_planes(built, track)),
    )


def refine_collocation(search: ReducedSearch, built: ReducedProblem, result: SQPResult) -> ReducedSolution:
    """Add nodes where forces are not supplied and rows where the upper body violates its limits, and continue."""
    for k in range(MAX_REFINEMENTS):
        if not result.is_solved or search.is_over:
            break
        old = built.settings
        settings = find_refinements(built, result.x, 1.0 if k == 0 else LATER_ALLOWED)
        if settings == old:
            break
        # All at once, or if that fails what physics needs alone
        for tried in (settings, replace(settings, watched=old.watched, planes=old.planes)):
            again = build_reduced_problem(built.problem, built.scene.behaviour, tried)
            # A body that must go over something moves far; what is missing between nodes is near
            trust = SHORT_STEPS if tried.planes == old.planes else PLANE_STEPS
            better = search.solve(again, result.x, trust, still=STILL_OBJECTIVE)
            if better.is_solved or tried == old:
                break
        if not better.is_solved:
            break
        built, result = again, better
    return built, result


def optimise_durations(
    search: ReducedSearch, built: ReducedProblem, result: SQPResult, free: list[int]
) -> ReducedSolution:
    """Change the free durations within their ranges as long as that pays."""

    def solve(best: ReducedSolution, durations: FloatArray) -> ReducedSolution:
        again = rebuild_at_durations(best[0], free, durations)
        return again, search.solve(again, transfer_vector(best[0], best[1].x, again), SHORT_STEPS)

    return descend_durations(
        (built, result),
        np.array([search.problem.phases[p].duration_s for p in free]),
        np.array([search.problem.phases[p].duration_range_s for p in free], dtype=np.float64),
        value=lambda found: found[1].objective if found[1].is_solved else np.inf,
        lagrangian=lambda found, durations: compute_reduced_lagrangian(*found, free, durations),
        solve=solve,
        is_over=lambda: search.is_over,
    )


def rebuild_at_durations(built: ReducedProblem, free: list[int], durations: FloatArray) -> ReducedProblem:
    """The problem at other durations; knots keep their number, and nodes that were added their share of a phase."""
    problem = replace_durations(built.problem, free, durations, count_phase_spans(built, free))
    old = built.scene.layout.edges
    new = np.concatenate([[0.0], np.cumsum([phase.duration_s for phase in problem.phases])])
    looks = tuple((p, float(np.interp(t, old[p : p + 2], new[p : p + 2]))) for p, t in built.settings.looks)
    return build_reduced_problem(problem, built.scene.behaviour, replace(built.settings, looks=looks))


def compute_reduced_lagrangian(
    built: ReducedProblem, result: SQPResult, free: list[int], durations: FloatArray
) -> float:
    r""":math:`f + \lambda^T(c - b)` of the solution's curves at other durations; f alone if the rows are others."""
    other = rebuild_at_durations(built, free, durations)
    value, rows = other.programme.values(transfer_vector(built, result.x, other))
    force = result.multipliers
    if len(force) != len(rows):
        return value
    ends = np.where(force > 0.0, other.programme.row_upper, other.programme.row_lower)
    held = force != 0.0
    return value + float(force[held] @ (rows[held] - ends[held]))


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
    # The behaviour with as many coordinates as it needs, and a wider one for the last attempt
    whole = read_problem_behaviour(problem) if behaviour is None else behaviour
    space = whole.with_energy() if behaviour is None else behaviour
    wider = whole.truncate(min(space.dimension + MORE_COORDINATES, whole.dimension))
    space, wider = (keep_limits(one, problem) for one in (space, wider))
    settings = settings or choose_settings(problem)
    own = {space.tree.index(name) for name in problem.limits} - set(build_reduced_space(space).leg_dofs.tolist())
    settings = replace(settings, watched=(*settings.watched, *sorted(own)))
    search = ReducedSearch(problem, space, settings, on_iteration, time_limit_s, solver)
    search.wider = wider if wider.dimension > space.dimension else None
    built, result = solve_with_restarts(search, stages, warm_start)
    # Durations, then collocation where the dense check finds faults
    free = find_free_phases(problem)
    if free and result.is_solved:
        result = search.solve(built, result.x, SHORT_STEPS)
        built, result = optimise_durations(search, built, result, free)
    built, result = refine_collocation(search, built, result)
    return _build_result(search, built, result, rate_hz)


def keep_limits(behaviour: BehaviourSpace, problem: SpacetimeProblem) -> BehaviourSpace:
    """The behaviour with the limits that a problem gives in place of its own."""
    if not problem.limits:
        return behaviour
    lower, upper = behaviour.lower.copy(), behaviour.upper.copy()
    for name, (low, high) in problem.limits.items():
        i = behaviour.tree.index(name)
        lower[i], upper[i] = low, high
    return replace(behaviour, lower=lower, upper=upper)


def read_problem_behaviour(problem: SpacetimeProblem) -> BehaviourSpace:
    """Read the behaviour that a problem names: a file, or a shipped one.

    Raises:
        InputError: the problem names none.
        MissingFileError: there is no such file.
    """
    if not problem.basis:
        raise InputError(f"problem '{problem.name}' names no basis", "Give basis, the file of a behaviour")
    shipped = Path(__file__).parents[1] / "behaviours"
    for path in (Path(problem.basis), shipped / problem.basis, shipped / f"{problem.basis}.safetensors"):
        if path.is_file():
            return BehaviourSpace.load(path)
    raise MissingFileError(problem.basis, "Fit one with `marey fit behaviour CLIPS... -o FILE`, or name a shipped one.")


def _build_result(search: ReducedSearch, built: ReducedProblem, result: SQPResult, rate_hz: float) -> SpacetimeResult:
    values = built.scene.variables.unpack(result.x)
    guess = built.scene.variables.unpack(built.start)
    counts = {
        "unknowns": len(result.x),
        "rows": len(built.programme.row_lower),
        "frames": built.scene.nodes.count,
        "amplitudes": built.scene.space.dimension,
    }
    check = check_track(built, values)
    status, advice = settle_status(result.status, check, result.advice)
    return SpacetimeResult(
        status=status,
        motion=motion_from_solution(built, values, rate_hz, built.problem.name),
        guess=motion_from_solution(built, guess, rate_hz, f"{built.problem.name} guess"),
        violation=result.violation,
        iterations=search.iterations,
        seconds=perf_counter() - search.begin,
        objective=result.objective,
        terms={"torque": 0.0} | built.programme.terms(values),
        worst=result.worst,
        check=check,
        history=result.history,
        advice=advice if result.is_solved else " ".join([advice, *search.remarks]),
        problem=built.problem,
        counts=counts,
    )
