"""What is asked of the jump machine, checked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from marey.base import frozen
from marey.locomotion._checks import check_name, check_positive
from marey.locomotion._runup import MAX_ACCELERATION
from marey.locomotion._transition_clip import LEFT, RIGHT

REQUEST_KINDS: Final = ("walk", "run", "standing")
REQUEST_PRIORITIES: Final = ("jump-parameters", "jump-now")
TAKEOFF_SIDES: Final = {"right": RIGHT, "left": LEFT}


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
            ("jump", self.kind, REQUEST_KINDS),
            ("priority", self.priority, REQUEST_PRIORITIES),
            ("foot", self.foot, tuple(TAKEOFF_SIDES)),
        ):
            check_name(kind, name, "the engine", known)
        check_positive("length_m", self.length_m)
        check_positive("max_acceleration", self.max_acceleration)
        if self.height_m is not None:
            check_positive("height_m", self.height_m)
        if self.takeoff is not None:
            frozen(self.takeoff, 2, name="takeoff")

    @property
    def side(self) -> int:
        """Take-off foot, 0 right or 1 left."""
        return TAKEOFF_SIDES[self.foot]


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
