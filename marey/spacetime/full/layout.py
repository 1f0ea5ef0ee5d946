"""Time line and unknowns of the full space.

Phases, knots and the instants at which something is asked; then the order of the unknowns: control points of the
angles, and the state that each flight carries. From coarse to fine, the same motion is represented on a spline with
every span halved and solved again from there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, IntArray
from marey.dynamics import GRAVITY
from marey.numerics import KnotSpline
from marey.spacetime.full.body_state import FullBodyModel
from marey.spacetime.problem.definition import ProblemPhase, SpacetimeProblem
from marey.spacetime.problem.support import is_shared

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
        phases = problem.phases
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
            builder.add(phase, self.even_frames(phase, per_span))
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

    def add(self, phase: int, times: ArrayLike) -> IntArray:
        """Numbers ``(n,)`` of instants of a phase; on a border the phase selects the side."""
        edges, found = self._timeline.edges[phase : phase + 2], list[int]()
        for time in np.atleast_1d(times).tolist():
            time = next((float(edge) for edge in edges if abs(time - edge) < SNAP_S), time)
            number = self._numbers.setdefault((phase, round(time, 10)), len(self._numbers))
            if number == len(self._times):
                self._times.append(time)
            found.append(number)
        return np.array(found, dtype=np.int64)

    def build(self) -> Instants:
        """Evaluate the basis at all instants."""
        times = np.array(self._times)
        phases = np.array([phase for phase, _ in self._numbers], dtype=np.int64)
        is_end = times == self._timeline.edges[phases + 1]
        basis, first = np.zeros((3, len(times), NUM_ACTIVE)), np.zeros(len(times), dtype=np.int64)
        for derivative in range(3):
            for chosen in (is_end, ~is_end):
                side = "left" if chosen is is_end else "right"
                local = self._timeline.spline.local(times[chosen], derivative, side)
                first[chosen], basis[derivative, chosen] = local
        return Instants(times, phases, first, basis)


SPIN_PER_KG: Final = 5.0 / 65.0  # [m^2/s] a large change of angular momentum, over the mass
POSITION_SCALE: Final = 0.5  # [m]
SPEED_SCALE: Final = 1.0  # [m/s]
LOAD_MOMENT_SCALE: Final = 0.1  # [mg m]
LOAD_NODES_PER_SPAN: Final = 2  # as the frames of the solver


@dataclass(frozen=True, slots=True, eq=False)
class FlightUnknowns:
    """One or more flight phases in a row: ballistic, with one angular momentum."""

    phases: tuple[int, ...]
    start_s: float
    end_s: float
    before: int | None  # phase of support it leaves, None at the start of the motion
    after: int | None
    place: IntArray  # unknowns of the centre of mass at the start
    speed: IntArray  # unknowns of its velocity there
    spin: IntArray  # unknowns of the angular momentum


@dataclass(frozen=True, slots=True, eq=False)
class ContactLoad:
    """The wrench of a contact beyond the first of its phase, linear between nodes: force [mg], moment [mg m] at it."""

    phase: int
    contact: int  # its number in the phase, 1 or more
    times: FloatArray  # (N,) [s]
    unknowns: IntArray  # (N, 6)

    def weights(self, times: FloatArray) -> tuple[IntArray, FloatArray]:
        """Unknowns ``(n, 2, 6)`` of the nodes about times, and the share ``(n, 2)`` of each node."""
        left = np.clip(np.searchsorted(self.times, times, side="right") - 1, 0, len(self.times) - 2)
        share = np.clip((times - self.times[left]) / (self.times[left + 1] - self.times[left]), 0.0, 1.0)
        return self.unknowns[np.stack([left, left + 1], axis=1)], np.stack([1.0 - share, share], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class FullLayout:
    """Order of the unknowns: control points ``x[k * D + i]``, place, speed and spin of flights, impulses, loads."""

    problem: SpacetimeProblem
    timeline: Timeline
    figure: FullBodyModel
    flights: tuple[FlightUnknowns, ...]
    impulses: tuple[tuple[int, IntArray], ...]  # phase that touches down, and unknowns, of bounded impacts
    loads: tuple[ContactLoad, ...] = ()  # of phases whose contacts share the wrench
    num_angles: int = field(init=False)  # D
    num_points: int = field(init=False)  # K control points of each angle
    num_curve_unknowns: int = field(init=False)  # unknowns that are control points
    scales: FloatArray = field(init=False)  # (n,) unit of each unknown: a change by one is large
    weight: float = field(init=False)  # [N] of the body on earth, whatever its gravity: the unit of forces
    spin_scale: float = field(init=False)  # [kg m^2/s] a large change of angular momentum
    gravity: FloatArray = field(init=False)  # (3,) [m/s^2]

    def __post_init__(self) -> None:
        mass, set_ = float(self.figure.tree.mass), object.__setattr__
        set_(self, "num_angles", len(self.figure.angles))
        set_(self, "num_points", self.timeline.spline.num_coefficients)
        set_(self, "num_curve_unknowns", self.num_points * self.num_angles)
        set_(self, "weight", mass * GRAVITY)
        set_(self, "spin_scale", SPIN_PER_KG * mass)
        set_(self, "gravity", np.array([0.0, -self.problem.gravity, 0.0]))
        others = [(flight.place, flight.speed, flight.spin) for flight in self.flights]
        count = sum(len(part) for parts in others for part in parts) + sum(len(own) for _, own in self.impulses)
        count += sum(load.unknowns.size for load in self.loads)
        scales = np.ones(self.num_curve_unknowns + count)
        for place, speed, spin in others:
            scales[place], scales[speed], scales[spin] = POSITION_SCALE, SPEED_SCALE, self.spin_scale
        for load in self.loads:
            scales[load.unknowns[:, 3:]] = LOAD_MOMENT_SCALE
        set_(self, "scales", scales)

    @staticmethod
    def from_problem(problem: SpacetimeProblem, figure: FullBodyModel) -> FullLayout:
        """Lay out the unknowns of a problem."""
        timeline = Timeline.from_problem(problem)
        column, width = timeline.spline.num_coefficients * len(figure.angles), len(figure.axes)
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
            start, end = float(timeline.edges[group[0]]), float(timeline.edges[group[-1] + 1])
            place, speed, spin = np.split(column + np.arange(2 * width + len(figure.spins)), [width, 2 * width])
            flights.append(FlightUnknowns(tuple(group), start, end, before, after, place, speed, spin))
            column += 2 * width + len(figure.spins)
        landings = [f.after for f in flights if f.after is not None] if problem.impact == "bounded" else []
        impulses = tuple((phase, column + i * width + np.arange(width)) for i, phase in enumerate(landings))
        column += width * len(landings)
        # A wrench for each contact beyond the first, at the frames of the solver
        loads: list[ContactLoad] = []
        for p, phase in enumerate(timeline.phases):
            times = timeline.even_frames(p, LOAD_NODES_PER_SPAN)
            for contact in range(1, len(phase.contacts)) if is_shared(problem, p) else ():
                unknowns = column + np.arange(6 * len(times)).reshape(-1, 6)
                loads.append(ContactLoad(p, contact, times, unknowns))
                column += unknowns.size
        return FullLayout(problem, timeline, figure, tuple(flights), impulses, tuple(loads))

    @property
    def num_unknowns(self) -> int:
        """All unknowns."""
        return len(self.scales)

    def flight_of(self, phase: int) -> FlightUnknowns | None:
        """The flight a phase belongs to."""
        return next((flight for flight in self.flights if phase in flight.phases), None)

    def points(self, x: FloatArray) -> FloatArray:
        """Control points ``(K, D)`` of unscaled unknowns."""
        return x[: self.num_curve_unknowns].reshape(self.num_points, self.num_angles)


ROUND_UP = 1.0 + 1e-12  # a span this much longer gives the same number of them


def refine_layout(layout: FullLayout) -> FullLayout:
    """Unknowns of the same problem with every span cut in two, and one level of refinement less."""
    counts = [len(layout.timeline.breaks(i)) - 1 for i in range(len(layout.timeline.phases))]
    phases = tuple(
        replace(phase, span_s=phase.duration_s / (2 * count) * ROUND_UP)
        for phase, count in zip(layout.timeline.phases, counts, strict=True)
    )
    problem = replace(layout.problem, phases=phases, refine=max(layout.problem.refine - 1, 0))
    return FullLayout.from_problem(problem, layout.figure)


def refine_unknowns(layout: FullLayout, x: FloatArray) -> FloatArray:
    r"""Unscaled unknowns of the same motion in :func:`refine_layout`, by knot insertion: exact.

    .. math:: \sum_k c_k\phi_k(t) = \sum_j (Rc)_j\,\tilde\phi_j(t)\quad\text{for every}\ t

    What flights and impacts carry along stays as it is, loads are taken between their nodes.
    """
    matrix: Any = layout.timeline.spline.refine()[1]
    points = np.asarray(matrix @ layout.points(x), dtype=np.float64)
    finer, curves = refine_layout(layout), layout.num_curve_unknowns
    count = sum(load.unknowns.size for load in layout.loads)
    out = np.concatenate([points.ravel(), x[curves : len(x) - count], np.zeros(finer.num_unknowns)])
    out = out[: finer.num_unknowns]
    for old, new in zip(layout.loads, finer.loads, strict=True):
        near, shares = old.weights(new.times)
        out[new.unknowns] = (shares[:, :, None] * x[near]).sum(axis=1)
    return out
