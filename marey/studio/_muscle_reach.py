"""Goals of a hand that the user drags, and the search for muscles that bring it there. No browser type here."""

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
    make_hanging_film,
    make_hanging_pose,
    make_soft_arm,
    measure_arm,
    solve_control,
    solve_reach,
)
from marey.skeleton import HUMAN
from marey.studio._muscle_job import BackgroundJob
from marey.studio._simulate_hand import clamp_position
from marey.studio._walker import clamp_value

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
    """Where the hand shall be, one place after the other; edited only by the session's worker."""

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
    """Gauss-Newton that tells how it goes, and ends with the best so far when it is stopped."""

    job: BackgroundJob[ReachResult]

    def __call__(self, problem: OptimalControlProblem) -> ControlResult:
        costs: list[float] = []

        def heard(iteration: int, cost: float) -> bool:
            costs.append(cost)
            self.job.words = f"iteration {iteration}, cost {cost:.3g} of {costs[0]:.3g}"
            self.job.share = search_progress(costs)
            return not self.job.is_stopped

        return solve_control(problem, tolerance=TOLERANCE, max_iterations=MAX_REACH_ITERATIONS, on_iteration=heard)


def search_progress(costs: Sequence[float]) -> float:
    """How far a search is, by the decades that its cost has fallen; about four are usual."""
    fallen = np.log10(max(costs[0], 1e-12) / max(costs[-1], 1e-12))
    return float(np.clip(0.05 + 0.25 * fallen, 0.05, 0.95))


def solve_hand_goals(goals: tuple[HandGoal, ...], job: BackgroundJob[ReachResult]) -> ReachResult:
    """Muscles that bring the hand to its goals."""
    job.tell("poses of the arm", 0.02)
    return solve_reach(
        goals, side=SIDE, arm=make_soft_arm(*measure_arm(side=SIDE), counts=COUNTS), solve=_ReachSearch(job)
    )
