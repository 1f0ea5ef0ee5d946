"""Building and solving a problem in a behaviour's space."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.spacetime._behaviour import BehaviourSpace
from marey.spacetime._limbs import STRETCH_ROUNDING
from marey.spacetime._limbs_tree import SIDES, leg_of, root_dofs
from marey.spacetime._problem import Problem
from marey.spacetime._reduced_frame import FrameMaker
from marey.spacetime._reduced_guess import CROUCH_M, LEAN_M, Seat, bound_feet, fill_guess, fix_end, seat_pose
from marey.spacetime._reduced_keys import key_instants, key_rows
from marey.spacetime._reduced_layout import Layout, lay_out
from marey.spacetime._reduced_nodes import Nodes, Roll, build_nodes, solver_instants
from marey.spacetime._reduced_objective import ReducedObjective, border_prior
from marey.spacetime._reduced_physics import (
    Scene,
    clearance_rows,
    com_joint_rows,
    leg_joint_rows,
    limit_rows,
    moment_rows,
    momentum_rows,
    stretch_rows,
    watch_rows,
    wrench_rows,
)
from marey.spacetime._reduced_pose import PoseMap, Space
from marey.spacetime._reduced_programme import ReducedProgramme
from marey.spacetime._reduced_refusals import check_reduced
from marey.spacetime._reduced_support import Limits, build_supports
from marey.spacetime._reduced_variables import Variables

WALK_ROLL: Final = Roll(toe_s=0.3, heel_s=0.1)
RUN_ROLL: Final = Roll(toe_s=0.2)
GAIT_CROUCH_M: Final = 0.03
RUN_LEAN_M: Final = 0.2


@dataclass(frozen=True, slots=True)
class ReducedSettings:
    """How a problem is posed; the defaults are the measured ones."""

    roll: Roll = field(default_factory=Roll)
    limits: Limits = field(default_factory=Limits)
    crouch_m: float = CROUCH_M
    lean_m: float = LEAN_M
    has_physics: bool = True
    rounding: float = STRETCH_ROUNDING  # of stretched legs
    looks: tuple[tuple[int, float], ...] = ()  # phase and time [s] of further nodes
    watched: tuple[int, ...] = ()  # coordinates of the upper body that are kept within their limits by rows
    border_weight: float = 0.3


def settings_for(problem: Problem) -> ReducedSettings:
    """Settings by what the feet do: both at once for jumps, one after the other on the ground or in the air."""
    single = any(len(phase.contacts) == 1 for phase in problem.phases)
    if not single:
        return ReducedSettings()
    if any(phase.is_flight for phase in problem.phases):
        return ReducedSettings(roll=RUN_ROLL, crouch_m=GAIT_CROUCH_M, lean_m=RUN_LEAN_M)
    return ReducedSettings(roll=WALK_ROLL, crouch_m=GAIT_CROUCH_M)


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """A problem ready to be solved."""

    problem: Problem
    settings: ReducedSettings
    scene: Scene
    programme: ReducedProgramme
    start: FloatArray  # (n,) the guess
    seats: tuple[Seat, Seat]


def behaviour_space(behaviour: BehaviourSpace) -> Space:
    """Body, legs and poses of a behaviour, as the optimiser uses them."""
    tree = behaviour.tree
    root, turns = root_dofs(tree)
    mean, modes = np.zeros(tree.num_dofs), np.zeros((tree.num_dofs, behaviour.dimension))
    mean[behaviour.columns] = behaviour.mean
    modes[behaviour.columns] = behaviour.basis * behaviour.deviations
    still = np.setdiff1d(np.arange(tree.num_dofs), [*behaviour.columns, *root, *turns])
    if behaviour.poses:
        mean[still] = next(iter(behaviour.poses.values())).q[still]
    return Space(tree, (leg_of(tree, SIDES[0]), leg_of(tree, SIDES[1])), root, turns, mean, modes)


def build(problem: Problem, behaviour: BehaviourSpace, settings: ReducedSettings | None = None) -> Built:
    """Curves, nodes, rows, objective and guess of a problem."""
    settings = settings or ReducedSettings()
    space = behaviour_space(behaviour)
    layout = lay_out(problem, behaviour.dimension)
    check_reduced(problem, layout, space)
    instants = solver_instants(layout, settings.roll, (*key_instants(problem, layout), *settings.looks))
    nodes = build_nodes(layout, space.legs, settings.roll, instants, space.dimension)
    scene = make_scene(problem, behaviour, space, layout, nodes, settings)
    seats = (
        seat_pose(scene, behaviour.pose("start"), layout.contacts[0], "start"),
        seat_pose(scene, behaviour.pose("end"), layout.contacts[-1], "end"),
    )
    bound_feet(scene, settings.roll)
    fix_end(scene, seats[0], at_start=True)
    fix_end(scene, seats[1], at_start=False)
    fill_guess(scene, *seats, settings.crouch_m, settings.lean_m)
    scene.variables.finish()
    floor = np.full(nodes.count, min(c.position[1] for phase in problem.phases for c in phase.contacts))
    groups = [
        leg_joint_rows(scene),
        com_joint_rows(scene),
        stretch_rows(scene),
        limit_rows(scene, planted=True),
        limit_rows(scene, planted=False),
        watch_rows(scene, settings.watched),
        clearance_rows(scene, floor),
        *key_rows(scene, problem),
    ]
    if settings.has_physics:
        groups += [wrench_rows(scene), momentum_rows(scene), moment_rows(scene)]
    usual = settings.border_weight * float(np.sqrt(problem.objective.prior))  # it is a prior too
    objective = ReducedObjective(scene, problem.objective, border_prior(scene, usual))
    programme = ReducedProgramme(scene, groups, objective)
    return Built(problem, settings, scene, programme, scene.variables.pack(scene.variables.values), seats)


def make_scene(
    problem: Problem, behaviour: BehaviourSpace, space: Space, layout: Layout, nodes: Nodes, settings: ReducedSettings
) -> Scene:
    """What rows and objective work with at some nodes."""
    supports = build_supports(layout, nodes, space.legs, settings.limits)
    has_torque = problem.objective.torque > 0.0 and settings.has_physics
    maker = FrameMaker(
        PoseMap(space, nodes, settings.rounding), supports, gravity=problem.gravity, has_torque=has_torque
    )
    return Scene(behaviour, space, layout, nodes, supports, maker, Variables(layout), problem.gravity)
