"""What the jump machine stands on: a walker that can be asked about any speed, and jumps by kind and length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from marey.base import FloatArray
from marey.locomotion._engine_plan import GaitParameters
from marey.locomotion._engine_source import FrameSource
from marey.locomotion._transition_clip import JumpClip, PoseFrame
from marey.skeleton import Skeleton


class SteerableWalker(FrameSource, Protocol):
    """Walks and runs with parameters that change linearly; the engine's own walker is one."""

    @property
    def phase(self) -> float:
        """Phase, unwrapped."""
        ...

    @property
    def position(self) -> FloatArray:
        """Carriage ``(x, z)`` [m]."""
        ...

    @property
    def heading_rad(self) -> float:
        """Direction of the carriage."""
        ...

    @property
    def parameters(self) -> GaitParameters:
        """Parameters now."""
        ...

    @property
    def target(self) -> GaitParameters:
        """Parameters at the end of the change under way."""
        ...

    def go_to(self, parameters: GaitParameters, over_s: float) -> None:
        """Change all parameters linearly over a time."""
        ...

    def follow_plan(
        self, times_s: FloatArray, speed: FloatArray, run: FloatArray | None = None, turn_rate: FloatArray | None = None
    ) -> None:
        """Change speed, run and turn rate ``(P,)`` by knots at times ``(P,)`` [s] from now."""
        ...

    @property
    def remaining_s(self) -> float:
        """Time [s] until nothing changes any more."""
        ...

    @property
    def is_settled(self) -> bool:
        """Whether it stands still, both feet where they stand at ease."""
        ...

    def place(self, phase: float, position: FloatArray, heading_rad: float) -> None:
        """Go on from another phase and place; the parameters stay."""
        ...

    def frequency(self, speed: float, run: float) -> float:
        """Cycles per second at a speed [m/s] and share of running, with this style and size."""
        ...

    def events(self, speed: float, run: float) -> FloatArray:
        """Unwrapped phases ``(8,)`` of the foot events."""
        ...

    def pose_at(
        self, phase: float, speed: float, run: float, position: FloatArray, heading_rad: float
    ) -> tuple[FloatArray, FloatArray]:
        """Root position ``(3,)`` [m] and rotations ``(J, 4)``."""
        ...


class JumpLibrary(Protocol):
    """Jumps of all kinds for a body of any size."""

    def limits_m(self, kind: str, leg_length_m: float) -> tuple[float, float]:
        """Shortest and longest jump of a kind [m]."""
        ...

    def run_up(self, kind: str, length_m: float, leg_length_m: float) -> tuple[float, float]:
        """Speed of the approach and its tolerance [m/s]."""
        ...

    def length_for(self, kind: str, speed: float, leg_length_m: float) -> float:
        """Length [m] of the jump whose approach has this speed [m/s]."""
        ...

    def clip(
        self, kind: str, length_m: float, leg_length_m: float, weights: FloatArray, *, height_m: float | None, side: int
    ) -> JumpClip:
        """The jump itself; mirrored for a take-off with the left foot."""
        ...

    def rest_heights_m(self, leg_length_m: float) -> FloatArray:
        """Heights ``(4,)`` [m] of the effectors of a foot that stands flat."""
        ...

    def skeleton_for(self, leg_length_m: float) -> Skeleton:
        """The body with legs of this length."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ConstantGait:
    """What a walker does at one speed, by phase."""

    walker: SteerableWalker
    speed: float  # [m/s]
    run: float
    frequency_hz: float
    events: FloatArray  # (8,)

    def frame(self, phase: float) -> PoseFrame:
        """Pose at any phase, relative to the carriage."""
        return PoseFrame(*self.walker.pose_at(phase, self.speed, self.run, np.zeros(2), 0.0))


def freeze_gait(walker: SteerableWalker, speed: float, run: float) -> ConstantGait:
    """Freeze a walker's gait at a speed [m/s] and share of running."""
    return ConstantGait(walker, speed, run, walker.frequency(speed, run), np.array(walker.events(speed, run)))
