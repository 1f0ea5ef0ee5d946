"""Settings of a live simulation, each held inside its range, and the simulators of one clip's figure.

Pose spaces and limits are learnt from the clip once.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil, radians
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, MareyError, UnknownNameError, clamp_value
from marey.control import make_stand
from marey.control.reference.in_place import FEET
from marey.dynamics import GRAVITY, Body
from marey.kinematics import JointLimits
from marey.lie import SO3
from marey.models import PoseModel
from marey.motion import Motion
from marey.simulate import Ground, Simulator
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
