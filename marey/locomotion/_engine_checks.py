"""Checks of what is handed to an engine."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen
from marey.locomotion._controller import MAX_TURN_RATE, Controller, checked_number
from marey.locomotion._engine_plan import Parameters
from marey.locomotion._model import LocomotionModel

LONGEST_STEP_S: Final = 0.1  # [s] longer steps are split

CheckedPlan = tuple[FloatArray, FloatArray, FloatArray | None, FloatArray | None]


def checked_plan(
    controller: Controller,
    now: Parameters,
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
    speeds = frozen(speed, len(times), name="speed")
    runs = None if run is None else np.clip(frozen(run, len(times), name="run"), 0.0, 1.0)
    turns = None if turn_rate is None else frozen(turn_rate, len(times), name="turn_rate")
    shares = np.full(len(times), now.run) if runs is None else runs
    fastest = np.array([controller.fastest(float(share), now.leg_length_m) for share in shares])
    held = np.clip(speeds, 0.0, fastest)
    if np.abs(held - speeds).max() > 1e-9:
        controller.remark(f"speeds of a plan are out of range and were held between 0 and {fastest.max():.3g}")
    return times, held, runs, None if turns is None else np.clip(turns, -MAX_TURN_RATE, MAX_TURN_RATE)


def shares_of(dt: float) -> list[float]:
    """Cut a step [s] into equal ones that are not too long."""
    count = max(1, int(np.ceil(dt / LONGEST_STEP_S)))
    return [dt / count] * count


def model_or_shipped(model: LocomotionModel | None) -> LocomotionModel:
    """Return the model, or the shipped one."""
    if model is not None:
        return model
    from marey.locomotion._model_file import load_model

    return load_model()


def leg_of(model: LocomotionModel, leg_length_m: float | None, size: float | None) -> float:
    """Leg length [m] of a character, given as such or by its size."""
    if leg_length_m is not None and size is not None:
        raise InputError("both leg_length_m and size are given", "Give one of them")
    if size is not None:
        return checked_number("size", size) * model.leg_length_m
    return model.leg_length_m if leg_length_m is None else checked_number("leg_length_m", leg_length_m)


def checked_place(position: ArrayLike) -> FloatArray:
    """Return a place ``(2,)`` [m] on the ground."""
    place = np.asarray(position, dtype=np.float64)
    if place.shape != (2,) or not np.isfinite(place).all():
        raise InputError(f"position is {position}", "Give two finite numbers, x and z in metres")
    return place
