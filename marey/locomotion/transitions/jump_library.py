"""Jumps by kind and length, as the jump state machine reads them, and the walker that it steers."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from math import sqrt
from typing import Final, Protocol

import numpy as np

from marey.base import FloatArray, IntArray, UnknownNameError
from marey.locomotion.model.locomotion_model import JumpModel, LocomotionModel
from marey.locomotion.model.walker import FrameSource
from marey.locomotion.planning.parameters import GaitParameters
from marey.locomotion.transitions.clips import LEFT, JumpClip, PoseFrame
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


MAX_CACHED_CLIPS: Final = 32  # clips; one takes some milliseconds to make

_Key = tuple[str, float, float, float | None, int, bytes]


class ModelJumps:
    """Jumps of a locomotion model, in metres for legs of any length; the last ones made are kept."""

    def __init__(self, model: LocomotionModel, scaling: str = "froude") -> None:
        self._model, self._scaling = model, scaling
        self._kept: OrderedDict[_Key, JumpClip] = OrderedDict()
        self._opposite = opposite_joints(model.skeleton)
        self._body: tuple[float, Skeleton] | None = None

    def of(self, kind: str) -> JumpModel:
        """Return the jumps of one kind."""
        if kind not in self._model.jumps:
            raise UnknownNameError("kind of jump", kind, "this model", tuple(self._model.jumps))
        return self._model.jumps[kind]

    def limits_m(self, kind: str, leg_length_m: float) -> tuple[float, float]:
        """Shortest and longest jump of a kind [m]."""
        low, high = self.of(kind).limits
        return float(low) * leg_length_m, float(high) * leg_length_m

    def run_up(self, kind: str, length_m: float, leg_length_m: float) -> tuple[float, float]:
        """Speed of the approach and its tolerance [m/s]."""
        law, scale = self.of(kind).run_up, self._speed_scale(leg_length_m)
        return law.speed(length_m / leg_length_m) * scale, law.tolerance * scale

    def length_for(self, kind: str, speed: float, leg_length_m: float) -> float:
        """Length [m] of the jump whose approach has this speed [m/s]."""
        return self.of(kind).run_up.length(speed / self._speed_scale(leg_length_m)) * leg_length_m

    def _speed_scale(self, leg_length_m: float) -> float:
        own = self._model.leg_length_m
        return sqrt(leg_length_m * own) if self._scaling == "froude" else leg_length_m

    def clip(
        self, kind: str, length_m: float, leg_length_m: float, weights: FloatArray, *, height_m: float | None, side: int
    ) -> JumpClip:
        """The jump itself; mirrored for a take-off with the left foot.

        ``weights`` ``(K,)`` are of the model's styles; styles that never jumped are left out.
        """
        key = (kind, length_m, leg_length_m, height_m, side, np.asarray(weights).tobytes())
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        self._kept[key] = self._made(kind, length_m, leg_length_m, weights, height_m, side)
        while len(self._kept) > MAX_CACHED_CLIPS:
            self._kept.popitem(last=False)
        return self._kept[key]

    def _made(
        self, kind: str, length_m: float, leg: float, weights: FloatArray, height_m: float | None, side: int
    ) -> JumpClip:
        mixture = {name: float(w) for name, w in zip(self._model.styles, weights, strict=True)}
        height = None if height_m is None else height_m / leg
        unit = self.of(kind).unit(length_m / leg, mixture, height_n=height, leg_length_m=leg, scaling=self._scaling)
        opposite = self._opposite if side == LEFT else None
        return JumpClip(unit.rows, self._model.gaits.means, leg, unit.duration_s, unit.events, opposite)

    def rest_heights_m(self, leg_length_m: float) -> FloatArray:
        """Heights ``(4,)`` [m] of the effectors of a foot that stands flat."""
        return self._model.rest_heights * leg_length_m

    def skeleton_for(self, leg_length_m: float) -> Skeleton:
        """The body with legs of this length."""
        if self._body is None or self._body[0] != leg_length_m:
            self._body = leg_length_m, self._model.skeleton_for(leg_length_m)
        return self._body[1]


def opposite_joints(skeleton: Skeleton) -> IntArray:
    """The joint of the other side ``(J,)``, by name; itself on the midline."""
    other = {"left_": "right_", "right_": "left_"}
    names = [next((to + n[len(side) :] for side, to in other.items() if n.startswith(side)), n) for n in skeleton.names]
    return np.array([skeleton.names.index(name) for name in names], dtype=np.int64)


def make_model_jumps(model: LocomotionModel, scaling: str = "froude") -> ModelJumps:
    """Return the jumps of a model for characters whose size and speed go together in one of two ways."""
    return ModelJumps(model, scaling)
