"""Collocation nodes of the reduced space: basis functions, and the forces that planted feet can supply.

Two planted feet share the load between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.lie import hat
from marey.numerics import smoothstep
from marey.spacetime.problem.definition import Contact
from marey.spacetime.reduced.layout import LEG_SLOTS, NUM_ACTIVE, Curves, LegInterval, ReducedLayout
from marey.spacetime.reduced.legs import NUM_PLANT, Leg, compute_sole_centre, pack_plant

SNAP_S: Final = 1e-9  # [s] instants this near are one
LANDING_S: Final = 0.15  # [s] after a landing in which forces change fast
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
        padded = np.append(coefficients, 0.0)  # where empty slots point to
        return np.einsum("nsdk,nsk->nds", self.basis, padded[self.coefficients])

    def at(self, phase: int, time: float) -> int:
        """Number of the node of a phase nearest to a time."""
        own = np.flatnonzero(self.phases == phase)
        return int(own[np.argmin(np.abs(self.times[own] - time))])


def solver_instants(
    layout: ReducedLayout, roll: FootRoll, extra: tuple[tuple[int, float], ...] = ()
) -> list[tuple[int, float]]:
    """Knots and middles of spans, and more of spans where a foot rolls or has just come down: forces change fast."""
    instants: list[tuple[int, float]] = []
    for phase, breaks in enumerate(layout.breaks):
        stances = [interval for leg in (0, 1) if (interval := layout.interval_of(leg, phase)).is_stance]
        beside = [p for p in (phase - 1, phase + 1) if 0 <= p < layout.num_phases and layout.is_flight(p)]
        borders = [float(layout.edges[max(p, phase)]) for p in beside]
        middles = 0.5 * (breaks[1:] + breaks[:-1])
        times = [*breaks, *middles, *(t for p, t in extra if p == phase)]
        rolls = np.zeros(len(middles), dtype=np.bool_)
        for stance in stances:
            landed = (stance.phases[0] > 0) & (middles < layout.edges[stance.phases[0]] + LANDING_S)
            rolls |= landed | (find_foot_states(layout, roll, stance, middles) != FLAT)
        for (a, b), is_rolling in zip(pairwise(breaks.tolist()), rolls.tolist(), strict=True):
            # Eighths beside a flight, quarters elsewhere
            near = any(abs(border - t) < SNAP_S for border in borders for t in (a, b))
            shares = (0.125, 0.25, 0.75, 0.875) if near else (0.25, 0.75)
            times += [a + share * (b - a) for share in shares] if is_rolling else []
        ordered = np.sort(np.array(times))
        keep = np.append(True, np.diff(ordered) > SNAP_S)
        instants += [(phase, float(t)) for t in ordered[keep]]
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
    # Slots: amplitudes, root angles, root position on the ground, both legs
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
                states = feet[own, leg] = find_foot_states(layout, roll, interval, t)
                plant = np.asarray(interval.contact.position), float(np.deg2rad(interval.contact.heading_deg))
                on_ball, on_heel = (pack_plant(legs[leg], *plant, on_heel=way) for way in (False, True))
                plants[leg, own] = np.where((states == ON_HEEL)[:, None], on_heel, on_ball)
    flight = np.array([layout.is_flight(p) for p in phases])
    # Weights of Simpson's rule over the spans, exact for squares of accelerations; other instants weigh nothing
    weights = np.zeros(len(times))
    for phase, breaks in enumerate(layout.breaks):
        here = np.flatnonzero(phases == phase)
        for a, b in pairwise(breaks.tolist()):
            for time, share in ((a, 1.0), (0.5 * (a + b), 4.0), (b, 1.0)):
                near = here[np.abs(times[here] - time) < SNAP_S]
                if len(near):
                    weights[near[0]] += share * (b - a) / 6.0
    return CollocationNodes(times, phases, weights, coefficients, basis, feet, plants, flight)


def find_foot_states(layout: ReducedLayout, roll: FootRoll, interval: LegInterval, times: FloatArray) -> IntArray:
    """What a planted foot does at instants; on the border of a roll it is flat, unless it rolls all the time."""
    start, stop = find_toe_start(layout, roll, interval), find_heel_stop(layout, roll, interval)
    is_late = (times > start + SNAP_S) | (start <= layout.edges[interval.phases[0]] + SNAP_S)
    return np.where(is_late, ON_TOES, np.where(times < stop - SNAP_S, ON_HEEL, FLAT))


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
            coefficients[nodes, slot + i] = curves.indices[first[:, None] + np.arange(NUM_ACTIVE), i]


HEEL_STRIP_M: Final = 0.04  # [m] length of the supporting part of the sole while the foot rolls on its heel
PRESSURE_SCALE: Final = 4.0  # rows of the centre of pressure are four times as strict, twists twice
TWIST_SCALE: Final = 2.0
MAX_ROWS: Final = 20  # normal force, 4 of friction, 2 of twist, edges of the hull of two soles at most 8
SupportCut = tuple[int, int, int, tuple[float, ...]]  # phase, what both feet do, and a row (6,) at least 0


@dataclass(frozen=True, slots=True)
class NormalForceLimits:
    """Bounds of the force along the normal, in body weights."""

    push: float = 3.0  # while the foot's stance ends in a flight
    land: float = 5.0  # after a landing
    lift_off: float = 0.2  # at the instant of leaving the ground
    touch_down: float = 2.0  # at the instant of landing
    margin_m: float = 0.01  # the polygon is this much smaller than the soles
    twist_m: float = 0.15  # moment about the vertical over the normal force of two feet; a third of it for one


@dataclass(frozen=True, slots=True, eq=False)
class NodeSupports:
    """Linear rows ``lower <= rows @ (f, m) <= upper`` of the wrench about the world's origin over the body weight."""

    matrix: FloatArray  # (N, R, 6)
    lower: FloatArray  # (N, R)
    upper: FloatArray  # (N, R)
    count: IntArray  # (N,) how many of the R rows are used
    shares: FloatArray  # (N, 2, 6, 6) wrench of the left and of the right foot from the whole


def build_supports(
    layout: ReducedLayout,
    nodes: CollocationNodes,
    legs: tuple[Leg, Leg],
    limits: NormalForceLimits,
    cuts: tuple[SupportCut, ...] = (),
) -> NodeSupports:
    """Friction, pressure and force limits at every node; empty in flight.

    ``cuts`` are faces of the cone of the soles' corners that earlier solutions passed: there the twist that friction
    leaves depends on where the pressure is.
    """
    most = MAX_ROWS + len(cuts)
    matrix = np.zeros((nodes.count, most, 6))
    lower, upper = np.full((nodes.count, most), -np.inf), np.full((nodes.count, most), np.inf)
    count, shares = np.zeros(nodes.count, dtype=np.int64), np.zeros((nodes.count, 2, 6, 6))
    known: dict[tuple[int, int, int], FloatArray] = {}
    for n in np.flatnonzero(~nodes.is_flight):
        phase, time = int(nodes.phases[n]), nodes.times[n]
        left, right = int(nodes.feet[n, 0]), int(nodes.feet[n, 1])
        contacts, states = layout.contacts[phase], (left, right)
        soles = {
            leg: compute_sole_corners(legs[leg], contact, states[leg])
            for leg, contact in enumerate(contacts)
            if contact is not None
        }
        # Rows depend on the phase and on what the feet do, not on the node
        if (phase, left, right) not in known:
            friction = min(contact.friction for contact in contacts if contact is not None)
            twist = limits.twist_m if len(soles) == 2 else limits.twist_m / 3.0
            # Rows (k, 6) on the wrench about the world's origin, at least 0, of soles near one level
            from scipy.spatial import ConvexHull

            corners = np.concatenate([*soles.values()])
            o, up = corners.mean(axis=0), np.array([0.0, 1.0, 0.0])
            flat = (corners - o)[:, [2, 0]]  # (along Z, along X): the hull is counter-clockwise about Y
            hull = flat[ConvexHull(flat).vertices]
            points = np.stack([hull[:, 1], np.zeros(len(hull)), hull[:, 0]], axis=1)
            # Normal force, friction as a pyramid, twist to both sides, an edge of the smaller polygon each
            mu, found = friction / np.sqrt(2.0), [np.concatenate([up, np.zeros(3)])]
            sideways = [sign * np.array(axis) for axis in ((1.0, 0.0, 0.0), (0.0, 0.0, 1.0)) for sign in (1.0, -1.0)]
            found += [np.concatenate([mu * up + side, np.zeros(3)]) for side in sideways]
            found += [TWIST_SCALE * np.concatenate([twist * up, sign * up]) for sign in (1.0, -1.0)]
            for a, b in zip(points, np.roll(points, -1, axis=0), strict=True):
                edge = (b - a) / np.linalg.norm(b - a)
                inner = a + limits.margin_m * np.cross(up, edge)
                found.append(PRESSURE_SCALE * np.concatenate([-(edge @ np.cross(inner, up)) * up, edge]))
            cone = np.array(found)
            cone[:, :3] -= np.cross(cone[:, 3:], o)  # m_o = m - o x f, and r . (o x f) = (r x o) . f
            own = [row for *state, row in cuts if state == [phase, left, right]]
            known[phase, left, right] = np.concatenate([cone, np.array(own).reshape(-1, 6)])
        rows = known[phase, left, right]
        k = len(rows)
        matrix[n, :k], lower[n, :k], count[n] = rows, 0.0, k

        # Largest normal force [mg]: small where the body leaves the ground, limited where it lands
        after = phase + 1 < layout.num_phases and layout.is_flight(phase + 1)
        before = phase > 0 and layout.is_flight(phase - 1)
        if after and abs(time - layout.edges[phase + 1]) < 1e-9:
            upper[n, 0] = limits.lift_off
        elif before and abs(time - layout.edges[phase]) < 1e-9:
            upper[n, 0] = limits.touch_down
        else:
            # The first half of a stance after a flight is a landing
            landed = before and time < 0.5 * (layout.edges[phase] + layout.edges[phase + 1])
            cap = limits.land if landed or not after else limits.push
            upper[n, 0] = min(cap, sum(contact.max_force for contact in contacts if contact is not None))

        # Each sole takes its share of the force at its middle, and of the moment that is left about the shared centre:
        # f_i = a_i f, m_i = a_i (m + (o_i - o) x f), o = sum a_i o_i
        share = compute_left_fraction(layout, nodes, int(n))
        loaded = {leg: part for leg, part in ((0, share), (1, 1.0 - share)) if part > 0.0}
        centre = sum(part * soles[leg].mean(axis=0) for leg, part in loaded.items())
        for leg, part in loaded.items():
            shares[n, leg] = part * np.eye(6)
            shares[n, leg, 3:, :3] = part * hat(soles[leg].mean(axis=0) - centre)
    return NodeSupports(matrix, lower, upper, count, shares)


def compute_sole_corners(leg: Leg, contact: Contact, state: int) -> FloatArray:
    """Corners ``(4, 3)`` [m] of the bearing part of a planted sole, in world."""
    centre = compute_sole_centre(leg)
    back, front = leg.heel[2] - centre[2], leg.tip[2] - centre[2]
    if state == ON_TOES:
        back = leg.ball[2] - centre[2]
    elif state == ON_HEEL:
        front = back + HEEL_STRIP_M
    turn = np.deg2rad(contact.heading_deg)
    along, across = np.array([np.sin(turn), 0.0, np.cos(turn)]), np.array([np.cos(turn), 0.0, -np.sin(turn)])
    half = leg.half_width
    points = [along * z + across * x for z in (back, front) for x in (-half, half)]
    return np.asarray(contact.position) + np.array(points)


def compute_left_fraction(layout: ReducedLayout, nodes: CollocationNodes, n: int) -> float:
    """Share of the force that the left foot takes: in double support it goes over from the old foot to the new one."""
    down = nodes.feet[n] != FREE
    if not down.all():
        return float(down[0])
    phase = int(nodes.phases[n])
    ramp = smoothstep((nodes.times[n] - layout.edges[phase]) / (layout.edges[phase + 1] - layout.edges[phase]))
    # Left share of the phases beside it: of one foot all or nothing, else a half
    ends: list[float] = []
    for beside in (phase - 1, phase + 1):
        feet = layout.contacts[beside] if 0 <= beside < layout.num_phases else (None, None)
        is_single = (feet[0] is None) != (feet[1] is None)
        ends.append(float(feet[0] is not None) if is_single else 0.5)
    return float((1.0 - ramp) * ends[0] + ramp * ends[1])
