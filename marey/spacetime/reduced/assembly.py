"""A problem in the space of a behaviour, built and solved from a guess or from a given motion.

The guess has the poses at the ends and a crouched hold between them ([Safonova2006]_ §3.2, corrected).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.dynamics import compute_com_motion, compute_point_positions
from marey.skeleton import role_map
from marey.spacetime.problem.definition import ROOT_NAMES, Contact, Key, SpacetimeProblem
from marey.spacetime.problem.supply import build_torque_limits
from marey.spacetime.reduced.behaviour import BehaviourPose, BehaviourSpace
from marey.spacetime.reduced.layout import FEET, ReducedVariables, build_layout
from marey.spacetime.reduced.legs import (
    SIDES,
    STRETCH_ROUNDING,
    compute_sole_centre,
    find_root_dofs,
    heading_matrix,
    measure_leg,
)
from marey.spacetime.reduced.nodes import (
    FootRoll,
    NormalForceLimits,
    SupportCut,
    build_nodes,
    build_supports,
    find_heel_stop,
    find_toe_start,
    solver_instants,
)
from marey.spacetime.reduced.physics_rows import (
    CAPTURED_SWING,
    RowContext,
    SwingClearance,
    clearance_rows,
    com_joint_rows,
    flight_rows,
    height_rows,
    leg_joint_rows,
    limit_rows,
    stretch_rows,
    torque_rows,
    upper_body_limit_rows,
    wrench_rows,
)
from marey.spacetime.reduced.pose import NodeEvaluator, PoseMap, ReducedSpace
from marey.spacetime.reduced.programme import (
    ReducedProgramme,
    build_border_prior,
    build_key_rows,
    build_reduced_terms,
    find_key_instants,
    validate_reduced,
)

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


MAX_TOE_LIFT_RAD: Final = 0.4  # by which the toes of a swinging foot are lifted at an end of a motion
MAX_GAZE_DOWN_RAD: Final = 0.25  # [rad] below the horizon: people look some metres ahead, not at their feet


def find_end_pose(problem: SpacetimeProblem, behaviour: BehaviourSpace, name: str) -> tuple[BehaviourPose, FloatArray]:
    """The pose at an end of a motion, and what must be added there ``(D,)`` to what the behaviour says of it.

    It is that of a pose key at the end, which the space of the behaviour holds only in part; or else that of the
    behaviour, with the head raised where its actor looked at his feet.
    """
    tree, pose = behaviour.tree, behaviour.pose(name)
    offset, (root, turns) = np.zeros(tree.num_dofs), find_root_dofs(tree)
    key = find_end_key(problem, name)
    if key is not None:
        q = pose.q.copy()
        for joint, value in key.joints.items():
            q[tree.index(ROOT_NAMES.get(joint, joint))] = value
        near = q.copy()
        near[behaviour.columns] = behaviour.decode(behaviour.encode(q))
        offset = q - near
        offset[np.concatenate([root, turns])] = 0.0
        return BehaviourPose(q, np.zeros_like(q)), offset
    if any(k.kind == "turn" and k.axis != "yaw" for k in problem.keys):
        return pose, offset  # who turns over looks where he must
    # Joints from the neck up that nod, and the pitch of the head below the horizon
    motion = tree.to_motion(pose.q[None], 1.0)
    joints = role_map(motion.skeleton).joints
    if "head" not in joints or "neck" not in joints:
        return pose, offset
    chain, joint = list[int](), int(joints["head"])
    while joint >= 0:
        chain.append(joint)
        joint = int(motion.skeleton.parents[joint])
    frame = reduce(lambda a, b: a @ b, [motion.rotations[0, j] for j in reversed(chain)])
    down = float(np.arcsin(np.clip(-(frame @ np.array([0.0, 0.0, 1.0]))[1], -1.0, 1.0)))
    above = {motion.skeleton.names[j] for j in chain if j >= joints["neck"]}
    nods = [i for i in range(tree.num_dofs) if tree.groups[i] in above and abs(tree.axes[i][0]) > 0.9]
    if nods and down > MAX_GAZE_DOWN_RAD:
        offset[nods] = -(down - MAX_GAZE_DOWN_RAD) / len(nods)
    return pose, offset


def find_end_key(problem: SpacetimeProblem, name: str) -> Key | None:
    """The key pose at the start or the end of a problem."""
    phase, at = (problem.phases[0], 0.0) if name == "start" else (problem.phases[-1], 1.0)
    return next((k for k in problem.keys if k.kind == "pose" and k.phase == phase.name and k.at == at), None)


def place_on_plants(
    scene: RowContext,
    posed: tuple[BehaviourPose, FloatArray],
    contacts: tuple[Contact | None, Contact | None],
    name: str,
) -> SupportPose:
    """Turn and move a pose onto its plants: root over the feet, ankles at their height, no leg overstretched.

    Raises:
        InputError: the plants are too far apart for the legs; the message gives the distance.
    """
    space, behaviour = scene.space, scene.behaviour
    plants = {leg: contact for leg, contact in enumerate(contacts) if contact is not None}
    pose, offset = posed
    q, qd = pose.q.copy(), pose.qd.copy()
    a = behaviour.encode(q)
    # Encoding takes the mean pose off, which a velocity does not have
    mean = np.zeros(len(q))
    mean[behaviour.columns] = behaviour.mean
    rates = behaviour.encode(qd + mean)
    q[behaviour.columns] = behaviour.decode(a)
    q += offset
    if plants:
        heading = float(np.mean([np.deg2rad(contact.heading_deg) for contact in plants.values()]))
        # Face the heading, velocities too
        yaw = int(space.turns[int(np.argmax(np.abs(space.tree.axes[space.turns][:, 1])))])
        qd[space.root] = heading_matrix(heading - q[yaw]) @ qd[space.root]
        q[yaw] = heading
        q[space.root] = 0.0
        dofs = [space.legs[leg].dofs[k] for k in (6, 2) for leg in (0, 1)]
        places = compute_point_positions(space.tree, q[None], dofs, np.zeros((4, 3)))[0]
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


def lift_free_toes(
    scene: RowContext, seat: SupportPose, contacts: tuple[Contact | None, Contact | None], least_m: float
) -> SupportPose:
    """The pose with the ankle of a free foot turned by the least angle that has its toes so far over its stand."""
    space, floor = scene.space, [contact.position[1] for contact in contacts if contact is not None]
    if not floor:
        return seat
    q, turns = seat.q.copy(), np.linspace(0.0, MAX_TOE_LIFT_RAD, 41)
    for leg, contact in enumerate(contacts):
        geometry = space.legs[leg]
        if contact is not None:
            continue
        ankle = int(geometry.dofs[4:7][np.argmax(np.abs(space.tree.axes[geometry.dofs[4:7]][:, 0]))])
        tried = np.tile(q, (2 * len(turns), 1))
        tried[:, ankle] += np.stack([turns, -turns], axis=1).ravel()
        tips = compute_point_positions(space.tree, tried, [int(geometry.dofs[7])], geometry.tip_local[None])[:, 0, 1]
        high = np.flatnonzero(tips >= min(floor) + least_m)
        q = tried[high[0] if len(high) else np.argmax(tips)]
    return replace(seat, q=q)


def place_end(
    scene: RowContext,
    problem: SpacetimeProblem,
    posed: tuple[BehaviourPose, FloatArray],
    swing: SwingClearance | None,
    *,
    at_start: bool,
) -> SupportPose:
    """Pose at an end of the motion: on its plants, and a free foot with its toes as high as a swing has them.

    A key pose at that end is kept as it is.
    """
    name, contacts = ("start", scene.layout.contacts[0]) if at_start else ("end", scene.layout.contacts[-1])
    seat = place_on_plants(scene, posed, contacts, name)
    if swing is None or find_end_key(problem, name):
        return seat
    return lift_free_toes(scene, seat, contacts, swing.at(0.5)[1])


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
            said = space.mean[dofs] + space.modes[dofs] @ seat.amplitudes + space.offsets[int(not at_start)][dofs]
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


WALK_ROLL: Final = FootRoll(toe_s=0.3, heel_s=0.1)
RUN_ROLL: Final = FootRoll(toe_s=0.2)
GAIT_CROUCH_M: Final = 0.03
RUN_LEAN_M: Final = 0.2


@dataclass(frozen=True, slots=True)
class SeparatingPlane:
    """A point of the body stays beyond a plane at an instant."""

    phase: int
    time_s: float
    link: int  # coordinate whose link carries the point
    place: tuple[float, float, float]  # [m] in the link
    normal: tuple[float, float, float]
    offset_m: float  # least component of the point along the normal


@dataclass(frozen=True, slots=True)
class ReducedSettings:
    """Settings of the reduced formulation; the defaults were chosen by measurement."""

    roll: FootRoll = field(default_factory=FootRoll)
    limits: NormalForceLimits = field(default_factory=NormalForceLimits)
    crouch_m: float = CROUCH_M
    lean_m: float = LEAN_M
    has_physics: bool = True
    rounding: float = STRETCH_ROUNDING  # of stretched legs
    looks: tuple[tuple[int, float], ...] = ()  # phase and time [s] of further nodes
    watched: tuple[int, ...] = ()  # coordinates of the upper body that are kept within their limits by rows
    cuts: tuple[SupportCut, ...] = ()  # rows of supports that earlier solutions passed
    planes: tuple[SeparatingPlane, ...] = ()  # between parts of the body and what earlier solutions entered
    border_weight: float = 0.3
    swing: SwingClearance | None = None  # by which free feet pass over the floor; None: they may touch it


def choose_settings(problem: SpacetimeProblem) -> ReducedSettings:
    """Settings by what the feet do: both at once for jumps, one after the other on the ground or in the air."""
    single = any(len(phase.contacts) == 1 for phase in problem.phases)
    if not single:
        return ReducedSettings()
    if any(phase.is_flight for phase in problem.phases):
        return ReducedSettings(roll=RUN_ROLL, crouch_m=GAIT_CROUCH_M, lean_m=RUN_LEAN_M)
    return ReducedSettings(roll=WALK_ROLL, crouch_m=GAIT_CROUCH_M, swing=CAPTURED_SWING)


@dataclass(frozen=True, slots=True, eq=False)
class ReducedProblem:
    """A problem ready to be solved."""

    problem: SpacetimeProblem
    settings: ReducedSettings
    scene: RowContext
    programme: ReducedProgramme
    start: FloatArray  # (n,) the guess
    seats: tuple[SupportPose, SupportPose]


@lru_cache(maxsize=8)  # so that all programmes of a behaviour share the tapes of its legs
def build_reduced_space(behaviour: BehaviourSpace) -> ReducedSpace:
    """Body, legs and poses of a behaviour, as the optimiser uses them."""
    tree = behaviour.tree
    root, turns = find_root_dofs(tree)
    mean, modes = np.zeros(tree.num_dofs), np.zeros((tree.num_dofs, behaviour.dimension))
    mean[behaviour.columns] = behaviour.mean
    modes[behaviour.columns] = behaviour.basis * behaviour.deviations
    # Coordinates that no clip moves keep their value
    still = np.setdiff1d(np.arange(tree.num_dofs), [*behaviour.columns, *root, *turns])
    if behaviour.poses:
        mean[still] = next(iter(behaviour.poses.values())).q[still]
    return ReducedSpace(tree, (measure_leg(tree, SIDES[0]), measure_leg(tree, SIDES[1])), root, turns, mean, modes)


def build_reduced_problem(
    problem: SpacetimeProblem, behaviour: BehaviourSpace, settings: ReducedSettings | None = None
) -> ReducedProblem:
    """Curves, nodes, rows, objective and guess of a problem."""
    settings = settings or ReducedSettings()
    end_poses = tuple(find_end_pose(problem, behaviour, name) for name in ("start", "end"))
    offsets = np.stack([offset for _, offset in end_poses])
    space = replace(build_reduced_space(behaviour), offsets=offsets, duration_s=problem.duration_s)
    layout = build_layout(problem, behaviour.dimension)
    validate_reduced(problem, layout, space)
    looks = (*find_key_instants(problem, layout), *settings.looks)
    beside = tuple((plane.phase, plane.time_s) for plane in settings.planes)
    instants = solver_instants(layout, settings.roll, (*looks, *beside))
    nodes = build_nodes(layout, space.legs, settings.roll, instants, space.dimension)
    # Momentum at nodes that lie close together for the sake of planes would be one equation many times
    physical = set(solver_instants(layout, settings.roll, looks))
    is_physical = np.array([instant in physical for instant in instants])
    supports = build_supports(layout, nodes, space.legs, settings.limits, settings.cuts)
    has_torque = (problem.objective.torque > 0.0 or problem.has_torque_limits) and settings.has_physics
    poses = PoseMap(space, nodes, settings.rounding)
    maker = NodeEvaluator(poses, supports, gravity=problem.gravity, has_torque=has_torque)
    scene = RowContext(behaviour, space, layout, nodes, supports, maker, ReducedVariables(layout), problem.gravity)
    # Poses at the ends are fixed, the guess fills what lies between
    seats = (
        place_end(scene, problem, end_poses[0], settings.swing, at_start=True),
        place_end(scene, problem, end_poses[1], settings.swing, at_start=False),
    )
    # Keep the heel down where the foot is flat, and bound its lift, its strike and the swivel elsewhere
    roll = settings.roll
    variables = scene.variables
    for interval in (*scene.layout.legs[0], *scene.layout.legs[1]):
        if not interval.is_stance:
            continue
        index = interval.curves.indices
        knots = interval.curves.spline.knots
        # A control point acts over four spans: it may lift the heel if all of them are on the toes
        lifted, struck = find_toe_start(scene.layout, roll, interval), find_heel_stop(scene.layout, roll, interval)
        for k in range(len(index)):
            swivel, lift = index[k]
            variables.lower[swivel], variables.upper[swivel] = -1.2, 1.2
            if knots[k] >= lifted - 1e-9:
                variables.lower[lift], variables.upper[lift] = 0.0, roll.max_lift
            elif knots[k + 4] <= struck + 1e-9:
                variables.lower[lift], variables.upper[lift] = -roll.max_strike, 0.0
            else:
                variables.fix(np.array([lift]), np.zeros(1))
    fix_end(scene, seats[0], at_start=True)
    fix_end(scene, seats[1], at_start=False)
    fill_guess(scene, *seats, settings.crouch_m, settings.lean_m)
    scene.variables.finish()
    # Rows of the body, of the keys and of physics; poses at the ends are fixed already
    fixed = [find_end_key(problem, name) for name in ("start", "end")]
    inner = [key for key in problem.keys if not any(key is other for other in fixed)]
    floor = np.full(nodes.count, min(c.position[1] for phase in problem.phases for c in phase.contacts))
    groups = [
        leg_joint_rows(scene),
        com_joint_rows(scene),
        stretch_rows(scene),
        limit_rows(scene, planted=True),
        limit_rows(scene, planted=False),
        upper_body_limit_rows(scene, settings.watched),
        clearance_rows(scene, floor, settings.swing),
        *build_key_rows(scene, replace(problem, keys=tuple(inner))),
    ]
    if settings.planes:
        beyond = [(nodes.at(p.phase, p.time_s), p.link, np.asarray(p.place)) for p in settings.planes]
        offsets = np.array([plane.offset_m for plane in settings.planes])
        normals = np.array([plane.normal for plane in settings.planes])
        groups.append(height_rows(scene, "surroundings", beyond, offsets, normals))
    if settings.has_physics:
        groups += [wrench_rows(scene), *flight_rows(scene, is_physical)]
        if problem.has_torque_limits:
            groups.append(torque_rows(scene, build_torque_limits(space.tree, problem)))
    usual = settings.border_weight * float(np.sqrt(problem.objective.prior))  # it is a prior too
    terms = build_reduced_terms(scene, problem.objective, build_border_prior(scene, usual))
    programme = ReducedProgramme(scene, groups, terms)
    return ReducedProblem(problem, settings, scene, programme, scene.variables.pack(scene.variables.values), seats)
