"""The unknowns of the full space: control points of the angles, then the state that each flight carries.

From coarse to fine, the same motion is represented on a spline with every span halved and solved again from there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.spacetime.full.body_state import Character
from marey.spacetime.problem.definition import SpacetimeProblem
from marey.spacetime.problem.timeline import NUM_ACTIVE, Timeline

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
        # Flight phases in a row are one flight
        groups: list[list[int]] = []
        for i, phase in enumerate(timeline.phases):
            if phase.is_flight and groups and groups[-1][-1] == i - 1:
                groups[-1].append(i)
            elif phase.is_flight:
                groups.append([i])
        flights: list[FlightUnknowns] = []
        for group in groups:
            before = group[0] - 1 if group[0] > 0 else None
            after = group[-1] + 1 if group[-1] + 1 < len(timeline.phases) else None
            start, end = timeline.edges[group[0]], timeline.edges[group[-1] + 1]
            flights.append(FlightUnknowns(tuple(group), float(start), float(end), before, after, column))
            column += 2 * len(figure.axes) + len(figure.spins)
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


ROUND_UP = 1.0 + 1e-12  # a span this much longer gives the same number of them


def halve_spans(problem: SpacetimeProblem, layout: FullLayout) -> SpacetimeProblem:
    """The problem with every span of its layout cut in two, and one level of refinement less."""
    counts = [len(layout.timeline.breaks(i)) - 1 for i in range(len(layout.timeline.phases))]
    phases = tuple(
        replace(phase, span_s=phase.duration_s / (2 * count) * ROUND_UP)
        for phase, count in zip(layout.timeline.phases, counts, strict=True)
    )
    return replace(problem, phases=phases, refine=max(problem.refine - 1, 0))


def refine_layout(layout: FullLayout) -> FullLayout:
    """Unknowns of the same problem with every span halved."""
    return FullLayout.from_problem(halve_spans(layout.problem, layout), layout.figure)


def refine_unknowns(layout: FullLayout, x: FloatArray) -> FloatArray:
    r"""Unscaled unknowns of the same motion in :func:`finer_layout`, by knot insertion: exact.

    .. math:: \sum_k c_k\phi_k(t) = \sum_j (Rc)_j\,\tilde\phi_j(t)\quad\text{for every}\ t

    What flights and impacts carry along stays as it is.
    """
    matrix: Any = layout.timeline.spline.refine()[1]
    points = np.asarray(matrix @ layout.points(x), dtype=np.float64)
    return np.concatenate([points.ravel(), x[layout.num_curve_unknowns :]])
