"""Controllers of the simulated figure: mouse, puppet, balance, or clip."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen
from marey.control import Drive, Gains, Puppet, Tracker, TrackWeights, make_stand
from marey.control.live.figure import SimulationSettings
from marey.kinematics import PointTask, PoseTask
from marey.motion import Motion
from marey.simulate import Mechanics, PointForce, Simulator
from marey.skeleton import Pose

ROOM_SIZE_M: Final = 100.0  # a hand is not farther from the middle of the room
MAX_PULL_N: Final = 1000.0  # of a hand: more would tear any body along
GOAL_WEIGHT: Final = 30.0  # [1/m²] of a point that the figure is to reach by itself


@dataclass(frozen=True, slots=True, eq=False)
class PullingHand:
    """A point of the figure, and where the mouse pulls it."""

    joint: int
    offset: FloatArray  # (3,) [m] in the joint's frame
    target: FloatArray  # (3,) [m] in world

    def to(self, place: ArrayLike) -> PullingHand:
        """The same hand, pulling somewhere else."""
        return replace(self, target=clamp_position(place))

    def place(self, here: Mechanics) -> FloatArray:
        """Where the point is now ``(3,)`` [m]."""
        return here.point(self.joint, self.offset)

    def goal(self, names: tuple[str, ...]) -> PointTask:
        """Target of the figure's own motion."""
        return PointTask(names[self.joint], self.target, point=self.offset, weight=GOAL_WEIGHT)

    def force(self, here: Mechanics, velocity: FloatArray, dt: float, stiffness_n_m: float) -> FloatArray:
        r"""Pull ``(3,)`` [N] of a critically damped spring, taken at the end of the step: stable at any stiffness.

        .. math:: (I + (h^2 k + h c)\,J M^{-1} J^T)\,f = k(x^* - x) - (h k + c)\,J v
        """
        J = here.point_jacobian(self.joint, self.offset)
        mobility: FloatArray = J @ np.linalg.solve(here.inertia, J.T)
        mass = 3.0 / float(np.trace(mobility))
        damping = 2.0 * float(np.sqrt(stiffness_n_m * mass))
        pull = stiffness_n_m * (self.target - self.place(here)) - (dt * stiffness_n_m + damping) * (J @ velocity)
        matrix = np.eye(3) + (dt**2 * stiffness_n_m + dt * damping) * mobility
        force = np.asarray(np.linalg.solve(matrix, pull), dtype=np.float64)
        size = float(np.linalg.norm(force))
        return force if size <= MAX_PULL_N else force * (MAX_PULL_N / size)

    def pull(
        self, here: Mechanics, velocity: FloatArray, dt: float, stiffness_n_m: float, names: tuple[str, ...]
    ) -> PointForce:
        """The pull as a force on the figure."""
        return PointForce(names[self.joint], self.force(here, velocity, dt, stiffness_n_m), self.offset)


def clamp_position(place: ArrayLike) -> FloatArray:
    """A place ``(3,)`` [m]; a page may send anything.

    Raises:
        InputError: the position is outside the room.
    """
    point = np.asarray(place, dtype=np.float64)
    if point.shape != (3,) or not np.isfinite(point).all() or float(np.abs(point).max()) > ROOM_SIZE_M:
        raise InputError("the hand is not in the room", "Pull nearer")
    return frozen(point, 3, name="place")


STRING_WEIGHT: Final = 0.3  # [1/rad²] of a puppet's pose
ROOT_WEIGHT: Final = 1.0  # [-] of a puppet's place and turn
HAND_PER_S: Final = 20.0  # [1/s] in which a goal in the hand is reached
MAX_CLIP_S: Final = 30.0  # that is prepared for tracking
STAND_S: Final = 4.0  # of a stand: enough to lift a foot; its last pose is held for good


class FigureController(ABC):
    """Makes the steps of one simulator."""

    def __init__(self, simulator: Simulator, settings: SimulationSettings) -> None:
        self.simulator, self.settings = simulator, settings
        self.goal: PointTask | None = None  # target of the hand, if it does not pull

    def hear(self, settings: SimulationSettings) -> None:
        """Follow the sliders."""
        self.settings = settings

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
        """Whether it has completed its clip without a fall."""
        return False

    def begin_again(self) -> None:
        """Put the figure where the controller begins."""
        raise InputError(f"{self.settings.mode} has no beginning", "Start the figure again")

    def outer(self) -> tuple[tuple[FloatArray, FloatArray], ...]:
        """Places [m] and forces [N] that it added from outside, in world."""
        return ()

    def go_on_from(self, other: FigureController) -> None:
        """Take over from a controller of another simulator."""
        del other  # most have nothing to remember

    @abstractmethod
    def step(self, dt: float, forces: Sequence[PointForce]) -> None:
        """Move the figure on."""


class PassiveFigure(FigureController):
    """A figure without a controller."""

    def step(self, dt: float, forces: Sequence[PointForce]) -> None:
        """Physics alone."""
        self.simulator.step(dt, forces)


class PuppetFigure(FigureController):
    """A puppet: it keeps its pose and follows the hand by forces from outside, as much as alpha says."""

    def __init__(self, simulator: Simulator, settings: SimulationSettings, home: Pose) -> None:
        super().__init__(simulator, settings)
        self._pose = PoseTask(home, weight=STRING_WEIGHT, root_weight=ROOT_WEIGHT)
        self._puppet = Puppet(simulator, alpha=settings.alpha)

    def hear(self, settings: SimulationSettings) -> None:
        """Take changed settings while the figure runs."""
        super().hear(settings)
        self._puppet.alpha = settings.alpha

    @property
    def takes_goals(self) -> bool:
        """Whether a dragged goal moves this figure."""
        return True

    @property
    def words(self) -> str:
        """One line of status for the panel."""
        report = self._puppet.report
        return "" if report is None else f"strings pull with {float(np.linalg.norm(report.force_n)):.0f} N"

    def outer(self) -> tuple[tuple[FloatArray, FloatArray], ...]:
        """External forces: (point, force) pairs to draw."""
        report = self._puppet.report
        if report is None:
            return ()
        return ((self.simulator.mechanics().com, report.force_n),)

    def step(self, dt: float, forces: Sequence[PointForce]) -> None:
        """Physics with external forces; at alpha zero physics alone, with sub-steps where it is unstable."""
        if self.settings.alpha == 0.0:
            self._puppet.reset()
            self.simulator.step(dt, forces)
            return
        goals = () if self.goal is None else (Drive(self.goal, Gains(HAND_PER_S, 0.0)),)
        keep = Drive(self._pose, Gains(self.settings.stiffness_per_s, 0.0))
        self._puppet.step(dt, forces, tasks=(keep, *goals))


class TrackingFigure(FigureController):
    """A figure that does what a clip shows, by forces from inside alone; a stand is held for good."""

    def __init__(self, simulator: Simulator, settings: SimulationSettings, clip: Motion) -> None:
        super().__init__(simulator, settings)
        self._duration_s = min(clip.duration_s, MAX_CLIP_S)
        self._tracker = Tracker(
            simulator, clip[: round(self._duration_s * clip.rate_hz) + 1], weights=_task_gains(settings)
        )

    def hear(self, settings: SimulationSettings) -> None:
        """Take changed settings while the figure runs."""
        super().hear(settings)
        self._tracker.weights = _task_gains(settings)

    @property
    def takes_goals(self) -> bool:
        """Whether a dragged goal moves this figure."""
        return self.settings.is_reaching

    @property
    def words(self) -> str:
        """One line of status for the panel."""
        tracker, report = self._tracker, self._tracker.controller.report
        if tracker.fall is not None:
            return f"{tracker.fall}, limp since"
        strongest_nm = 0.0 if report is None else float(np.abs(report.actuation).max())
        where = f"{100.0 * tracker.error_m:.1f} cm off, up to {strongest_nm:.0f} N m"
        if self.settings.mode == "balance":
            return where
        return f"{min(tracker.time_s, self._duration_s):.2f} s of {self._duration_s:.2f} s, {where}"

    @property
    def is_over(self) -> bool:
        """Whether the clip has been tracked to its end."""
        return self.settings.mode == "track" and self._tracker.fall is None and self._tracker.is_over

    def begin_again(self) -> None:
        """Start the clip over."""
        self._tracker.reset()

    def go_on_from(self, other: FigureController) -> None:
        """Continue at the frame another tracking figure had reached."""
        if isinstance(other, TrackingFigure):
            self._tracker.frame, self._tracker.fall = other._tracker.frame, other._tracker.fall

    def step(self, dt: float, forces: Sequence[PointForce]) -> None:
        """Plan, then physics; physics alone after a fall."""
        if self._tracker.fall is not None:
            self.simulator.step(dt, forces)
            return
        self._tracker.tasks = () if self.goal is None else (self.goal,)
        self._tracker.step(forces)


def _task_gains(settings: SimulationSettings) -> TrackWeights:
    """Poses are taken back critically damped, twice as fast as a puppet keeps its own."""
    return TrackWeights(pose_per_s=2.0 * settings.stiffness_per_s)


def make_controller(simulator: Simulator, settings: SimulationSettings, home: Pose, clip: Motion) -> FigureController:
    """The controller that was chosen; ``home`` is the pose to keep, ``clip`` the one to follow.

    The simulator is put into the pose in which the controller begins.
    """
    simulator.reset(home)
    if settings.mode == "track":
        return TrackingFigure(simulator, settings, clip)
    if settings.mode == "balance":
        return TrackingFigure(simulator, settings, make_stand(home, STAND_S, feet=settings.feet))
    return PuppetFigure(simulator, settings, home) if settings.mode == "puppet" else PassiveFigure(simulator, settings)
