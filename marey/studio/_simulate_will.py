"""What moves a simulated figure: nothing, a puppeteer, its wish to stand, or the clip."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.control import ControlTask, Controller, Drive, Gains, ModesTask, MomentumTask, Puppet, SupportTask
from marey.kinematics import PointTask, PoseTask
from marey.motion import Motion
from marey.simulate import PointForce, Simulator
from marey.skeleton import Pose
from marey.studio._simulate_wish import Wish

ROOT_WEIGHT: Final = 1.0  # [-] of a puppet's place and turn
HAND_PER_S: Final = 20.0  # [1/s] in which a goal in the hand is reached
POSE_WEIGHT: Final = 0.3  # [-] against 100 of the centre of mass


class Will(ABC):
    """Makes the steps of one simulator."""

    def __init__(self, simulator: Simulator, wish: Wish) -> None:
        self.simulator, self.wish = simulator, wish
        self.goal: PointTask | None = None  # what the hand asks for, where it is no pull

    @property
    def takes_goals(self) -> bool:
        """Whether the hand sets a goal; otherwise it pulls."""
        return False

    @property
    def words(self) -> str:
        """How it goes, for people; may be empty."""
        return ""

    def outer(self) -> tuple[tuple[FloatArray, FloatArray], ...]:
        """Places [m] and forces [N] that it added from outside, in world."""
        return ()

    @abstractmethod
    def step(self, dt: float, forces: Sequence[PointForce]) -> None:
        """Move the figure on."""


class Free(Will):
    """A figure without a will."""

    def step(self, dt: float, forces: Sequence[PointForce]) -> None:
        """Physics alone."""
        self.simulator.step(dt, forces)


class OnStrings(Will):
    """A puppet: it keeps its pose and follows the hand by forces from outside, as much as alpha says."""

    def __init__(self, simulator: Simulator, wish: Wish, home: Pose) -> None:
        super().__init__(simulator, wish)
        keep = PoseTask(home, weight=POSE_WEIGHT, root_weight=ROOT_WEIGHT)
        self._keep = Drive(keep, Gains(wish.stiffness_per_s, 0.0))
        self._puppet = Puppet(simulator, (self._keep,), alpha=wish.alpha)

    @property
    def takes_goals(self) -> bool:
        return True

    @property
    def words(self) -> str:
        report = self._puppet.report
        return "" if report is None else f"strings pull with {float(np.linalg.norm(report.force_n)):.0f} N"

    def outer(self) -> tuple[tuple[FloatArray, FloatArray], ...]:
        report = self._puppet.report
        if report is None:
            return ()
        return ((self.simulator.mechanics().com, report.force_n),)

    def step(self, dt: float, forces: Sequence[PointForce]) -> None:
        """Physics and strings at once."""
        goals = () if self.goal is None else (Drive(self.goal, Gains(HAND_PER_S, 0.0)),)
        self._puppet.step(dt, forces, tasks=(self._keep, *goals))


class Balance(Will):
    """A figure that wants to stay on its feet, by forces from inside alone."""

    def __init__(self, simulator: Simulator, wish: Wish, home: Pose) -> None:
        super().__init__(simulator, wish)
        keep = Drive(kept_pose(simulator, home, POSE_WEIGHT), Gains(wish.stiffness_per_s, 0.0))
        self._tasks = (SupportTask(), MomentumTask(), keep)
        self._controller = Controller(simulator, self._tasks)

    @property
    def takes_goals(self) -> bool:
        return self.wish.is_reaching

    @property
    def words(self) -> str:
        report = self._controller.report
        if report is None:
            return ""
        plan = "" if report.is_planned else ", no plan"
        return f"strongest actuation {float(abs(report.actuation).max()):.0f} N m{plan}"

    def step(self, dt: float, forces: Sequence[PointForce]) -> None:
        """Plan, then physics."""
        goals = () if self.goal is None else (self.goal,)
        self._controller.step(dt, forces, tasks=(*self._tasks, *goals))


def kept_pose(simulator: Simulator, home: Pose, weight: float) -> ControlTask:
    """Task to keep a pose; in a pose space its coordinates are found once, not in every step."""
    if simulator.model is None:
        return PoseTask(home, weight=weight)
    still = Motion(simulator.model.skeleton, 60.0, home.root_position[None], home.rotations.reshape(1, -1))
    return ModesTask(simulator.model.encode(still)[0], weight=weight)


def make_will(simulator: Simulator, wish: Wish, home: Pose) -> Will:
    """The will that was chosen; ``home`` is the pose to keep."""
    if wish.will == "puppet":
        return OnStrings(simulator, wish, home)
    if wish.will == "balance":
        return Balance(simulator, wish, home)
    return Free(simulator, wish)
