"""Between the solver's vector in reduced space and motions: sampled for films and for the dense check, and fitted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.dynamics import compute_point_positions
from marey.motion import Contacts, Motion
from marey.spacetime.problem.solution import MIN_SAMPLES, SolutionCheck, frame_instants, measure_solution
from marey.spacetime.problem.supply import SolutionTrack, SupplyPoints
from marey.spacetime.reduced.assembly import ReducedProblem, set_flight_globals
from marey.spacetime.reduced.layout import Curves
from marey.spacetime.reduced.legs import pack_plant
from marey.spacetime.reduced.nodes import (
    FREE,
    HEEL_STRIP_M,
    ON_HEEL,
    ON_TOES,
    CollocationNodes,
    build_nodes,
    grid_instants,
)
from marey.spacetime.reduced.physics_rows import RowContext
from marey.spacetime.reduced.pose import PoseMap

SPIN_FLOOR = 25.0  # [kg m^2/s] 2 % of it is the 0.5 kg m^2/s that the acceptance check allows
TOUCH_M = 0.01  # [m] a part of a sole this near to its plane can push


def sample_reduced_track(
    built: ReducedProblem, values: FloatArray, instants: list[tuple[int, float]]
) -> tuple[SolutionTrack, CollocationNodes]:
    """Coordinates with exact derivatives at instants, flights in world."""
    scene = built.scene
    nodes = build_nodes(scene.layout, scene.space.legs, built.settings.roll, instants, scene.space.dimension)
    state = PoseMap(scene.space, nodes).evaluate(values[: scene.layout.num_coefficients], gradients=False)
    q, qd, qdd = state.q.copy(), state.qd.copy(), state.qdd.copy()
    root = scene.space.root
    # In flight the solver's root is relative to the centre of mass, which falls
    for phase in scene.variables.flights:
        own = np.flatnonzero(nodes.phases == phase)
        t = (nodes.times[own] - scene.layout.edges[phase])[:, None]
        c0, v0 = values[scene.variables.flight_of(phase)[:6]].reshape(2, 3)
        fall = np.array([0.0, -scene.gravity, 0.0])
        q[own[:, None], root] += c0 + v0 * t + 0.5 * fall * t**2
        qd[own[:, None], root] += v0 + fall * t
        qdd[own[:, None], root] += fall
    return SolutionTrack(nodes.times, nodes.phases, q, qd, qdd), nodes


def motion_from_solution(built: ReducedProblem, values: FloatArray, rate_hz: float, name: str) -> Motion:
    """Motion of a solution at a frame rate, with a contact track of heels and toes."""
    times, phases = frame_instants(built.scene.layout.edges, rate_hz)
    instants = list(zip(phases.tolist(), times.tolist(), strict=True))
    track, nodes = sample_reduced_track(built, values, instants)
    active: BoolArray = np.zeros((nodes.count, 4), dtype=bool)
    for leg in (0, 1):
        state = nodes.feet[:, leg]
        active[:, 2 * leg] = (state != FREE) & (state != ON_TOES)
        active[:, 2 * leg + 1] = (state != FREE) & (state != ON_HEEL)
    contacts = Contacts(("left_heel", "left_toe", "right_heel", "right_toe"), active)
    return replace(built.scene.space.tree.to_motion(track.q, rate_hz, contacts), name=name)


def sample_contacts(
    built: ReducedProblem, values: FloatArray, samples: int = MIN_SAMPLES
) -> tuple[SolutionTrack, CollocationNodes, SupplyPoints]:
    """A solution on so many samples at least, and where its soles can push: what touches is seen from its height."""
    scene = built.scene
    step = float(scene.layout.edges[-1]) / samples
    track, nodes = sample_reduced_track(built, values, grid_instants(scene.layout, step))
    places, active, friction, links = (list[FloatArray]() for _ in range(4))
    drift = np.zeros(nodes.count)
    for leg in (0, 1):
        geometry = scene.space.legs[leg]
        # Heel and ball of the foot, tip of the toes, each to both sides; a heel is a pad, not a line
        foot, toe = int(geometry.dofs[6]), int(geometry.dofs[7])
        places_local = np.stack([geometry.heel_local, np.zeros(3), geometry.tip_local])
        marks = compute_point_positions(scene.space.tree, track.q, [foot, toe, toe], places_local)
        for p, phase in enumerate(scene.layout.contacts):
            own, contact = np.flatnonzero(nodes.phases == p), phase[leg]
            if contact is None or not len(own):
                continue
            turn = np.deg2rad(contact.heading_deg)
            across = geometry.half_width * np.array([np.cos(turn), 0.0, -np.sin(turn)])
            ahead = np.array([np.sin(turn), 0.0, np.cos(turn)])
            for k, shift in ((0, 0.0 * ahead), (0, HEEL_STRIP_M * ahead), (1, 0.0 * ahead), (2, 0.0 * ahead)):
                at = marks[own, k]
                height = at[:, 1] - contact.position[1]
                # The ball is a joint above the sole, and stands for the sole below it
                over = float(geometry.ball[1] - min(geometry.heel[1], geometry.tip[1])) if k == 1 else 0.0
                is_down = height < TOUCH_M + over
                for side in (-1.0, 1.0):
                    place = np.zeros((nodes.count, 3))
                    place[own] = at + shift + side * across
                    place[own, 1] = contact.position[1]
                    touching = np.zeros(nodes.count)
                    touching[own] = is_down
                    places.append(place)
                    active.append(touching)
                    friction.append(np.full(nodes.count, contact.friction))
                    # The toes carry what presses on the sole while the foot stands on them alone
                    links.append(np.where(nodes.feet[:, leg] == ON_TOES, toe, foot))
            # Largest distance of the supporting part of a foot from its plant
            for k, on_heel in ((1, False), (0, True)):
                standing = own[nodes.feet[own, leg] != (ON_TOES if on_heel else ON_HEEL)]
                heading = float(np.deg2rad(contact.heading_deg))
                goal = pack_plant(geometry, np.asarray(contact.position), heading, on_heel=on_heel)[:3]
                away = np.linalg.norm(marks[standing, k] - goal, axis=1)
                drift[standing] = np.maximum(drift[standing], away)
    shape = (nodes.count, len(places))
    up = np.broadcast_to([0.0, 1.0, 0.0], (*shape, 3))
    points = SupplyPoints(
        np.stack(places, axis=1),
        np.stack(active, axis=1) > 0.0,
        up,
        np.stack(friction, axis=1),
        np.full(shape, np.inf),
        np.zeros(shape),
        drift,
        np.stack(links, axis=1).astype(np.int64),
    )
    return track, nodes, points


def check_track(built: ReducedProblem, values: FloatArray) -> SolutionCheck:
    """Measure a solution on at least a thousand samples."""
    scene = built.scene
    track, _, points = sample_contacts(built, values)
    beyond = compute_limit_excesses(scene, track)
    root = scene.space.root
    return measure_solution(
        scene.space.tree, built.problem, track, points, beyond=beyond, root=root, spin_floor=SPIN_FLOOR
    )


def compute_limit_excesses(scene: RowContext, track: SolutionTrack) -> FloatArray:
    """How far [rad] each coordinate goes beyond its limits ``(T, D)``; nothing for the root."""
    lower, upper = scene.limits
    over = np.maximum(lower - track.q, track.q - upper)
    over[:, np.concatenate([scene.space.root, scene.space.turns])] = 0.0
    return np.maximum(over, 0.0)


def find_stray_coordinates(built: ReducedProblem, track: SolutionTrack, tolerance: float) -> tuple[int, ...]:
    """Coordinates of the upper body beyond their limits by more than a tolerance [rad] without rows yet."""
    over = compute_limit_excesses(built.scene, track).max(axis=0)
    over[[*built.scene.space.leg_dofs, *built.settings.watched]] = 0.0
    return tuple(int(dof) for dof in np.flatnonzero(over > tolerance))


def vector_from_motion(built: ReducedProblem, motion: Motion) -> FloatArray:
    """The solver's vector of a motion of the behaviour's skeleton, stretched to the problem's length.

    Amplitudes are the motion's projections, root and free legs follow it; planted legs follow from the root.
    """
    scene = built.scene
    space, layout, variables = scene.space, scene.layout, scene.variables
    q = space.tree.from_motion(motion)
    times = float(layout.edges[-1]) * np.arange(len(q)) / max(len(q) - 1, 1)
    # The behaviour says what is left without that which is added at the ends
    plain = q - space.offset_rates(times)[:, 0]
    amplitudes = scene.behaviour.encode(plain)
    _fit_curves(built, layout.amplitudes, times, amplitudes)
    _fit_curves(built, layout.angles, times, q[:, space.turns])
    for _, curves in layout.roots:
        _fit_curves(built, curves, times, q[:, space.root])
    for leg in (0, 1):
        dofs = space.legs[leg].dofs
        off = plain[:, dofs] - space.mean[dofs] - amplitudes @ space.modes[dofs].T
        for interval in layout.legs[leg]:
            if interval.is_stance:
                # Swivel of the knee and lift of the heel (F, 2) [rad] of a leg, as if its foot stood on the plant
                reduced, contact = built.scene.space, interval.contact
                assert contact is not None
                geometry = reduced.legs[leg]
                links = [geometry.dofs[k] for k in (2, 3, 6, 7)]
                places = compute_point_positions(reduced.tree, q, links, np.zeros((4, 3)))
                hip, knee, ankle, ball = places.swapaxes(0, 1)
                turn = np.deg2rad(contact.heading_deg)
                heading = np.array([np.sin(turn), 0.0, np.cos(turn)])
                # Swivel: the knee about the line from hip to ankle, from the heading of the foot
                n = (ankle - hip) / np.linalg.norm(ankle - hip, axis=1, keepdims=True)
                u = heading - (n @ heading)[:, None] * n
                u /= np.linalg.norm(u, axis=1, keepdims=True)
                side = knee - hip
                swivel = np.arctan2(np.einsum("fi,fi->f", side, np.cross(n, u)), np.einsum("fi,fi->f", side, u))
                # Lift: pitch of the foot against that of a flat one
                back = ankle - ball
                pitch = np.arctan2(back[:, 1], -(back @ heading))
                flat = np.arctan2(-geometry.ball[1], geometry.ball[2])
                own = np.stack([swivel, pitch - flat], axis=1)
            else:
                own = off
            _fit_curves(built, interval.curves, times, own)
    set_flight_globals(scene)
    return variables.pack(variables.values)


def _fit_curves(built: ReducedProblem, curves: Curves, times: FloatArray, samples: FloatArray) -> None:
    """Nearest curves to samples within their time; what is fixed stays."""
    start, stop = curves.spline.knots[[0, -1]]
    inside = (times >= start - 1e-9) & (times <= stop + 1e-9)
    if inside.sum() >= 4:
        fitted = curves.spline.fit(np.clip(times[inside], start, stop), samples[inside], smoothing=1e-6)
        built.scene.variables.set_curves(curves, fitted)
