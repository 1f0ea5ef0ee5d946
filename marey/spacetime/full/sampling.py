"""From unknowns to the motion and back: sampling, weak instants between the frames, and first guesses.

The root is restored from contacts and ballistics. Instants at which a solution violates physics are found and added
to the rows. First guesses are neutral poses, turned and bent towards the key poses (Fang F21).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, UnknownNameError
from marey.dynamics import compute_aggregate, compute_com_motion, compute_point_motion
from marey.motion import Contacts, Motion
from marey.spacetime.full.body_state import Character
from marey.spacetime.full.layout import FlightUnknowns, FullLayout
from marey.spacetime.problem.solution import SolutionTrack
from marey.spacetime.problem.support import build_support
from marey.spacetime.problem.timeline import InstantBuilder, Instants

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


ALLOWED_EXCESS: Final = 0.03  # [mg], [mg m] what may be missing between frames
GROSS_EXCESS: Final = 0.25  # [mg] a motion that misses more than this between its frames is none
SAMPLES_PER_SPAN: Final = 8
MAX_REFINEMENTS: Final = 4

Frames = tuple[tuple[int, float], ...]  # phase and time [s]


def find_weak_instants(layout: FullLayout, x: FloatArray) -> Frames:
    """Instants of a dense grid where contacts cannot give what is needed: the worst of each stretch of them.

    Args:
        layout: the unknowns.
        x: a solution, unscaled.
    """
    found: list[tuple[int, float]] = []
    for p, (times, excess) in enumerate(_phase_excesses(layout, x)):
        found += [(p, float(times[i])) for i in _find_peaks(excess)]
    return tuple(found)


def compute_worst_excess(layout: FullLayout, x: FloatArray) -> float:
    """Largest of what is missing on the dense grid [mg]."""
    return max(float(excess.max(initial=0.0)) for _, excess in _phase_excesses(layout, x))


def _phase_excesses(layout: FullLayout, x: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
    """Times and what is missing there, for each phase."""
    track = sample_track(layout, x, layout.timeline.grid(SAMPLES_PER_SPAN))
    whole = compute_aggregate(layout.figure.tree, track.q, track.qd, track.qdd, gravity=layout.problem.gravity)
    wrench, com = np.asarray(whole.wrench) / layout.weight, np.asarray(whole.com)
    phases = [track.phases == p for p in range(len(layout.timeline.phases))]
    return [(track.times[c], _support_excess(layout, p, wrench[c], com[c])) for p, c in enumerate(phases)]


def _support_excess(layout: FullLayout, phase: int, wrench: FloatArray, com: FloatArray) -> FloatArray:
    """What is missing at samples of a phase ``(n,)`` [mg]."""
    if layout.timeline.phases[phase].is_flight:
        return np.linalg.norm(wrench[:, 3:] - np.cross(com, wrench[:, :3]), axis=1)
    support = build_support(layout.timeline.phases[phase])
    force = wrench[:, :3]
    moment = wrench[:, 3:] - np.cross(support.centre, force)
    rows = np.concatenate([force, moment], axis=1) @ support.matrix.T
    outside = np.maximum(support.lower - rows, rows - support.upper)
    outside[:, [label == "normal force" for label in support.labels]] *= 0.1  # a tenth over the cap is harmless
    return np.maximum(outside.max(axis=1), -support.round_row(force)[0])


def _find_peaks(excess: FloatArray) -> list[int]:
    """Largest sample of every stretch above what is allowed."""
    above = excess > ALLOWED_EXCESS
    starts = np.flatnonzero(above & ~np.concatenate([[False], above[:-1]]))
    ends = np.flatnonzero(above & ~np.concatenate([above[1:], [False]])) + 1
    return [int(a + np.argmax(excess[a:b])) for a, b in zip(starts, ends, strict=True)]


# [rad] neutral poses by limb; arms and legs go forward with negative angles, knees and elbows bend with positive ones
NEUTRAL_POSES: Final[dict[str, dict[str, float]]] = {
    "hang": {"shoulder": -2.9, "elbow": 0.1, "hip": -0.1, "knee": 0.2},
    "stand": {"shoulder": 0.0, "elbow": 0.2, "hip": -0.1, "knee": 0.2},
    "crouch": {"shoulder": 0.1, "elbow": 0.4, "hip": -0.4, "knee": 0.8},
    "run": {"shoulder": 0.0, "elbow": 1.2, "hip": -0.3, "knee": 0.6},
    "tuck": {"shoulder": -0.8, "elbow": 0.8, "hip": -1.8, "knee": 2.0},
}


def neutral_pose(figure: Character, name: str) -> FloatArray:
    """Angles ``(D,)`` of a neutral pose."""
    if name not in NEUTRAL_POSES:
        raise UnknownNameError("neutral pose", name, "the full space", NEUTRAL_POSES)
    angles = np.zeros(len(figure.angles))
    for part, value in NEUTRAL_POSES[name].items():
        for i, dof in enumerate(figure.names):
            if dof in (part, f"left_{part}", f"right_{part}", f"left_{part}_rx", f"right_{part}_rx"):
                angles[i] = value
    return angles


def interpolate_pose_keys(layout: FullLayout) -> FloatArray:
    """Angles at the control points ``(K, D)``: the neutral pose, or linear in time between the pose keys."""
    times = layout.timeline.spline.greville
    points = np.tile(neutral_pose(layout.figure, layout.problem.guess), (len(times), 1))
    keyed: dict[int, list[tuple[float, float]]] = {}
    for key in layout.problem.keys:
        if key.kind == "pose" and key.at is not None:
            time = layout.timeline.time_of(layout.problem.phase_index(key.phase), key.at)
            for name, value in key.joints.items():
                keyed.setdefault(layout.figure.angle_index(name), []).append((time, value))
    for i, keys in keyed.items():
        points[:, i] = _interpolate_angle(times, sorted(keys), points[0, i])
    return points


def _interpolate_angle(times: FloatArray, keys: list[tuple[float, float]], neutral: float) -> FloatArray:
    """Line through keys; a motion without a key at its start leaves from the neutral pose."""
    if keys[0][0] > 0.0:
        keys = [(0.0, neutral), *keys]
    return np.interp(times, [time for time, _ in keys], [value for _, value in keys])


def build_flat_guess(layout: FullLayout) -> FloatArray:
    """Unknowns of the flat guess: every angle constant, or linear in time between the pose keys that name it.

    Root positions follow from the contacts; flights start with the ballistic velocity between their supports.
    """
    return append_flights(layout, interpolate_pose_keys(layout))


def guess_from_motion(layout: FullLayout, motion: Motion) -> FloatArray:
    """Unknowns nearest to a motion, stretched to the length of the problem.

    Raises:
        InputError: the motion has another skeleton.
    """
    tree = layout.figure.tree
    if motion.skeleton.names != tree.skeleton.names:
        raise InputError(
            f"the warm start '{motion.name}' has {motion.skeleton.num_joints} joints of another skeleton",
            "Retarget it to the character of the problem first",
        )
    if motion.num_frames < 4:
        raise InputError(f"the warm start has {motion.num_frames} frames", "It needs at least four")
    angles = tree.from_motion(motion)[:, layout.figure.angles]
    times = np.linspace(0.0, layout.timeline.duration_s, len(angles))
    return append_flights(layout, layout.timeline.spline.fit(times, angles, smoothing=1e-6))


def append_flights(layout: FullLayout, points: FloatArray) -> FloatArray:
    """Append place, speed and spin of every flight to control points ``(K, D)``."""
    x = np.zeros(layout.num_unknowns)
    x[: layout.num_curve_unknowns] = points.ravel()
    return set_flight_unknowns(layout, x)
