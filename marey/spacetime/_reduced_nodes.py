"""Instants at which a motion in reduced space is looked at, with the basis functions that count there."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.spacetime._limbs import NUM_PLANT, Leg, pack_plant
from marey.spacetime._reduced_layout import LEG_SLOTS, NUM_ACTIVE, Curves, LegInterval, ReducedLayout

SNAP_S: Final = 1e-9  # [s] instants this near are one
ROLL_SNAP_S: Final = 1e-4  # [s] a roll this near to a knot begins there, also if the knots are stretched a little
FLAT, ON_TOES, ON_HEEL, FREE = 0, 1, 2, 3  # what a foot does at a node


@dataclass(frozen=True, slots=True)
class FootRoll:
    """How long a foot rolls at the ends of its stance."""

    toe_s: float = 0.2  # the heel lifts before the foot leaves
    heel_s: float = 0.0  # the foot comes down on its heel
    max_lift: float = 1.3  # [rad]
    max_strike: float = 0.5  # [rad]


@dataclass(frozen=True, slots=True, eq=False)
class CollocationNodes:
    """Instants ``(N,)``; each has S slots, the local unknowns: d amplitudes, 3 root angles, 3 root, 8 + 8 legs."""

    times: FloatArray  # (N,) [s]
    phases: IntArray  # (N,)
    weights: FloatArray  # (N,) [s] of the integrals
    coefficients: IntArray  # (N, S, 4) numbers of the coefficients of each slot; -1 where the slot is empty
    basis: FloatArray  # (N, S, 3, 4) basis functions and their first two derivatives
    feet: IntArray  # (N, 2) FLAT, ON_TOES, ON_HEEL or FREE
    plants: FloatArray  # (2, N, 9)
    is_flight: BoolArray  # (N,)

    @property
    def count(self) -> int:
        """How many nodes there are."""
        return len(self.times)

    def local(self, coefficients: FloatArray) -> FloatArray:
        """Local unknowns with rates and accelerations ``(N, 3, S)`` for all coefficients ``(K,)``."""
        padded = np.append(coefficients, 0.0)
        return np.einsum("nsdk,nsk->nds", self.basis, padded[self.coefficients])

    def at(self, phase: int, time: float) -> int:
        """Number of the node of a phase nearest to a time."""
        own = np.flatnonzero(self.phases == phase)
        return int(own[np.argmin(np.abs(self.times[own] - time))])


def solver_instants(
    layout: ReducedLayout, roll: FootRoll, extra: tuple[tuple[int, float], ...] = ()
) -> list[tuple[int, float]]:
    """Knots and middles of spans, and quarters of spans where a foot rolls or has just come down."""
    instants: list[tuple[int, float]] = []
    for phase, breaks in enumerate(layout.breaks):
        middles = 0.5 * (breaks[1:] + breaks[:-1])
        quarters = [
            a + share * (b - a)
            for a, b in pairwise(breaks.tolist())
            for share in _span_fractions(layout, roll, phase, a, b)
        ]
        own = [t for p, t in extra if p == phase]
        times = np.sort(np.concatenate([breaks, middles, quarters, own]))
        keep = np.append(True, np.diff(times) > SNAP_S)
        instants += [(phase, float(t)) for t in times[keep]]
    return instants


def grid_instants(layout: ReducedLayout, step_s: float) -> list[tuple[int, float]]:
    """Equal steps within each phase, both ends of every phase included."""
    instants: list[tuple[int, float]] = []
    for phase in range(layout.num_phases):
        start, stop = layout.edges[phase], layout.edges[phase + 1]
        count = max(1, int(np.ceil((stop - start) / step_s - 1e-9)))
        steps = np.arange(count + 1) / count
        instants += [(phase, float(start + share * (stop - start))) for share in steps.tolist()]
    return instants


def build_nodes(
    layout: ReducedLayout, legs: tuple[Leg, Leg], roll: FootRoll, instants: list[tuple[int, float]], dimension: int
) -> CollocationNodes:
    """Basis functions, plants and weights at instants."""
    phases = np.array([p for p, _ in instants], dtype=np.int64)
    times = np.array([t for _, t in instants])
    count, slots = len(times), dimension + 6 + 2 * LEG_SLOTS
    coefficients = np.full((count, slots, NUM_ACTIVE), -1, dtype=np.int64)
    basis = np.zeros((count, slots, 3, NUM_ACTIVE))
    feet = np.full((count, 2), FREE, dtype=np.int64)
    plants = np.zeros((2, count, NUM_PLANT))
    for phase in np.unique(phases).tolist():
        own = np.flatnonzero(phases == phase)
        t = times[own]
        _fill_basis(layout.amplitudes, own, t, 0, coefficients, basis)
        _fill_basis(layout.angles, own, t, dimension, coefficients, basis)
        root = layout.root_of(phase)
        if root is not None:
            _fill_basis(root, own, t, dimension + 3, coefficients, basis)
        for leg in (0, 1):
            interval = layout.interval_of(leg, phase)
            _fill_basis(interval.curves, own, t, dimension + 6 + leg * LEG_SLOTS, coefficients, basis)
            if interval.contact is not None:
                feet[own, leg] = [find_foot_state(layout, roll, interval, time) for time in t]
                plants[leg, own] = [_plant_numbers(legs[leg], interval, state) for state in feet[own, leg]]
    flight = np.array([layout.is_flight(p) for p in phases])
    return CollocationNodes(
        times, phases, _simpson_weights(layout, phases, times), coefficients, basis, feet, plants, flight
    )


def find_foot_state(layout: ReducedLayout, roll: FootRoll, interval: LegInterval, time: float) -> int:
    """What a planted foot does at an instant; on the border of a roll it is flat, unless it rolls all the time."""
    start, stop = find_toe_start(layout, roll, interval), find_heel_stop(layout, roll, interval)
    if time > start + SNAP_S or start <= layout.edges[interval.phases[0]] + SNAP_S:
        return ON_TOES
    return ON_HEEL if time < stop - SNAP_S else FLAT


def find_toe_start(layout: ReducedLayout, roll: FootRoll, interval: LegInterval) -> float:
    """When the heel may begin to lift [s]: on a knot, at least one span before the foot leaves."""
    stop = float(layout.edges[interval.phases[1]])
    if interval.phases[1] == layout.num_phases or roll.toe_s <= 0.0:
        return stop
    knots = interval.curves.spline.breaks
    late = knots[(knots >= stop - roll.toe_s - ROLL_SNAP_S) & (knots > find_heel_stop(layout, roll, interval) - SNAP_S)]
    return float(min(late[0], knots[-2]))


def find_heel_stop(layout: ReducedLayout, roll: FootRoll, interval: LegInterval) -> float:
    """When a foot that came down on its heel is flat [s]: on a knot."""
    start = float(layout.edges[interval.phases[0]])
    if interval.phases[0] == 0 or roll.heel_s <= 0.0:
        return start
    knots = interval.curves.spline.breaks
    early = knots[knots <= start + roll.heel_s + ROLL_SNAP_S]
    return float(max(early[-1], knots[1])) if len(knots) > 2 else start


def _span_fractions(layout: ReducedLayout, roll: FootRoll, phase: int, start: float, stop: float) -> tuple[float, ...]:
    """Where a span is looked at besides its ends and middle: more where forces change fast."""
    if not _is_rolling(layout, roll, phase, 0.5 * (start + stop)):
        return ()
    beside = [p for p in (phase - 1, phase + 1) if 0 <= p < layout.num_phases and layout.is_flight(p)]
    edges = [float(layout.edges[max(p, phase)]) for p in beside]
    near = any(abs(edge - t) < SNAP_S for edge in edges for t in (start, stop))
    return (0.125, 0.25, 0.75, 0.875) if near else (0.25, 0.75)


def _is_rolling(layout: ReducedLayout, roll: FootRoll, phase: int, time: float) -> bool:
    for leg in (0, 1):
        interval = layout.interval_of(leg, phase)
        if not interval.is_stance:
            continue
        landed = interval.phases[0] > 0 and time < layout.edges[interval.phases[0]] + 0.15
        if landed or find_foot_state(layout, roll, interval, time) != FLAT:
            return True
    return False


def _plant_numbers(leg: Leg, interval: LegInterval, state: int) -> FloatArray:
    contact = interval.contact
    assert contact is not None
    heading = float(np.deg2rad(contact.heading_deg))
    return pack_plant(leg, np.asarray(contact.position), heading, on_heel=state == ON_HEEL)


def _fill_basis(
    curves: Curves, nodes: IntArray, times: FloatArray, slot: int, coefficients: IntArray, basis: FloatArray
) -> None:
    end = times >= curves.spline.knots[-1] - SNAP_S
    for derivative in range(3):
        first, values = curves.spline.local(times, derivative, "right")
        if end.any():
            first[end], values[end] = curves.spline.local(times[end], derivative, "left")
        for i in range(curves.num_curves):
            basis[nodes, slot + i, derivative] = values
            coefficients[nodes, slot + i] = curves.index(first[:, None] + np.arange(NUM_ACTIVE), i)


def _simpson_weights(layout: ReducedLayout, phases: IntArray, times: FloatArray) -> FloatArray:
    """Weights of Simpson's rule over the spans; exact for squares of accelerations. Other instants weigh nothing."""
    weights = np.zeros(len(times))
    for phase, breaks in enumerate(layout.breaks):
        own = np.flatnonzero(phases == phase)
        for a, b in pairwise(breaks.tolist()):
            for time, share in ((a, 1.0), (0.5 * (a + b), 4.0), (b, 1.0)):
                near = own[np.abs(times[own] - time) < SNAP_S]
                if len(near):
                    weights[near[0]] += share * (b - a) / 6.0
    return weights
