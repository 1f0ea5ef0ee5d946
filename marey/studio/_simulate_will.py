"""What moves a simulated figure: nothing, a puppeteer, its wish to stand, or the clip."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.control import (
    Controller,
    ControlTask,
    Drive,
    Fall,
    Gains,
    ModesTask,
    MomentumTask,
    Puppet,
    SupportTask,
    Tracker,
    TrackWeights,
    detect_fall,
)
from marey.kinematics import PointTask, PoseTask
from marey.motion import Motion
from marey.simulate import PointForce, Simulator
from marey.skeleton import Pose
from marey.studio._simulate_wish import Wish

STRING_WEIGHT: Final = 0.3  # [1/rad²] of a puppet's pose
ROOT_WEIGHT: Final = 1.0  # [-] of a puppet's place and turn
HAND_PER_S: Final = 20.0  # [1/s] in which a goal in the hand is reached
POSE_WEIGHT: Final = 3.0  # [1/rad²] of all modes, against 100 of the centre of mass
FULL_WEIGHT: Final = 30.0  # [1/rad²] of all joints
MAX_CLIP_S: Final = 60.0  # that is prepared for tracking


class Will(ABC):
    """Makes the steps of one simulator."""

    def __init__(self, simulator: Simulator, wish: Wish) -> None:
        self.simulator, self.wish = simulator, wish
        self.goal: PointTask | None = None  # what the hand asks for, where it is no pull
        self.fall: Fall | None = None  # after it, a figure that wanted to stand is limp

    def hear(self, wish: Wish) -> None:
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

    def outer(self) -> tuple[tuple[FloatArray, FloatArray], ...]:
        """Places [m] and forces [N] that it added from outside, in world."""
        return ()

    def go_on_from(self, other: Will) -> None:
        """Take over from a will of another simulator."""
        self.fall = other.fall

    @abstractmethod
    def step(self, dt: float, forces: Sequence[PointForce]) -> None:
        """Move the figure on."""

    def _watch(self, height_m: float) -> None:
        """See whether the figure fell, which should be so high above what it stands on [m]."""
        low = self.simulator.mechanics().com[1] - self._floor_m()
        self.fall = detect_fall(self.simulator, self.simulator.state, float(low), height_m)

    def _floor_m(self) -> float:
        """Height of the ground under the figure."""
        constrainer, com = self.simulator.constrainer, self.simulator.mechanics().com
        grounds = () if constrainer is None else constrainer.grounds
        return max((float(com[1] - g.gaps(com) / g.normal[1]) for g in grounds), default=0.0)


class Free(Will):
    """A figure without a will."""

    def step(self, dt: float, forces: Sequence[PointForce]) -> None:
        """Physics alone."""
        self.simulator.step(dt, forces)


class OnStrings(Will):
    """A puppet: it keeps its pose and follows the hand by forces from outside, as much as alpha says."""

    def __init__(self, simulator: Simulator, wish: Wish, home: Pose) -> None:
        super().__init__(simulator, wish)
        self._pose = PoseTask(home, weight=STRING_WEIGHT, root_weight=ROOT_WEIGHT)
        self._puppet = Puppet(simulator, alpha=wish.alpha)

    def hear(self, wish: Wish) -> None:
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


class Balance(Will):
    """A figure that wants to stay on its feet, by forces from inside alone."""

    def __init__(self, simulator: Simulator, wish: Wish, home: Pose) -> None:
        super().__init__(simulator, wish)
        self._pose = kept_pose(simulator, home)
        self._tasks = (SupportTask(), MomentumTask())
        self._controller = Controller(simulator)
        self._height_m = float(simulator.mechanics().com[1]) - self._floor_m()

    @property
    def takes_goals(self) -> bool:
        return self.wish.is_reaching

    @property
    def words(self) -> str:
        report = self._controller.report
        if report is None or self.fall is not None:
            return "" if self.fall is None else f"{self.fall}, limp since"
        plan = "" if report.is_planned else ", no plan"
        return f"strongest actuation {float(abs(report.actuation).max()):.0f} N m{plan}"

    def step(self, dt: float, forces: Sequence[PointForce]) -> None:
        """Plan, then physics; physics alone after a fall."""
        if self.fall is not None:
            self.simulator.step(dt, forces)
            return
        goals = () if self.goal is None else (self.goal,)
        keep = Drive(self._pose, Gains(self.wish.stiffness_per_s, 0.0))
        self._controller.step(dt, forces, tasks=(*self._tasks, keep, *goals))
        self._watch(self._height_m)


class Track(Will):
    """A figure that does what the clip shows, by forces from inside alone; at its end it holds the last pose."""

    def __init__(self, simulator: Simulator, wish: Wish, clip: Motion) -> None:
        super().__init__(simulator, wish)
        self._duration_s = min(clip.duration_s, MAX_CLIP_S)
        self._tracker = Tracker(simulator, clip[: round(self._duration_s * clip.rate_hz) + 1], weights=_weights(wish))

    def hear(self, wish: Wish) -> None:
        super().hear(wish)
        self._tracker.weights = _weights(wish)

    @property
    def takes_goals(self) -> bool:
        return self.wish.is_reaching

    @property
    def words(self) -> str:
        tracker = self._tracker
        if self.fall is not None:
            return f"{self.fall}, limp since"
        now_s = min(tracker.time_s, self._duration_s)
        return f"{now_s:.2f} s of {self._duration_s:.2f} s, {100.0 * tracker.error_m:.1f} cm from the clip"

    def go_on_from(self, other: Will) -> None:
        super().go_on_from(other)
        if isinstance(other, Track):
            self._tracker.frame = other._tracker.frame

    def step(self, dt: float, forces: Sequence[PointForce]) -> None:
        """Plan, then physics; physics alone after a fall."""
        if self.fall is not None:
            self.simulator.step(dt, forces)
            return
        self._tracker.tasks = () if self.goal is None else (self.goal,)
        self._tracker.step(forces)
        self.fall = self._tracker.fall


def _weights(wish: Wish) -> TrackWeights:
    """Poses are taken back critically damped, twice as fast as a standing figure keeps its own."""
    return TrackWeights(pose_per_s=2.0 * wish.stiffness_per_s)


def kept_pose(simulator: Simulator, home: Pose) -> ControlTask:
    """Task to keep a pose; in a pose space its coordinates are found once, not in every step."""
    if simulator.model is None:
        return PoseTask(home, weight=FULL_WEIGHT)
    still = Motion(simulator.model.skeleton, 60.0, home.root_position[None], home.rotations.reshape(1, -1))
    return ModesTask(simulator.model.encode(still)[0], weight=POSE_WEIGHT)


def make_will(simulator: Simulator, wish: Wish, home: Pose, clip: Motion) -> Will:
    """The will that was chosen; ``home`` is the pose to keep, ``clip`` the one to follow.

    The simulator is put into the pose in which the will begins.
    """
    simulator.reset(home)
    if wish.will == "track":
        return Track(simulator, wish, clip)
    if wish.will == "puppet":
        return OnStrings(simulator, wish, home)
    if wish.will == "balance":
        return Balance(simulator, wish, home)
    return Free(simulator, wish)
