"""Goals for the body of a scene: which activations bring its points to their places in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, frozen
from marey.muscle.optimal_control.adjoint import ControlResult, OnIteration
from marey.muscle.optimal_control.problem import OptimalControlProblem, StateGoal, check_number
from marey.muscle.optimal_control.soft_system import SoftSystem
from marey.muscle.optimal_control.solve import Method, solve_control
from marey.muscle.scene.build import SceneModel, build_scene
from marey.muscle.scene.film import Film
from marey.muscle.scene.run import SoftBodyScene

DT_S: Final = 1 / 30
KNOTS_PER_S: Final = 8.0
MAX_CONTROL_CELLS: Final = 800  # of the body that is solved; the found activations drive the finer one
COARSENING_FRACTIONS: Final = (1.0, 0.85, 0.7, 0.55, 0.4)  # [-] of the wished growth of cells, tried in turn
GOAL_WEIGHT: Final = 1e4  # [1/m²] against the square of an activation
EFFORT: Final = 1e-2
SMOOTH: Final = 1e-1  # of the squared change from step to step
TOLERANCE: Final = 1e-2  # [-] of the cost: goals are met to millimetres by then
GOAL_TOLERANCE_M: Final = 0.02
MAX_POINT_DISTANCE: Final = 3.0  # [cells] a point farther than this from the body does not belong to it


@dataclass(frozen=True, slots=True, eq=False)
class PositionGoal:
    """Where a point of a body shall be, and when."""

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
    """Activations of a scene's splines that meet goals; call it with a time [s] for those of that time."""

    scene: SoftBodyScene
    system: SoftSystem  # of the coarser body
    result: ControlResult

    def __call__(self, t: float) -> FloatArray:
        """Activations ``(splines,)`` at a time [s]; the last ones stay."""
        controls = self.result.controls
        return np.clip(controls[min(int(t / self.system.dt), len(controls) - 1)], 0.0, 1.0)

    @property
    def seconds(self) -> float:
        """Duration of the solved motion."""
        return self.system.dt * len(self.result.controls)

    @property
    def errors_m(self) -> FloatArray:
        """Distance from each goal ``(G,)`` [m] of the coarser body, in the order of time."""
        return self.result.goal_errors

    def film(self) -> Film:
        """The scene itself under these activations."""
        return self.scene.run(self.seconds + self.system.dt, activations=self)

    def __repr__(self) -> str:
        return f"SceneControl({self.scene.name}, {len(self.errors_m)} goals, {self.result!r})"


def solve_scene(
    scene: SoftBodyScene,
    goals: Sequence[PositionGoal | tuple[float, str | ArrayLike, ArrayLike]],
    *,
    method: Method = "gauss-newton",
    max_cells: int = MAX_CONTROL_CELLS,
    dt: float = DT_S,
    max_iterations: int = 25,
    goal_tolerance_m: float = GOAL_TOLERANCE_M,
    on_iteration: OnIteration | None = None,
) -> SceneControl:
    """Activations that bring points of a scene's body to places in time ([Engell2012]_ §25.4, its open end).

    The problem is solved on a coarser body of the same shape; :meth:`SceneControl.film` plays the scene itself.

    Args:
        scene: its shape, material, splines, bones and ground; programmes do not matter.
        goals: times [s], points and places [m].
        method: of :func:`solve_control`.
        max_cells: about so many cells are solved.
        dt: step [s].
        max_iterations: per round of growing goal weights.
        goal_tolerance_m: when a goal counts as reached [m].
        on_iteration: called with the iteration and the cost; returning ``False`` ends the search.
    """
    given = [goal if isinstance(goal, PositionGoal) else PositionGoal(*goal) for goal in goals]
    if not given:
        raise InputError("there is no goal", "Give at least one")
    stage = build_coarse_scene(scene, max_cells)
    system = SoftSystem(stage.body, dt=dt, fades=stage.fades)
    steps = max(int(np.rint(goal.time_s / dt)) for goal in given)
    problem = OptimalControlProblem(
        system,
        system.state(),
        max(steps, 1),
        [
            StateGoal(
                max(1, int(np.rint(goal.time_s / dt))),
                np.asarray(goal.place),
                components=_goal_components(goal, system),
            )
            for goal in given
        ],
        effort=EFFORT,
        smooth=SMOOTH,
        goal_weight=GOAL_WEIGHT,
        bounds=(0.0, 1.0),
        knots=min(max(steps, 1), max(4, int(np.ceil(KNOTS_PER_S * steps * dt)))),
    )
    result = solve_control(
        problem,
        method=method,
        max_iterations=max_iterations,
        tolerance=TOLERANCE,
        goal_tolerance=goal_tolerance_m,
        on_iteration=on_iteration,
    )
    return SceneControl(scene, system, result)


def _goal_components(goal: PositionGoal, system: SoftSystem) -> IntArray:
    if isinstance(goal.point, str):
        return system.end_components(goal.point)
    nodes = system.body.mesh.nodes
    away = np.linalg.norm(nodes - np.asarray(goal.point), axis=1)
    cell = float(np.max(np.ptp(nodes[system.body.cells[0]], axis=0)))
    if away.min() > MAX_POINT_DISTANCE * cell:
        raise InputError(f"the point {goal.point} is {away.min():.3g} m away from the body", "Name a place inside it")
    return system.components(int(away.argmin()))


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
