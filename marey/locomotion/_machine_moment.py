"""What the jump machine remembers from one step to the next."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple, Protocol

from marey.base import FloatArray
from marey.locomotion._engine_plan import GaitParameters
from marey.locomotion._machine_request import JumpRequest
from marey.locomotion._transition_clip import PoseFrame
from marey.locomotion._transition_feet import FootholdSchedule
from marey.skeleton import Skeleton


class JumpPlan(Protocol):
    """A transition as a function of the time since its start."""

    @property
    def skeleton(self) -> Skeleton:
        """The body."""
        ...

    @property
    def duration_s(self) -> float:
        """How long it lasts."""
        ...

    @property
    def end_phase(self) -> float:
        """Phase at which walking goes on."""
        ...

    @property
    def end_position(self) -> FloatArray:
        """Carriage ``(x, z)`` [m] with which walking goes on."""
        ...

    @property
    def heading_rad(self) -> float:
        """Direction, all the time."""
        ...

    def state(self, time_s: float) -> str:
        """One of blend-in, jump, blend-out."""
        ...

    def frame(self, time_s: float) -> PoseFrame:
        """Raw pose."""
        ...

    def carriage(self, time_s: float) -> FloatArray:
        """Where the character is on the ground ``(x, z)`` [m]."""
        ...

    def gait_phase(self, time_s: float) -> float:
        """Phase of the gait."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class JumpState:
    """The state of the machine; replaced, never changed, so that a snapshot is a reference."""

    stage: str = "neutral"  # neutral, adapt, leap or restore
    clock_s: float = 0.0  # since the stage began
    deadline_s: float = inf  # the stage is looked at again then
    latest_s: float = inf  # the stage is given up then
    request: JumpRequest | None = None
    queued: JumpRequest | None = None
    wish: GaitParameters | None = None  # what to go back to
    wish_over_s: float | None = None
    plan: JumpPlan | None = None
    feet: FootholdSchedule | None = None


class JumpSnapshot(NamedTuple):
    """A moment of the machine and of its walker."""

    moment: JumpState
    walker: object
