"""Tables of the locomotion model and the phase of a speed profile, read in plain numpy to compare kernels with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray
from marey.locomotion.model.locomotion_model import GaitArrays
from marey.locomotion.planning.speed_profile import FrequencyTable, SpeedProfile, integrate_cycles


def frequency_at(gaits: GaitArrays, speed_n: float, run: float, weights: ArrayLike) -> float:
    """Cycles per second [Hz] on the model's own legs."""
    return float(np.sum(gaits.shares(run, weights) * _interpolate_table(gaits.frequency, gaits.speeds, speed_n)))


def events_at(gaits: GaitArrays, speed_n: float, run: float, weights: ArrayLike) -> FloatArray:
    """Phases ``(8,)`` of the foot events, unwrapped, in the order of ``EVENTS``."""
    table = _interpolate_table(gaits.events, gaits.speeds, speed_n, axis=2)
    return np.einsum("kt,kte->e", gaits.shares(run, weights), table)


def _interpolate_table(table: FloatArray, speeds: FloatArray, speed: float, axis: int = -1) -> FloatArray:
    """A table at one speed, linear between its own and level beyond them."""
    s = min(max(float(speed), float(speeds[0])), float(speeds[-1]))
    i = min(int(np.searchsorted(speeds, s, side="right")) - 1, len(speeds) - 2)
    part = (s - speeds[i]) / (speeds[i + 1] - speeds[i])
    return (1.0 - part) * np.take(table, i, axis=axis) + part * np.take(table, i + 1, axis=axis)


def tabulate_frequency(source: Callable[[float, float], float], fastest_mps: float = 8.0) -> FrequencyTable:
    """Table of a function ``F(speed, run)`` [Hz], dense where cadence bends most."""
    speeds = fastest_mps * np.linspace(0.0, 1.0, 200) ** 2
    return FrequencyTable(speeds, np.array([[source(float(s), run) for s in speeds] for run in (0.0, 1.0)]))


def phase_at(profile: SpeedProfile, table: FrequencyTable, time_s: float) -> float:
    """Phase of a profile at a time, not wrapped: the integral of the frequency."""
    u = min(max(time_s / profile.duration_s, 0.0), 1.0)
    made = integrate_cycles(table.speeds_mps, table.hertz, profile.powers, np.array(profile.run), profile.duration_s, u)
    return profile.phase + float(made)
