"""A problem in the space of a behaviour, built and solved from a guess or from a given motion."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.dynamics import compute_points_motion
from marey.motion import Motion
from marey.spacetime.problem.definition import SpacetimeProblem
from marey.spacetime.reduced.behaviour import BehaviourSpace
from marey.spacetime.reduced.guess import (
    CROUCH_M,
    LEAN_M,
    SupportPose,
    fill_guess,
    fix_end,
    place_on_plants,
    set_flight_globals,
)
from marey.spacetime.reduced.keys import build_key_rows, find_key_instants, validate_reduced
from marey.spacetime.reduced.layout import Curves, LegInterval, ReducedVariables, build_layout
from marey.spacetime.reduced.legs import SIDES, STRETCH_ROUNDING, find_root_dofs, measure_leg
from marey.spacetime.reduced.nodes import (
    FootRoll,
    NormalForceLimits,
    build_nodes,
    build_supports,
    find_heel_stop,
    find_toe_start,
    solver_instants,
)
from marey.spacetime.reduced.physics_rows import (
    RowContext,
    clearance_rows,
    com_joint_rows,
    flight_rows,
    leg_joint_rows,
    limit_rows,
    stretch_rows,
    upper_body_limit_rows,
    wrench_rows,
)
from marey.spacetime.reduced.pose import NodeEvaluator, PoseMap, ReducedSpace
from marey.spacetime.reduced.programme import ReducedObjective, ReducedProgramme, build_border_prior

WALK_ROLL: Final = FootRoll(toe_s=0.3, heel_s=0.1)
RUN_ROLL: Final = FootRoll(toe_s=0.2)
GAIT_CROUCH_M: Final = 0.03
RUN_LEAN_M: Final = 0.2


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
    border_weight: float = 0.3


def choose_settings(problem: SpacetimeProblem) -> ReducedSettings:
    """Settings by what the feet do: both at once for jumps, one after the other on the ground or in the air."""
    single = any(len(phase.contacts) == 1 for phase in problem.phases)
    if not single:
        return ReducedSettings()
    if any(phase.is_flight for phase in problem.phases):
        return ReducedSettings(roll=RUN_ROLL, crouch_m=GAIT_CROUCH_M, lean_m=RUN_LEAN_M)
    return ReducedSettings(roll=WALK_ROLL, crouch_m=GAIT_CROUCH_M)


@dataclass(frozen=True, slots=True, eq=False)
class ReducedProblem:
    """A problem ready to be solved."""

    problem: SpacetimeProblem
    settings: ReducedSettings
    scene: RowContext
    programme: ReducedProgramme
    start: FloatArray  # (n,) the guess
    seats: tuple[SupportPose, SupportPose]


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
    space = build_reduced_space(behaviour)
    layout = build_layout(problem, behaviour.dimension)
    validate_reduced(problem, layout, space)
    instants = solver_instants(layout, settings.roll, (*find_key_instants(problem, layout), *settings.looks))
    nodes = build_nodes(layout, space.legs, settings.roll, instants, space.dimension)
    supports = build_supports(layout, nodes, space.legs, settings.limits)
    has_torque = problem.objective.torque > 0.0 and settings.has_physics
    poses = PoseMap(space, nodes, settings.rounding)
    maker = NodeEvaluator(poses, supports, gravity=problem.gravity, has_torque=has_torque)
    scene = RowContext(behaviour, space, layout, nodes, supports, maker, ReducedVariables(layout), problem.gravity)
    # Poses at the ends are fixed, the guess fills what lies between
    seats = (
        place_on_plants(scene, behaviour.pose("start"), layout.contacts[0], "start"),
        place_on_plants(scene, behaviour.pose("end"), layout.contacts[-1], "end"),
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
    # Rows of the body, of the keys and of physics
    floor = np.full(nodes.count, min(c.position[1] for phase in problem.phases for c in phase.contacts))
    groups = [
        leg_joint_rows(scene),
        com_joint_rows(scene),
        stretch_rows(scene),
        limit_rows(scene, planted=True),
        limit_rows(scene, planted=False),
        upper_body_limit_rows(scene, settings.watched),
        clearance_rows(scene, floor),
        *build_key_rows(scene, problem),
    ]
    if settings.has_physics:
        groups += [wrench_rows(scene), *flight_rows(scene)]
    usual = settings.border_weight * float(np.sqrt(problem.objective.prior))  # it is a prior too
    objective = ReducedObjective(scene, problem.objective, build_border_prior(scene, usual))
    programme = ReducedProgramme(scene, groups, objective)
    return ReducedProblem(problem, settings, scene, programme, scene.variables.pack(scene.variables.values), seats)


def vector_from_motion(built: ReducedProblem, motion: Motion) -> FloatArray:
    """The solver's vector of a motion of the behaviour's skeleton, stretched to the problem's length.

    Amplitudes are the motion's projections, root and free legs follow it; planted legs follow from the root.
    """
    scene = built.scene
    space, layout, variables = scene.space, scene.layout, scene.variables
    q = space.tree.from_motion(motion)
    times = float(layout.edges[-1]) * np.arange(len(q)) / max(len(q) - 1, 1)
    amplitudes = scene.behaviour.encode(q)
    _fit_curves(built, layout.amplitudes, times, amplitudes)
    _fit_curves(built, layout.angles, times, q[:, space.turns])
    for _, curves in layout.roots:
        _fit_curves(built, curves, times, q[:, space.root])
    for leg in (0, 1):
        dofs = space.legs[leg].dofs
        off = q[:, dofs] - space.mean[dofs] - amplitudes @ space.modes[dofs].T
        for interval in layout.legs[leg]:
            own = _solve_leg_variables(built, leg, interval, q) if interval.is_stance else off
            _fit_curves(built, interval.curves, times, own)
    set_flight_globals(scene)
    return variables.pack(variables.values)


def _solve_leg_variables(built: ReducedProblem, leg: int, interval: LegInterval, q: FloatArray) -> FloatArray:
    """Swivel of the knee and lift of the heel ``(F, 2)`` [rad] of a leg, as if its foot stood on the plant."""
    space, contact = built.scene.space, interval.contact
    assert contact is not None
    geometry = space.legs[leg]
    zero = np.zeros_like(q)
    links = [geometry.dofs[k] for k in (2, 3, 6, 7)]
    hip, knee, ankle, ball = compute_points_motion(
        space.tree, q, zero, zero, links, np.zeros((4, 3))
    ).position.swapaxes(0, 1)
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
    return np.stack([swivel, pitch - flat], axis=1)


def _fit_curves(built: ReducedProblem, curves: Curves, times: FloatArray, samples: FloatArray) -> None:
    """Nearest curves to samples within their time; what is fixed stays."""
    start, stop = curves.spline.knots[[0, -1]]
    inside = (times >= start - 1e-9) & (times <= stop + 1e-9)
    if inside.sum() >= 4:
        fitted = curves.spline.fit(np.clip(times[inside], start, stop), samples[inside], smoothing=1e-6)
        built.scene.variables.set_curves(curves, fitted)
