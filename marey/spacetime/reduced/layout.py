"""The unknowns of a motion in the space of a behaviour: curves, their intervals and knots.

The vector of the solver stands for the coefficients of the curves and the global unknowns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray
from marey.numerics import KnotSpline
from marey.spacetime.problem.definition import Contact, SpacetimeProblem
from marey.spacetime.programme import Unknowns

FEET: Final = ("left_foot", "right_foot")
NUM_ACTIVE: Final = 4  # cubic basis functions that are not zero at an instant
LEG_SLOTS: Final = 8  # swivel and heel lift of a planted leg, or eight angles of a free one
ROOT_SCALE_M: Final = 0.1
ANGLE_SCALE: Final = 0.2  # [rad]
FLIGHT_SPAN_FRACTION: Final = (
    0.75  # spans in flight are shorter: momentum must hold between nodes without any force to help
)
MIN_SPANS: Final = 2  # of a curve that lives in one phase only


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """Curves that share their knots."""

    name: str
    spline: KnotSpline
    num_curves: int
    first: int  # number of the first coefficient; coefficient k of curve i is first + k * num_curves + i
    scale: float | FloatArray

    @property
    def indices(self) -> IntArray:
        """Numbers ``(K, n)`` of the coefficients."""
        shape = (self.spline.num_coefficients, self.num_curves)
        return self.first + np.arange(shape[0] * shape[1]).reshape(shape)


@dataclass(frozen=True, slots=True, eq=False)
class LegInterval:
    """Interval of one leg: planted or free."""

    leg: int  # 0 left, 1 right
    phases: tuple[int, int]  # first phase, and the one after the last
    contact: Contact | None
    curves: Curves

    @property
    def is_stance(self) -> bool:
        """Whether the foot is planted."""
        return self.contact is not None


@dataclass(slots=True)
class ReducedLayout:
    """Phases, knots and curves of a problem."""

    edges: FloatArray  # (P + 1,) [s]
    breaks: list[FloatArray]  # of each phase: span borders [s]
    contacts: list[tuple[Contact | None, Contact | None]]  # of each phase: left, right
    families: list[Curves] = field(default_factory=list[Curves])
    amplitudes: Curves = field(init=False)
    angles: Curves = field(init=False)
    roots: list[tuple[tuple[int, int], Curves]] = field(default_factory=list[tuple[tuple[int, int], Curves]])
    legs: tuple[list[LegInterval], list[LegInterval]] = field(default_factory=lambda: ([], []))
    num_coefficients: int = 0

    @property
    def num_phases(self) -> int:
        """How many phases there are."""
        return len(self.contacts)

    def is_flight(self, phase: int) -> bool:
        """Whether no foot is planted."""
        return self.contacts[phase] == (None, None)

    def root_of(self, phase: int) -> Curves | None:
        """Curves of the root's position in a phase; None in flight."""
        return next((curves for (a, b), curves in self.roots if a <= phase < b), None)

    def interval_of(self, leg: int, phase: int) -> LegInterval:
        """What a leg does in a phase."""
        return next(i for i in self.legs[leg] if i.phases[0] <= phase < i.phases[1])

    def add(self, name: str, phases: tuple[int, int], num_curves: int, scale: float | FloatArray) -> Curves:
        """Append curves over a run of phases."""
        inner = np.unique(np.concatenate([self.breaks[p] for p in range(*phases)]))
        spline = KnotSpline(np.concatenate([np.repeat(inner[0], 3), inner, np.repeat(inner[-1], 3)]))
        curves = Curves(name, spline, num_curves, self.num_coefficients, scale)
        self.families.append(curves)
        self.num_coefficients += curves.indices.size
        return curves


def build_layout(problem: SpacetimeProblem, dimension: int) -> ReducedLayout:
    """Curves of a problem: amplitudes and root angles over all, the rest by contact ([Safonova2006]_ §3.1.1).

    The root's position has a curve for each run of phases on the ground, and follows from the centre of mass in
    flight. A planted leg has a swivel and a heel lift; a free leg eight corrections to what the behaviour says.
    """
    phases = problem.phases
    edges = np.concatenate([[0.0], np.cumsum([phase.duration_s for phase in phases])])
    times: list[float] = edges.tolist()
    breaks: list[FloatArray] = []
    contacts: list[tuple[Contact | None, Contact | None]] = []
    for phase, start, stop in zip(phases, times[:-1], times[1:], strict=True):
        span = phase.span_s or problem.span_s * (FLIGHT_SPAN_FRACTION if phase.is_flight else 1.0)
        count = max(MIN_SPANS, int(np.ceil((stop - start) / span - 1e-9)))
        breaks.append(np.linspace(start, stop, count + 1))
        # Left and right foot of each phase; other contacts are refused
        found: dict[str, Contact] = {}
        for contact in phase.contacts:
            if contact.point not in FEET or contact.kind != "foot":
                raise InputError(
                    f"phase '{phase.name}' has a contact of '{contact.point}' ({contact.kind})",
                    f"The reduced space plants {' and '.join(FEET)}; use the full space for the others",
                )
            if contact.point in found:
                raise InputError(f"phase '{phase.name}' plants '{contact.point}' twice", "Leave one out")
            if contact.normal != (0.0, 1.0, 0.0):
                what = f"phase '{phase.name}' has a sloping plant"
                raise InputError(what, "The reduced space plants feet on level ground")
            found[contact.point] = contact
        contacts.append((found.get(FEET[0]), found.get(FEET[1])))
    layout = ReducedLayout(edges, breaks, contacts)
    # Curves over the whole motion, over runs on the ground, and over what each leg does
    everything = (0, len(phases))
    layout.amplitudes = layout.add("amplitude", everything, dimension, 1.0)
    layout.angles = layout.add("root angle", everything, 3, ANGLE_SCALE)
    for run in _find_runs([layout.is_flight(p) for p in range(len(phases))]):
        if not layout.is_flight(run[0]):
            layout.roots.append((run, layout.add("root", run, 3, ROOT_SCALE_M)))
    for leg in (0, 1):
        for run in _find_runs([pair[leg] for pair in contacts]):
            contact = contacts[run[0]][leg]
            count, name = (2, "swivel and lift") if contact is not None else (LEG_SLOTS, "free leg")
            curves = layout.add(f"{FEET[leg]} {name}", run, count, ANGLE_SCALE)
            layout.legs[leg].append(LegInterval(leg, run, contact, curves))
    return layout


def _find_runs(labels: list[object]) -> list[tuple[int, int]]:
    """Longest runs of equal labels."""
    runs: list[tuple[int, int]] = []
    for i, label in enumerate(labels):
        if i and label == labels[i - 1]:
            runs[-1] = (runs[-1][0], i + 1)
        else:
            runs.append((i, i + 1))
    return runs


MAX_AMPLITUDE: Final = 4.0  # [standard deviations] of control points: guards the upper body's limits
FLIGHT_GLOBALS: Final = 9  # centre of mass at lift-off 3, its velocity 3, angular momentum 3
_GLOBAL_SCALES: Final = np.repeat([0.1, 0.5, 5.0], 3)  # [m], [m/s], [kg m^2/s]


class ReducedVariables(Unknowns):
    """Coefficients of all curves, then nine globals for each flight; some are fixed, the others are scaled."""

    def __init__(self, layout: ReducedLayout) -> None:
        self.layout = layout
        self.flights = [p for p in range(layout.num_phases) if layout.is_flight(p)]
        count = layout.num_coefficients + FLIGHT_GLOBALS * len(self.flights)
        ends, order = np.full(count, np.inf), np.zeros(0, dtype=np.int64)
        super().__init__(np.zeros(count), np.ones(count), -ends, ends, order)
        self.times: FloatArray = np.zeros(count)
        self.is_free: BoolArray = np.ones(count, dtype=bool)
        for curves in layout.families:
            index = curves.indices
            self.scales[index] = curves.scale
            self.times[index] = curves.spline.greville[:, None]
        for phase in self.flights:
            own = self.flight_of(phase)
            self.scales[own] = _GLOBAL_SCALES
            self.times[own] = 0.5 * (layout.edges[phase] + layout.edges[phase + 1])
        amplitudes = layout.amplitudes.indices
        self.lower[amplitudes], self.upper[amplitudes] = -MAX_AMPLITUDE, MAX_AMPLITUDE

    def flight_of(self, phase: int) -> IntArray:
        """Numbers ``(9,)`` of the globals of a phase of flight."""
        first = self.layout.num_coefficients + FLIGHT_GLOBALS * self.flights.index(phase)
        return first + np.arange(FLIGHT_GLOBALS)

    def fix(self, index: IntArray, values: FloatArray) -> None:
        """Take coefficients out of the search."""
        self.values[index] = values
        self.is_free[index] = False

    def set_curves(self, curves: Curves, values: FloatArray) -> None:
        """Give coefficients ``(K, n)`` their values, within their ends; what is fixed stays."""
        index = curves.indices
        free = self.is_free[index]
        self.values[index[free]] = np.clip(values, self.lower[index], self.upper[index])[free]

    def finish(self) -> None:
        """Number the free ones in the order of time: a narrow band."""
        free = np.flatnonzero(self.is_free)
        self.order = free[np.argsort(self.times[free], kind="stable")]
