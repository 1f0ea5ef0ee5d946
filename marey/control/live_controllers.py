"""Settings, simulators and controllers of a live simulation: mouse, puppet, balance, or clip.

Pose spaces and limits are learnt from the clip once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil, radians
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, MareyError, UnknownNameError, clamp_value, frozen
from marey.control.in_place import FEET, make_stand
from marey.control.task_controller import Puppet
from marey.control.tasks import Drive, Gains
from marey.control.tracking import Tracker
from marey.control.tracking_laws import TrackWeights
from marey.dynamics import GRAVITY, Body
from marey.kinematics import JointLimits, PointTask, PoseTask
from marey.lie import SO3
from marey.models import PoseModel
from marey.motion import Motion
from marey.simulate import Ground, Mechanics, PointForce, Simulator
from marey.skeleton import Pose, RoleMap, role_map

CONTROLLERS: Final[tuple[str, ...]] = ("free", "puppet", "balance", "track")
RANGES: Final = {  # what the page may ask for
    "alpha": (0.0, 1.0),
    "stiffness_per_s": (0.5, 30.0),
    "pull_n_m": (50.0, 3000.0),
    "damping_per_s": (0.0, 10.0),
    "modes": (1.0, 60.0),
    "gravity_m_s2": (0.0, 20.0),
    "slope_deg": (-25.0, 25.0),
}
SIMULATOR_FIELDS: Final = ("damping_per_s", "modes", "is_full", "gravity_m_s2", "slope_deg", "is_limited")
ON_FEET: Final = ("balance", "track")  # wills that begin on their feet
FLAGS: Final = ("is_full", "is_reaching", "has_limits")


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """Settings of a simulation. Numbers outside their range are held at its end."""

    mode: str = "free"
    alpha: float = 0.5  # of a puppet: 0 obeys physics alone, 1 the hand alone
    stiffness_per_s: float = 5.0  # with which poses are kept
    pull_n_m: float = 500.0  # of the hand's spring
    damping_per_s: float = 1.0  # energetic damping of the figure
    modes: int = 20  # of the pose space
    is_full: bool = False  # all joints move instead
    gravity_m_s2: float = GRAVITY
    slope_deg: float = 0.0  # of the ground, rising ahead (+z)
    is_reaching: bool = False  # balancing, the figure reaches for the hand by itself instead of being pulled
    feet: str = "both"  # or "left" or "right", that a balancing figure stands on
    has_limits: bool = True  # joints stay within what the clip shows

    def with_value(self, what: str, value: float) -> SimulationSettings:
        """Move one slider, or tick a box.

        Raises:
            UnknownNameError: there is no such slider.
            InputError: the value is not a number.
        """
        if what in FLAGS:
            return replace(self, **{what: bool(value)})
        if what not in RANGES:
            raise UnknownNameError("slider", what, "the simulation", (*RANGES, *FLAGS))
        held = clamp_value(value, RANGES[what], what)
        return replace(self, **{what: round(held) if what == "modes" else held})

    def with_mode(self, mode: str) -> SimulationSettings:
        """Choose what the figure wants."""
        if mode not in CONTROLLERS:
            raise UnknownNameError("mode", mode, "a figure", CONTROLLERS)
        return replace(self, mode=mode)

    def with_feet(self, feet: str) -> SimulationSettings:
        """Choose what a balancing figure stands on."""
        if feet not in FEET:
            raise UnknownNameError("feet", feet, "a stand", FEET)
        return replace(self, feet=feet)

    def ground(self, pivot: ArrayLike) -> Ground:
        """The ground, turned about a point of it."""
        return Ground.from_slope(radians(self.slope_deg), point=pivot)

    @property
    def gravity(self) -> FloatArray:
        """Acceleration ``(3,)`` [m/s²]."""
        return np.array([0.0, -self.gravity_m_s2, 0.0])

    @property
    def is_limited(self) -> bool:
        """Whether joint limits count: a figure that controls itself keeps its pose anyway."""
        return self.has_limits and self.mode not in ON_FEET


PARTS: Final = {  # where one can push: label -> role in the body
    "chest": "spine3",
    "pelvis": "pelvis",
    "head": "head",
    "left hand": "left_wrist",
    "right hand": "right_wrist",
    "left foot": "left_ankle",
    "right foot": "right_ankle",
}
PART_ALTERNATIVES: Final = {"chest": ("spine2", "spine1"), "head": ("neck",)}  # of bodies with fewer joints
PUSH_N: Final = (0.0, 1500.0)
PUSH_S: Final = (0.01, 2.0)
DIRECTION_DEG: Final = (-180.0, 180.0)
RISE_DEG: Final = (-90.0, 90.0)
BALL_M_S: Final = (0.5, 30.0)
BALL_KG: Final = (0.1, 20.0)


def direction(heading_deg: float, rise_deg: float) -> FloatArray:
    """Unit vector ``(3,)``: 0° is ahead (+z), 90° to the left (+x); the rise is upwards."""
    heading = radians(clamp_value(heading_deg, DIRECTION_DEG, "the direction"))
    rise = radians(clamp_value(rise_deg, RISE_DEG, "the rise"))
    return np.array([np.sin(heading) * np.cos(rise), np.sin(rise), np.cos(heading) * np.cos(rise)])


def resolve_part(part: str, roles: RoleMap) -> int:
    """Joint of a part of the body.

    Raises:
        UnknownNameError: the page sent something else.
        InputError: this body has no such part.
    """
    if part not in PARTS:
        raise UnknownNameError("part", part, "the body", tuple(PARTS))
    for role in (PARTS[part], *PART_ALTERNATIVES.get(part, ())):
        joint = roles.get(role)
        if joint is not None:
            return joint
    raise InputError(f"this body has no {part}", "Choose another part")


MAX_LEARNT_FRAMES: Final = 600  # frames: a pose space does not ask for more
LIMIT_ROOM_RAD: Final = 0.5  # round what the clip shows, so that a figure can fall and be pulled
LEARNT_STAND_S: Final = 4.0
LEAST_MODE: Final = 3e-3  # of the first mode: the clip says nothing about smaller ones
NEAR_M: Final = 0.15  # a figure that is higher is in the air, and is left there


class FigureFactory:
    """Makes simulators; what the clip teaches is kept."""

    def __init__(self, motion: Motion) -> None:
        self.motion = motion
        self.body = Body.from_motion(motion)
        self.clip = self.body.motion(motion)
        # Every so many frames of a clip that is long
        clip = self.clip
        stride = ceil(clip.num_frames / MAX_LEARNT_FRAMES)
        wxyz = np.ascontiguousarray(clip.rotations.wxyz[::stride])
        self._lesson = Motion(
            clip.skeleton, clip.rate_hz / stride, clip.root_positions[::stride], SO3(wxyz), name=clip.name
        )
        self._space: PoseModel | None = None
        self._limits: JointLimits | None = None

    def simulator(self, settings: SimulationSettings, ground: Ground) -> Simulator:
        """A figure as the sliders say."""
        return Simulator(
            self.body,
            None if settings.is_full else self.space(settings.modes),
            damping="energetic",
            damping_rate=settings.damping_per_s,
            gravity=settings.gravity,
            ground=ground,
            limits=self.limits() if settings.is_limited else None,
        )

    def space(self, modes: int) -> PoseModel:
        """The first modes of the clip; fewer where it has fewer."""
        if self._space is None:
            from marey.models import PGA

            if self._lesson.num_frames < 3:
                raise InputError("a clip this short has no modes", "Let all joints move")
            most = min(round(RANGES["modes"][1]), self._lesson.num_frames - 1)
            # Stands on both feet and on each give a figure the modes to balance; a body without feet has none
            lessons = [self._lesson]
            with suppress(MareyError):
                lessons += [
                    make_stand(_standing_source(self._lesson, feet), LEARNT_STAND_S, feet=feet) for feet in FEET
                ]
            space = PGA(n_components=most, weights="lever").fit(lessons)
            moving = int(np.count_nonzero(space.deviations > LEAST_MODE * space.deviations[0]))
            self._space = space.truncate(max(moving, 1))
        return self._space.truncate(min(modes, self._space.num_components))

    def standing(self, feet: str) -> Pose:
        """Quiet standing pose; for one foot, from a pose with parallel feet."""
        return make_stand(_standing_source(self.clip, feet), 1.0)[0]

    def limits(self) -> JointLimits:
        """What the joints do in the clip, with some room."""
        if self._limits is None:
            from marey.kinematics import BoxLimits

            self._limits = BoxLimits.from_clips([self._lesson], margin_rad=LIMIT_ROOM_RAD)
        return self._limits


def _standing_source(clip: Motion, feet: str) -> Motion | Pose:
    """The clip; for one foot its upright frame with the ankles nearest to each other, seen from above."""
    if feet == "both":
        return clip
    roles, places = role_map(clip.skeleton), clip.joint_positions()
    left, right = (places[:, roles[f"{side}_ankle"]] for side in ("left", "right"))
    apart = np.linalg.norm((left - right)[:, [0, 2]], axis=1)
    heights = places[:, 0, 1]
    return clip[int(np.argmin(apart + 5.0 * (heights.max() - heights)))]


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
