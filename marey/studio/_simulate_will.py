"""What moves a simulated figure: nothing, a puppeteer, its wish to stand, or the clip."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.control import Drive, Gains, Puppet, Tracker, TrackWeights, make_stand
from marey.kinematics import PointTask, PoseTask
from marey.motion import Motion
from marey.simulate import PointForce, Simulator
from marey.skeleton import Pose
from marey.studio._simulate_wish import SimulationSettings

STRING_WEIGHT: Final = 0.3  # [1/rad²] of a puppet's pose
ROOT_WEIGHT: Final = 1.0  # [-] of a puppet's place and turn
HAND_PER_S: Final = 20.0  # [1/s] in which a goal in the hand is reached
MAX_CLIP_S: Final = 30.0  # that is prepared for tracking
STAND_S: Final = 4.0  # of a stand: enough to lift a foot; its last pose is held for good


class FigureController(ABC):
    """Makes the steps of one simulator."""

    def __init__(self, simulator: Simulator, wish: SimulationSettings) -> None:
        self.simulator, self.wish = simulator, wish
        self.goal: PointTask | None = None  # what the hand asks for, where it is no pull

    def hear(self, wish: SimulationSettings) -> None:
        """Follow the sliders."""
        self.wish = wish

    @property
    def takes_goals(self) -> bool:
        """Whether the hand sets a goal; otherwise it pulls."""
        return False

    @property
    def words(self) -> str:
        """How it goes, for people; may be empty."""
        return ""

    @property
    def is_over(self) -> bool:
        """Whether it has done all it wanted, on its feet."""
        return False

    def begin_again(self) -> None:
        """Put the figure where the will begins."""
        raise InputError(f"{self.wish.will} has no beginning", "Start the figure again")

    def outer(self) -> tuple[tuple[FloatArray, FloatArray], ...]:
        """Places [m] and forces [N] that it added from outside, in world."""
        return ()

    def go_on_from(self, other: FigureController) -> None:
        """Take over from a will of another simulator."""
        del other  # most have nothing to remember

    @abstractmethod
    def step(self, dt: float, forces: Sequence[PointForce]) -> None:
        """Move the figure on."""


class PassiveFigure(FigureController):
    """A figure without a will."""

    def step(self, dt: float, forces: Sequence[PointForce]) -> None:
        """Physics alone."""
        self.simulator.step(dt, forces)


class PuppetFigure(FigureController):
    """A puppet: it keeps its pose and follows the hand by forces from outside, as much as alpha says."""

    def __init__(self, simulator: Simulator, wish: SimulationSettings, home: Pose) -> None:
        super().__init__(simulator, wish)
        self._pose = PoseTask(home, weight=STRING_WEIGHT, root_weight=ROOT_WEIGHT)
        self._puppet = Puppet(simulator, alpha=wish.alpha)

    def hear(self, wish: SimulationSettings) -> None:
        super().hear(wish)
        self._puppet.alpha = wish.alpha

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
        """Physics and strings at once; at alpha zero physics alone, with its small steps where it is unstable."""
        if self.wish.alpha == 0.0:
            self._puppet.reset()
            self.simulator.step(dt, forces)
            return
        goals = () if self.goal is None else (Drive(self.goal, Gains(HAND_PER_S, 0.0)),)
        keep = Drive(self._pose, Gains(self.wish.stiffness_per_s, 0.0))
        self._puppet.step(dt, forces, tasks=(keep, *goals))


class TrackingFigure(FigureController):
    """A figure that does what a clip shows, by forces from inside alone; a stand is held for good."""

    def __init__(self, simulator: Simulator, wish: SimulationSettings, clip: Motion) -> None:
        super().__init__(simulator, wish)
        self._duration_s = min(clip.duration_s, MAX_CLIP_S)
        self._tracker = Tracker(
            simulator, clip[: round(self._duration_s * clip.rate_hz) + 1], weights=_task_gains(wish)
        )

    def hear(self, wish: SimulationSettings) -> None:
        super().hear(wish)
        self._tracker.weights = _task_gains(wish)

    @property
    def takes_goals(self) -> bool:
        return self.wish.is_reaching

    @property
    def words(self) -> str:
        tracker, report = self._tracker, self._tracker.controller.report
        if tracker.fall is not None:
            return f"{tracker.fall}, limp since"
        strongest_nm = 0.0 if report is None else float(np.abs(report.actuation).max())
        where = f"{100.0 * tracker.error_m:.1f} cm off, up to {strongest_nm:.0f} N m"
        if self.wish.will == "balance":
            return where
        return f"{min(tracker.time_s, self._duration_s):.2f} s of {self._duration_s:.2f} s, {where}"

    @property
    def is_over(self) -> bool:
        return self.wish.will == "track" and self._tracker.fall is None and self._tracker.is_over

    def begin_again(self) -> None:
        self._tracker.reset()

    def go_on_from(self, other: FigureController) -> None:
        if isinstance(other, TrackingFigure):
            self._tracker.frame, self._tracker.fall = other._tracker.frame, other._tracker.fall

    def step(self, dt: float, forces: Sequence[PointForce]) -> None:
        """Plan, then physics; physics alone after a fall."""
        if self._tracker.fall is not None:
            self.simulator.step(dt, forces)
            return
        self._tracker.tasks = () if self.goal is None else (self.goal,)
        self._tracker.step(forces)


def _task_gains(wish: SimulationSettings) -> TrackWeights:
    """Poses are taken back critically damped, twice as fast as a puppet keeps its own."""
    return TrackWeights(pose_per_s=2.0 * wish.stiffness_per_s)


def make_controller(simulator: Simulator, wish: SimulationSettings, home: Pose, clip: Motion) -> FigureController:
    """The will that was chosen; ``home`` is the pose to keep, ``clip`` the one to follow.

    The simulator is put into the pose in which the will begins.
    """
    simulator.reset(home)
    if wish.will == "track":
        return TrackingFigure(simulator, wish, clip)
    if wish.will == "balance":
        return TrackingFigure(simulator, wish, make_stand(home, STAND_S, feet=wish.feet))
    return PuppetFigure(simulator, wish, home) if wish.will == "puppet" else PassiveFigure(simulator, wish)
