"""Requests to an engine, checked: what is out of range is held with a warning, what is no number is refused."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from math import isfinite
from typing import Final, TypedDict, cast

import numpy as np

from marey.base import FloatArray, InputError, MareyWarning
from marey.locomotion._engine_plan import Parameters
from marey.locomotion._model import LocomotionModel, Style

MAX_TURN_RATE: Final = np.pi  # [rad/s] nobody turns faster while walking
LEG_RANGE_M: Final = (0.2, 2.0)  # [m] a toddler, a giant
MAX_OVER_S: Final = 3600.0  # [s]

__all__ = ["LEG_RANGE_M", "MAX_TURN_RATE", "Controller", "Parameters", "Wish", "checked_dt"]


class Wish(TypedDict, total=False):
    """What :meth:`Engine.set` may be asked for."""

    speed: float | None
    run: float | None
    style: Style
    turn_rate: float | None
    leg_length_m: float | None


class Controller:
    """Turns wishes into parameters that the model knows, and keeps notes of what was held back."""

    def __init__(self, model: LocomotionModel, limits: FloatArray, scaling: str) -> None:
        self._model, self._limits, self.scaling = model, limits, scaling
        self.notes: tuple[str, ...] = ()

    def parameters(self, base: Parameters, wish: Wish) -> Parameters:
        """Return ``base`` changed as wished.

        Raises:
            InputError: a value is not a finite number, or style weights are negative or all zero.
            UnknownNameError: a style is not in the model.
        """
        self.notes = ()
        run = self._held("run", wish.get("run"), base.run, 0.0, 1.0)
        leg = self._held("leg_length_m", _positive(wish.get("leg_length_m")), base.leg_length_m, *LEG_RANGE_M)
        speed = self._held("speed", wish.get("speed"), base.speed, 0.0, self.fastest(run, leg))
        turn = self._held("turn_rate", wish.get("turn_rate"), base.turn_rate, -MAX_TURN_RATE, MAX_TURN_RATE)
        style = wish.get("style")
        weights = base.weights if style is None else self._model.weights(_checked_style(style))
        for note in self.notes:
            warnings.warn(note, MareyWarning, stacklevel=4)
        return Parameters(speed, run, turn, leg, weights)

    def fastest(self, run: float, leg_length_m: float) -> float:
        """Highest speed [m/s] at which the model's gait holds."""
        limit = (1.0 - run) * self._limits[0] + run * self._limits[1]
        return float(limit / self._model.scales(leg_length_m, self.scaling)[0])

    def remark(self, note: str) -> None:
        """Keep a note and warn."""
        self.notes = (note,)
        warnings.warn(note, MareyWarning, stacklevel=4)

    def _held(self, name: str, wished: float | None, present: float, low: float, high: float) -> float:
        value = present if wished is None else checked_number(name, wished)
        held = min(max(value, low), high)
        if abs(held - value) > 1e-9:
            self.notes = (*self.notes, f"{name} {value:g} is out of range and was held at {held:.3g}")
        return held


def _positive(leg_length_m: float | None) -> float | None:
    if leg_length_m is not None and checked_number("leg_length_m", leg_length_m) <= 0.0:
        raise InputError(f"leg_length_m is {leg_length_m}", "It must be a positive number of metres")
    return leg_length_m


def checked_number(name: str, value: object) -> float:
    """Return a finite number.

    Raises:
        InputError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating | np.integer):
        raise InputError(f"{name} is {value!r}", "It must be a number")
    number = float(cast(float, value))
    if not isfinite(number):
        raise InputError(f"{name} is {number}", "It must be a finite number")
    return number


def checked_dt(dt: object, name: str = "dt") -> float:
    """Return a time step [s] that is not negative."""
    step = checked_number(name, dt)
    if step < 0.0:
        raise InputError(f"{name} is {step}", "Time does not run backwards: give zero or more seconds")
    return step


def _checked_style(style: object) -> Style:
    if isinstance(style, str):
        return style
    if not hasattr(style, "items"):
        raise InputError(f"style is {style!r}", "Give a name, or a weight for each of some names")
    weights = cast("Mapping[object, object]", style)
    return {str(name): checked_number(f"the weight of '{name}'", weight) for name, weight in weights.items()}
