"""Rows of the full space: what physics asks in support, in flight and where they meet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.lie import hat
from marey.spacetime.full.layout import AT_JOINT, BodyState, FlightUnknowns, FullLayout, InstantBuilder
from marey.spacetime.problem.definition import Contact
from marey.spacetime.problem.obstacles import BodyCapsule, ObstacleShape, find_nearest, is_crossed
from marey.spacetime.problem.supply import PhaseSupport, build_support, contact_frame
from marey.spacetime.programme import Factors, RowGroup, StateJet

POSITION_ROW: Final = 10.0  # [1/m] a violation of 1e-4 is 0.01 mm
SPEED_ROW: Final = 3.0  # [s/m]
MARGIN_M: Final = 0.01  # [m] inside the edge of a foot, for what happens between frames
TILT_ROW: Final = 3.0  # [-] of the cosine
CLOSING_ROOM_M: Final = 5e-4  # [m] left to the limb of a contact beyond the first: curves wriggle to hold every frame
CLOSED_ROOM_M: Final = 1e-4  # [m] likewise where closing it moves the pressure beside the sole
OBSTACLE_ROOM_M: Final = 0.003  # [m] kept from boxes and bars, for what cuts their corners between frames
CUT_MARGIN: Final = 0.01  # [mg] inside a face of the cone, for what happens between frames

FullRows = RowGroup[BodyState]  # names (m,) of the rows of an instant, before the programme says when
EvaluateRows = Callable[[BodyState, FloatArray], tuple[StateJet, Factors]]


def compute_support_wrench(
    state: BodyState, at: IntArray, contact: Contact, layout: FullLayout
) -> tuple[StateJet, StateJet]:
    r"""Force [mg] and moment [mg m] about the contact that the body needs while its point stays there.

    .. math:: f = m(\ddot\epsilon - g), \quad n = \dot H_G + \epsilon \times f, \quad \epsilon = c - o

    [Fang2003]_ §7, derived in §2.11 of the specification: the root is eliminated, so the contact never drifts.
    """
    place, _, pull = (jet.at(at) for jet in state.points[contact.point])
    mass, weight = float(layout.figure.tree.mass), layout.weight
    force = (state.com_acceleration.at(at) - pull - layout.gravity) * (mass / weight)
    arm = state.com.at(at) - place
    return force, state.spin_rate.at(at) * (1.0 / weight) + arm.cross(force)


def contact_rows(layout: FullLayout, phase: int, instants: IntArray, cuts: FloatArray) -> FullRows:
    """Friction cone or strength of the grip, pressure inside the support, twist, normal force.

    ``cuts (c, 6)`` are further faces of the cone of the support, on the wrench about the world's origin.
    """
    contact = layout.timeline.phases[phase].contacts[0]
    support = build_support(layout.timeline.phases[phase], MARGIN_M)
    # Faces that earlier solutions passed, about the contact: r . (o x f) = (r x o) . f
    moved = np.concatenate([cuts[:, :3] + np.cross(cuts[:, 3:], support.centre), cuts[:, 3:]], axis=1)
    support = replace(
        support,
        matrix=np.concatenate([support.matrix, moved]),
        lower=np.concatenate([support.lower, np.full(len(cuts), CUT_MARGIN)]),
        upper=np.concatenate([support.upper, np.full(len(cuts), np.inf)]),
        labels=(*support.labels, *["friction of the corners"] * len(cuts)),
    )
    lower, upper, labels = support.lower, support.upper, support.labels
    if support.friction is None:
        # The strength of a grip is a round row before the flat ones; that of a foot is a pyramid among them
        lower, upper = np.concatenate([[0.0], lower]), np.concatenate([[np.inf], upper])
        labels = ("strength of the grip", *labels)

    def evaluate(state: BodyState, _: FloatArray) -> tuple[StateJet, Factors]:
        force, moment = compute_support_wrench(state, instants, contact, layout)
        flat = StateJet.stack([force, moment]).apply_matrix(support.matrix)
        if support.friction is not None:
            return flat, None
        value, slope = support.round_row(force.value)
        return StateJet.stack([StateJet(value[:, None], force.component_along(slope).partials), flat]), None

    shape = (len(instants), len(lower))
    return FullRows(instants, np.broadcast_to(lower, shape), np.broadcast_to(upper, shape), labels, evaluate)


def shared_rows(layout: FullLayout, phase: int, times: FloatArray, instants: IntArray) -> list[FullRows]:
    r"""Rows of contacts that share a wrench: each keeps its own cone or strength, and the first takes what is left.

    .. math:: w_0 = w - \sum_k X_k w_k, \quad w_k \in C_k, \quad w_0 \in C_0

    The wrenches of the others are unknowns; this is the sum of generators of §2.9 of the specification with the faces
    of each cone in place of its edges.
    """
    own, rows = layout.timeline.phases[phase], list[FullRows]()
    supports = [build_support(replace(own, contacts=(contact,)), MARGIN_M) for contact in own.contacts]
    loads = [load for load in layout.loads if load.phase == phase]
    parts = [load.weights(times) for load in loads]  # unknowns (n, 2, 6), shares (n, 2)

    def bound(support: PhaseSupport, name: str) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
        low, high, labels = support.lower, support.upper, support.labels
        if support.friction is None:
            low, high, labels = np.append(0.0, low), np.append(np.inf, high), ("strength of the grip", *labels)
        shape = (len(instants), len(low))
        return np.broadcast_to(low, shape), np.broadcast_to(high, shape), tuple(f"{name}: {text}" for text in labels)

    for load, (near, shares), support in zip(loads, parts, supports[1:], strict=True):
        low, high, labels = bound(support, own.contacts[load.contact].point)
        flat = (shares[:, None, :, None] * support.matrix[None, :, None, :]).reshape(len(instants), -1, 12)
        columns = np.broadcast_to(near.reshape(len(instants), 1, 12), (*low.shape, 12))

        def carried(
            state: BodyState,
            x: FloatArray,
            near: IntArray = near,
            shares: FloatArray = shares,
            support: PhaseSupport = support,
            flat: FloatArray = flat,
        ) -> tuple[StateJet, Factors]:
            wrench = (shares[:, :, None] * x[near]).sum(axis=1)
            value, slopes = wrench @ support.matrix.T, flat
            if support.friction is None:
                strength, by_force = support.round_row(wrench[:, :3])
                value = np.concatenate([strength[:, None], value], axis=1)
                by = np.zeros((len(wrench), 1, 2, 6))
                by[:, 0, :, :3] = shares[:, :, None] * by_force[:, None]
                slopes = np.concatenate([by.reshape(len(wrench), 1, 12), flat], axis=1)
            # Nothing of it changes with the motion; columns are as many as the other jets have
            width = state.com.partials.shape[-1]
            return StateJet(value, np.zeros((3, *value.shape, width))), slopes

        rows.append(FullRows(instants, low, high, labels, carried, columns))

    # The first contact takes what is left of the whole
    first, support = own.contacts[0], supports[0]
    low, high, labels = bound(support, first.point)
    shifts: list[FloatArray] = []
    for load in loads:
        shift = np.eye(6)
        shift[3:, :3] = hat(np.subtract(own.contacts[load.contact].position, first.position))
        shifts.append(shift)
    near = np.concatenate([unknowns.reshape(len(instants), 12) for unknowns, _ in parts], axis=1)
    columns = np.broadcast_to(near[:, None], (*low.shape, near.shape[1]))
    # Wrench on the first contact by the unknowns of the others (n, 6, 12 K)
    by_load = -np.concatenate(
        [
            (shares[:, None, :, None] * shift[None, :, None, :]).reshape(len(instants), 6, 12)
            for (_, shares), shift in zip(parts, shifts, strict=True)
        ],
        axis=2,
    )
    flat = support.matrix @ by_load

    def rest(state: BodyState, x: FloatArray) -> tuple[StateJet, Factors]:
        force, moment = compute_support_wrench(state, instants, first, layout)
        whole = StateJet.stack([force, moment]) + np.einsum("nij,nj->ni", by_load, x[near])
        jet = whole.apply_matrix(support.matrix)
        if support.friction is not None:
            return jet, flat
        force = whole.columns(np.arange(3))
        value, slope = support.round_row(force.value)
        strength = StateJet(value[:, None], force.component_along(slope).partials)
        return StateJet.stack([strength, jet]), np.concatenate([slope[:, None] @ by_load[:, :3], flat], axis=1)

    return [*rows, FullRows(instants, low, high, labels, rest, columns)]


def obstacle_rows(
    layout: FullLayout,
    phase: int,
    capsules: Sequence[tuple[BodyCapsule, WorldVector, WorldVector]],
    obstacle: ObstacleShape,
) -> FullRows:
    """Capsules stay out of a shape: their gaps at the nearest places, whose shares do not count (envelope).

    A row for the farther end of each keeps one that lies along a face from rocking: linear rows know no other place.
    Where the way leads over the shape, what is inside leaves it upwards. Capsules come with the places of their ends,
    all at the same instants.
    """
    last = capsules[0][2]
    at, num_rows = last.at, 2 * len(capsules)
    if obstacle.upwards is not None and is_crossed(layout.problem, phase, obstacle):
        obstacle = replace(obstacle, distance=obstacle.upwards)
    radii = np.array([capsule.radii for capsule, _, _ in capsules])  # (C, 2)
    rise = radii[:, 1:] - radii[:, :1]

    def evaluate(state: BodyState, x: FloatArray) -> tuple[StateJet, Factors]:
        ends = [[vector.jet(state, x) for vector in vectors] for _, *vectors in capsules]
        segments = np.stack([np.stack([jet.value for jet in pair], axis=1) for pair in ends], axis=1)  # (n, C, 2, 3)
        tiled = np.tile(radii, (len(at), 1))
        nearest = find_nearest(obstacle, segments.reshape(-1, 2, 3), (tiled[:, 0], tiled[:, 1]))[0]
        nearest = nearest.reshape(len(at), -1, 1)
        shares = np.concatenate([nearest, np.where(nearest > 0.5, 0.0, 1.0)], axis=2)  # (n, C, 2)
        places = segments[:, :, :1] + shares[..., None] * (segments[:, :, 1:] - segments[:, :, :1])
        gaps, slopes = obstacle.distance(places)
        value = POSITION_ROW * (gaps - radii[:, :1] - shares * rise).reshape(len(at), num_rows)
        slopes = slopes * POSITION_ROW
        partials = [
            np.einsum("nmi,pnid->pnmd", slopes[:, c] * (1.0 - shares[:, c, :, None]), start.partials)
            + np.einsum("nmi,pnid->pnmd", slopes[:, c] * shares[:, c, :, None], end.partials)
            for c, (start, end) in enumerate(ends)
        ]
        jet = StateJet(value, np.concatenate(partials, axis=2))
        if last.coefficients is None:
            return jet, None
        moved = np.einsum("nmi,nig->nmig", slopes.reshape(len(at), num_rows, 3), last.coefficients)
        return jet, moved.reshape(len(at), num_rows, -1)

    columns = None
    if last.columns is not None:
        columns = np.broadcast_to(last.columns.reshape(len(at), 1, -1), (len(at), num_rows, last.columns[0].size))
    lower = np.full((len(at), num_rows), POSITION_ROW * OBSTACLE_ROOM_M * float(np.isfinite(obstacle.top_m)))
    names = [f"{words}{capsule.name}" for capsule, _, _ in capsules for words in ("", "the far end of ")]
    labels = tuple(f"{name} out of {obstacle.name}" for name in names)
    return FullRows(at, lower, np.full_like(lower, np.inf), labels, evaluate, columns)


@dataclass(frozen=True, slots=True, eq=False)
class WorldVector:
    """A vector in the world: a jet from the root, moved by the plant of a support or the centre of a flight."""

    at: IntArray  # (n,)
    jet: Callable[[BodyState, FloatArray], StateJet]  # (n, 3)
    columns: IntArray | None  # (n, 3, g)
    coefficients: FloatArray | None  # (n, 3, g)


def tilt_rows(layout: FullLayout, phase: int, instants: IntArray) -> list[FullRows]:
    """A foot that carries the body keeps its segment upright: its joint stays high above the plant."""
    rows: list[FullRows] = []
    for contact in layout.timeline.phases[phase].contacts:
        if contact.kind != "foot":
            continue
        length = float(np.linalg.norm(layout.figure.point(contact.point)[1]))
        normal = contact_frame(contact)[0][None] * (TILT_ROW / length)

        def evaluate(
            state: BodyState, _: FloatArray, foot: str = contact.point, normal: FloatArray = normal
        ) -> tuple[StateJet, Factors]:
            joint, sole = (state.points[name][0].at(instants) for name in (foot + AT_JOINT, foot))
            return (joint - sole).apply_matrix(normal), None

        lower = np.full((len(instants), 1), TILT_ROW * np.cos(np.deg2rad(contact.max_tilt_deg)))
        label = f"tilt over {contact.point}"
        rows.append(FullRows(instants, lower, np.full_like(lower, np.inf), (label,), evaluate))
    return rows


def flight_rows(layout: FullLayout, flight: FlightUnknowns, instants: IntArray) -> FullRows:
    """Angular momentum about the centre of mass is that of the flight; or, as printed, its rate is zero."""
    spins = layout.figure.spins
    shape = (len(instants), len(spins))
    if layout.problem.flight == "force":

        def rate(state: BodyState, _: FloatArray) -> tuple[StateJet, Factors]:
            return state.spin_rate.at(instants).columns(spins) * (1.0 / layout.weight), None

        return _equality_rows(instants, shape, tuple(f"moment in flight about {'xyz'[i]}" for i in spins), rate)
    # The level is an unknown of the flight
    columns = np.broadcast_to(flight.spin[None, :, None], (*shape, 1))
    scale = 1.0 / layout.spin_scale

    def level(state: BodyState, x: FloatArray) -> tuple[StateJet, Factors]:
        jet = state.spin.at(instants).columns(spins) - x[columns[..., 0]]
        return jet * scale, np.full((*shape, 1), -scale)

    labels = tuple(f"angular momentum about {'xyz'[i]}" for i in spins)
    return _equality_rows(instants, shape, labels, level, columns)


def joint_rows(layout: FullLayout, builder: InstantBuilder) -> list[FullRows]:
    """Rows at phase borders: take-off and touch-down of every flight, change of support."""
    rows: list[FullRows] = []
    phases, edges, impact = layout.timeline.phases, layout.timeline.edges, layout.problem.impact
    for flight in layout.flights:
        if flight.before is not None:
            # The flight starts with the position and the velocity that the support gave it
            at = builder.add(flight.before, edges[flight.before + 1])
            rows += [_continuity_rows(layout, at, flight, order, lands=False) for order in (0, 1)]
        if flight.after is not None:
            # It ends where the support begins; the velocity fits as the kind of impact allows
            at = builder.add(flight.after, edges[flight.after])
            rows.append(_continuity_rows(layout, at, flight, 0, lands=True))
            if impact == "none":
                rows.append(_continuity_rows(layout, at, flight, 1, lands=True))
            if impact == "bounded":
                rows += _bounded_impact_rows(layout, at, flight.after, flight)
    # Where one support hands over to the next both contacts hold at one instant, and neither slides there
    for i, (before, after) in enumerate(pairwise(phases)):
        if before.contacts and after.contacts and before.contacts[0].point != after.contacts[0].point:
            at = builder.add(i + 1, edges[i + 1])
            rows += [relative_rows(layout, at, before.contacts[0], after.contacts[0], order) for order in (0, 1)]
    # Contacts beyond the first are in place and still where their phase begins and ends, unless that is said already
    for p, phase in enumerate(phases):
        for contact in phase.contacts[1:]:
            for edge, beside in ((p, p - 1), (p + 1, p + 1)):
                held: tuple[Contact, ...] = phases[beside].contacts if 0 <= beside < len(phases) else ()
                first = next(iter(held), None)
                is_said = first is not None and first.point == contact.point
                is_kept = (
                    first is not None and contact in held and beside < p and first.point == phase.contacts[0].point
                )
                if not is_said and not is_kept:
                    at = builder.add(p, edges[edge])
                    rows += [relative_rows(layout, at, phase.contacts[0], contact, order) for order in (0, 1)]
    return rows


def _equality_rows(
    instants: IntArray,
    shape: tuple[int, int],
    labels: tuple[str, ...],
    evaluate: EvaluateRows,
    columns: IntArray | None = None,
) -> FullRows:
    return FullRows(instants, np.zeros(shape), np.zeros(shape), labels, evaluate, columns)


def _axis_labels(layout: FullLayout, what: str) -> tuple[str, ...]:
    return tuple(f"{what} along {'xyz'[i]}" for i in layout.figure.axes)


def _continuity_rows(
    layout: FullLayout,
    at: IntArray,
    flight: FlightUnknowns,
    order: int,
    *,
    lands: bool,
    impulse: IntArray | None = None,
) -> FullRows:
    """The centre of mass (order 0), or its velocity (1), is at one instant that of the flight and that of the support.

    An impulse at touch-down changes the velocity of the flight before it is compared.
    """
    phase = flight.after if lands else flight.before
    assert phase is not None
    contact, axes = layout.timeline.phases[phase].contacts[0], layout.figure.axes
    after_s = flight.end_s - flight.start_s if lands else 0.0
    if order == 0:
        unknowns, factors, scale = [flight.place, flight.speed], np.array([1.0, after_s]), POSITION_ROW
        offset = np.asarray(contact.position) - 0.5 * layout.gravity * after_s**2
    else:
        unknowns = [flight.speed] if impulse is None else [flight.speed, impulse]
        factors, scale, offset = np.ones(len(unknowns)), SPEED_ROW, -(layout.gravity * after_s)
    columns = np.stack(unknowns, axis=1)[None]
    coefficients = np.broadcast_to(-scale * factors, columns.shape)

    def evaluate(state: BodyState, x: FloatArray) -> tuple[StateJet, Factors]:
        com = (state.com, state.com_velocity)[order]
        jet = com.at(at) - state.points[contact.point][order].at(at) + offset
        return (jet.columns(axes) - (x[columns[0]] * factors).sum(axis=1)) * scale, coefficients

    label = f"{('centre of mass', 'velocity')[order]} at {'touch-down' if lands else 'take-off'}"
    return _equality_rows(at, (1, len(axes)), _axis_labels(layout, label), evaluate, columns)


def _bounded_impact_rows(layout: FullLayout, at: IntArray, phase: int, flight: FlightUnknowns) -> list[FullRows]:
    r"""The velocity may jump by an impulse inside the friction cone that turns nothing and does not throw.

    With joint curves whose velocity is continuous the angular momentum cannot jump, so the impulse must pass through
    the centre of mass: :math:`(c - \mathrm{com}) \times \Delta v = 0`, and :math:`v^+ \cdot N \le 0`.
    """
    contact = layout.timeline.phases[phase].contacts[0]
    support = build_support(layout.timeline.phases[phase])
    axes, spins = layout.figure.axes, layout.figure.spins
    impulse = next(own for p, own in layout.impulses if p == phase)

    def jump(x: FloatArray) -> FloatArray:
        value = np.zeros((1, 3))
        value[0, axes] = x[impulse]
        return value

    def cone(state: BodyState, x: FloatArray) -> tuple[StateJet, Factors]:
        value, slope = support.round_row(jump(x))
        return StateJet(value[:, None], np.zeros((3, 1, 1, layout.num_angles))), slope[:, None, axes]

    def arm(state: BodyState, x: FloatArray) -> tuple[StateJet, Factors]:
        lever = state.points[contact.point][0].at(at) - state.com.at(at)
        turned = lever.cross(StateJet(jump(x), np.zeros_like(lever.partials)))
        by_jump = np.cross(lever.value[0][None, :], np.eye(3)).T  # (3, 3) column j: lever x e_j
        return turned.columns(spins), by_jump[spins][:, axes][None]

    def rebound(state: BodyState, _: FloatArray) -> tuple[StateJet, Factors]:
        velocity = state.com_velocity.at(at) - state.points[contact.point][1].at(at)
        return velocity.apply_matrix(support.normal[None]), None

    zero, infinite = np.zeros((1, 1)), np.full((1, 1), np.inf)
    columns = np.broadcast_to(impulse, (1, len(spins), len(impulse)))
    labels = tuple(f"turn by the impulse about {'xyz'[i]}" for i in spins)
    return [
        _continuity_rows(layout, at, flight, 1, lands=True, impulse=impulse),
        FullRows(at, zero, infinite, ("impulse inside the friction cone",), cone, impulse[None, None]),
        _equality_rows(at, (1, len(spins)), labels, arm, columns),
        FullRows(at, -infinite, zero, ("rebound at touch-down",), rebound),
    ]


def relative_rows(
    layout: FullLayout, at: IntArray, one: Contact, other: Contact, order: int, room_m: float = 0.0
) -> FullRows:
    """The point of a contact is at its plant while another's is (order 0), or does not move against it (order 1).

    ``room_m`` is how far it may be away along each axis, where its limb is closed afterwards.
    """
    apart = np.asarray(other.position) - np.asarray(one.position) if order == 0 else np.zeros(3)
    axes, scale = layout.figure.axes, (POSITION_ROW, SPEED_ROW)[order]

    def evaluate(state: BodyState, _: FloatArray) -> tuple[StateJet, Factors]:
        jet = state.points[other.point][order].at(at) - state.points[one.point][order].at(at) - apart
        return jet.columns(axes) * scale, None

    labels = _axis_labels(layout, f"{('place', 'speed')[order]} of {other.point}")
    ends = np.full((len(at), len(axes)), scale * room_m)
    return FullRows(at, -ends, ends, labels, evaluate)
