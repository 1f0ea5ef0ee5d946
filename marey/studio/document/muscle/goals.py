"""Goals that the user drags, for a hand or a point of a body, and the search for activations that reach them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, frozen
from marey.muscle import (
    ControlResult,
    Film,
    HandGoal,
    OptimalControlProblem,
    ReachResult,
    SceneControl,
    SoftBodyScene,
    make_hanging_film,
    make_hanging_pose,
    make_soft_arm,
    measure_arm,
    solve_control,
    solve_reach,
    solve_scene,
)
from marey.skeleton import HUMAN
from marey.studio.document.jobs import BackgroundJob
from marey.studio.document.muscle.scenes import LiveScene
from marey.studio.document.simulate.controllers import clamp_position
from marey.studio.document.walk import clamp_value

SIDE: Final = "left"
COUNTS: Final = (2, 8, 2)  # cells of the arm across, along and deep: coarse enough to be solved while one waits
FIRST_M: Final = np.array([[0.0, -0.36, 0.30], [0.0, -0.22, 0.36], [0.0, -0.48, 0.20]])  # from the shoulder
MAX_GOALS: Final = len(FIRST_M)
EVERY_S: Final = (0.2, 1.5)  # between goals
MAX_REACH_ITERATIONS: Final = 25
TOLERANCE: Final = 1e-2  # [-] of the cost


def shoulder() -> FloatArray:
    """Where the arm hangs ``(3,)`` [m]."""
    return make_hanging_pose().joint_positions()[HUMAN.names.index(f"{SIDE}_shoulder")]


class HandGoals:
    """Targets of the hand in order; edited only by the session's worker."""

    def __init__(self) -> None:
        self.shoulder = shoulder()
        self.places: list[FloatArray] = [self.shoulder + offset for offset in FIRST_M]
        self.count, self.every_s = 1, 0.4
        self.misses_m: FloatArray | None = None  # of the last answer, as long as no goal was moved
        self._hanging: Film | None = None

    @property
    def marks(self) -> dict[str, FloatArray]:
        """Places [m] by name, of the goals that count."""
        return {f"hand {i + 1}": self.places[i] for i in range(self.count)}

    def move(self, name: str, place: ArrayLike) -> None:
        """Drag a goal; it stays in the plane in which the arm bends."""
        point = np.array(clamp_position(place))
        point[0] = self.shoulder[0]
        self.places[list(self.marks).index(name)] = frozen(point, 3, name="place")
        self.misses_m = None

    def set_count(self, count: float) -> None:
        """How many places."""
        self.count, self.misses_m = round(clamp_value(count, (1, MAX_GOALS), "the number of goals")), None

    def set_every(self, seconds: float) -> None:
        """Time between two places [s]."""
        self.every_s, self.misses_m = clamp_value(seconds, EVERY_S, "the time between goals"), None

    def order(self) -> tuple[HandGoal, ...]:
        """What is to be reached."""
        return tuple(HandGoal(self.every_s * (i + 1), self.places[i]) for i in range(self.count))

    def rest_film(self) -> Film:
        """The arm at rest."""
        if self._hanging is None:
            self._hanging = make_hanging_film(self.shoulder, make_soft_arm(*measure_arm(side=SIDE), counts=COUNTS))
        return self._hanging


@dataclass(frozen=True, slots=True)
class _ReachSearch:
    """Gauss-Newton that reports progress and returns the best iterate when it is stopped."""

    job: BackgroundJob[ReachResult]

    def __call__(self, problem: OptimalControlProblem) -> ControlResult:
        costs: list[float] = []

        def report(iteration: int, cost: float) -> bool:
            costs.append(cost)
            self.job.words = f"iteration {iteration}, cost {cost:.3g} of {costs[0]:.3g}"
            self.job.share = search_progress(costs)
            return not self.job.is_stopped

        return solve_control(problem, tolerance=TOLERANCE, max_iterations=MAX_REACH_ITERATIONS, on_iteration=report)


def search_progress(costs: Sequence[float]) -> float:
    """Progress of a search by the decades of its cost; about four are usual."""
    fallen = np.log10(max(costs[0], 1e-12) / max(costs[-1], 1e-12))
    return float(np.clip(0.05 + 0.25 * fallen, 0.05, 0.95))


def solve_hand_goals(goals: tuple[HandGoal, ...], job: BackgroundJob[ReachResult]) -> ReachResult:
    """Muscles that bring the hand to its goals."""
    job.tell("poses of the arm", 0.02)
    return solve_reach(
        goals, side=SIDE, arm=make_soft_arm(*measure_arm(side=SIDE), counts=COUNTS), solve=_ReachSearch(job)
    )


MAX_CELLS: Final = 500  # of the body that is solved: coarse enough to be solved while one waits
MAX_TIP_ITERATIONS: Final = 12
TIP_GOAL_NAME: Final = "aim"


class TipGoal:
    """Target of the tip of a body; edited only by the session's worker."""

    def __init__(self, live: LiveScene) -> None:
        """Take the end of the last bone, or the point of the surface that is farthest from what is held."""
        self.bone = None if live.stage.bones is None else live.stage.bones.names[-1]
        self.scene = SoftBodyScene(live.scene.name, live.scene.parts)  # a separate body: the live one continues
        self.start = _bone_end(live) if self.bone is not None else _farthest_point(live)
        self.place: FloatArray = self.start.copy()
        self.miss_m: float | None = None

    def move(self, place: ArrayLike) -> None:
        """Drag it."""
        self.place, self.miss_m = np.array(clamp_position(place)), None


@dataclass(frozen=True, slots=True, eq=False)
class TipGoalResult:
    """Activations, the film of the scene under them, and the error of its tip."""

    control: SceneControl
    film: Film
    miss_m: float


def solve_tip_goal(aim: TipGoal, time_s: float, job: BackgroundJob[TipGoalResult]) -> TipGoalResult:
    """Activations that bring the tip to its place at a time [s]: solved on a coarser body, played by the scene."""
    place = aim.place
    job.tell("building a coarser body", 0.02)
    costs: list[float] = []

    def report(iteration: int, cost: float) -> bool:
        costs.append(cost)
        job.words, job.share = f"iteration {iteration}, cost {cost:.3g} of {costs[0]:.3g}", search_progress(costs)
        return not job.is_stopped

    goal = (time_s, aim.start if aim.bone is None else aim.bone, place)
    control = solve_scene(
        aim.scene, [goal], max_cells=MAX_CELLS, max_iterations=MAX_TIP_ITERATIONS, on_iteration=report
    )
    job.words, job.share = "playing the scene", 0.97
    film = control.film()
    return TipGoalResult(control, film, float(np.linalg.norm(_tip_position(film, aim, time_s) - place)))


def _tip_position(film: Film, aim: TipGoal, time_s: float) -> FloatArray:
    """Where the tip is at a time ``(3,)`` [m]."""
    frame = int(np.argmin(np.abs(film.times - time_s)))
    if aim.bone is not None:
        return film.bones.ends[frame, film.bones.names.index(aim.bone), 1]
    node = int(np.argmin(np.linalg.norm(film.positions[0] - aim.start, axis=1)))
    return film.positions[frame, node]


def _bone_end(live: LiveScene) -> FloatArray:
    live.reset()
    return live.look().bones[-1, 1].copy()


def _farthest_point(live: LiveScene) -> FloatArray:
    live.reset()
    nodes, held = live.stage.mesh.nodes, live.stage.body.carriers != -1
    middle = nodes[held].mean(axis=0) if held.any() else nodes.mean(axis=0)
    return nodes[int(np.argmax(np.linalg.norm(nodes - middle, axis=1)))].copy()
