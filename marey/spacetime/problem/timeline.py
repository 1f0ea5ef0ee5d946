"""The time line of a problem: phases, knots, and the instants at which something is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.numerics import KnotSpline
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
        """Return the number of an instant of a phase; on a border the phase tells the side."""
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
