"""Checks of plans that are handed to an engine."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen
from marey.locomotion._controller import MAX_TURN_RATE, Controller
from marey.locomotion._engine_plan import Parameters

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
