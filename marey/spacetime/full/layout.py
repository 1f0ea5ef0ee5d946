"""Time line and unknowns of the full space.

Phases, knots and the instants at which something is asked; then the order of the unknowns: control points of the
angles, and the state that each flight carries. From coarse to fine, the same motion is represented on a spline with
every span halved and solved again from there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.numerics import KnotSpline
from marey.spacetime.full.body_state import Character
from marey.spacetime.problem.definition import ProblemPhase, SpacetimeProblem

NUM_ACTIVE: Final = 4  # cubic basis functions that are not zero at an instant
MAX_SPANS: Final = 2000  # of a phase: minutes of motion, and all that memory holds
SNAP_S: Final = 1e-9  # [s] an instant this near to a border is on it


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """Phase borders [s] and the spline that bends where contacts change."""

    phases: tuple[ProblemPhase, ...]
    edges: FloatArray  # (P + 1,) [s]
    spline: KnotSpline

    @staticmethod
    def from_problem(problem: SpacetimeProblem) -> Timeline:
        """Lay the phases one after the other; knots are aligned with them, double where contacts change."""
        phases = tuple(phase for phase in problem.phases if phase.duration_s > 0.0 or phase.contacts)
        edges = np.concatenate([[0.0], np.cumsum([phase.duration_s for phase in phases])])
        spans = [problem.span_s if phase.span_s is None else phase.span_s for phase in phases]
        return Timeline(phases, edges, KnotSpline.phases(edges, spans, names=[phase.name for phase in phases]))

    @property
    def duration_s(self) -> float:
        """Whole length [s]."""
        return float(self.edges[-1])

    def breaks(self, phase: int) -> FloatArray:
        """Borders of the spline's spans inside a phase, both ends included [s]."""
        knots = self.spline.breaks
        low, high = self.edges[phase], self.edges[phase + 1]
        return knots[(knots >= low - 1e-9) & (knots <= high + 1e-9)]

    def gauss_frames(self, phase: int, per_span: int) -> FloatArray:
        """Gauss-Legendre points of every span of a phase [s]."""
        nodes = np.polynomial.legendre.leggauss(per_span)[0]
        breaks = self.breaks(phase)
        middle, half = 0.5 * (breaks[1:] + breaks[:-1]), 0.5 * np.diff(breaks)
        return (middle[:, None] + half[:, None] * nodes).ravel()

    def even_frames(self, phase: int, per_span: int) -> FloatArray:
        """Instants that cut every span of a phase in equal parts, knots and both ends included [s].

        Accelerations of cubic splines have their peaks at knots, so these frames leave less between them than Gauss
        points do: excess pressure 11 mm against 118 mm on a jump.
        """
        breaks = self.breaks(phase)
        shares = np.arange(per_span) / per_span
        return np.append((breaks[:-1, None] + np.diff(breaks)[:, None] * shares).ravel(), breaks[-1])

    def time_of(self, phase: int, share: float) -> float:
        """Instant at a share of a phase [s]."""
        return float(self.edges[phase] + share * (self.edges[phase + 1] - self.edges[phase]))

    def grid(self, per_span: int) -> Instants:
        """Dense instants of the whole motion: every span cut in ``per_span`` parts, both sides of every border."""
        builder = InstantBuilder(self)
        for phase in range(len(self.phases)):
            for time in self.even_frames(phase, per_span):
                builder.add(phase, float(time))
        return builder.build()


@dataclass(frozen=True, slots=True, eq=False)
class Instants:
    """Times with their phase and the basis functions that count there."""

    times: FloatArray  # (T,) [s]
    phases: IntArray  # (T,)
    first: IntArray  # (T,) first of the NUM_ACTIVE basis functions
    basis: FloatArray  # (3, T, NUM_ACTIVE) value, first and second derivative

    def curves(self, points: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Positions, velocities and accelerations ``(T, D)`` of curves with control points ``(K, D)``."""
        near = points[self.first[:, None] + np.arange(NUM_ACTIVE)]
        values = np.einsum("dta,tai->dti", self.basis, near)
        return values[0], values[1], values[2]


class InstantBuilder:
    """Collects instants; an instant asked for twice is kept once."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._numbers: dict[tuple[int, float], int] = {}
        self._times: list[float] = []

    def add(self, phase: int, time: float) -> int:
        """Return the index of an instant of a phase; on a border the phase selects the side."""
        edges = self._timeline.edges[phase : phase + 2]
        time = next((float(edge) for edge in edges if abs(time - edge) < SNAP_S), float(time))
        number = self._numbers.setdefault((phase, round(time, 10)), len(self._numbers))
        if number == len(self._times):
            self._times.append(time)
        return number

    def build(self) -> Instants:
        """Evaluate the basis at all instants."""
        times = np.array(self._times)
        phases = np.array([phase for phase, _ in self._numbers], dtype=np.int64)
        is_end = times == self._timeline.edges[phases + 1]
        basis, first = np.zeros((3, len(times), NUM_ACTIVE)), np.zeros(len(times), dtype=np.int64)
        for side, chosen in (("left", is_end), ("right", ~is_end)):
            for derivative in range(3):
                first[chosen], basis[derivative, chosen] = self._timeline.spline.local(
                    times[chosen], derivative, "left" if side == "left" else "right"
                )
        return Instants(times, phases, first, basis)


SPIN_PER_KG: Final = 5.0 / 65.0  # [m^2/s] a large change of angular momentum, over the mass
POSITION_SCALE: Final = 0.5  # [m]
SPEED_SCALE: Final = 1.0  # [m/s]
STANDARD_GRAVITY: Final = 9.81  # [m/s^2] forces are scaled by the weight on earth, also without gravity


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
