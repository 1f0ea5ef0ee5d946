"""One jump, ready to play."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import hypot

import numpy as np

from marey.base import BoolArray, FloatArray, InputError


@dataclass(frozen=True, slots=True, eq=False)
class JumpUnit:
    """One jump: its phase runs from 0 to 1 once.

    A leap takes off from the right foot and lands on the left, from right heel strike to the next. A standing jump
    leaves and lands with both feet: the first four events are those of the take-off stance of both, the last four of
    the landing stance of both.
    """

    kind: str
    rows: FloatArray  # (N, D) at phases i / (N - 1); root over leg length, really moving along +Z
    duration_s: float
    events: FloatArray  # (8,) phases in the order of EVENTS
    length_m: float  # measured: toe joint at toe off to heel at heel strike
    requested_m: float
    rise_m: float  # of the centre of mass above toe off
    flight: tuple[float, float]  # phases of toe off and heel strike
    run_up_speed_mps: float
    leg_length_m: float

    @property
    def frequency_hz(self) -> float:
        """Phase per second."""
        return 1.0 / self.duration_s

    @property
    def flight_s(self) -> float:
        """Time in the air [s]."""
        return (self.flight[1] - self.flight[0]) * self.duration_s

    @property
    def mean_speed_mps(self) -> float:
        """Mean horizontal speed of the root from the start to toe off of the landing foot."""
        end = float(self.events[7])
        phases = np.linspace(0.0, 1.0, len(self.rows))
        x, z = (float(np.interp(end, phases, self.rows[:, k]) - self.rows[0, k]) for k in (0, 2))
        return hypot(x, z) * self.leg_length_m / (end * self.duration_s)

    def planted(self, phase: float) -> BoolArray:
        """Which of the EFFECTORS ``(4,)`` stand on the ground at a phase."""
        rhs, rts, rho, rto, lhs, lts, lho, lto = self.events
        first = [rhs <= phase <= rho, rts <= phase <= rto]
        last = [lhs <= phase <= lho, lts <= phase <= lto]
        if self.kind == "standing":
            both = [a or b for a, b in zip(first, last, strict=True)]
            return np.array([*both, *both], dtype=np.bool_)
        return np.array([*first, *last], dtype=np.bool_)

    def scaled(self, leg_length_m: float, *, keeps_time: bool = False) -> JumpUnit:
        """The same jump for legs of another length [m]; slower by the root of the size, unless it keeps its time."""
        if not (np.isfinite(leg_length_m) and leg_length_m > 0.0):
            raise InputError(f"leg_length_m is {leg_length_m}", "Give a positive length")
        size = leg_length_m / self.leg_length_m
        slow = 1.0 if keeps_time else float(np.sqrt(size))
        return replace(
            self,
            duration_s=self.duration_s * slow,
            length_m=self.length_m * size,
            requested_m=self.requested_m * size,
            rise_m=self.rise_m * size,
            run_up_speed_mps=self.run_up_speed_mps * size / slow,
            leg_length_m=leg_length_m,
        )
