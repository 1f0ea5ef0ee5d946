"""A jump at its shared instants, before its root path is made to fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.locomotion._jump_feet import bend_knees, hold_jump_feet, list_stances
from marey.locomotion._jump_flight import (
    GRAVITY,
    Airtime,
    JumpGeometry,
    fit_ballistic_path,
    ground_root_path,
    interpolate_at,
    measure_jump_length,
)
from marey.locomotion._jump_rows import canonical_steps, canonical_times, interpolate_cubic
from marey.locomotion._segment import measure_leg_length
from marey.locomotion._units import rotations_from_rows, unit_rows
from marey.skeleton import HUMAN

JUMP_LEG_M: Final = measure_leg_length(HUMAN)
BOTH_FEET: Final = ("left", "right")
STANCE_PACE_LIMITS: Final = (
    0.75,
    1.25,
)  # [-] how far a stance may be played faster or slower to match the speed of the flight


@dataclass(frozen=True, slots=True, eq=False)
class FlightEdges:
    """A jump at toe off and at heel strike alone: how long it is, and how far it flies."""

    length_m: float  # toe joints that leave to heels that land, along +Z
    flown: FloatArray  # (3,) [m] way of the centre of mass in flight

    @classmethod
    def from_rows(cls, kind: str, rows: FloatArray, means: FloatArray) -> FlightEdges:
        """Measure the rows ``(2, D)`` of toe off and heel strike."""
        geometry = JumpGeometry.from_rotations(HUMAN, rotations_from_rows(bend_knees(rows, means), means))
        instants, (leaving, landing) = np.array([0.0, 1.0]), leaving_and_landing_feet(kind)
        air = Airtime(0.0, 1.0, 1.0, leaving, landing)
        root = rows[:, :3] * JUMP_LEG_M
        com = geometry.com + root
        return cls(measure_jump_length(geometry, instants, root, air), com[1] - com[0])

    @property
    def spread_m(self) -> float:
        """How much of the length [m] is between the feet rather than flown: toe off behind, heel strike ahead."""
        return self.length_m - float(self.flown[2])

    def airtime_for(self, rise_m: float) -> float:
        """Time in the air [s] in which the centre of mass rises so high, between the heights of both stances."""
        drop = max(-float(self.flown[1]), -0.9 * rise_m)
        return float(np.sqrt(2.0 * rise_m / GRAVITY) + np.sqrt(2.0 * (rise_m + drop) / GRAVITY))


def leaving_and_landing_feet(kind: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Feet that leave and feet that land."""
    return (BOTH_FEET, BOTH_FEET) if kind == "standing" else (("right",), ("left",))


def flight_edge_rows(kind: str) -> list[int]:
    """Canonical rows of toe off and heel strike."""
    steps = canonical_steps(kind)
    middle = len(steps) // 2
    return [sum(steps[:middle]), sum(steps[: middle + 1])]


@dataclass(frozen=True, slots=True, eq=False)
class JumpDraft:
    """Rows at the canonical instants, how long their pieces last, and where in them the feet strike and leave."""

    kind: str
    rows: FloatArray  # (N, D)
    spans: FloatArray  # (S,) [s] durations of the pieces, the flight in the middle
    marks: FloatArray  # (5,) RTS, RHO as parts of the time before toe off, LTS, LHO, LTO of that after heel strike
    means: FloatArray  # (J, 4)
    geometry: JumpGeometry

    @classmethod
    def from_rows(
        cls, kind: str, rows: FloatArray, spans: FloatArray, marks: FloatArray, means: FloatArray
    ) -> JumpDraft:
        """Measure the rows, their knees bent a little at least."""
        rows = bend_knees(rows, means)
        return cls(
            kind, rows, spans, marks, means, JumpGeometry.from_rotations(HUMAN, rotations_from_rows(rows, means))
        )

    @property
    def knots(self) -> FloatArray:
        """Instants ``(S + 1,)`` [s] between the pieces."""
        return np.concatenate([[0.0], np.cumsum(self.spans)])

    @property
    def times(self) -> FloatArray:
        """Times ``(N,)`` [s] of the rows."""
        return canonical_times(self.knots, canonical_steps(self.kind))

    @property
    def root(self) -> FloatArray:
        """Root path ``(N, 3)`` [m] as the rows have it."""
        return self.rows[:, :3] * JUMP_LEG_M

    @property
    def air(self) -> Airtime:
        """The flight."""
        middle, knots = len(self.spans) // 2, self.knots
        off, land, end = (float(knots[k]) for k in (middle, middle + 1, -1))
        return Airtime(off, land, land + float(self.marks[4]) * (end - land), *leaving_and_landing_feet(self.kind))

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
        com = self.geometry.com + ground_root_path(self.geometry, times, self.root, air, self.roll(times))
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
