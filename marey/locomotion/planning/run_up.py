"""Run-ups to a jump: the approach speed for a given length, and the strides over which it is reached."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, sqrt
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.locomotion.planning.parameters import GRAVITY


@dataclass(frozen=True, slots=True)
class RunUpLaw:
    r"""Mean speed of the root from strike to the landing foot's toe off: :math:`s_n = a\,l_n + b`, within a tolerance.

    Lengths and speeds are over leg length; a jump whose run-up lies outside the tolerance is not commonly feasible.
    """

    slope: float  # [1/s]
    offset: float  # [1/s]
    tolerance: float  # [1/s]
    correlation: float = 1.0  # of speed and length in the jumps that gave the law

    def speed(self, length_n: float) -> float:
        """Normalised speed [1/s] of the approach to a normalised length; never negative."""
        return max(self.slope * length_n + self.offset, 0.0)

    def length(self, speed_n: float) -> float:
        """Normalised length of the jump that fits a normalised speed [1/s]."""
        return (speed_n - self.offset) / self.slope


THESIS_LAWS: Final[Mapping[str, RunUpLaw]] = {
    "walk": RunUpLaw(0.97, -0.04, 0.10, 0.97),
    "run": RunUpLaw(1.16, -0.13, 0.15, 0.94),
}
"""The laws of [Glardon2005]_ §III.3.2.1, from 105 walking and 103 running jumps, in leg lengths and seconds."""


def fit_run_up(lengths_n: FloatArray, speeds_n: FloatArray, slope: float | None = None) -> RunUpLaw:
    """Least squares of speed on length; with a given slope the offset alone. The tolerance is the residuals' deviation.

    Args:
        lengths_n: ``(n,)`` lengths over leg length.
        speeds_n: ``(n,)`` [1/s] speeds over leg length.
        slope: [1/s], where the lengths are too few or too alike to give one.
    """
    if len(lengths_n) == 0:
        raise InputError("a run-up law of no jumps", "Give at least one")
    if slope is None:
        slope, offset = (float(x) for x in np.polyfit(lengths_n, speeds_n, 1))
    else:
        offset = float(np.mean(speeds_n - slope * lengths_n))
    spread = float(np.std(speeds_n - slope * lengths_n - offset))
    varied = np.std(lengths_n) > 0.0 and np.std(speeds_n) > 0.0
    correlation = float(np.corrcoef(lengths_n, speeds_n)[0, 1]) if varied else 1.0
    return RunUpLaw(slope, offset, max(spread, 0.1), correlation)


MAX_ACCELERATION: Final = 0.2  # [m/s²] eps_a of [Glardon2005]_ §III.3.2.2
MAX_CYCLES: Final = 20  # [-] a longer run-up is called infeasible
GAIT_CHANGE_S: Final = 0.8  # [s] a whole change between walking and running takes at least so long
GAIT_CHANGE_FROUDE: Final = 0.5  # [-] s² / (g H) at which people change between walking and running
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
NODES: Final[FloatArray] = 0.5 * (_NODES + 1.0)
NODE_WEIGHTS: Final[FloatArray] = 0.5 * _WEIGHTS
MIN_FRACTION: Final = 1e-12

Frequency = Callable[[float, float], float]
"""Cycles per second at a speed [m/s] and a share of running (0 to 1)."""


@dataclass(frozen=True, slots=True)
class SpeedRamp:
    """A linear change of speed that ends at a wanted phase; the gait changes on the way, where people change it."""

    duration_s: float
    cycles: float  # phase that passes
    speed: tuple[float, float]  # [m/s] start, end
    run: tuple[float, float]  # [-] start, end
    change: tuple[float, float] = (0.0, 1.0)  # parts of the duration between which walking becomes running
    is_feasible: bool = True

    def knots(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Times [s], speeds [m/s] and shares of running, linear in between."""
        parts = np.unique([0.0, *self.change, 1.0])
        speeds = self.speed[0] + parts * (self.speed[1] - self.speed[0])
        return parts * self.duration_s, speeds, np.interp(parts, self.change, self.run)


def clamp_approach_speed(speed: float, wanted: float, tolerance: float) -> float:
    """Speed nearest to ``speed`` within ``tolerance`` of what a jump wants, all in m/s ([Glardon2005]_ §III.3.2)."""
    return min(max(speed, wanted - tolerance), wanted + tolerance)


def gait_change_speed(leg_length_m: float) -> float:
    """Speed [m/s] at which people of this leg length change between walking and running: Froude number one half."""
    return sqrt(GAIT_CHANGE_FROUDE * GRAVITY * leg_length_m)


def mean_frequency(
    start: tuple[float, float],
    end: tuple[float, float],
    frequency: Frequency,
    change: tuple[float, float] = (0.0, 1.0),
) -> float:
    r"""Mean of the frequency [Hz] over a ramp of (speed, run), whatever its duration.

    .. math:: \bar F = \int_0^1 F\big(s(u), w(u)\big)\,du

    By 12-point Gauss-Legendre on each piece. The mean of both ends that [Glardon2005]_ §III.3.2.2 uses makes the foot
    come down early or late, because the frequency is not linear in speed.
    """
    parts, total = (0.0, *change, 1.0), 0.0
    for a, b in pairwise(parts):
        if b - a > MIN_FRACTION:
            u = a + (b - a) * NODES
            speeds, runs = start[0] + u * (end[0] - start[0]), np.interp(u, change, (start[1], end[1]))
            values = [frequency(float(s), float(w)) for s, w in zip(speeds, runs, strict=True)]
            total += (b - a) * float(NODE_WEIGHTS @ np.array(values))
    return total


def plan_run_up(
    phase: float,
    start: tuple[float, float],
    end: tuple[float, float],
    frequency: Frequency,
    *,
    target_phase: float = 0.0,
    max_acceleration: float = MAX_ACCELERATION,
    max_cycles: int = MAX_CYCLES,
    at_least_s: float = 0.0,
    change_at: float = 2.1,
    method: str = "exact",
) -> SpeedRamp:
    r"""Duration of the run-up: as many whole cycles as the acceleration allows ([Glardon2005]_ §III.3.2.2).

    .. math:: t_k = \frac{\varphi_2 + k - \varphi_1}{\bar F}, \qquad \frac{|s_2 - s_1|}{t_k} \le \varepsilon_a

    The printed condition lacks the absolute value.

    Args:
        phase: phase now.
        start: speed [m/s] and share of running now.
        end: the same at take-off.
        frequency: cycles per second at (speed, run).
        target_phase: phase of the take-off foot's heel strike.
        max_acceleration: [m/s²], the largest change of speed.
        max_cycles: more cycles than these are infeasible.
        at_least_s: shortest duration.
        change_at: speed [m/s] about which walking becomes running, or the reverse.
        method: ``"exact"`` integrates the frequency, ``"glardon"`` takes the mean of both ends.
    """
    if not (np.isfinite(max_acceleration) and max_acceleration > 0.0):
        raise InputError(f"max_acceleration is {max_acceleration} m/s²", "Give a positive number")
    ramps = abs(end[0] - start[0]) / max_acceleration, abs(end[1] - start[1]) * GAIT_CHANGE_S
    shortest = max(*ramps, at_least_s)
    speed, run = (start[0], end[0]), (start[1], end[1])
    # The gait changes about the speed at which people change it: parts of the duration between which it does
    change = (0.0, 1.0)
    if run[0] != run[1]:
        width = min(GAIT_CHANGE_S / max(shortest, GAIT_CHANGE_S), 1.0)
        rise = speed[1] - speed[0]
        middle = min(max((change_at - speed[0]) / rise, 0.0), 1.0) if rise else 1.0
        begin = min(max(middle - 0.5 * width, 0.0), 1.0 - width)
        change = begin, begin + width
    both_ends = 0.5 * (frequency(*start) + frequency(*end))
    mean = mean_frequency(start, end, frequency, change) if method == "exact" else both_ends
    first = (target_phase - phase) % 1.0
    if mean <= 0.0:
        return SpeedRamp(0.0, first, speed, run, change, is_feasible=False)
    cycles = first + max(0, ceil(shortest * mean - first - 1e-9))
    return SpeedRamp(cycles / mean, cycles, speed, run, change, is_feasible=cycles <= max_cycles + 1.0)
