"""The common calibration pose: every skeleton upright, facing +Z, legs down, arms out, feet flat.

Rest poses differ: legs are splayed in CMU files, arms hang in DeepMimic, all bones point up in LAFAN1. In the common
pose, the joint frames of two skeletons can be compared one by one.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise, permutations, product
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.lie import SO3
from marey.skeleton.limbs import SeenPose, recall_pose, stands_at_rest
from marey.skeleton.naming import SIDES
from marey.skeleton.roles import RoleMap, role_map
from marey.skeleton.tree import NO_PARENT, Pose, Skeleton

UP: Final = np.array([0.0, 1.0, 0.0])
DOWN: Final = -UP
FORWARD: Final = np.array([0.0, 0.0, 1.0])
LEFT: Final = np.array([1.0, 0.0, 0.0])
SNAP_RAD: Final = np.radians(25.0)  # trunks lean a little in many rest poses; beyond this the axes differ
UPRIGHT_COS: Final = np.cos(np.radians(12.0))  # legs this close to vertical stand on flat feet
FOOT_PITCH_RAD: Final = np.radians(20.0)  # pitch from ankle to ball of a flat foot ([Winter2009]_ fig. 4.1)
BENT_COS: Final = np.cos(np.radians(30.0))  # an elbow that is bent further at rest reveals its hinge axis
LAFAN1_TOE_RAD: Final = np.radians(21.4546)  # angle of the toe joint in every LAFAN1 frame, at which the toes are flat

_LIMBS: Final = (("hip", "knee"), ("knee", "ankle"), ("shoulder", "elbow"), ("elbow", "wrist"))


def t_pose(skeleton: Skeleton, roles: RoleMap | None = None) -> Pose:
    """Return the calibration pose of a skeleton, standing at the position where its root rests.

    The trunk keeps its rest pose, rotated upright as a whole. Thighs, shanks, upper arms and forearms are rotated by
    the shortest arc, so that a bone keeps the twist of its rest pose. A foot keeps its pose under an upright leg.
    """
    return _find_t_pose(skeleton, role_map(skeleton) if roles is None else roles, recall_pose(skeleton))


@lru_cache(maxsize=64)  # limbs, feet and retargeting all need it; `seen` may become known later
def _find_t_pose(skeleton: Skeleton, roles: RoleMap, seen: SeenPose | None) -> Pose:
    # Initial local rotations: the rest pose, the pose in which LAFAN1's joint axes were drawn, or a frame in which the
    # person stands if the rest pose is uninformative
    wxyz = np.zeros((skeleton.num_joints, 4))
    wxyz[:, 0] = 1.0
    # LAFAN1 draws all long bones along +X, legs parallel to the trunk; other tools use its names only
    long_bones = [f"{side}_{part}" for side in SIDES for part in ("knee", "ankle", "elbow", "wrist")]
    is_lafan1 = roles.profile == "lafan1" and all(
        skeleton.offsets[roles[role], 0] > 0.999 * float(np.linalg.norm(skeleton.offsets[roles[role]]))
        for role in long_bones
    )
    is_lafan1 = is_lafan1 and ("spine1" not in roles or bool(skeleton.offsets[roles["spine1"]].argmax() == 0))
    if is_lafan1:
        half, flat = 0.5 * (0.5 * np.pi - LAFAN1_TOE_RAD), 0.5 * LAFAN1_TOE_RAD
        r = np.sqrt(0.5)
        for side, collar in (("left", (0.0, r, 0.0, r)), ("right", (0.0, r, 0.0, -r))):
            wxyz[roles[f"{side}_hip"]] = (0.0, 0.0, 1.0, 0.0)  # a rotation by pi about forward (+Y of the hips)
            wxyz[roles[f"{side}_ankle"]] = (np.cos(half), 0.0, 0.0, np.sin(half))
            wxyz[roles[f"{side}_foot"]] = (np.cos(flat), 0.0, 0.0, np.sin(flat))
            wxyz[roles[f"{side}_collar"]] = collar
    elif seen is not None and seen.wxyz is not None:
        wxyz = seen.wxyz.copy()
    start = SO3(wxyz)
    positions, frames = np.zeros((skeleton.num_joints, 3)), [start[0]]
    for j in range(1, skeleton.num_joints):
        parent = int(skeleton.parents[j])
        positions[j] = positions[parent] + frames[parent] @ skeleton.offsets[j]
        frames.append(frames[parent] @ start[j])
    world = SO3.stack(frames)
    # Joints whose bone is rotated: bone direction in the joint's frame, target direction in world
    aims: dict[int, tuple[FloatArray, FloatArray]] = {}
    for side in SIDES:
        across = LEFT if side == "left" else -LEFT
        for upper, lower in _LIMBS:
            a, b = roles.get(f"{side}_{upper}"), roles.get(f"{side}_{lower}")
            if a is None or b is None or np.linalg.norm(positions[b] - positions[a]) < 1e-6:
                continue
            aims[a] = (world[a].inverse() @ (positions[b] - positions[a]), DOWN if upper in ("hip", "knee") else across)
    # Forearms in the frame of the upper arm, where they are bent at rest
    elbows: dict[int, FloatArray] = {}
    for side in SIDES:
        a, b, c = (roles.get(f"{side}_{part}") for part in ("shoulder", "elbow", "wrist"))
        if a in aims and b in aims and c is not None:
            upper, lower = positions[b] - positions[a], positions[c] - positions[b]
            cosine = float(upper @ lower) / float(np.linalg.norm(upper) * np.linalg.norm(lower))
            if cosine < BENT_COS:
                elbows[a] = world[a].inverse() @ lower
    is_odd = not is_lafan1 and not stands_at_rest(skeleton)
    if is_odd:
        aims |= _trunk_aims(skeleton, positions, world, roles)
    # Traverse the tree: rotate the trunk upright, limbs to their targets, ankles so that the soles are level
    upright = _upright_rotation(positions, roles, is_odd=is_odd and seen is None)
    feet = _ankle_frames(positions, world, roles, upright, is_odd=is_odd)
    world_frames: list[SO3] = []
    local: list[SO3] = []
    for j in range(skeleton.num_joints):
        parent = int(skeleton.parents[j])
        R_world_parent = upright if parent == NO_PARENT else world_frames[parent]
        R_world_joint = feet.get(j, R_world_parent @ start[j])
        if j in aims:
            bone_joint, goal_world = aims[j]
            R_world_joint = shortest_arc(R_world_joint @ bone_joint, goal_world) @ R_world_joint
        if j in elbows:
            # An elbow bends forwards: rotate the resting forearm about the upper arm to the front
            bend = R_world_joint @ elbows[j]
            bend = bend - aims[j][1] * float(bend @ aims[j][1])
            R_world_joint = shortest_arc(bend, FORWARD) @ R_world_joint
        world_frames.append(R_world_joint)
        local.append(R_world_joint if parent == NO_PARENT else R_world_parent.inverse() @ R_world_joint)
    return Pose(skeleton, skeleton.offsets[0], SO3.stack(local))


def _trunk_aims(
    skeleton: Skeleton, positions: FloatArray, world: SO3, roles: RoleMap
) -> dict[int, tuple[FloatArray, FloatArray]]:
    """Target directions of spine, head, collars and hands, up or outwards, independent of the rest pose."""
    spine = [roles[role] for role in ("pelvis", "spine1", "spine2", "spine3", "neck", "head") if role in roles]
    bones = [(a, b, UP) for a, b in pairwise(spine[1:])]
    for side, across in (("left", LEFT), ("right", -LEFT)):
        if f"{side}_collar" in roles and f"{side}_shoulder" in roles:
            bones.append((roles[f"{side}_collar"], roles[f"{side}_shoulder"], across))
    aims = {
        a: (world[a].inverse() @ (positions[b] - positions[a]), goal)
        for a, b, goal in bones
        if np.linalg.norm(positions[b] - positions[a]) > 1e-6
    }
    head = roles.get("head")
    if head is not None and skeleton.tips[head].any():
        aims[head] = (skeleton.tips[head], UP)
    for side, across in (("left", LEFT), ("right", -LEFT)):
        wrist = roles.get(f"{side}_wrist")
        if wrist is not None:
            fingers = skeleton.children(wrist)
            hand = skeleton.offsets[fingers].mean(axis=0) if len(fingers) else skeleton.tips[wrist]
            if np.linalg.norm(hand) > 1e-6:
                aims[wrist] = (hand, across)
    return aims


def _upright_rotation(positions: FloatArray, roles: RoleMap, *, is_odd: bool) -> SO3:
    """Rotation that brings the resting trunk upright and facing +Z."""
    # Left: between the first pair of joints that do not coincide
    left = np.zeros(3)
    for part in ("hip", "shoulder", "knee", "ankle", "collar"):
        if f"left_{part}" in roles and f"right_{part}" in roles:
            gap = positions[roles[f"left_{part}"]] - positions[roles[f"right_{part}"]]
            if np.linalg.norm(gap) > 1e-6:
                left = gap / np.linalg.norm(gap)
                break
    # Up: from the pelvis to the highest joint of the trunk, orthogonal to left; to the lowest joint if the rest pose
    # above it is arbitrary
    low = positions[roles["pelvis"]] if "pelvis" in roles else positions[0]
    highest = ("spine1", "spine2", "spine3", "neck", "head") if is_odd else ("head", "neck", "spine3")
    spines = [positions[roles[role]] - low for role in highest if role in roles]
    up = next((spine for spine in spines if np.linalg.norm(spine) > 1e-6), UP)
    up = up - left * float(left @ up)
    if np.linalg.norm(left) < 0.5 or np.linalg.norm(up) < 1e-6:
        return SO3.identity()
    up = up / np.linalg.norm(up)
    body = SO3.from_matrix(np.stack([left, up, np.cross(left, up)], axis=1))
    # A trunk that leans slightly from an axis-aligned orientation keeps its lean
    quarter = _QUARTER_TURNS[int(np.argmin((_QUARTER_TURNS.inverse() @ body).angle()))]
    near = float((quarter.inverse() @ body).angle()) < SNAP_RAD
    return (quarter if near else body).inverse()


def _ankle_frames(positions: FloatArray, world: SO3, roles: RoleMap, upright: SO3, *, is_odd: bool) -> dict[int, SO3]:
    """World frames of the ankles, so that the soles are level."""
    feet: dict[int, SO3] = {}
    for side in SIDES:
        hip, ankle, ball = (roles.get(f"{side}_{part}") for part in ("hip", "ankle", "foot"))
        if hip is None or ankle is None or np.linalg.norm(positions[ankle] - positions[hip]) < 1e-6:
            continue
        leg = upright @ (positions[ankle] - positions[hip])
        R_world_ankle = upright @ world[ankle]
        if float(leg @ DOWN) < UPRIGHT_COS * float(np.linalg.norm(leg)):
            R_world_ankle = shortest_arc(leg, DOWN) @ R_world_ankle
        if ball is not None:
            foot = R_world_ankle @ (world[ankle].inverse() @ (positions[ball] - positions[ankle]))
            length = float(np.linalg.norm(foot))
            # A foot that points along the leg at rest, as a dancer's, is rotated to stand
            if length >= 1e-6 and (is_odd or float(np.hypot(foot[0], foot[2])) <= 0.3 * length):
                goal = np.cos(FOOT_PITCH_RAD) * FORWARD + np.sin(FOOT_PITCH_RAD) * DOWN
                R_world_ankle = shortest_arc(foot, goal) @ R_world_ankle
        feet[ankle] = R_world_ankle
    return feet


def shortest_arc(a: FloatArray, b: FloatArray) -> SO3:
    """Smallest rotation that maps direction ``a`` to ``b``; opposite directions rotate about +Z (or +X)."""
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    wxyz = np.concatenate([[1.0 + float(a @ b)], np.cross(a, b)])
    if np.linalg.norm(wxyz) < 1e-9:
        axis = FORWARD if abs(a[2]) < 0.9 else LEFT
        axis = axis - a * float(a @ axis)
        wxyz = np.concatenate([[0.0], axis])
    return SO3(wxyz)


_SIGNED_AXES: Final = (
    np.eye(3)[:, list(order)] * np.array(signs)
    for order, signs in product(permutations(range(3)), product((1.0, -1.0), repeat=3))
)
_QUARTER_TURNS: Final = SO3.from_matrix(np.stack([matrix for matrix in _SIGNED_AXES if np.linalg.det(matrix) > 0.0]))
