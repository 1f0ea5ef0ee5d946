"""A jump at its shared instants, before its root path is made to fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.locomotion._jump_feet import bent_knees, held_feet, stances_of
from marey.locomotion._jump_flight import (
    GRAVITY,
    Airtime,
    Geometry,
    at_time,
    ballistic,
    grounded,
    measured_length,
)
from marey.locomotion._jump_rows import canonical_times, smooth_samples, steps_of
from marey.locomotion._segment import performer_leg
from marey.locomotion._units import rows_wxyz, unit_rows
from marey.skeleton import HUMAN

LEG_M: Final = performer_leg(HUMAN)
BOTH: Final = ("left", "right")
PACE: Final = (0.75, 1.25)  # [-] how far a stance may be played faster or slower to match the speed of the flight


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """A jump at toe off and at heel strike alone: how long it is, and how far it flies."""

    length_m: float  # toe joints that leave to heels that land, along +Z
    flown: FloatArray  # (3,) [m] way of the centre of mass in flight

    @classmethod
    def of(cls, kind: str, rows: FloatArray, means: FloatArray) -> Edges:
        """Measure the rows ``(2, D)`` of toe off and heel strike."""
        geometry = Geometry.of(HUMAN, rows_wxyz(bent_knees(rows, means), means))
        instants, (leaving, landing) = np.array([0.0, 1.0]), feet_of(kind)
        air = Airtime(0.0, 1.0, 1.0, leaving, landing)
        root = rows[:, :3] * LEG_M
        com = geometry.com + root
        return cls(measured_length(geometry, instants, root, air), com[1] - com[0])

    @property
    def spread_m(self) -> float:
        """How much of the length [m] is between the feet rather than flown: toe off behind, heel strike ahead."""
        return self.length_m - float(self.flown[2])

    def airtime_for(self, rise_m: float) -> float:
        """Time in the air [s] in which the centre of mass rises so high, between the heights of both stances."""
        drop = max(-float(self.flown[1]), -0.9 * rise_m)
        return float(np.sqrt(2.0 * rise_m / GRAVITY) + np.sqrt(2.0 * (rise_m + drop) / GRAVITY))


def feet_of(kind: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Feet that leave and feet that land."""
    return (BOTH, BOTH) if kind == "standing" else (("right",), ("left",))


def edge_rows(kind: str) -> list[int]:
    """Canonical rows of toe off and heel strike."""
    steps = steps_of(kind)
    middle = len(steps) // 2
    return [sum(steps[:middle]), sum(steps[: middle + 1])]


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """Rows at the canonical instants, how long their pieces last, and where in them the feet strike and leave."""

    kind: str
    rows: FloatArray  # (N, D)
    spans: FloatArray  # (S,) [s] durations of the pieces, the flight in the middle
    marks: FloatArray  # (5,) RTS, RHO as parts of the time before toe off, LTS, LHO, LTO of that after heel strike
    means: FloatArray  # (J, 4)
    geometry: Geometry

    @classmethod
    def of(cls, kind: str, rows: FloatArray, spans: FloatArray, marks: FloatArray, means: FloatArray) -> Sketch:
        """Measure the rows, their knees bent a little at least."""
        rows = bent_knees(rows, means)
        return cls(kind, rows, spans, marks, means, Geometry.of(HUMAN, rows_wxyz(rows, means)))

    @property
    def knots(self) -> FloatArray:
        """Instants ``(S + 1,)`` [s] between the pieces."""
        return np.concatenate([[0.0], np.cumsum(self.spans)])

    @property
    def times(self) -> FloatArray:
        """Times ``(N,)`` [s] of the rows."""
        return canonical_times(self.knots, steps_of(self.kind))

    @property
    def root(self) -> FloatArray:
        """Root path ``(N, 3)`` [m] as the rows have it."""
        return self.rows[:, :3] * LEG_M

    @property
    def air(self) -> Airtime:
        """The flight."""
        middle, knots = len(self.spans) // 2, self.knots
        off, land, end = (float(knots[k]) for k in (middle, middle + 1, -1))
        return Airtime(off, land, land + float(self.marks[4]) * (end - land), *feet_of(self.kind))

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

    def paced(self) -> Sketch:
        """Stances played faster or slower, so that the body leaves and lands at about the speed of its flight."""
        if self.kind == "standing":
            return self
        times, air = self.times, self.air
        com = self.geometry.com + grounded(self.geometry, times, self.root, air, self.roll(times))
        end = float(times[-1])
        late, early = (0.45 * air.off_s, air.off_s), (air.land_s, air.land_s + 0.25 * (end - air.land_s))
        flight = max(_forward_speed(times, com, air.off_s, air.land_s), 1e-3)
        speeds = np.array([_forward_speed(times, com, *late), flight, _forward_speed(times, com, *early)])
        return replace(self, spans=self.spans * np.clip(speeds / flight, *PACE))

    def finished(self, count: int, length_m: float | None) -> tuple[FloatArray, FloatArray, Geometry]:
        """Rows ``(count, D)`` evenly in time, their times [s] and their geometry; the root's path fits the poses."""
        times = np.linspace(0.0, float(self.knots[-1]), count)
        rows = smooth_samples(self.times, self.rows, times)
        geometry = Geometry.of(HUMAN, rows_wxyz(rows, self.means))
        root = grounded(geometry, times, rows[:, :3] * LEG_M, self.air, self.roll(times))
        root = ballistic(geometry, times, root, self.air, length_m)
        wxyz = held_feet(rows_wxyz(rows, self.means), root, times, stances_of(self.kind, self.events()))
        geometry = Geometry.of(HUMAN, wxyz)
        root = ballistic(geometry, times, root, self.air, length_m)
        root -= root[0] * np.array([1.0, 0.0, 1.0])
        return unit_rows(root / LEG_M, wxyz, self.means), times, geometry


def _forward_speed(times: FloatArray, points: FloatArray, start: float, stop: float) -> float:
    return float(at_time(times, points, stop)[2] - at_time(times, points, start)[2]) / (stop - start)
