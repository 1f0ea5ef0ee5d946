"""Rows of the full space: what physics asks in support, in flight and where they meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.spacetime.full.body_state import AT_JOINT, BodyState, StateJet
from marey.spacetime.full.layout import FlightUnknowns, FullLayout, InstantBuilder
from marey.spacetime.problem.definition import Contact
from marey.spacetime.problem.support import build_support, contact_frame

POSITION_ROW: Final = 10.0  # [1/m] a violation of 1e-4 is 0.01 mm
SPEED_ROW: Final = 3.0  # [s/m]
MARGIN_M: Final = 0.01  # [m] inside the edge of a foot, for what happens between frames
TILT_ROW: Final = 3.0  # [-] of the cosine

Coefficients = FloatArray | None  # (n, m, g) by the unknowns of flights and impulses
EvaluateRows = Callable[[BodyState, FloatArray], tuple[StateJet, Coefficients]]


@dataclass(frozen=True, slots=True, eq=False)
class RowFamily:
    """Some rows at some instants; ``evaluate`` takes the state and all unknowns."""

    instants: IntArray  # (n,)
    lower: FloatArray  # (n, m)
    upper: FloatArray  # (n, m)
    labels: tuple[str, ...]  # (m,)
    evaluate: EvaluateRows
    columns: IntArray | None = None  # (n, m, g) unknowns besides the control points
    is_linear: bool = False


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


def contact_rows(layout: FullLayout, phase: int, instants: IntArray) -> RowFamily:
    """Friction cone or strength of the grip, pressure inside the support, twist, normal force."""
    contact = layout.timeline.phases[phase].contacts[0]
    support = build_support(layout.timeline.phases[phase], MARGIN_M)
    lower, upper, labels = support.lower, support.upper, support.labels
    if support.friction is None:
        # The strength of a grip is a round row before the flat ones; that of a foot is a pyramid among them
        lower, upper = np.concatenate([[0.0], lower]), np.concatenate([[np.inf], upper])
        labels = ("strength of the grip", *labels)

    def evaluate(state: BodyState, _: FloatArray) -> tuple[StateJet, Coefficients]:
        force, moment = compute_support_wrench(state, instants, contact, layout)
        flat = StateJet.stack([force, moment]).apply_matrix(support.matrix)
        if support.friction is not None:
            return flat, None
        value, slope = support.round_row(force.value)
        return StateJet.stack([StateJet(value[:, None], force.component_along(slope).partials), flat]), None

    shape = (len(instants), len(lower))
    return RowFamily(instants, np.broadcast_to(lower, shape), np.broadcast_to(upper, shape), labels, evaluate)


def tilt_rows(layout: FullLayout, phase: int, instants: IntArray) -> list[RowFamily]:
    """A foot that carries the body keeps its segment upright: its joint stays high above the plant."""
    rows: list[RowFamily] = []
    for contact in layout.timeline.phases[phase].contacts:
        if contact.kind != "foot":
            continue
        length = float(np.linalg.norm(layout.figure.point(contact.point)[1]))
        normal = contact_frame(contact)[0][None] * (TILT_ROW / length)

        def evaluate(
            state: BodyState, _: FloatArray, foot: str = contact.point, normal: FloatArray = normal
        ) -> tuple[StateJet, Coefficients]:
            joint, sole = (state.points[name][0].at(instants) for name in (foot + AT_JOINT, foot))
            return (joint - sole).apply_matrix(normal), None

        lower = np.full((len(instants), 1), TILT_ROW * np.cos(np.deg2rad(contact.max_tilt_deg)))
        label = f"tilt over {contact.point}"
        rows.append(RowFamily(instants, lower, np.full_like(lower, np.inf), (label,), evaluate))
    return rows


def flight_rows(layout: FullLayout, flight: FlightUnknowns, instants: IntArray) -> RowFamily:
    """Angular momentum about the centre of mass is that of the flight; or, as printed, its rate is zero."""
    spins = layout.figure.spins
    shape = (len(instants), len(spins))
    if layout.problem.flight == "force":

        def rate(state: BodyState, _: FloatArray) -> tuple[StateJet, Coefficients]:
            return state.spin_rate.at(instants).columns(spins) * (1.0 / layout.weight), None

        return _equality_rows(instants, shape, tuple(f"moment in flight about {'xyz'[i]}" for i in spins), rate)
    # The level is an unknown of the flight
    columns = np.broadcast_to(flight.spin[None, :, None], (*shape, 1))
    scale = 1.0 / layout.spin_scale

    def level(state: BodyState, x: FloatArray) -> tuple[StateJet, Coefficients]:
        jet = state.spin.at(instants).columns(spins) - x[columns[..., 0]]
        return jet * scale, np.full((*shape, 1), -scale)

    labels = tuple(f"angular momentum about {'xyz'[i]}" for i in spins)
    return _equality_rows(instants, shape, labels, level, columns)


def joint_rows(layout: FullLayout, builder: InstantBuilder) -> list[RowFamily]:
    """Rows at phase borders: take-off and touch-down of every flight, change of support."""
    rows: list[RowFamily] = []
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
    return rows


def _equality_rows(
    instants: IntArray,
    shape: tuple[int, int],
    labels: tuple[str, ...],
    evaluate: EvaluateRows,
    columns: IntArray | None = None,
) -> RowFamily:
    return RowFamily(instants, np.zeros(shape), np.zeros(shape), labels, evaluate, columns)


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
) -> RowFamily:
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

    def evaluate(state: BodyState, x: FloatArray) -> tuple[StateJet, Coefficients]:
        com = (state.com, state.com_velocity)[order]
        jet = com.at(at) - state.points[contact.point][order].at(at) + offset
        return (jet.columns(axes) - (x[columns[0]] * factors).sum(axis=1)) * scale, coefficients

    label = f"{('centre of mass', 'velocity')[order]} at {'touch-down' if lands else 'take-off'}"
    return _equality_rows(at, (1, len(axes)), _axis_labels(layout, label), evaluate, columns)


def _bounded_impact_rows(layout: FullLayout, at: IntArray, phase: int, flight: FlightUnknowns) -> list[RowFamily]:
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

    def cone(state: BodyState, x: FloatArray) -> tuple[StateJet, Coefficients]:
        value, slope = support.round_row(jump(x))
        return StateJet(value[:, None], np.zeros((3, 1, 1, layout.num_angles))), slope[:, None, axes]

    def arm(state: BodyState, x: FloatArray) -> tuple[StateJet, Coefficients]:
        lever = state.points[contact.point][0].at(at) - state.com.at(at)
        turned = lever.cross(StateJet(jump(x), np.zeros_like(lever.partials)))
        by_jump = np.cross(lever.value[0][None, :], np.eye(3)).T  # (3, 3) column j: lever x e_j
        return turned.columns(spins), by_jump[spins][:, axes][None]

    def rebound(state: BodyState, _: FloatArray) -> tuple[StateJet, Coefficients]:
        velocity = state.com_velocity.at(at) - state.points[contact.point][1].at(at)
        return velocity.apply_matrix(support.normal[None]), None

    zero, infinite = np.zeros((1, 1)), np.full((1, 1), np.inf)
    columns = np.broadcast_to(impulse, (1, len(spins), len(impulse)))
    labels = tuple(f"turn by the impulse about {'xyz'[i]}" for i in spins)
    return [
        _continuity_rows(layout, at, flight, 1, lands=True, impulse=impulse),
        RowFamily(at, zero, infinite, ("impulse inside the friction cone",), cone, impulse[None, None]),
        _equality_rows(at, (1, len(spins)), labels, arm, columns),
        RowFamily(at, -infinite, zero, ("rebound at touch-down",), rebound),
    ]


def relative_rows(layout: FullLayout, at: IntArray, one: Contact, other: Contact, order: int) -> RowFamily:
    """The point of a contact is at its plant while another's is (order 0), or does not move against it (order 1)."""
    apart = np.asarray(other.position) - np.asarray(one.position) if order == 0 else np.zeros(3)
    axes, scale = layout.figure.axes, (POSITION_ROW, SPEED_ROW)[order]

    def evaluate(state: BodyState, _: FloatArray) -> tuple[StateJet, Coefficients]:
        jet = state.points[other.point][order].at(at) - state.points[one.point][order].at(at) - apart
        return jet.columns(axes) * scale, None

    labels = _axis_labels(layout, f"{('place', 'speed')[order]} of {other.point}")
    return _equality_rows(at, (len(at), len(axes)), labels, evaluate)
