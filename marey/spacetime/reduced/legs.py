"""Closed-form inverse kinematics of a planted leg: hip, knee, ankle and toe from the root and one swivel angle.

The legs of a joint tree are measured and aligned so that the closed form applies to them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.dynamics import PRISMATIC, REVOLUTE, JointTree, TreeSkeleton
from marey.lie import SO3
from marey.skeleton import Skeleton, role_map
from marey.spacetime.reduced.jets import (
    Columns,
    Jet,
    JetFunction,
    Tape,
    Vector,
    angle_of_vector,
    cross,
    dot,
    matrix_times_constant,
    matrix_times_matrix,
    normalise,
    rotate_columns,
    solve_euler_angles,
)

STRETCH_ROUNDING: Final = 1e-12  # [m^4] rounds the corner of the stretched leg; 1e-6 would move the foot by 0.2 mm
NUM_VARIABLES: Final = 8  # root position 3, root angles 3, swivel, heel lift
NUM_ANGLES: Final = 8  # hip 3, knee, ankle 3, toe
NUM_PLANT: Final = 9
"""pivot 3 [m], cosine and sine of the heading, ankle from the pivot in the flat foot's axes 3 [m], and whether the toe
stays flat while the heel lifts (1) or goes with the foot (0)"""
AXES_OUTPUT: Final = 9  # outputs from here on: for each angle its axis 3 and the velocity of the world's origin 3
NUM_OUTPUTS: Final = AXES_OUTPUT + 6 * NUM_ANGLES


@dataclass(frozen=True, slots=True, eq=False)
class Leg:
    """Geometry of a leg of a tree: every frame at zero angles, every length [m]."""

    dofs: IntArray  # (8,) hip 3, knee, ankle 3, toe
    root_axes: FloatArray  # (3, 3) successive turns of the root
    hip_offset: FloatArray  # (3,) in the pelvis
    hip_frame: FloatArray  # (3, 3) R_pelvis_hip before it turns
    hip_axes: FloatArray  # (3, 3)
    thigh: FloatArray  # (3,) unit, hip to knee in the thigh
    knee_frame: FloatArray  # (3, 3) R_thigh_knee before it turns
    knee_axis: FloatArray  # (3,) in the knee
    flexion: FloatArray  # (3,) unit, about which the shank goes backward, in the thigh; plus or minus the knee's axis
    ankle_frame: FloatArray  # (3, 3) R_shank_ankle before it turns
    ankle_axes: FloatArray  # (3, 3)
    foot_flat: FloatArray  # (3, 3) R_world_foot of a flat foot that points to +Z
    lengths: tuple[float, float]  # thigh, shank
    straight: float  # [rad] knee bend at zero angle
    knee_sign: float
    toe_flat: float  # [rad] toe angle on a flat foot
    toe_sign: float
    ball: FloatArray  # (3,) ball of the foot from the ankle, flat foot pointing to +Z
    heel: FloatArray  # (3,) hind end of the sole from the ankle
    tip: FloatArray  # (3,) front end of the sole from the ankle
    half_width: float  # of the sole
    heel_local: FloatArray  # (3,) hind end of the sole in the foot's frame
    tip_local: FloatArray  # (3,) front end of the sole in the toe's frame

    @property
    def reach(self) -> float:
        """Length of the stretched leg [m]."""
        return sum(self.lengths)


@lru_cache(maxsize=16)  # a tape of seven hundred operations in Python; every set of nodes asks for it
def record_leg(leg: Leg, rounding: float = STRETCH_ROUNDING) -> JetFunction:
    r"""Angles of a leg whose foot is planted, as a function of the root, a swivel and the lift of the heel.

    .. math:: x = \frac{l_1^2 - l_2^2 + L^2}{2L},\quad r = \sqrt{l_1^2 - x^2},\quad
        k = h + x\hat n + r(\cos\phi\,\hat u + \sin\phi\,\hat n\times\hat u)

    [Safonova2006]_ §3.1.2, with :math:`\hat u` the heading of the foot across the line from hip to ankle: unlike the
    front of the pelvis it is never along that line, however deep the crouch. The square root is rounded near the
    stretched leg. Outputs: hip 3, knee, ankle 3, toe; the stretch; and the eight joint twists in world about its
    origin (axis, velocity of the origin), whose products with a wrench on the foot are the torques it causes.

    Args:
        leg: the geometry.
        rounding: of the corner at full stretch [m^4]; a larger one keeps derivatives tame there and lets the foot
            leave its plant a little.
    """
    if rounding != STRETCH_ROUNDING:
        return record_leg(leg).replace_rounding(rounding)
    tape = Tape(NUM_VARIABLES, NUM_PLANT)
    z, plant = tape.variables, tape.data
    # Frame of the pelvis, and the hip
    zero = z[0] * 0.0
    pelvis: Columns = [np.array([zero + float(i == j) for i in range(3)]) for j in range(3)]
    for axis, turn in zip(leg.root_axes, z[3:6], strict=True):
        pelvis = rotate_columns(pelvis, axis, turn)
    hip = z[:3] + matrix_times_constant(pelvis, leg.hip_offset)
    # Frame of the flat foot's axes: heading, then the lift of the heel about the X axis; and the ankle
    c, s = plant[3], plant[4]
    zero = c * 0.0
    heading = [np.array([c, zero, -s]), np.array([zero, zero + 1.0, zero]), np.array([s, zero, c])]
    lift = rotate_columns(heading, np.array([1.0, 0.0, 0.0]), z[7])
    ankle = plant[:3] + (lift[0] * plant[5] + lift[1] * plant[6] + lift[2] * plant[7])
    # x along the line from hip to ankle and r across it: where the knee is
    line, (l1, l2), swivel = ankle - hip, leg.lengths, z[6]
    square = dot(line, line)
    length = square.root()
    n = line * length.reciprocal()
    x = (square + (l1**2 - l2**2)) * length.reciprocal() * 0.5
    r = (-(x * x) + l1**2).positive_root(rounding)
    # The knee bends across the leg, in the heading u of the foot turned by the swivel
    forward = np.array([s, c * 0.0, c])
    ahead = dot(forward, n)
    u = normalise(forward - np.array([ahead * y for y in n]))
    side = u * swivel.cosine() + cross(n, u) * swivel.sine()
    # Frame of the thigh: along the bone, about the hinge, forward; and the bend of the knee [rad]
    along = normalise(n * x + side * r)
    hinge = cross(side, n)
    front = cross(along, hinge)
    local = np.stack([leg.thigh, leg.flexion, np.cross(leg.thigh, leg.flexion)])
    thigh = matrix_times_matrix([along, hinge, front], local)
    bend = angle_of_vector(r * length, x * (length - x) - r * r)
    # Angles of hip, knee, ankle and toe from the frames on both sides of each joint
    before_hip = matrix_times_matrix(pelvis, leg.hip_frame)
    hips = solve_euler_angles(leg.hip_axes, _relative_rotation(before_hip, thigh))
    knee = (bend - leg.straight) * leg.knee_sign
    shank = rotate_columns(matrix_times_matrix(thigh, leg.knee_frame), leg.knee_axis, knee)
    foot, before_ankle = matrix_times_matrix(lift, leg.foot_flat), matrix_times_matrix(shank, leg.ankle_frame)
    ankles = solve_euler_angles(leg.ankle_axes, _relative_rotation(before_ankle, foot))
    toe = z[7] * plant[8] * -leg.toe_sign + leg.toe_flat
    # Twists (axis, origin x axis) of the joints about the world's origin
    twists: list[Jet] = []
    for origin, axes in (
        (hip, _rotation_axes(before_hip, thigh, leg.hip_axes)),
        (hip + matrix_times_constant(thigh, leg.thigh) * l1, [matrix_times_constant(shank, leg.knee_axis)]),
        (ankle, _rotation_axes(before_ankle, foot, leg.ankle_axes)),
        (ankle + matrix_times_constant(lift, leg.ball), [lift[0] * leg.toe_sign]),
    ):
        twists += [component for axis in axes for component in (*axis, *cross(origin, axis))]
    return tape.finish([*hips, knee, *ankles, toe, square * leg.reach**-2, *twists])


def pack_plant(leg: Leg, position: FloatArray, heading_rad: float, *, on_heel: bool = False) -> FloatArray:
    """Numbers ``(9,)`` of a plant for :func:`record_leg`.

    Args:
        leg: whose foot it is.
        position: middle of the sole on the ground (3,) [m].
        heading_rad: where the foot points, 0 is +Z.
        on_heel: the foot turns about the hind end of its sole, not about its ball.
    """
    turn, pivot = heading_matrix(heading_rad), leg.heel if on_heel else leg.ball
    place = position + turn @ (pivot - compute_sole_centre(leg))
    return np.concatenate([place, [turn[0, 0], turn[0, 2]], -pivot, [float(not on_heel)]])


def heading_matrix(turn: float) -> FloatArray:
    """Rotation ``(3, 3)`` about the vertical by an angle [rad]."""
    c, s = np.cos(turn), np.sin(turn)
    return np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]])


def compute_sole_centre(leg: Leg) -> FloatArray:
    """Middle of the sole, on the ground, from the ankle in the axes of a flat foot (3,) [m]."""
    return 0.5 * (leg.heel + leg.tip)


def _rotation_axes(before: Columns, after: Columns, axes: FloatArray) -> list[Vector]:
    """World axes of three successive turns: the first moves with what is before, the last with what is after."""
    first, last = matrix_times_constant(before, axes[0]), matrix_times_constant(after, axes[2])
    hand = float(axes[0] @ np.cross(axes[1], axes[2]))
    return [first, normalise(cross(last, first)) * hand, last]


def _relative_rotation(first: Columns, second: Columns) -> Columns:
    """Columns of ``first^T second``."""
    return [np.array([dot(axis, column) for axis in first]) for column in second]


SIDES: Final = ("left", "right")
FOOT_M: Final = 0.132  # [m] ankle to ball of the foot that the measures below were taken on
ANKLE_M: Final = 0.060  # [m] height of the ankle of a flat foot
BALL_M: Final = 0.025  # [m] height of the ball joint
HEEL_M: Final = 0.050  # [m] how far the sole goes behind the ankle
HALF_WIDTH_M: Final = 0.045  # [m]
TOE_M: Final = 0.066  # [m] length of toes that a skeleton says nothing about
SKEW_TOL: Final = 0.05  # [-] cosine between a bone and its hinge beyond which a leg is not made fit silently


def find_root_dofs(tree: JointTree) -> tuple[IntArray, IntArray]:
    """Coordinates of the root's position along X, Y, Z and of its three turns in order.

    Raises:
        InputError: the tree does not begin with three slides and three turns.
    """
    slides = [i for i in range(min(6, tree.num_dofs)) if tree.kinds[i] == PRISMATIC]
    turns = [i for i in range(min(6, tree.num_dofs)) if tree.kinds[i] == REVOLUTE]
    if len(slides) != 3 or len(turns) != 3 or not np.allclose(tree.axes[slides], np.eye(3)):
        raise InputError("the root does not slide along X, Y, Z and turn three times", "Use JointTree.from_body")
    return np.array(slides, dtype=np.int64), np.array(turns, dtype=np.int64)


def find_leg_dofs(tree: JointTree, side: str) -> IntArray:
    """Coordinates ``(8,)`` of hip 3, knee, ankle 3 and toe.

    Raises:
        InputError: the leg is not made of these.
    """
    figure = tree.figure
    if figure is None:
        raise InputError("this tree has no skeleton", "Build it with JointTree.from_body")
    roles = role_map(figure.skeleton)
    parts = [figure.joint_dofs[roles[f"{side}_{part}"]] for part in ("hip", "knee", "ankle", "foot")]
    if [len(part) for part in parts] != [3, 1, 3, 1]:
        counts = ", ".join(str(len(part)) for part in parts)
        raise InputError(f"the {side} leg turns {counts} times", "Hip and ankle turn three times, knee and toe once")
    return np.array([dof for part in parts for dof in part], dtype=np.int64)


def align_legs(tree: JointTree) -> JointTree:
    """Return the tree with thighs, shanks and feet exactly across the hinges of knees and toes.

    Files are rounded: a bone that is a hundred-thousandth of its length off the plane moves a plant by micrometres.
    """
    offsets = tree.offsets.copy()
    for side in SIDES:
        dofs = find_leg_dofs(tree, side)
        for bone, hinge in ((dofs[3], dofs[3]), (dofs[4], dofs[3]), (dofs[7], dofs[7])):
            axis = tree.axes[hinge] if bone != hinge else SO3(tree.orientations[hinge]) @ tree.axes[hinge]
            off = float(offsets[bone] @ axis)
            if abs(off) > SKEW_TOL * np.linalg.norm(offsets[bone]):
                raise InputError(f"bone '{tree.names[bone]}' is not across its hinge", "Give hinges across the bones")
            offsets[bone] -= off * axis
    figure = tree.figure
    assert figure is not None
    # The bones of the skeleton change as those of the tree
    old = figure.skeleton
    bones = old.offsets.copy()
    for joint, own in enumerate(figure.joint_dofs):
        if joint and own:
            bones[joint] += offsets[own[0]] - tree.offsets[own[0]]
    skeleton = Skeleton(old.names, old.parents, bones, old.tips, old.limits, old.name)
    return replace(tree, offsets=offsets, figure=TreeSkeleton(skeleton, figure.joint_dofs))


def measure_leg(tree: JointTree, side: str) -> Leg:
    """Geometry of a leg, with its foot set flat: the hinge of the toes level, ankle and ball at their heights."""
    dofs = find_leg_dofs(tree, side)
    frames = SO3(tree.orientations).matrix()
    hip, knee, ankle, toe = dofs[0], dofs[3], dofs[4], dofs[7]
    thigh, shank = tree.offsets[knee], tree.offsets[ankle]
    b1, b2 = thigh / np.linalg.norm(thigh), frames[knee] @ shank / np.linalg.norm(shank)
    # A positive flexion moves the shank backward
    axis = frames[knee] @ tree.axes[knee]
    sign = 1.0 if (frames[hip] @ np.cross(b1, axis))[2] > 0.0 else -1.0
    flexion = sign * axis
    rest = frames[hip] @ frames[knee] @ frames[ankle]  # R_pelvis_foot with no turns
    # World rotation of a flat foot that points to +Z: the hinge of the toes along X, the ball at its height
    bone, hinge = tree.offsets[toe], frames[toe] @ tree.axes[toe]
    toe_sign = 1.0 if (rest @ hinge)[0] > 0.0 else -1.0
    foot_length, drop = float(np.linalg.norm(bone)), (ANKLE_M - BALL_M) / FOOT_M
    across, along = np.array([1.0, 0.0, 0.0]), np.array([0.0, -drop, np.sqrt(1.0 - drop**2)])
    world = np.stack([across, along, np.cross(across, along)], axis=1)
    local = np.stack([toe_sign * hinge, bone / foot_length, np.cross(toe_sign * hinge, bone / foot_length)], axis=1)
    foot, ball = world @ local.T, along * foot_length
    # Angle that lays the toes level on it
    toe_angle, length = 0.0, TOE_M
    toes = tree.skeleton.tips[role_map(tree.skeleton)[f"{side}_foot"]]
    if np.any(toes):
        _, y, z = foot @ frames[toe] @ toes
        toe_angle, length = toe_sign * float(np.arctan2(y, z)), float(np.linalg.norm(toes))
    # Sole in proportion to the foot
    size = float(np.linalg.norm(ball)) / FOOT_M
    heel, tip = np.array([0.0, -ANKLE_M, -HEEL_M]) * size, np.array([0.0, -ANKLE_M * size, ball[2] + length])
    turn = SO3.from_axis_angle(tree.axes[toe], np.array(toe_angle)).matrix()
    return Leg(
        dofs=dofs,
        root_axes=tree.axes[find_root_dofs(tree)[1]],
        hip_offset=tree.offsets[hip],
        hip_frame=frames[hip],
        hip_axes=tree.axes[dofs[:3]],
        thigh=b1,
        knee_frame=frames[knee],
        knee_axis=tree.axes[knee],
        flexion=flexion,
        ankle_frame=frames[ankle],
        ankle_axes=tree.axes[dofs[4:7]],
        foot_flat=foot,
        lengths=(float(np.linalg.norm(thigh)), float(np.linalg.norm(shank))),
        straight=float(np.arctan2(flexion @ np.cross(b1, b2), b1 @ b2)),
        knee_sign=sign,
        toe_flat=toe_angle,
        toe_sign=toe_sign,
        ball=ball,
        heel=heel,
        tip=tip,
        half_width=HALF_WIDTH_M * size,
        heel_local=foot.T @ heel,
        tip_local=(foot @ frames[toe] @ turn).T @ (tip - ball),
    )
