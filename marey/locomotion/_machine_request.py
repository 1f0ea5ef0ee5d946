"""What is asked of the jump machine, checked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from marey.base import frozen
from marey.locomotion._checks import checked_name, checked_positive
from marey.locomotion._runup import MAX_ACCELERATION
from marey.locomotion._transition_clip import LEFT, RIGHT

KINDS: Final = ("walk", "run", "standing")
PRIORITIES: Final = ("jump-parameters", "jump-now")
FEET: Final = {"right": RIGHT, "left": LEFT}


@dataclass(frozen=True, slots=True)
class JumpRequest:
    """A jump that is wanted; see :meth:`Machine.jump`."""

    length_m: float
    kind: str = "walk"
    height_m: float | None = None
    priority: str = "jump-parameters"
    takeoff: tuple[float, float] | None = None
    foot: str = "right"
    max_acceleration: float = MAX_ACCELERATION  # [m/s²]

    def __post_init__(self) -> None:
        for kind, name, known in (
            ("jump", self.kind, KINDS),
            ("priority", self.priority, PRIORITIES),
            ("foot", self.foot, tuple(FEET)),
        ):
            checked_name(kind, name, "the engine", known)
        checked_positive("length_m", self.length_m)
        checked_positive("max_acceleration", self.max_acceleration)
        if self.height_m is not None:
            checked_positive("height_m", self.height_m)
        if self.takeoff is not None:
            frozen(self.takeoff, 2, name="takeoff")

    @property
    def side(self) -> int:
        """Take-off foot, 0 right or 1 left."""
        return FEET[self.foot]


@dataclass(frozen=True, slots=True)
class JumpAnswer:
    """What the machine will do about a request."""

    status: str  # "planned" or "queued"
    kind: str
    length_m: float
    foot: str
    speed: float  # [m/s] of the approach
    starts_in_s: float  # [s] until the blend into the jump; 0 for a queued one
    cycles: float  # of the run-up
