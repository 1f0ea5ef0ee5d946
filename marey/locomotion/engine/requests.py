"""Requests to an engine, checked: values out of range are limited with a warning, non-numbers are refused."""

from __future__ import annotations

import warnings
from typing import Final, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, MareyWarning, frozen
from marey.locomotion.checks import MAX_TIME_S, check_number, check_positive
from marey.locomotion.model.locomotion_model import LocomotionModel, Style, load_model
from marey.locomotion.planning.parameters import GaitParameters

MAX_TURN_RATE: Final = np.pi  # [rad/s] largest turn rate of a walk
LEG_RANGE_M: Final = (0.2, 2.0)  # [m] a toddler, a giant


class ParameterChanges(TypedDict, total=False):
    """Arguments of :meth:`Engine.set`."""

    speed: float | None
    run: float | None
    style: Style
    turn_rate: float | None
    leg_length_m: float | None


class ParameterLimiter:
    """Turns requested changes into parameters that the model knows, and keeps notes of what was held back."""

    def __init__(self, model: LocomotionModel, limits: FloatArray, scaling: str) -> None:
        self._model, self._limits, self.scaling = model, limits, scaling
        self.notes: tuple[str, ...] = ()

    def parameters(self, base: GaitParameters, changes: ParameterChanges) -> GaitParameters:
        """Return ``base`` with the requested changes.

        Raises:
            InputError: a value is not a finite number, or style weights are negative or all zero.
            UnknownNameError: a style is not in the model.
        """
        self.notes = ()
        run = self._clamp("run", changes.get("run"), base.run, 0.0, 1.0)
        asked_leg = changes.get("leg_length_m")
        asked_leg = None if asked_leg is None else check_positive("leg_length_m", asked_leg)
        leg = self._clamp("leg_length_m", asked_leg, base.leg_length_m, *LEG_RANGE_M)
        speed = self._clamp("speed", changes.get("speed"), base.speed, 0.0, self.fastest(run, leg))
        turn = self._clamp("turn_rate", changes.get("turn_rate"), base.turn_rate, -MAX_TURN_RATE, MAX_TURN_RATE)
        style = changes.get("style")
        weights = base.weights if style is None else self._model.weights(style)
        for note in self.notes:
            warnings.warn(note, MareyWarning, stacklevel=3)
        return GaitParameters(speed, run, turn, leg, weights)

    def fastest(self, run: float, leg_length_m: float) -> float:
        """Highest speed [m/s] at which the model's gait holds."""
        limit = (1.0 - run) * self._limits[0] + run * self._limits[1]
        return float(limit / self._model.scales(leg_length_m, self.scaling)[0])

    def _clamp(self, name: str, asked: float | None, present: float, low: float, high: float) -> float:
        value = present if asked is None else check_number(name, asked)
        held = min(max(value, low), high)
        if abs(held - value) > 1e-9:
            self.notes = (*self.notes, f"{name} {value:g} is out of range and was held at {held:.3g}")
        return held


MAX_STEP_S: Final = 0.1  # [s] longer steps are split
MAX_COORDINATE: Final = 1e9  # of a phase, a place [m] or a heading [rad]: beyond it a step is lost in rounding

CheckedPlan = tuple[FloatArray, FloatArray, FloatArray | None, FloatArray | None]


def check_plan(
    controller: ParameterLimiter,
    now: GaitParameters,
    times_s: ArrayLike,
    speed: ArrayLike,
    run: ArrayLike | None,
    turn_rate: ArrayLike | None,
) -> CheckedPlan:
    """Return the knots of a plan as arrays, values held within what the model knows.

    Raises:
        InputError: times do not increase from zero, arrays differ in length, or a value is not finite.
    """
    times = frozen(times_s, None, name="times_s")
    if not len(times) or times[0] < 0.0 or (np.diff(times) <= 0.0).any():
        raise InputError("the times of a plan do not increase from zero", "Give each later than the last")
    if times[-1] > MAX_TIME_S:
        raise InputError(f"a plan of {times[-1]:g} s", f"Plan at most {MAX_TIME_S:g} seconds ahead")
    speeds = frozen(speed, len(times), name="speed")
    runs = None if run is None else np.clip(frozen(run, len(times), name="run"), 0.0, 1.0)
    turns = None if turn_rate is None else frozen(turn_rate, len(times), name="turn_rate")
    # Speeds are held below what the gait of each knot can do.
    shares = np.full(len(times), now.run) if runs is None else runs
    fastest = np.array([controller.fastest(float(share), now.leg_length_m) for share in shares])
    held = np.clip(speeds, 0.0, fastest)
    if np.abs(held - speeds).max() > 1e-9:
        note = f"speeds of a plan are out of range and were held between 0 and {fastest.max():.3g}"
        controller.notes = (note,)
        warnings.warn(note, MareyWarning, stacklevel=3)
    return times, held, runs, None if turns is None else np.clip(turns, -MAX_TURN_RATE, MAX_TURN_RATE)


def split_step(dt: float) -> list[float]:
    """Cut a step [s] into equal ones that are not too long."""
    count = max(1, int(np.ceil(dt / MAX_STEP_S)))
    return [dt / count] * count


def resolve_model(model: LocomotionModel | None) -> LocomotionModel:
    """Return the model, or the shipped one.

    Raises:
        InputError: it is something else.
    """
    if isinstance(model, LocomotionModel):
        return model
    if model is not None:
        raise InputError(f"model is {model!r}", "Give what load_model() returns, or None for the shipped model")

    return load_model()
