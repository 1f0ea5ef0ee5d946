"""Run-up: how fast to approach a jump, and over how many strides to get there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError

MAX_ACCELERATION: Final = 0.2  # [m/s²] eps_a of [Glardon2005]_ §III.3.2.2
MAX_CYCLES: Final = 20  # [-] a longer run-up is called infeasible
SLOWEST_TYPE_CHANGE_S: Final = 0.8  # [s] a whole change between walking and running takes at least so long
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
NODES: Final[FloatArray] = 0.5 * (_NODES + 1.0)
NODE_WEIGHTS: Final[FloatArray] = 0.5 * _WEIGHTS

Frequency = Callable[[float, float], float]
"""Cycles per second at a speed [m/s] and a share of running (0 to 1)."""


@dataclass(frozen=True, slots=True)
class RunUp:
    """A linear change of speed and gait that ends at a wanted phase."""

    duration_s: float
    cycles: float  # phase that passes
    speed: tuple[float, float]  # [m/s] start, end
    run: tuple[float, float]  # [-] start, end
    is_feasible: bool = True

    @property
    def acceleration(self) -> float:
        """Change of speed per second [m/s²]."""
        return (self.speed[1] - self.speed[0]) / self.duration_s if self.duration_s > 0.0 else 0.0

    @property
    def distance_m(self) -> float:
        """Way that passes."""
        return 0.5 * (self.speed[0] + self.speed[1]) * self.duration_s


def approach_speed(speed: float, wanted: float, tolerance: float) -> float:
    """Speed nearest to ``speed`` within ``tolerance`` of what a jump wants, all in m/s ([Glardon2005]_ §III.3.2)."""
    return min(max(speed, wanted - tolerance), wanted + tolerance)


def mean_frequency(start: tuple[float, float], end: tuple[float, float], frequency: Frequency) -> float:
    r"""Mean of the frequency [Hz] over a linear change of (speed, run), whatever its duration.

    .. math:: \bar F = \int_0^1 F\big((1-u)\Psi_1 + u\Psi_2\big)\,du

    By 12-point Gauss-Legendre. The mean of both ends that [Glardon2005]_ §III.3.2.2 uses makes the foot come down
    early or late, because the frequency is not linear in speed.
    """
    mixed = [tuple(a + u * (b - a) for a, b in zip(start, end, strict=True)) for u in NODES]
    return float(NODE_WEIGHTS @ np.array([frequency(speed, run) for speed, run in mixed]))


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
    method: str = "exact",
) -> RunUp:
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
        method: ``"exact"`` integrates the frequency, ``"glardon"`` takes the mean of both ends.
    """
    if not (np.isfinite(max_acceleration) and max_acceleration > 0.0):
        raise InputError(f"max_acceleration is {max_acceleration} m/s²", "Give a positive number")
    both_ends = 0.5 * (frequency(*start) + frequency(*end))
    mean = mean_frequency(start, end, frequency) if method == "exact" else both_ends
    first = (target_phase - phase) % 1.0
    if mean <= 0.0:
        return RunUp(0.0, first, (start[0], end[0]), (start[1], end[1]), is_feasible=False)
    ramps = abs(end[0] - start[0]) / max_acceleration, abs(end[1] - start[1]) * SLOWEST_TYPE_CHANGE_S
    shortest = max(*ramps, at_least_s)
    cycles = first + max(0, ceil(shortest * mean - first - 1e-9))
    is_feasible = cycles <= max_cycles + 1.0
    return RunUp(cycles / mean, cycles, (start[0], end[0]), (start[1], end[1]), is_feasible)
