"""From unknowns to the motion: the root is put back where contacts and ballistics say."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.dynamics import compute_com_motion, compute_point_motion
from marey.motion import Contacts, Motion
from marey.spacetime._check import SolutionTrack
from marey.spacetime._full_layout import FlightUnknowns, FullLayout
from marey.spacetime._timeline import InstantBuilder, Instants

MotionRates = tuple[FloatArray, FloatArray, FloatArray]


def sample_track(layout: FullLayout, x: FloatArray, instants: Instants) -> SolutionTrack:
    """Coordinates with the root in place, and exact derivatives, at instants; unknowns unscaled."""
    figure = layout.figure
    states = tuple(figure.coordinates(curve) for curve in instants.curves(layout.points(x)))
    q, qd, qdd = states
    centre = compute_com_motion(figure.tree, q, qd, qdd)
    com: MotionRates = (centre.position, centre.velocity, centre.acceleration)
    for p, phase in enumerate(layout.timeline.phases):
        chosen = instants.phases == p
        if not chosen.any():
            continue
        flight = layout.flight_of(p)
        if flight is None:
            place = np.asarray(phase.contacts[0].position)
            root = _root_from_plant(layout, (q[chosen], qd[chosen], qdd[chosen]), phase.contacts[0].point, place)
        else:
            after = (instants.times[chosen] - flight.start_s)[:, None]
            root = _root_from_flight(layout, x, flight, after, (com[0][chosen], com[1][chosen], com[2][chosen]))
        _put_root(layout, chosen, states, root)
    return SolutionTrack(instants.times, instants.phases, q, qd, qdd)


def _put_root(layout: FullLayout, chosen: BoolArray, states: tuple[FloatArray, ...], root: MotionRates) -> None:
    slides, axes = layout.figure.slides, layout.figure.axes
    for state, rate in zip(states, root, strict=True):
        state[np.ix_(np.flatnonzero(chosen), slides)] = rate[:, axes]


def _root_from_plant(layout: FullLayout, states: MotionRates, point: str, plant: FloatArray) -> MotionRates:
    dof, place = layout.figure.point(point)
    motion = compute_point_motion(layout.figure.tree, *states, dof, place)
    return plant - motion.position, -motion.velocity, -motion.acceleration


def _root_from_flight(
    layout: FullLayout, x: FloatArray, flight: FlightUnknowns, after: FloatArray, com: MotionRates
) -> MotionRates:
    place, speed = (np.zeros(3) for _ in range(2))
    place[layout.figure.axes], speed[layout.figure.axes] = compute_take_off(layout, x, flight)
    g = layout.gravity
    return place + after * speed + 0.5 * after**2 * g - com[0], speed + after * g - com[1], g - com[2]


def compute_take_off(layout: FullLayout, x: FloatArray, flight: FlightUnknowns) -> tuple[FloatArray, FloatArray]:
    """Place and velocity of the centre of mass at the start of a flight, as its support gives them."""
    if flight.before is None:
        return x[layout.place_columns(flight)], x[layout.speed_columns(flight)]
    place, speed, _ = compute_support_com(layout, x, flight.before, float(layout.timeline.edges[flight.before + 1]))
    return place[layout.figure.axes], speed[layout.figure.axes]


def compute_support_com(
    layout: FullLayout, x: FloatArray, phase: int, time: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Centre of mass, its velocity, and the angular momentum about it, at an instant of a support."""
    from marey.dynamics import compute_aggregate

    builder = InstantBuilder(layout.timeline)
    builder.add(phase, time)
    figure = layout.figure
    states = tuple(figure.coordinates(curve) for curve in builder.build().curves(layout.points(x)))
    whole = compute_aggregate(figure.tree, *states, gravity=0.0)
    contact = layout.timeline.phases[phase].contacts[0]
    dof, place = figure.point(contact.point)
    motion = compute_point_motion(figure.tree, states[0], states[1], states[2], dof, place)
    com = np.asarray(whole.com)[0] - motion.position[0] + np.asarray(contact.position)
    velocity = np.asarray(whole.com_velocity)[0] - motion.velocity[0]
    return com, velocity, np.asarray(whole.angular_momentum)[0]


def set_flight_unknowns(layout: FullLayout, x: FloatArray) -> FloatArray:
    """Set place, speed and spin of every flight from the supports around it: ballistic from one to the other."""
    x, axes, g = x.copy(), layout.figure.axes, layout.gravity
    for flight in layout.flights:
        length = flight.end_s - flight.start_s
        ends: list[FloatArray | None] = [None, None]
        if flight.before is not None:
            ends[0] = compute_support_com(layout, x, flight.before, float(layout.timeline.edges[flight.before + 1]))[0]
        if flight.after is not None:
            ends[1] = compute_support_com(layout, x, flight.after, float(layout.timeline.edges[flight.after]))[0]
        place, speed = _ballistic_start(ends, length, g, np.asarray(layout.problem.start_com))
        x[layout.place_columns(flight)], x[layout.speed_columns(flight)] = place[axes], speed[axes]
        x[layout.spin_columns(flight)] = _mean_spin(layout, x, flight)[layout.figure.spins]
    return x


def _ballistic_start(
    ends: list[FloatArray | None], length_s: float, g: FloatArray, resting: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Place and velocity at the start of a flight of some length between two places, either of which may be free."""
    start, end = ends
    if start is None and end is None:
        return resting, np.zeros(3)
    if end is None:
        assert start is not None
        return start, np.zeros(3)
    if start is None:
        return end - 0.5 * g * length_s**2, np.zeros(3)
    return start, (end - start - 0.5 * g * length_s**2) / length_s


def _mean_spin(layout: FullLayout, x: FloatArray, flight: FlightUnknowns) -> FloatArray:
    from marey.dynamics import compute_aggregate

    builder = InstantBuilder(layout.timeline)
    for phase in flight.phases:
        for time in layout.timeline.gauss_frames(phase, 2):
            builder.add(phase, float(time))
    states = [layout.figure.coordinates(curve) for curve in builder.build().curves(layout.points(x))]
    whole = compute_aggregate(layout.figure.tree, states[0], states[1], states[2], gravity=0.0)
    return np.asarray(whole.angular_momentum).mean(axis=0)


def motion_from_unknowns(layout: FullLayout, x: FloatArray, rate_hz: float, name: str) -> Motion:
    """The motion at a frame rate, with its contact track; the last frame is at or before the end."""
    from dataclasses import replace

    count = int(np.floor(layout.timeline.duration_s * rate_hz + 1e-6)) + 1
    times = np.minimum(np.arange(count) / rate_hz, layout.timeline.duration_s)
    edges = layout.timeline.edges
    phases = np.clip(np.searchsorted(edges, times + 1e-9, side="right") - 1, 0, len(edges) - 2)
    builder = InstantBuilder(layout.timeline)
    for phase, time in zip(phases, times, strict=True):
        builder.add(int(phase), float(time))
    track = sample_track(layout, x, builder.build())
    held = [{n for c in phase.contacts for n in contact_track_names(c.point)} for phase in layout.timeline.phases]
    names = tuple(sorted({name for points in held for name in points}))
    active = np.array([[n in held[p] for n in names] for p in phases], dtype=bool).reshape(count, len(names))
    contacts = Contacts(names, active) if names else None
    return replace(layout.figure.tree.to_motion(track.q, rate_hz, contacts), name=name)


def contact_track_names(point: str) -> tuple[str, ...]:
    """Names in a contact track of a named point of a character: a foot has a heel and a toe."""
    sides = ("left", "right") if point in ("feet", "hands") else (point.split("_")[0],)
    if point in ("feet", "left_foot", "right_foot"):
        return tuple(f"{side}_{part}" for side in sides for part in ("heel", "toe"))
    return tuple(f"{side}_hand" for side in sides) if point in ("hands", "left_hand", "right_hand") else (point,)
