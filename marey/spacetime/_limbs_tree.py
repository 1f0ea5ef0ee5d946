"""The legs of a tree, measured and made fit for closed-form inverse kinematics."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.dynamics import PRISMATIC, REVOLUTE, JointTree, TreeSkeleton
from marey.lie import SO3
from marey.skeleton import Skeleton, role_map
from marey.spacetime._limbs import Leg

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
    return replace(tree, offsets=offsets, figure=TreeSkeleton(_move_skeleton(tree, offsets, figure), figure.joint_dofs))


def measure_leg(tree: JointTree, side: str) -> Leg:
    """Geometry of a leg, with its foot set flat: the hinge of the toes level, ankle and ball at their heights."""
    dofs = find_leg_dofs(tree, side)
    frames = SO3(tree.orientations).matrix()
    hip, knee, ankle, toe = dofs[0], dofs[3], dofs[4], dofs[7]
    thigh, shank = tree.offsets[knee], tree.offsets[ankle]
    b1, b2 = thigh / np.linalg.norm(thigh), frames[knee] @ shank / np.linalg.norm(shank)
    axis = frames[knee] @ tree.axes[knee]
    sign = 1.0 if (frames[hip] @ np.cross(b1, axis))[2] > 0.0 else -1.0
    flexion = sign * axis
    rest = frames[hip] @ frames[knee] @ frames[ankle]  # R_pelvis_foot with no turns
    foot, ball, toe_sign = _flatten_foot(rest, tree.offsets[toe], frames[toe] @ tree.axes[toe])
    toe_angle, length = _flatten_toe(tree, side, foot @ frames[toe], toe_sign)
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


def _flatten_foot(rest: FloatArray, ball: FloatArray, hinge: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """World rotation of a flat foot that points to +Z, ball from ankle in world, and the hinge's sign along X."""
    sign = 1.0 if (rest @ hinge)[0] > 0.0 else -1.0
    length = float(np.linalg.norm(ball))
    drop = (ANKLE_M - BALL_M) / FOOT_M
    across, along = np.array([1.0, 0.0, 0.0]), np.array([0.0, -drop, np.sqrt(1.0 - drop**2)])
    world = np.stack([across, along, np.cross(across, along)], axis=1)
    local = np.stack([sign * hinge, ball / length, np.cross(sign * hinge, ball / length)], axis=1)
    return world @ local.T, along * length, sign


def _flatten_toe(tree: JointTree, side: str, frame: FloatArray, sign: float) -> tuple[float, float]:
    """Angle [rad] that lays the toes level on a flat foot, and their length [m]."""
    skeleton = tree.skeleton
    tip = skeleton.tips[role_map(skeleton)[f"{side}_foot"]]
    if not np.any(tip):
        return 0.0, TOE_M
    _, y, z = frame @ tip
    return sign * float(np.arctan2(y, z)), float(np.linalg.norm(tip))


def _move_skeleton(tree: JointTree, offsets: FloatArray, figure: TreeSkeleton) -> Skeleton:
    """The skeleton with the bones of the tree's changed offsets."""
    skeleton = figure.skeleton
    bones = skeleton.offsets.copy()
    for joint, dofs in enumerate(figure.joint_dofs):
        if joint and dofs:
            bones[joint] += offsets[dofs[0]] - tree.offsets[dofs[0]]
    return Skeleton(skeleton.names, skeleton.parents, bones, skeleton.tips, skeleton.limits, skeleton.name)
