"""Space-time control: the one door to all methods, for any system and for the body of a scene."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, UnknownNameError, frozen
from marey.muscle.optimal_control.adjoint import ControlResult, ControlSearch, OnIteration, minimise_gauss_newton
from marey.muscle.optimal_control.baselines import minimise_ilqr, minimise_lbfgs
from marey.muscle.optimal_control.problem import OptimalControlProblem, StateGoal, check_number
from marey.muscle.optimal_control.soft_system import SoftSystem
from marey.muscle.scene.film import Film
from marey.muscle.scene.run import SceneModel, SoftBodyScene, build_scene
from marey.numerics import SolveStatus
from marey.numerics.programme import OnFailure, check_on_failure, raise_if_asked

Method = Literal["gauss-newton", "lbfgs", "ilqr"]

METHODS: Final[dict[str, Callable[[ControlSearch], None]]] = {
    "gauss-newton": minimise_gauss_newton,
    "lbfgs": minimise_lbfgs,
    "ilqr": minimise_ilqr,
}
MAX_ITERATIONS: Final = {"gauss-newton": 60, "lbfgs": 1000, "ilqr": 200}
WEIGHT_GROWTH = 10.0  # [-] factor of the goal weight from round to round
MAX_ROUNDS = 8  # the weight grows by seven decades at most
MIN_IMPROVEMENT = 0.999  # [-] of the last goal error; a round that ends above has shown that the goal is out of reach

ADVICE: Final = {
    SolveStatus.CONVERGED: "Nothing is left to do.",
    SolveStatus.ITERATION_LIMIT: "Allow more iterations, or start from these controls.",
    SolveStatus.STALLED: "No step improves; check the derivatives of the system, or its contacts, for jumps.",
    SolveStatus.STOPPED: "The caller ended the search; start from these controls to go on.",
    SolveStatus.NOT_FINITE: "The first controls cannot be run; shorten the time step or start from others.",
}


def solve_control(
    problem: OptimalControlProblem,
    *,
    method: Method = "gauss-newton",
    start: ArrayLike | None = None,
    max_iterations: int | None = None,
    tolerance: float = 1e-10,
    goal_tolerance: float | None = None,
    damping: float | None = None,
    on_iteration: OnIteration | None = None,
    on_failure: OnFailure = "return",
) -> ControlResult:
    """Controls that take a system to its goals with the least cost ([Engell2012]_ §25).

    "gauss-newton" solves a quadratic model of the whole motion in a few iterations, "lbfgs" is the quasi-Newton method
    of the thesis on the adjoint gradient (for very many unknowns), "ilqr" works step by step. With ``goal_tolerance``
    the weight of the goals grows tenfold from round to round until every goal is met, or until it no longer helps: the
    result is then the nearest motion, and ``reached`` is false.

    Args:
        problem: the system, its start, its goals and its costs.
        method: by name.
        start: first controls ``(N, s)``; at rest by default.
        max_iterations: per round; 60 for Gauss-Newton, 200 for ilqr, 1000 for lbfgs by default.
        tolerance: share of the cost below which a promised decrease ends the search.
        goal_tolerance: largest distance from a goal, in the units of its target.
        damping: of the first Gauss-Newton step, over the diagonal; next to none by default.
        on_iteration: called with the iteration and the cost; returning ``False`` ends the search.
        on_failure: "return" hands back the best controls with their status, "raise" raises.

    Raises:
        ConvergenceError: it did not converge and ``on_failure`` is "raise"; the report is the result.
    """
    check_on_failure(on_failure)
    if method not in METHODS:
        raise UnknownNameError("method", method, "solve_control", METHODS)
    for name, value in (
        ("tolerance", tolerance),
        ("goal_tolerance", goal_tolerance),
        ("max_iterations", max_iterations),
        ("damping", damping),
    ):
        if value is not None and check_number(name, value) <= 0.0:
            raise InputError(f"{name} is {value}", "Give a number above zero")
    began, limit = time.perf_counter(), int(max_iterations or MAX_ITERATIONS[method])
    search = ControlSearch(problem, problem.unknowns(start), limit, tolerance, on_iteration)
    search.damping = search.damping if damping is None else damping
    METHODS[method](search)
    result = _make_result(search, goal_tolerance, began)
    for _ in range(MAX_ROUNDS - 1 if goal_tolerance else 0):
        if result.reached or search.status in (SolveStatus.STOPPED, SolveStatus.NOT_FINITE):
            break
        search.problem = replace(search.problem, goal_weight=WEIGHT_GROWTH * search.problem.goal_weight)
        search.status = SolveStatus.ITERATION_LIMIT
        METHODS[method](search)
        last, result = result, _make_result(search, goal_tolerance, began)
        if not result.reached and result.goal_error > MIN_IMPROVEMENT * last.goal_error:
            break
    raise_if_asked("solve_control", result.status, result.advice, result, on_failure)
    return result


def _make_result(search: ControlSearch, goal_tolerance: float | None, began: float) -> ControlResult:
    cost, controls, states = search.run(search.unknowns)
    problem = search.problem
    if not np.isfinite(cost):
        states = np.tile(problem.start, (problem.steps + 1, 1))
        cost = float(np.finfo(np.float64).max)
    misses = [(goal.weight > 0.0) * goal.residual(states[goal.step]) for goal in problem.goals]
    errors = np.array([float(np.linalg.norm(miss)) for miss in misses])
    reached = goal_tolerance is None or bool(errors.max() <= goal_tolerance)
    advice = ADVICE[search.status] + (search.trouble if search.status is SolveStatus.NOT_FINITE else "")
    if goal_tolerance is not None and not reached:
        worst = problem.goals[int(errors.argmax())].step
        advice = f"The goal at step {worst} is missed by {errors.max():.3g}: it may be out of reach. {advice}"
    return ControlResult(
        search.status,
        controls,
        states,
        cost,
        errors,
        search.iterations,
        search.evaluations,
        time.perf_counter() - began,
        tuple(search.history or ()),
        problem.goal_weight,
        reached and search.status is not SolveStatus.NOT_FINITE,
        advice,
    )


DT_S: Final = 1 / 30
MAX_CONTROL_CELLS: Final = 800  # of the body that is solved; the found activations drive the finer one
COARSENING_FRACTIONS: Final = (1.0, 0.85, 0.7, 0.55, 0.4)  # [-] of the desired growth of cells, tried in turn
GOAL_TOLERANCE_M: Final = 0.02
MAX_CORRECTIONS: Final = 6  # times that the goals of the coarser body are moved
WORTHWHILE: Final = 0.9  # [-] of the largest miss: a correction that leaves more is the last
MAX_POINT_DISTANCE: Final = 3.0  # [cells] a point farther than this from the body does not belong to it


@dataclass(frozen=True, slots=True)
class ActivationSettings:
    """Weights of activations against the errors at their goals."""

    knots_per_s: float = 8.0  # [1/s] of the activations over time: muscles do not act faster
    goal_weight: float = 1e4  # [1/m²] of a missed place against the square of an activation: a centimetre is one
    effort: float = 1e-2  # [-] of the squared activations: little, so that goals come first
    smooth: float = 0.0  # [-] of the squared change from step to step
    tolerance: float = 1e-2  # [-] of the cost: goals are met to millimetres by then
    max_iterations: int = 25  # per round of growing goal weights; three to five are usual

    def make_problem(
        self, system: SoftSystem, steps: int, goals: Sequence[StateGoal], knots: int
    ) -> OptimalControlProblem:
        """The problem of meeting goals with little activation, from rest."""
        return OptimalControlProblem(
            system,
            system.state(),
            steps,
            goals,
            effort=self.effort,
            smooth=self.smooth,
            goal_weight=self.goal_weight,
            bounds=(0.0, 1.0),
            knots=knots,
        )


@dataclass(frozen=True, slots=True, eq=False)
class PositionGoal:
    """Target of a point of a body at a time."""

    time_s: float
    point: str | ArrayLike  # name of a bone, whose end is meant, or (3,) [m] a place of the body at rest
    place: ArrayLike  # (3,) [m]

    def __post_init__(self) -> None:
        if check_number("time_s of a goal", self.time_s) <= 0.0:
            raise InputError(f"a goal is at {self.time_s} s", "Give a time above zero")
        object.__setattr__(self, "place", frozen(self.place, 3, name="place of a goal"))
        if not isinstance(self.point, str):
            object.__setattr__(self, "point", frozen(self.point, 3, name="point of a goal"))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SceneControl:
    """Activations of a scene's splines for goals; call it with a time [s] for those of that time.

    What counts is the scene itself under these activations, not the coarser body that was solved.
    """

    scene: SoftBodyScene
    system: SoftSystem  # of the coarser body
    result: ControlResult  # of the last solve of the coarser body, whose goals may be moved
    played: Film
    misses_m: FloatArray  # (G, 3) [m] from where the film shows the point of each goal to the goal, in the order given
    goal_tolerance_m: float

    def __call__(self, t: float) -> FloatArray:
        """Activations ``(splines,)`` at a time [s]; the last ones stay."""
        return _read_controls(self.result.controls, self.system.dt, t)

    @property
    def seconds(self) -> float:
        """Duration of the solved motion."""
        return self.system.dt * len(self.result.controls)

    @property
    def errors_m(self) -> FloatArray:
        """Distance ``(G,)`` [m] of the film from each goal."""
        return np.linalg.norm(self.misses_m, axis=1)

    @property
    def reached(self) -> bool:
        """Whether the film meets every goal."""
        return bool(self.errors_m.max() <= self.goal_tolerance_m)

    def film(self) -> Film:
        """The scene itself under these activations."""
        return self.played

    def __repr__(self) -> str:
        met = "reached" if self.reached else "missed"
        return f"SceneControl({self.scene.name}, {len(self.errors_m)} goals {met}, worst {self.errors_m.max():.3g} m)"


def _read_controls(controls: FloatArray, dt: float, t: float) -> FloatArray:
    return np.clip(controls[min(int(t / dt + 1e-9), len(controls) - 1)], 0.0, 1.0)


SCENE_SETTINGS: Final = ActivationSettings(smooth=1e-1)  # splines of scenes would flicker without


def solve_scene(
    scene: SoftBodyScene,
    goals: Sequence[PositionGoal | tuple[float, str | ArrayLike, ArrayLike]],
    *,
    method: Method = "gauss-newton",
    max_cells: int = MAX_CONTROL_CELLS,
    dt: float = DT_S,
    max_iterations: int | None = None,
    goal_tolerance_m: float = GOAL_TOLERANCE_M,
    on_iteration: OnIteration | None = None,
    settings: ActivationSettings = SCENE_SETTINGS,
) -> SceneControl:
    """Activations that bring points of a scene's body to places in time ([Engell2012]_ §25.4, its open end).

    The problem is solved on a coarser body of the same shape, and the scene itself is played. By as much as it misses
    its goals, those of the coarser body are moved, and the solve goes on from where it ended, as long as that helps.

    Args:
        scene: its shape, material, splines, bones and ground; programmes do not matter.
        goals: times [s], points and places [m].
        method: of :func:`solve_control`.
        max_cells: about so many cells are solved.
        dt: step [s].
        max_iterations: per round of growing goal weights; as the settings say by default.
        goal_tolerance_m: when a goal counts as reached, by the coarser body and by the scene [m].
        on_iteration: called with the iteration and the cost; returning ``False`` ends the search.
        settings: how activations are weighed against goals.
    """
    given = [goal if isinstance(goal, PositionGoal) else PositionGoal(*goal) for goal in goals]
    if not given:
        raise InputError("there is no goal", "Give at least one")
    stage = build_coarse_scene(scene, max_cells)
    system = SoftSystem(stage.body, dt=dt, fades=stage.fades)
    targets, nodes = list[StateGoal](), stage.body.mesh.nodes
    for goal in given:
        if isinstance(goal.point, str):
            components = system.end_components(goal.point)
        else:
            # The node nearest to the point that is named.
            away = np.linalg.norm(nodes - np.asarray(goal.point), axis=1)
            cell = float(np.max(np.ptp(nodes[stage.body.cells[0]], axis=0)))
            if away.min() > MAX_POINT_DISTANCE * cell:
                distance = f"the point {goal.point} is {away.min():.3g} m away from the body"
                raise InputError(distance, "Name a place inside it")
            components = system.components(int(away.argmin()))
        step = max(1, int(np.rint(goal.time_s / dt)))
        targets.append(StateGoal(step, np.asarray(goal.place), components=components))
    steps = max(target.step for target in targets)
    knots = min(steps, max(4, int(np.ceil(settings.knots_per_s * steps * dt))))
    problem = settings.make_problem(system, steps, targets, knots)
    wanted = np.array([goal.place for goal in given])

    def solve(problem: OptimalControlProblem, start: FloatArray | None) -> SceneControl:
        result = solve_control(
            problem,
            method=method,
            start=start,
            max_iterations=max_iterations or settings.max_iterations,
            tolerance=settings.tolerance,
            goal_tolerance=goal_tolerance_m,
            on_iteration=on_iteration,
        )
        film = scene.run(dt * (steps + 1), activations=partial(_read_controls, result.controls, dt))
        misses = wanted - np.array([_find_goal_point(film, goal) for goal in given])
        return SceneControl(scene, system, result, film, misses, goal_tolerance_m)

    best = found = solve(problem, None)
    for _ in range(MAX_CORRECTIONS):
        if found.reached or found.result.status is SolveStatus.STOPPED:
            break
        # The coarser body aims past each goal by what the scene missed
        moved = zip(targets, found.misses_m, strict=True)
        targets = [replace(target, target=target.target + miss) for target, miss in moved]
        problem = replace(problem, goals=targets, goal_weight=found.result.goal_weight)
        found = solve(problem, found.result.controls)
        last = float(best.errors_m.max())
        if found.errors_m.max() < last:
            best = found
        if found.errors_m.max() > WORTHWHILE * last:
            break
    return best


def _find_goal_point(film: Film, goal: PositionGoal) -> FloatArray:
    """Place (3,) [m] of the point of a goal at its time."""
    if isinstance(goal.point, str):
        path = film.bones.ends[:, film.bones.names.index(goal.point), 1]
    else:
        path = film.positions[:, int(np.linalg.norm(film.positions[0] - goal.point, axis=1).argmin())]
    return np.array([np.interp(goal.time_s, film.times, path[:, axis]) for axis in range(3)])


def build_coarse_scene(scene: SoftBodyScene, max_cells: int) -> SceneModel:
    """The scene with about so many cells, or as few as its splines and bones allow; set up anew."""
    parts, body = scene.parts, scene.stage().body
    wished = (len(body.cells) / max_cells) ** (1 / 3)
    for share in COARSENING_FRACTIONS if wished > 1.0 else ():
        spacing = parts.mesh.spacing_m * (1.0 + share * (wished - 1.0))
        try:
            found = build_scene(replace(parts, mesh=replace(parts.mesh, spacing_m=spacing)))
        except InputError:
            continue  # the shape falls apart, or a spline leaves it
        # All that carries or holds nodes of the finer body must have some of the coarser one.
        kinds = int(body.carriers.max()) + 3
        coarse, fine = (np.bincount(b.carriers + 2, minlength=kinds) for b in (found.body, body))
        if np.all((coarse > 0) | (fine == 0)):
            return found
    return build_scene(parts)
