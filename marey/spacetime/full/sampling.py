"""From unknowns to the motion and back: sampling, weak instants between the frames, and first guesses.

The root is restored from contacts and ballistics. Instants at which a solution violates physics are found and added
to the rows. First guesses are neutral poses, turned and bent towards the key poses (Fang F21).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, UnknownNameError
from marey.dynamics import (
    compute_aggregate,
    compute_com_motion,
    compute_point_motion,
    compute_point_positions,
    compute_points_motion,
)
from marey.motion import Contacts, Motion
from marey.spacetime.full.layout import SNAP_S, CurveRates, FullBodyModel, FullLayout, InstantBuilder, Instants
from marey.spacetime.problem.definition import Contact, SpacetimeProblem
from marey.spacetime.problem.obstacles import build_obstacles, is_crossed, measure_gaps
from marey.spacetime.problem.solution import MIN_SAMPLES, SPIN_FLOOR, frame_instants
from marey.spacetime.problem.supply import (
    MIN_LOAD,
    PRESSURE,
    SolutionTrack,
    build_support,
    build_torque_limits,
    find_contact_points,
    is_shared,
    measure_supply,
    measure_torque_excess,
    separating_face,
)


def sample_track(layout: FullLayout, x: FloatArray, instants: Instants) -> SolutionTrack:
    """Coordinates with the root in place, and exact derivatives, at instants; unknowns unscaled."""
    figure, g = layout.figure, layout.gravity
    q, qd, qdd = (figure.coordinates(curve) for curve in instants.curves(layout.points(x)))
    com = compute_com_motion(figure.tree, q, qd, qdd, jacobians=False)
    for p, phase in enumerate(layout.timeline.phases):
        chosen = np.flatnonzero(instants.phases == p)
        if not len(chosen):
            continue
        flight = layout.flight_of(p)
        if flight is None:
            # The root goes where the contact point stays on its plant
            dof, place = figure.point(phase.contacts[0].point)
            motion = compute_point_motion(figure.tree, q[chosen], qd[chosen], qdd[chosen], dof, place)
            plant = np.asarray(phase.contacts[0].position)
            root = (plant - motion.position, -motion.velocity, -motion.acceleration)
        else:
            # The centre of mass falls from where the support before, or the unknowns of the flight, let it go
            if flight.before is None:
                start, speed = np.zeros(3), np.zeros(3)
                start[figure.axes] = x[flight.place]
                speed[figure.axes] = x[flight.speed]
            else:
                edge = float(layout.timeline.edges[flight.before + 1])
                start, speed, _ = compute_support_com(layout, x, flight.before, edge)
                still = np.setdiff1d(np.arange(3), figure.axes)
                start[still] = speed[still] = 0.0
            after = (instants.times[chosen] - flight.start_s)[:, None]
            root = (
                start + after * speed + 0.5 * after**2 * g - com.position[chosen],
                speed + after * g - com.velocity[chosen],
                g - com.acceleration[chosen],
            )
        for state, rate in zip((q, qd, qdd), root, strict=True):
            state[np.ix_(chosen, figure.slides)] = rate[:, figure.axes]
        for contact in phase.contacts[1:]:
            rates = close_contact(figure, phase.contacts[0], contact, (q[chosen], qd[chosen], qdd[chosen]))
            q[chosen], qd[chosen], qdd[chosen] = rates
    return SolutionTrack(instants.times, instants.phases, q, qd, qdd)


CLOSING_STEPS: Final = 6  # of Newton: the limb is off by millimetres at most
CLOSING_RANK: Final = 1e-2  # [m] directions in which a stretched limb hardly moves its end are left alone


def close_contact(figure: FullBodyModel, first: Contact, contact: Contact, rates: CurveRates) -> CurveRates:
    r"""Bring a contact beyond the first exactly to its plant by the least change of its own limb.

    .. math:: \Delta\theta = J^+ (p - o(q)), \quad \Delta\dot\theta = -J^+\dot o, \quad
        \Delta\ddot\theta = -J^+\ddot o

    Splines of angles hold a second contact at the frames of the solver; between them its limb takes up what is left.
    Angles between the limb and the first contact, and the root, stay. Rates ``(n, dofs)`` are of the whole tree.
    """
    q, qd, qdd = (rate.copy() for rate in rates)
    tree, (dof, place) = figure.tree, figure.point(contact.point)
    held, axes = tree.ancestors(figure.point(first.point)[0]), figure.axes
    own = np.array([i for i in tree.ancestors(dof) if i not in held], dtype=np.int64)
    for _ in range(CLOSING_STEPS):
        at = compute_point_motion(tree, q, qd, qdd, dof, place)
        gap = (np.asarray(contact.position) - at.position)[:, axes]
        inverse = np.linalg.pinv(at.J[:, axes][:, :, own], rcond=CLOSING_RANK)
        q[:, own] += np.einsum("nij,nj->ni", inverse, gap)
        if float(np.abs(gap).max(initial=0.0)) < 1e-11:
            break
    at = compute_point_motion(tree, q, qd, qdd, dof, place)
    inverse = np.linalg.pinv(at.J[:, axes][:, :, own], rcond=CLOSING_RANK)
    qd[:, own] -= np.einsum("nij,nj->ni", inverse, at.velocity[:, axes])
    at = compute_point_motion(tree, q, qd, qdd, dof, place)
    qdd[:, own] -= np.einsum("nij,nj->ni", inverse, at.acceleration[:, axes])
    return q, qd, qdd


def compute_support_com(
    layout: FullLayout, x: FloatArray, phase: int, time: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Centre of mass, its velocity, and the angular momentum about it, at an instant of a support."""
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
    x, axes, figure, timeline = x.copy(), layout.figure.axes, layout.figure, layout.timeline
    for flight in layout.flights:
        length = flight.end_s - flight.start_s
        drop = 0.5 * layout.gravity * length**2
        start = end = None
        if flight.before is not None:
            start = compute_support_com(layout, x, flight.before, float(timeline.edges[flight.before + 1]))[0]
        if flight.after is not None:
            end = compute_support_com(layout, x, flight.after, float(timeline.edges[flight.after]))[0]
        # Between two supports the velocity follows; beside a free end the flight begins, or would, at rest
        speed = np.zeros(3)
        if start is None:
            place = np.asarray(layout.problem.start_com) if end is None else end - drop
        else:
            place = start
            if end is not None:
                speed = (end - start - drop) / length
        x[flight.place], x[flight.speed] = place[axes], speed[axes]
        # The angular momentum is the mean over the flight
        builder = InstantBuilder(timeline)
        for phase in flight.phases:
            builder.add(phase, timeline.gauss_frames(phase, 2))
        states = [figure.coordinates(curve) for curve in builder.build().curves(layout.points(x))]
        whole = compute_aggregate(figure.tree, states[0], states[1], states[2], gravity=0.0)
        x[flight.spin] = np.asarray(whole.angular_momentum).mean(axis=0)[figure.spins]
    return x


def motion_from_unknowns(layout: FullLayout, x: FloatArray, rate_hz: float, name: str) -> Motion:
    """The motion at a frame rate, with its contact track; the last frame is at or before the end."""
    times, phases = frame_instants(layout.timeline.edges, rate_hz)
    builder = InstantBuilder(layout.timeline)
    for phase, time in zip(phases, times, strict=True):
        builder.add(int(phase), float(time))
    track = sample_track(layout, x, builder.build())
    # Contact track: what the contacts of each phase hold
    held = [{n for c in phase.contacts for n in contact_track_names(c.point)} for phase in layout.timeline.phases]
    names = tuple(sorted({name for points in held for name in points}))
    active = np.array([[n in held[p] for n in names] for p in phases], dtype=bool).reshape(len(times), len(names))
    contacts = Contacts(names, active) if names else None
    return replace(layout.figure.tree.to_motion(track.q, rate_hz, contacts), name=name)


def contact_track_names(point: str) -> tuple[str, ...]:
    """Names in a contact track of a named point of a character: a foot has a heel and a toe."""
    sides = ("left", "right") if point in ("feet", "hands") else (point.split("_")[0],)
    if point in ("feet", "left_foot", "right_foot"):
        return tuple(f"{side}_{part}" for side in sides for part in ("heel", "toe"))
    return tuple(f"{side}_hand" for side in sides) if point in ("hands", "left_hand", "right_hand") else (point,)


ALLOWED_EXCESS: Final = 0.03  # [mg], [mg m] what may be missing between frames
ALLOWED_TORQUE: Final = 0.03  # [-] of a limit, beyond it; 5 % are allowed
ALLOWED_DRIFT: Final = 0.015  # [-] of the angular momentum of a flight; 2 % are allowed
ALLOWED_PRESSURE_M: Final = 0.007  # [m] likewise of the pressure point; 10 mm are allowed
GROSS_EXCESS: Final = 0.25  # [mg] larger residuals between the frames invalidate a motion
SAMPLES_PER_SPAN: Final = 8
MAX_REFINEMENTS: Final = 6

Frames = tuple[tuple[int, float], ...]  # phase and time [s]
SupportFace = tuple[int, tuple[float, ...]]  # phase, and a row (6,) on the wrench about the world's origin, at least 0
NearPair = tuple[int, int, int]  # phase, number of a capsule and of an obstacle
ROOM_M: Final = 0.3  # [m] farther away from a box or bar that is passed over nothing is looked at
NEAR_M: Final = -0.001  # [m] gap below which a capsule gets rows of its own
DEEP_M: Final = -0.004  # [m] gap below which such a capsule gets more instants; 5 mm of entry are allowed
MIN_FACE: Final = 0.04  # [mg] a wrench this far outside shows which face of a cone it passed; 0.05 is allowed


def find_passed_faces(layout: FullLayout, x: FloatArray) -> tuple[tuple[SupportFace, ...], Frames]:
    """Faces of the cones of supports that a solution passes, the worst of each phase, and where it does so."""
    track = sample_track(layout, x, layout.timeline.grid(SAMPLES_PER_SPAN))
    whole = compute_aggregate(layout.figure.tree, track.q, track.qd, track.qdd, gravity=layout.problem.gravity)
    points = find_contact_points(layout.figure.tree, layout.problem, track)
    missing = measure_supply(np.asarray(whole.wrench) / layout.weight, points, np.asarray(points.active.any(axis=1)))[0]
    found, where = list[SupportFace](), list[tuple[int, float]]()
    for p, phase in enumerate(layout.timeline.phases):
        size = np.where(track.phases == p, np.linalg.norm(missing, axis=1), 0.0)
        n = int(np.argmax(size))
        is_alone = bool(phase.contacts) and not is_shared(layout.problem, p) and phase.contacts[0].kind == "foot"
        if is_alone and size[n] > MIN_FACE:
            found.append((p, separating_face(points, missing, n)))
            where.append((p, float(track.times[n])))
    return tuple(found), tuple(where)


def measure_drift(layout: FullLayout, x: FloatArray) -> float:
    """Farthest that a contact is from its plant [m]."""
    track = sample_track(layout, x, layout.timeline.grid(SAMPLES_PER_SPAN))
    return float(find_contact_points(layout.figure.tree, layout.problem, track).drift.max(initial=0.0))


def find_near_pairs(layout: FullLayout, x: FloatArray, known: tuple[NearPair, ...] = ()) -> tuple[NearPair, ...]:
    """Capsules of the body that a solution, or a guess, brings into floor, boxes or bars.

    If one enters what the motion leads over, all of them are looked at on that way: where one limb is drawn up another
    would go through. Of those that are known already, the ones that go deep between their instants are named again.
    """
    problem, found = layout.problem, dict[NearPair, None]()
    # As densely as the check: a foot cuts a corner in ten milliseconds
    per_span = max(-(-MIN_SAMPLES // layout.timeline.spline.num_spans), SAMPLES_PER_SPAN)
    track = sample_track(layout, x, layout.timeline.grid(per_span))
    shapes = build_obstacles(problem)
    gaps = measure_gaps(layout.figure.tree, problem, track.q, track.phases)
    for k, (_, _, gap) in enumerate(gaps):
        found |= {(int(p), k // len(shapes), k % len(shapes)): None for p in np.unique(track.phases[gap < NEAR_M])}
    for s in {shape for _, _, shape in found}:
        way = [p for p in range(len(problem.phases)) if is_crossed(problem, p, shapes[s])]
        for k, (_, _, gap) in enumerate(gaps[s :: len(shapes)]):
            found |= {(p, k, s): None for p in way if gap[track.phases == p].min(initial=np.inf) < ROOM_M}
    entered = {
        (int(p), k // len(shapes), k % len(shapes))
        for k, (_, _, gap) in enumerate(gaps)
        for p in np.unique(track.phases[gap < DEEP_M])
    }
    return tuple(pair for pair in found if pair not in known or pair in entered)


def find_weak_instants(layout: FullLayout, x: FloatArray) -> Frames:
    """Instants of a dense grid where contacts cannot give what a solution needs: the worst of each stretch."""
    found: list[tuple[int, float]] = []
    for p, (times, excess) in enumerate(_phase_excesses(layout, x)):
        above = excess > ALLOWED_EXCESS
        starts = np.flatnonzero(above & ~np.concatenate([[False], above[:-1]]))
        ends = np.flatnonzero(above & ~np.concatenate([above[1:], [False]])) + 1
        worst = [float(times[a + np.argmax(excess[a:b])]) for a, b in zip(starts, ends, strict=True)]
        if layout.timeline.phases[p].is_flight:
            # Rows of flights hold the momentum, whose rate at a frame is known from what is beside it
            frames = layout.timeline.even_frames(p, layout.problem.frames_per_span)
            beside = [np.sort(frames[np.argsort(np.abs(frames - time))[:2]]) for time in worst]
            worst = [
                float(near.mean()) if np.abs(near - time).min() < SNAP_S else time
                for time, near in zip(worst, beside, strict=True)
            ]
        found += [(p, time) for time in worst]
    return tuple(found)


def compute_worst_excess(layout: FullLayout, x: FloatArray) -> float:
    """Largest of what is missing on the dense grid [mg]."""
    return max(float(excess.max(initial=0.0)) for _, excess in _phase_excesses(layout, x))


def _phase_excesses(layout: FullLayout, x: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
    """Times of a dense grid, and what is missing there [mg], for each phase."""
    track = sample_track(layout, x, layout.timeline.grid(SAMPLES_PER_SPAN))
    whole = compute_aggregate(layout.figure.tree, track.q, track.qd, track.qdd, gravity=layout.problem.gravity)
    all_wrenches, com = np.asarray(whole.wrench) / layout.weight, np.asarray(whole.com)
    spin = np.asarray(whole.angular_momentum)
    tree, problem, found = layout.figure.tree, layout.problem, list[tuple[FloatArray, FloatArray]]()
    # What contacts give together, and torques beyond their limits, each over what is allowed
    shared, points = [is_shared(problem, p) for p in range(len(problem.phases))], None
    if any(shared) or problem.has_torque_limits:
        points = find_contact_points(tree, problem, track)
    torques = np.zeros(len(track.times))
    if points is not None and problem.has_torque_limits:
        limits = build_torque_limits(tree, problem)
        over = measure_torque_excess(tree, limits, track, points, wrench=all_wrenches, gravity=problem.gravity)
        torques = over.max(axis=1, initial=0.0) / ALLOWED_TORQUE * ALLOWED_EXCESS
    for p, phase in enumerate(layout.timeline.phases):
        chosen = track.phases == p
        wrench, force = all_wrenches[chosen], all_wrenches[chosen, :3]
        if phase.is_flight:
            # No moment acts about the centre of mass, and momentum stays that of the flight
            excess = np.linalg.norm(wrench[:, 3:] - np.cross(com[chosen], force), axis=1)
            mean = spin[chosen].mean(axis=0)
            drift = np.linalg.norm(spin[chosen] - mean, axis=1) / max(float(np.linalg.norm(mean)), SPIN_FLOOR)
            excess = np.maximum(excess, drift / ALLOWED_DRIFT * ALLOWED_EXCESS)
        elif points is not None and shared[p]:
            missing, cone, cop, _ = measure_supply(all_wrenches, points, chosen)
            beside = cop[chosen] / ALLOWED_PRESSURE_M * ALLOWED_EXCESS
            excess = np.maximum(np.maximum(np.linalg.norm(missing, axis=1), cone)[chosen], beside)
        else:
            support = build_support(phase)
            moment = wrench[:, 3:] - np.cross(support.centre, force)
            rows = np.concatenate([force, moment], axis=1) @ support.matrix.T
            outside = np.maximum(support.lower - rows, rows - support.upper)
            outside[:, [label == "normal force" for label in support.labels]] *= 0.1  # a tenth over the cap is harmless
            excess = np.maximum(outside.max(axis=1), -support.round_row(force)[0])
            # A pressure point outside the soles counts by its distance, however small the load
            pressing = np.array([label == PRESSURE for label in support.labels])
            load = force @ support.normal
            away = outside[:, pressing].max(axis=1, initial=0.0) / np.maximum(load, MIN_LOAD)
            excess = np.maximum(excess, np.where(load > MIN_LOAD, away / ALLOWED_PRESSURE_M * ALLOWED_EXCESS, 0.0))
        found.append((track.times[chosen], np.maximum(excess, torques[chosen])))
    return found


# [rad] neutral poses by limb; arms and legs go forward with negative angles, knees and elbows bend with positive ones
NEUTRAL_POSES: Final[dict[str, dict[str, float]]] = {
    "hang": {"shoulder": -2.9, "elbow": 0.1, "hip": -0.1, "knee": 0.2},
    "stand": {"shoulder": 0.0, "elbow": 0.2, "hip": -0.1, "knee": 0.2},
    "crouch": {"shoulder": 0.1, "elbow": 0.4, "hip": -0.4, "knee": 0.8},
    "run": {"shoulder": 0.0, "elbow": 1.2, "hip": -0.3, "knee": 0.6},
    "tuck": {"shoulder": -0.8, "elbow": 0.8, "hip": -1.8, "knee": 2.0},
}


LEG_PARTS: Final = ("hip", "knee")
TUCKED_M: Final = 0.2  # [m] legs are drawn up over what is this high above the feet


def neutral_pose(figure: FullBodyModel, name: str) -> FloatArray:
    """Angles ``(D,)`` of a neutral pose."""
    if name not in NEUTRAL_POSES:
        raise UnknownNameError("neutral pose", name, "the full space", NEUTRAL_POSES)
    angles = np.zeros(len(figure.angles))
    for part, value in NEUTRAL_POSES[name].items():
        angles[_find_angles(figure, part)] = value
    return angles


def _find_angles(figure: FullBodyModel, part: str) -> list[int]:
    """Angles that bend a part of the body, of both sides."""
    names = (part, f"left_{part}", f"right_{part}", f"left_{part}_rx", f"right_{part}_rx")
    return [i for i, dof in enumerate(figure.names) if dof in names]


def interpolate_pose_keys(layout: FullLayout) -> FloatArray:
    """Angles at the control points ``(K, D)``: the neutral pose, or linear in time between the pose keys.

    Legs are drawn up in phases that lead over something.
    """
    times, problem = layout.timeline.spline.greville, layout.problem
    points = np.tile(neutral_pose(layout.figure, problem.guess), (len(times), 1))
    keyed: dict[int, list[tuple[float, float]]] = {}
    for p, phase in enumerate(problem.phases):
        feet = any(c.point.endswith(("foot", "feet")) for c in phase.contacts)
        own = (times >= layout.timeline.edges[p]) & (times <= layout.timeline.edges[p + 1])
        lowest = min((c.position[1] for one in problem.phases for c in one.contacts), default=0.0)
        for shape in build_obstacles(problem) if not feet else ():
            if shape.top_m > lowest + TUCKED_M and is_crossed(problem, p, shape):
                for part in LEG_PARTS:
                    for angle in _find_angles(layout.figure, part):
                        points[own, angle] = NEUTRAL_POSES["tuck"][part]
    for key in problem.keys:
        if key.at is None:
            continue
        time = layout.timeline.time_of(problem.phase_index(key.phase), key.at)
        if key.kind == "pose":
            for name, value in key.joints.items():
                keyed.setdefault(layout.figure.angle_index(name), []).append((time, value))
    for i, found in keyed.items():
        # A motion without a key at its start leaves from the neutral pose
        keys = sorted(found)
        keys = keys if keys[0][0] <= 0.0 else [(0.0, points[0, i]), *keys]
        points[:, i] = np.interp(times, [time for time, _ in keys], [value for _, value in keys])
    return points


LEAN_RAD: Final = 1.1  # of the trunk over hands that carry the body over something: legs pass below the chest
PLANT_PULL: Final = 100.0  # [1/m] of contacts to their plants; a joint's pull to the wanted pose is 1 a radian
COM_PULL: Final = 5.0  # [1/m] of the centre of mass to the middle of the plants, on the ground plan
ROOT_PULL: Final = 10.0  # [-] of the angles of the root
PLANT_STEPS: Final = 12  # of Gauss-Newton
PLANT_PASSES: Final = 8  # between which the wanted poses are smoothed in time
PLANT_STEP_RAD: Final = 0.3  # largest change of a coordinate in a step


def plant_points(layout: FullLayout, points: FloatArray) -> FloatArray:
    r"""Control points ``(K, D)`` whose poses reach the plants of their phases, turned as the keys of turns say.

    .. math:: \min_q\ w_p^2\sum_c |o_c(q) - p_c|^2 + w_m^2 |c(q) - \bar p|^2 + |W(q - \bar q)|^2

    The root turns linearly in time between its keys, and arms of who leans reach over the head, where his hands meet
    the ground. Poses are found for all control points at once, within the limits. Between passes the wanted ones
    :math:`\bar q` are those of the last pass smoothed in time, so that neighbours, and flights, go together.
    """
    figure, timeline, phases = layout.figure, layout.timeline, layout.timeline.phases
    tree, times = figure.tree, timeline.spline.greville
    plants = [(p, contact) for p, phase in enumerate(phases) for contact in phase.contacts]
    if not plants:
        return points
    points = interpolate_turns(layout, points)
    # The middle of the plants, linear in time between the phases that have some
    stands = [p for p, phase in enumerate(phases) if phase.contacts]
    middles = np.array([np.mean([c.position for c in phases[p].contacts], axis=0) for p in stands])
    centres = [timeline.time_of(p, 0.5) for p in stands]
    path = np.stack([np.interp(times, centres, middles[:, k]) for k in range(3)], axis=1)
    wanted = figure.coordinates(points, path + np.array([0.0, 0.5 * layout.problem.height_m, 0.0]))
    # Arms over the head of who leans
    trunk = [int(figure.angles[figure.root_angles[-1]])] * 2
    ends = compute_point_positions(tree, wanted, trunk, np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))
    lean = np.clip(1.0 - (ends[:, 0] - ends[:, 1])[:, 1], 0.0, 1.0)
    for part in ("shoulder", "elbow"):
        for angle in figure.angles[_find_angles(figure, part)]:
            wanted[:, angle] += lean * (NEUTRAL_POSES["hang"][part] - wanted[:, angle])
    own = [(times > timeline.edges[p] - SNAP_S) & (times < timeline.edges[p + 1] + SNAP_S) for p, _ in plants]
    pull = PLANT_PULL * np.stack(own, axis=1)
    at = [figure.point(contact.point) for _, contact in plants]
    dofs, places = [dof for dof, _ in at], np.array([place for _, place in at])
    goals = np.array([contact.position for _, contact in plants])
    weights = np.ones(tree.num_dofs)
    weights[figure.slides], weights[figure.angles[figure.root_angles]] = 0.1, ROOT_PULL
    q, still = wanted.copy(), np.zeros_like(wanted)
    for _ in range(PLANT_PASSES):
        for _ in range(PLANT_STEPS):
            reached, com = (
                compute_points_motion(tree, q, still, still, dofs, places),
                compute_com_motion(tree, q, still, still),
            )
            J = np.concatenate(
                [
                    (pull[:, :, None, None] * reached.J).reshape(len(q), -1, tree.num_dofs),
                    COM_PULL * com.J[:, ::2],
                    np.broadcast_to(np.diag(weights), (len(q), *2 * (tree.num_dofs,))),
                ],
                axis=1,
            )
            gap = np.concatenate(
                [
                    (pull[:, :, None] * (goals - reached.position)).reshape(len(q), -1),
                    COM_PULL * (path - com.position)[:, ::2],
                    weights * (wanted - q),
                ],
                axis=1,
            )
            step = np.linalg.solve(J.swapaxes(1, 2) @ J, (J.swapaxes(1, 2) @ gap[..., None]))[..., 0]
            q = np.clip(q + np.clip(step, -PLANT_STEP_RAD, PLANT_STEP_RAD), tree.lower, tree.upper)
        padded = np.concatenate([q[:1], q, q[-1:]])
        wanted = 0.25 * padded[:-2] + 0.5 * q + 0.25 * padded[2:]
    return q[:, figure.angles]


def find_hand_stands(problem: SpacetimeProblem) -> list[int]:
    """Phases in which hands alone carry the body, by pressing on something."""
    return [
        p
        for p, phase in enumerate(problem.phases)
        if phase.contacts and all(c.kind == "foot" and c.point.endswith(("hand", "hands")) for c in phase.contacts)
    ]


def find_hand_crossings(problem: SpacetimeProblem) -> list[int]:
    """Phases in which hands carry the body over something."""
    shapes = build_obstacles(problem)
    return [p for p in find_hand_stands(problem) if any(is_crossed(problem, p, shape) for shape in shapes)]


def interpolate_turns(layout: FullLayout, points: FloatArray) -> FloatArray:
    """Control points ``(K, D)`` with the turns of the root linear in time between the keys that bound them.

    Without such keys who passes over something on the hands leans over them, and is upright on the feet.
    """
    points, times, keyed = points.copy(), layout.timeline.spline.greville, dict[int, list[tuple[float, float]]]()
    leans = find_hand_crossings(layout.problem)
    if leans and not any(key.kind == "turn" for key in layout.problem.keys):
        phases, edges = layout.problem.phases, layout.timeline.edges
        stands = [p for p, phase in enumerate(phases) if phase.contacts]
        # As far as the way leads ahead of the body
        start, end = (np.mean([c.position for c in phases[p].contacts], axis=0) for p in (stands[0], stands[-1]))
        x, _, z = end - start
        lean = LEAN_RAD * max(float(z), 0.0) / max(float(np.hypot(x, z)), SNAP_S)
        keyed[layout.figure.angle_index("pitch")] = [
            (float(edge), lean if p in leans else 0.0) for p in stands for edge in edges[p : p + 2]
        ]
    for key in layout.problem.keys:
        if key.kind == "turn" and key.at is not None:
            time = layout.timeline.time_of(layout.problem.phase_index(key.phase), key.at)
            ends = [end for end in (key.lower, key.upper) if end is not None]
            keyed.setdefault(layout.figure.angle_index(key.axis), []).append((time, float(np.mean(ends))))
    for i, found in keyed.items():
        points[:, i] = np.interp(times, *np.transpose(sorted(found)))
    return points


def build_guess(layout: FullLayout, motion: Motion | None = None, *, is_planted: bool = False) -> FloatArray:
    """Unknowns of the flat or of the planted guess, or those nearest to a motion stretched to the problem's length.

    In the flat guess every angle is constant, or linear in time between the pose keys that name it. Root positions
    follow from the contacts; flights start with the ballistic velocity between their supports.

    Raises:
        InputError: the motion has another skeleton.
    """
    x, tree = np.zeros(layout.num_unknowns), layout.figure.tree
    for load in layout.loads:
        # Contacts carry equal parts of the weight
        x[load.unknowns[:, 1]] = 1.0 / len(layout.timeline.phases[load.phase].contacts)
    if motion is None:
        points = interpolate_pose_keys(layout)
        x[: layout.num_curve_unknowns] = (plant_points(layout, points) if is_planted else points).ravel()
        return set_flight_unknowns(layout, x)
    if motion.skeleton.names != tree.skeleton.names:
        raise InputError(
            f"the warm start '{motion.name}' has {motion.skeleton.num_joints} joints of another skeleton",
            "Retarget it to the character of the problem first",
        )
    if motion.num_frames < 4:
        raise InputError(f"the warm start has {motion.num_frames} frames", "It needs at least four")
    angles = tree.from_motion(motion)[:, layout.figure.angles]
    times = np.linspace(0.0, layout.timeline.duration_s, len(angles))
    x[: layout.num_curve_unknowns] = layout.timeline.spline.fit(times, angles, smoothing=1e-6).ravel()
    return set_flight_unknowns(layout, x)
