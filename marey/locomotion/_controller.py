"""Requests to an engine, checked: what is out of range is held with a warning, what is no number is refused."""

from __future__ import annotations

import warnings
from typing import Final, TypedDict

import numpy as np

from marey.base import FloatArray, MareyWarning
from marey.locomotion._checks import check_number, check_positive
from marey.locomotion._engine_plan import GaitParameters
from marey.locomotion._model import LocomotionModel, Style

MAX_TURN_RATE: Final = np.pi  # [rad/s] nobody turns faster while walking
LEG_RANGE_M: Final = (0.2, 2.0)  # [m] a toddler, a giant


class ParameterChanges(TypedDict, total=False):
    """What :meth:`Engine.set` may be asked for."""

    speed: float | None
    run: float | None
    style: Style
    turn_rate: float | None
    leg_length_m: float | None


class ParameterLimiter:
    """Turns wishes into parameters that the model knows, and keeps notes of what was held back."""

    def __init__(self, model: LocomotionModel, limits: FloatArray, scaling: str) -> None:
        self._model, self._limits, self.scaling = model, limits, scaling
        self.notes: tuple[str, ...] = ()

    def parameters(self, base: GaitParameters, wish: ParameterChanges) -> GaitParameters:
        """Return ``base`` changed as wished.

        Raises:
            InputError: a value is not a finite number, or style weights are negative or all zero.
            UnknownNameError: a style is not in the model.
        """
        self.notes = ()
        run = self._held("run", wish.get("run"), base.run, 0.0, 1.0)
        wished_leg = wish.get("leg_length_m")
        wished_leg = None if wished_leg is None else check_positive("leg_length_m", wished_leg)
        leg = self._held("leg_length_m", wished_leg, base.leg_length_m, *LEG_RANGE_M)
        speed = self._held("speed", wish.get("speed"), base.speed, 0.0, self.fastest(run, leg))
        turn = self._held("turn_rate", wish.get("turn_rate"), base.turn_rate, -MAX_TURN_RATE, MAX_TURN_RATE)
        style = wish.get("style")
        weights = base.weights if style is None else self._model.weights(style)
        for note in self.notes:
            warnings.warn(note, MareyWarning, stacklevel=4)
        return GaitParameters(speed, run, turn, leg, weights)

    def first(self, wish: ParameterChanges) -> GaitParameters:
        """Parameters of a character that begins: standing in the model's own size and style, changed as wished."""
        model = self._model
        return self.parameters(GaitParameters(0.0, 0.0, 0.0, model.leg_length_m, model.weights()), wish)

    def fastest(self, run: float, leg_length_m: float) -> float:
        """Highest speed [m/s] at which the model's gait holds."""
        limit = (1.0 - run) * self._limits[0] + run * self._limits[1]
        return float(limit / self._model.scales(leg_length_m, self.scaling)[0])

    def add_note(self, note: str) -> None:
        """Keep a note and warn."""
        self.notes = (note,)
        warnings.warn(note, MareyWarning, stacklevel=4)

    def _held(self, name: str, wished: float | None, present: float, low: float, high: float) -> float:
        value = present if wished is None else check_number(name, wished)
        held = min(max(value, low), high)
        if abs(held - value) > 1e-9:
            self.notes = (*self.notes, f"{name} {value:g} is out of range and was held at {held:.3g}")
        return held
