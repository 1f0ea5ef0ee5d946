"""Where the unknowns of the full space are: control points of the angles, then what each flight carries along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.spacetime._full_state import Character
from marey.spacetime._problem import SpacetimeProblem
from marey.spacetime._timeline import NUM_ACTIVE, Timeline

SPIN_PER_KG: Final = 5.0 / 65.0  # [m^2/s] a large change of angular momentum, over the mass
POSITION_SCALE: Final = 0.5  # [m]
SPEED_SCALE: Final = 1.0  # [m/s]
STANDARD_GRAVITY: Final = 9.81  # [m/s^2] forces are scaled by the weight on earth, also where there is none


@dataclass(frozen=True, slots=True, eq=False)
class FlightUnknowns:
    """One or more flight phases in a row: ballistic, with one angular momentum."""

    phases: tuple[int, ...]
    start_s: float
    end_s: float
    before: int | None  # phase of support it leaves, None at the start of the motion
    after: int | None
    column: int  # of its first unknown


@dataclass(frozen=True, slots=True, eq=False)
class FullLayout:
    """Order of the unknowns: time-major control points ``x[k * D + i]``, then place, speed and spin of each flight."""

    problem: SpacetimeProblem
    timeline: Timeline
    figure: Character
    flights: tuple[FlightUnknowns, ...]
    impulses: tuple[tuple[int, int], ...]  # (phase that touches down, column) of bounded impacts

    @staticmethod
    def from_problem(problem: SpacetimeProblem, figure: Character) -> FullLayout:
        """Count what there is."""
        timeline = Timeline.from_problem(problem)
        column = timeline.spline.num_coefficients * len(figure.angles)
        width = 2 * len(figure.axes) + len(figure.spins)
        flights: list[FlightUnknowns] = []
        for group in _group_flights(timeline):
            before = group[0] - 1 if group[0] > 0 else None
            after = group[-1] + 1 if group[-1] + 1 < len(timeline.phases) else None
            start, end = timeline.edges[group[0]], timeline.edges[group[-1] + 1]
            flights.append(FlightUnknowns(tuple(group), float(start), float(end), before, after, column))
            column += width
        landings = [f.after for f in flights if f.after is not None] if problem.impact == "bounded" else []
        impulses = tuple((phase, column + i * len(figure.axes)) for i, phase in enumerate(landings))
        return FullLayout(problem, timeline, figure, tuple(flights), impulses)

    @property
    def num_angles(self) -> int:
        """Angles of the character."""
        return len(self.figure.angles)

    @property
    def num_points(self) -> int:
        """Control points of each angle."""
        return self.timeline.spline.num_coefficients

    @property
    def num_curve_unknowns(self) -> int:
        """Unknowns that are control points."""
        return self.num_points * self.num_angles

    @property
    def num_unknowns(self) -> int:
        """All unknowns."""
        flights = len(self.flights) * (2 * len(self.figure.axes) + len(self.figure.spins))
        return self.num_curve_unknowns + flights + len(self.impulses) * len(self.figure.axes)

    @property
    def weight(self) -> float:
        """Body weight on earth [N]: the unit of forces."""
        return float(self.figure.tree.mass) * STANDARD_GRAVITY

    @property
    def spin_scale(self) -> float:
        """A large change of angular momentum [kg m^2/s]."""
        return SPIN_PER_KG * float(self.figure.tree.mass)

    @property
    def gravity(self) -> FloatArray:
        """Gravity ``(3,)`` [m/s^2]."""
        return np.array([0.0, -self.problem.gravity, 0.0])

    @property
    def scales(self) -> FloatArray:
        """Unit of each unknown: a change by one is large."""
        scales = np.ones(self.num_unknowns)
        for flight in self.flights:
            scales[self.place_columns(flight)] = POSITION_SCALE
            scales[self.speed_columns(flight)] = SPEED_SCALE
            scales[self.spin_columns(flight)] = self.spin_scale
        return scales

    def place_columns(self, flight: FlightUnknowns) -> IntArray:
        """Unknowns of the centre of mass at the start of a flight."""
        return flight.column + np.arange(len(self.figure.axes))

    def speed_columns(self, flight: FlightUnknowns) -> IntArray:
        """Unknowns of its velocity there."""
        return flight.column + len(self.figure.axes) + np.arange(len(self.figure.axes))

    def spin_columns(self, flight: FlightUnknowns) -> IntArray:
        """Unknowns of the angular momentum of a flight."""
        return flight.column + 2 * len(self.figure.axes) + np.arange(len(self.figure.spins))

    def flight_of(self, phase: int) -> FlightUnknowns | None:
        """The flight a phase belongs to."""
        return next((flight for flight in self.flights if phase in flight.phases), None)

    def points(self, x: FloatArray) -> FloatArray:
        """Control points ``(K, D)`` of unscaled unknowns."""
        return x[: self.num_curve_unknowns].reshape(self.num_points, self.num_angles)

    def columns_at(self, first: IntArray) -> IntArray:
        """Unknowns ``(n, 4, D)`` that count where the basis begins at ``first`` ``(n,)``."""
        points = first[:, None] + np.arange(NUM_ACTIVE)
        return points[:, :, None] * self.num_angles + np.arange(self.num_angles)


def _group_flights(timeline: Timeline) -> list[list[int]]:
    groups: list[list[int]] = []
    for i, phase in enumerate(timeline.phases):
        if phase.is_flight and groups and groups[-1][-1] == i - 1:
            groups[-1].append(i)
        elif phase.is_flight:
            groups.append([i])
    return groups
