"""Jump units: a jump that is ready to play, and the draft from which it is built.

The draft holds the poses at the shared instants of a jump, before its root path is fitted to them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import hypot
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.locomotion.units.captured_jumps import canonical_steps, canonical_times, interpolate_cubic
from marey.locomotion.units.gait_unit import measure_leg_length, rotations_from_rows, unit_rows
from marey.locomotion.units.jump_flight import (
    Airtime,
    JumpGeometry,
    fit_ballistic_path,
    ground_root_path,
    hold_jump_feet,
    interpolate_at,
    list_stances,
)
from marey.skeleton import HUMAN


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
    def mean_speed_mps(self) -> float:
        """Mean horizontal speed of the root from the start to toe off of the landing foot."""
        end = float(self.events[7])
        phases = np.linspace(0.0, 1.0, len(self.rows))
        x, z = (float(np.interp(end, phases, self.rows[:, k]) - self.rows[0, k]) for k in (0, 2))
        return hypot(x, z) * self.leg_length_m / (end * self.duration_s)

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


JUMP_LEG_M: Final = measure_leg_length(HUMAN)
STEP_FEET, BOTH_FEET = (("right",), ("left",)), (("left", "right"), ("left", "right"))
FLIGHT_FEET: Final = {"walk": STEP_FEET, "run": STEP_FEET, "standing": BOTH_FEET}  # that leave, and that land
# [-] how far a stance may be played faster or slower to match the speed of the flight
STANCE_PACE_LIMITS: Final = (0.75, 1.25)


@dataclass(frozen=True, slots=True, eq=False)
class JumpDraft:
    """Rows at the canonical instants, how long their pieces last, and where in them the feet strike and leave."""

    kind: str
    rows: FloatArray  # (N, D)
    spans: FloatArray  # (S,) [s] durations of the pieces, the flight in the middle
    marks: FloatArray  # (5,) RTS, RHO as parts of the time before toe off, LTS, LHO, LTO of that after heel strike
    means: FloatArray  # (J, 4)
    geometry: JumpGeometry

    @property
    def knots(self) -> FloatArray:
        """Instants ``(S + 1,)`` [s] between the pieces."""
        return np.concatenate([[0.0], np.cumsum(self.spans)])

    @property
    def times(self) -> FloatArray:
        """Times ``(N,)`` [s] of the rows."""
        return canonical_times(self.knots, canonical_steps(self.kind))

    @property
    def air(self) -> Airtime:
        """The flight."""
        middle, knots = len(self.spans) // 2, self.knots
        off, land, end = (float(knots[k]) for k in (middle, middle + 1, -1))
        return Airtime(off, land, land + float(self.marks[4]) * (end - land), *FLIGHT_FEET[self.kind])

    def events(self) -> FloatArray:
        """Instants ``(8,)`` [s] of the foot events, in their order."""
        air, end = self.air, float(self.knots[-1])
        rts, rho, lts, lho, lto = self.marks
        first = [0.0, rts * air.off_s, rho * air.off_s, air.off_s]
        last = [air.land_s + part * (end - air.land_s) for part in (0.0, lts, lho, lto)]
        return np.maximum.accumulate(np.array([*first, *last]))

    def roll(self, times: FloatArray) -> FloatArray:
        """How much of the support is on the ball of the foot ``(n,)``: none at the strike, half flat, all at last."""
        rhs, rts, rho, rto, lhs, lts, lho, lto = self.events()
        ends = [rhs, rts, rho, 0.5 * (rho + rto), rto, lhs, lts, lho, 0.5 * (lho + lto)]
        return np.interp(times, ends, [0.0, 0.5, 0.5, 1.0, 1.0, 0.0, 0.5, 0.5, 1.0])

    def match_stance_speeds(self) -> JumpDraft:
        """Stances played faster or slower, so that the body leaves and lands at about the speed of its flight."""
        if self.kind == "standing":
            return self
        times, air = self.times, self.air
        root = self.rows[:, :3] * JUMP_LEG_M
        com = self.geometry.com + ground_root_path(self.geometry, times, root, air, self.roll(times))
        end = float(times[-1])
        late, early = (0.45 * air.off_s, air.off_s), (air.land_s, air.land_s + 0.25 * (end - air.land_s))
        flight = max(_forward_speed(times, com, air.off_s, air.land_s), 1e-3)
        speeds = np.array([_forward_speed(times, com, *late), flight, _forward_speed(times, com, *early)])
        return replace(self, spans=self.spans * np.clip(speeds / flight, *STANCE_PACE_LIMITS))

    def fit_root_path(self, count: int, length_m: float | None) -> tuple[FloatArray, FloatArray, JumpGeometry]:
        """Rows ``(count, D)`` evenly in time, their times [s] and their geometry; the root's path fits the poses."""
        times = np.linspace(0.0, float(self.knots[-1]), count)
        rows = interpolate_cubic(self.times, self.rows, times)
        geometry = JumpGeometry.from_rotations(HUMAN, rotations_from_rows(rows, self.means))
        root = ground_root_path(geometry, times, rows[:, :3] * JUMP_LEG_M, self.air, self.roll(times))
        root = fit_ballistic_path(geometry, times, root, self.air, length_m)
        wxyz = hold_jump_feet(
            rotations_from_rows(rows, self.means), root, times, list_stances(self.kind, self.events())
        )
        geometry = JumpGeometry.from_rotations(HUMAN, wxyz)
        root = fit_ballistic_path(geometry, times, root, self.air, length_m)
        root -= root[0] * np.array([1.0, 0.0, 1.0])
        return unit_rows(root / JUMP_LEG_M, wxyz, self.means), times, geometry


def _forward_speed(times: FloatArray, points: FloatArray, start: float, stop: float) -> float:
    return float(interpolate_at(times, points, stop)[2] - interpolate_at(times, points, start)[2]) / (stop - start)
