"""Initial guess: poses at the ends, a crouched hold between them ([Safonova2006]_ §3.2, corrected)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.dynamics import compute_com_motion, compute_points_motion
from marey.spacetime.problem.definition import Contact
from marey.spacetime.reduced.behaviour import BehaviourPose
from marey.spacetime.reduced.layout import FEET
from marey.spacetime.reduced.legs import compute_sole_centre, heading_matrix
from marey.spacetime.reduced.physics_rows import RowContext

CROUCH_M: Final = 0.10  # [m] how much lower than standing the root is held
SUPPORT_STRETCH: Final = 0.985  # of a leg at the ends of the motion
LEAN_M: Final = 0.18  # [m] how far the guess moves away from the middle of the feet
TURN_LEAD_S: Final = 0.1  # [s] before and after a flight in which the guess turns
MAX_DROP_M: Final = 0.4  # [m] beyond which a plant is out of reach


@dataclass(frozen=True, slots=True, eq=False)
class SupportPose:
    """A pose of the behaviour put on its plants."""

    q: FloatArray  # (D,)
    qd: FloatArray  # (D,)
    amplitudes: FloatArray  # (d,)
    rates: FloatArray  # (d,)


def place_on_plants(
    scene: RowContext, pose: BehaviourPose, contacts: tuple[Contact | None, Contact | None], name: str
) -> SupportPose:
    """Turn and move a pose onto its plants: root over the feet, ankles at their height, no leg overstretched.

    Raises:
        InputError: the plants are too far apart for the legs; the message gives the distance.
    """
    space, behaviour = scene.space, scene.behaviour
    plants = {leg: contact for leg, contact in enumerate(contacts) if contact is not None}
    q, qd = pose.q.copy(), pose.qd.copy()
    a = behaviour.encode(q)
    # Encoding takes the mean pose off, which a velocity does not have
    mean = np.zeros(len(q))
    mean[behaviour.columns] = behaviour.mean
    rates = behaviour.encode(qd + mean)
    q[behaviour.columns] = behaviour.decode(a)
    if plants:
        heading = float(np.mean([np.deg2rad(contact.heading_deg) for contact in plants.values()]))
        # Face the heading, velocities too
        yaw = int(space.turns[int(np.argmax(np.abs(space.tree.axes[space.turns][:, 1])))])
        qd[space.root] = heading_matrix(heading - q[yaw]) @ qd[space.root]
        q[yaw] = heading
        q[space.root] = 0.0
        dofs = [space.legs[leg].dofs[k] for k in (6, 2) for leg in (0, 1)]
        zero = np.zeros((1, len(q)))
        places = compute_points_motion(space.tree, q[None], zero, zero, dofs, np.zeros((4, 3))).position[0]
        ankles, hips = places[:2], places[2:]
        # The root stands over the feet
        goals: dict[int, FloatArray] = {}
        for leg, contact in plants.items():
            R = heading_matrix(np.deg2rad(contact.heading_deg))
            goals[leg] = np.asarray(contact.position) - R @ compute_sole_centre(space.legs[leg])
        q[space.root] = np.mean([goal - ankles[leg] for leg, goal in goals.items()], axis=0)
        # Lower it until every leg reaches its plant
        root, drops = q[space.root].copy(), np.arange(0.0, MAX_DROP_M, 0.002)
        for drop in drops:
            gaps = [
                float(np.linalg.norm(goal - hips[leg] - root + [0.0, drop, 0.0])) / space.legs[leg].reach
                for leg, goal in goals.items()
            ]
            if max(gaps) <= SUPPORT_STRETCH:
                q[space.root[1]] -= drop
                break
        else:
            away = {leg: float(np.linalg.norm(goal - hips[leg] - root)) for leg, goal in goals.items()}
            leg = max(away, key=lambda k: away[k])
            raise InputError(
                f"the {name} plants {FEET[leg]} {away[leg]:.2f} m from its hip, "
                f"the leg is {space.legs[leg].reach:.2f} m long",
                "Put the plants nearer together",
            )
    return SupportPose(q, qd, a, rates)


def fix_end(scene: RowContext, seat: SupportPose, *, at_start: bool) -> None:
    """Fix the pose at an end of the motion, and its velocity if it is at rest: one or two control points a curve.

    The velocity of a moving body is left to the search: the plants and durations may ask for another one.
    """
    layout, space, variables = scene.layout, scene.space, scene.variables
    phase = 0 if at_start else layout.num_phases - 1
    held = [(layout.amplitudes, seat.amplitudes, seat.rates)]
    held.append((layout.angles, seat.q[space.turns], seat.qd[space.turns]))
    root = layout.root_of(phase)
    if root is not None:
        held.append((root, seat.q[space.root], seat.qd[space.root]))
    for leg in (0, 1):
        interval = layout.interval_of(leg, phase)
        if not interval.is_stance:
            dofs = space.legs[leg].dofs
            said = space.mean[dofs] + space.modes[dofs] @ seat.amplitudes
            held.append((interval.curves, seat.q[dofs] - said, seat.qd[dofs] - space.modes[dofs] @ seat.rates))
    # The outer control point is the value, the next one follows from the rate: a third of the first span away
    outer, inner = (0, 1) if at_start else (-1, -2)
    for curves, value, rate in held:
        index, knots = curves.indices, curves.spline.knots
        step = knots[4] - knots[3] if at_start else -(knots[-4] - knots[-5])
        variables.fix(index[outer], value)
        if not np.any(seat.qd):
            variables.fix(index[inner], value + rate * step / 3.0)


def fill_guess(
    scene: RowContext, start: SupportPose, end: SupportPose, crouch_m: float, lean_m: float = LEAN_M
) -> None:
    """Amplitudes and tilt linear, yaw turning in flight, root held over its feet and lowered, flights ballistic."""
    layout, space, variables = scene.layout, scene.space, scene.variables
    edges, flights, t = layout.edges, variables.flights, layout.angles.spline.greville
    share = ((t - edges[0]) / (edges[-1] - edges[0]))[:, None]
    variables.set_curves(layout.amplitudes, (1.0 - share) * start.amplitudes + share * end.amplitudes)
    # Root angles are linear, but yaw and what turns far turn only around flights if there is one
    first, last = start.q[space.turns], end.q[space.turns]
    angles = (1.0 - share) * first + share * last
    yaw = int(np.argmax(np.abs(space.tree.axes[space.turns][:, 1])))
    if flights:
        ends = [edges[flights[0]] - TURN_LEAD_S, edges[flights[-1] + 1] + TURN_LEAD_S]
        for k in (yaw, *np.flatnonzero(np.abs(last - first) > np.pi / 2)):
            angles[:, k] = np.interp(t, ends, [first[k], last[k]])
    variables.set_curves(layout.angles, angles)
    for (phase, _), curves in layout.roots:
        held = _hold_root(scene, curves.spline.greville, phase, start, end, crouch_m, lean_m)
        variables.set_curves(curves, held)
    set_flight_globals(scene)


def set_flight_globals(scene: RowContext) -> None:
    """Set lift-off and velocity of every flight from where the body leaves and lands."""
    layout, variables = scene.layout, scene.variables
    state = scene.maker.poses.evaluate(variables.values[: layout.num_coefficients], gradients=False)
    for phase in variables.flights:
        nodes = [scene.nodes.at(phase - 1, layout.edges[phase]), scene.nodes.at(phase + 1, layout.edges[phase + 1])]
        com = compute_com_motion(scene.space.tree, state.q[nodes], state.qd[nodes], state.qdd[nodes]).position
        # Ballistic from where the body leaves to where it lands, without spin
        duration = float(layout.edges[phase + 1] - layout.edges[phase])
        velocity = (com[1] - com[0]) / duration
        velocity[1] += 0.5 * scene.gravity * duration
        variables.values[variables.flight_of(phase)] = np.concatenate([com[0], velocity, np.zeros(3)])


def _hold_root(
    scene: RowContext, t: FloatArray, first: int, start: SupportPose, end: SupportPose, crouch_m: float, lean_m: float
) -> FloatArray:
    """Root ``(K, 3)`` at times: over the middle of the feet, moving with the line between the ends but not far."""
    layout, root = scene.layout, scene.space.root
    times = np.array([0.0, layout.edges[-1]])
    ends = np.stack([start.q[root], end.q[root]])
    ground = [p for p in range(layout.num_phases) if not layout.is_flight(p)]
    feet = {p: np.mean([c.position for c in layout.contacts[p] if c is not None], axis=0) for p in ground}
    centres = np.stack(list(feet.values()))
    # A line through the ends of the motion and the middles of the supports
    middles = np.array([0.5 * (layout.edges[p] + layout.edges[p + 1]) for p in ground])
    shift = 0.5 * (ends[0] - centres[0] + ends[1] - centres[-1])
    line_t = np.concatenate([[times[0]], middles, [times[1]]])
    line_x = np.concatenate([ends[:1], centres + shift, ends[1:]])
    heights = ends[:, 1] - centres[[0, -1], 1]
    last = max(p for p in ground if any(a <= first < b and a <= p < b for (a, b), _ in layout.roots))
    out = np.zeros((len(t), 3))
    for i, time in enumerate(t):
        phase = min(max(int(np.searchsorted(layout.edges, float(time), side="right")) - 1, first), last)
        wanted = np.array([float(np.interp(float(time), line_t, line_x[:, k])) for k in range(3)])
        home = feet[phase] + shift
        out[i] = home + np.clip(wanted - home, -lean_m, lean_m)
        out[i, 1] = np.interp(time, times, heights) + feet[phase][1] - crouch_m
    return out
