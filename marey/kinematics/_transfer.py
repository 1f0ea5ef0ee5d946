r"""Carry the posture of one skeleton over to another: where bones point and how they are twisted.

Local rotations mean different things on skeletons with different rest poses. Both skeletons are therefore brought
to one calibration pose (:func:`marey.skeleton.t_pose`), and what is carried over is the turn of each part away from
it, in world axes:

.. math:: R^{target}_r(t) = R^{source}_r(t)\,(R^{source}_r(T))^{-1}\,R^{target}_r(T)

Since limbs point the same way in both calibration poses, directions and twists are both kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import NO_PARENT, RoleMap, Skeleton, t_pose

_TRUNK: Final = ("pelvis", "spine1", "spine2", "spine3")
SAME_POSITION_M: Final = 1e-6  # [m] two joints nearer than this sit on one point


def transfer_rotations(motion: Motion, roles: RoleMap, target: Skeleton, target_roles: RoleMap) -> FloatArray:
    """Local rotations ``(F, J, 4)`` of ``target`` in the posture of ``motion``."""
    turns = _part_rotations(motion, roles)
    turns |= _fill_missing_spine(turns)
    if "head" in turns and "head" not in target_roles:
        turns["neck"] = turns["head"]  # one joint moves neck and head: the head is what one sees
    R_world_rest = t_pose(target, target_roles).joint_rotations()
    moved = _fill_joint_rotations(turns, target, target_roles, motion.num_frames)
    frames = [turn @ R_world_rest[j] for j, turn in enumerate(moved)]
    local = [frames[0]]
    local += [frames[int(target.parents[j])].inverse() @ frames[j] for j in range(1, target.num_joints)]
    return np.stack([rotation.wxyz for rotation in local], axis=1)


def _part_rotations(motion: Motion, roles: RoleMap) -> dict[str, SO3]:
    """Turn of every part away from the calibration pose, in world axes, batch ``(F,)``."""
    R_world_rest = t_pose(motion.skeleton, roles).joint_rotations()
    _, frames = motion.joint_frames()
    turns: dict[str, SO3] = {}
    for role, joint in roles.joints.items():
        j = _outermost_joint(motion.skeleton, roles, joint) if role.endswith("wrist") else joint
        turns[role] = frames[:, j] @ R_world_rest[j].inverse()
    return turns


def _outermost_joint(skeleton: Skeleton, roles: RoleMap, joint: int) -> int:
    """Follow joints that sit on the same point and carry more: CMU hands turn in two joints at one place."""
    for child in (int(c) for c in skeleton.children(joint)):
        on_top = np.linalg.norm(skeleton.offsets[child]) < SAME_POSITION_M and child not in roles.joints.values()
        if on_top and len(skeleton.children(child)):
            return _outermost_joint(skeleton, roles, child)
    return joint


def _fill_missing_spine(turns: Mapping[str, SO3]) -> dict[str, SO3]:
    """Spread the bend of the trunk over spine joints that the source lacks."""
    known = [i for i, role in enumerate(_TRUNK) if role in turns]
    found: dict[str, SO3] = {}
    for i, role in enumerate(_TRUNK):
        below, above = [k for k in known if k < i], [k for k in known if k > i]
        if role not in turns and below and above:
            a, b = below[-1], above[0]
            found[role] = turns[_TRUNK[a]].slerp(turns[_TRUNK[b]], np.asarray((i - a) / (b - a)))
    return found


def _fill_joint_rotations(turns: Mapping[str, SO3], target: Skeleton, roles: RoleMap, frames: int) -> list[SO3]:
    """Turn of every joint of the target: its part's own, between two parts of the trunk, or its parent's."""
    part = {joint: role for role, joint in roles.joints.items() if role in turns}
    between = _find_trunk_neighbours(target, roles, part)
    moved: list[SO3] = []
    for j in range(target.num_joints):
        parent = int(target.parents[j])
        if j in part:
            moved.append(turns[part[j]])
        elif j in between:
            low, high, share = between[j]
            moved.append(turns[low].slerp(turns[high], np.asarray(share)))
        elif parent != NO_PARENT:
            moved.append(moved[parent])
        else:
            moved.append(turns["pelvis"] if "pelvis" in turns else SO3.identity(frames))
    return moved


def _find_trunk_neighbours(
    target: Skeleton, roles: RoleMap, part: Mapping[int, str]
) -> dict[int, tuple[str, str, float]]:
    """Unnamed joints of trunk and neck: the parts below and above, and how far between them."""
    found: dict[int, tuple[str, str, float]] = {}
    for role in ("spine1", "spine2", "spine3", "neck", "head"):
        top = roles.get(role)
        if top is None or top not in part:
            continue
        path: list[int] = []
        j = int(target.parents[top])
        while j != NO_PARENT and j not in part:
            path.insert(0, j)
            j = int(target.parents[j])
        if j != NO_PARENT and part[j] in (*_TRUNK, "neck"):
            found |= {k: (part[j], role, (i + 1) / (len(path) + 1)) for i, k in enumerate(path)}
    return found
