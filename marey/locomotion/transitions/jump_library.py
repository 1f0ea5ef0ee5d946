"""Jumps by kind and length, in metres for legs of any length, as the jump state machine reads them."""

from __future__ import annotations

from collections import OrderedDict
from math import sqrt
from typing import Final

import numpy as np

from marey.base import FloatArray, UnknownNameError
from marey.locomotion.model.jump_model import JumpModel
from marey.locomotion.model.locomotion_model import LocomotionModel
from marey.locomotion.transitions.clips import LEFT, JumpClip
from marey.motion.editing import opposite_joints
from marey.skeleton import Skeleton

MAX_CACHED_CLIPS: Final = 32  # clips; one takes some milliseconds to make

_Key = tuple[str, float, float, float | None, int, bytes]


class ModelJumps:
    """Jumps of a locomotion model, in metres for legs of any length; the last ones made are kept."""

    def __init__(self, model: LocomotionModel, scaling: str = "froude") -> None:
        self._model, self._scaling = model, scaling
        self._kept: OrderedDict[_Key, JumpClip] = OrderedDict()
        self._opposite = opposite_joints(model.skeleton)[0]
        self._body: tuple[float, Skeleton] | None = None

    def _model_of(self, kind: str) -> JumpModel:
        if kind not in self._model.jumps:
            raise UnknownNameError("kind of jump", kind, "this model", tuple(self._model.jumps))
        return self._model.jumps[kind]

    def limits_m(self, kind: str, leg_length_m: float) -> tuple[float, float]:
        """Shortest and longest jump of a kind [m]."""
        low, high = self._model_of(kind).limits
        return float(low) * leg_length_m, float(high) * leg_length_m

    def run_up(self, kind: str, length_m: float, leg_length_m: float) -> tuple[float, float]:
        """Speed of the approach and its tolerance [m/s]."""
        law, scale = self._model_of(kind).run_up, self._speed_scale(leg_length_m)
        return law.speed(length_m / leg_length_m) * scale, law.tolerance * scale

    def length_for(self, kind: str, speed: float, leg_length_m: float) -> float:
        """Length [m] of the jump whose approach has this speed [m/s]."""
        return self._model_of(kind).run_up.length(speed / self._speed_scale(leg_length_m)) * leg_length_m

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
        leg, height_n = leg_length_m, None if height_m is None else height_m / leg_length_m
        mixture = {name: float(w) for name, w in zip(self._model.styles, weights, strict=True)}
        unit = self._model_of(kind).unit(
            length_m / leg, mixture, height_n=height_n, leg_length_m=leg, scaling=self._scaling
        )
        opposite = self._opposite if side == LEFT else None
        clip = JumpClip(unit.rows, self._model.gaits.means, leg, unit.duration_s, unit.events, opposite)
        self._kept[key] = clip
        while len(self._kept) > MAX_CACHED_CLIPS:
            self._kept.popitem(last=False)
        return clip

    def rest_heights_m(self, leg_length_m: float) -> FloatArray:
        """Heights ``(4,)`` [m] of the effectors of a foot that stands flat."""
        return self._model.rest_heights * leg_length_m

    def skeleton_for(self, leg_length_m: float) -> Skeleton:
        """The body with legs of this length."""
        if self._body is None or self._body[0] != leg_length_m:
            self._body = leg_length_m, self._model.skeleton_for(leg_length_m)
        return self._body[1]
