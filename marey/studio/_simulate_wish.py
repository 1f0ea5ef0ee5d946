"""What the sliders of a simulation say, each held inside its range."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import radians
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, UnknownNameError
from marey.dynamics import GRAVITY
from marey.simulate import Ground
from marey.skeleton import RoleMap
from marey.studio._walker import clamp_value

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
FEET: Final[tuple[str, ...]] = ("both", "left", "right")
ON_FEET: Final = ("balance", "track")  # wills that begin on their feet
FLAGS: Final = ("is_full", "is_reaching", "has_limits")


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """Settings of a simulation. Numbers outside their range are held at its end."""

    will: str = "free"
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

    def with_will(self, will: str) -> SimulationSettings:
        """Choose what the figure wants."""
        if will not in CONTROLLERS:
            raise UnknownNameError("will", will, "a figure", CONTROLLERS)
        return replace(self, will=will)

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
        return self.has_limits and self.will not in ON_FEET

    def needs_new_simulator(self, before: SimulationSettings) -> bool:
        """Whether the change needs a new simulator, not only a new driver."""
        return any(getattr(self, what) != getattr(before, what) for what in SIMULATOR_FIELDS)


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
