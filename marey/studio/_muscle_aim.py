"""A place to which a point of a scene's body shall come, and the search for activations that bring it there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray
from marey.muscle import Film, SceneControl, SoftBodyScene, solve_scene
from marey.studio._muscle_acts import LiveScene
from marey.studio._muscle_job import BackgroundJob
from marey.studio._muscle_reach import search_progress
from marey.studio._simulate_hand import clamp_position

MAX_CELLS: Final = 500  # of the body that is solved: coarse enough to be solved while one waits
MAX_TIP_ITERATIONS: Final = 12
TIP_GOAL_NAME: Final = "aim"


class TipGoal:
    """Where the tip of a body shall be; edited only by the session's worker."""

    def __init__(self, live: LiveScene) -> None:
        """Take the end of the last bone, or the point of the surface that is farthest from what is held."""
        self.bone = None if live.stage.bones is None else live.stage.bones.names[-1]
        self.scene = SoftBodyScene(live.scene.name, live.scene.parts)  # one of its own: the live body goes on
        self.start = _bone_end(live) if self.bone is not None else _farthest_point(live)
        self.place: FloatArray = self.start.copy()
        self.miss_m: float | None = None

    def move(self, place: ArrayLike) -> None:
        """Drag it."""
        self.place, self.miss_m = np.array(clamp_position(place)), None


@dataclass(frozen=True, slots=True, eq=False)
class TipGoalResult:
    """What was found: activations, the film of the scene under them, and how far off its tip is in time."""

    control: SceneControl
    film: Film
    miss_m: float


def solve_tip_goal(aim: TipGoal, time_s: float, job: BackgroundJob[TipGoalResult]) -> TipGoalResult:
    """Activations that bring the tip to its place at a time [s]: solved on a coarser body, played by the scene."""
    place = aim.place
    job.tell("building a coarser body", 0.02)
    costs: list[float] = []

    def heard(iteration: int, cost: float) -> bool:
        costs.append(cost)
        job.words, job.share = f"iteration {iteration}, cost {cost:.3g} of {costs[0]:.3g}", search_progress(costs)
        return not job.is_stopped

    goal = (time_s, aim.start if aim.bone is None else aim.bone, place)
    control = solve_scene(aim.scene, [goal], max_cells=MAX_CELLS, max_iterations=MAX_TIP_ITERATIONS, on_iteration=heard)
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
