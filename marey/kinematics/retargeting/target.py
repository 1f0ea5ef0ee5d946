r"""Who receives a motion: a skeleton, its soles and limits; and its pose, where limbs point and how they are twisted.

Local rotations mean different things on skeletons with different rest poses. Both skeletons are therefore brought
to one calibration pose :math:`T` (:func:`marey.skeleton.t_pose`), and what is carried over is the turn of each part
away from it, in world axes:

.. math:: R^{target}_r(t) = A_r(t)\,R^{source}_r(t)\,(R^{source}_r(T))^{-1}\,R^{target}_r(T)

Limbs point the same way in both calibration poses. :math:`A_r` is the shortest arc that makes the direction of a limb
exactly that between its joints, also where a rig spreads one bone over several joints. Angles at elbows and knees and
the swing of arms are therefore the source's by construction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

import numpy as np

from marey.base import FloatArray, InputError
from marey.contacts.body import SIDES, require_legs
from marey.kinematics.limits.contract import JointLimits
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import (
    NO_PARENT,
    ContactPoints,
    RoleMap,
    Skeleton,
    foot_points,
    require_human,
    restored_roles,
    t_pose,
)

_FINGERS: Final = {
    "thumb": ("thumb",),
    "index": ("index", "pointer"),
    "middle": ("middle", "mid"),
    "ring": ("ring",),
    "little": ("little", "pinky", "pinkie"),
}


@runtime_checkable
class HasSkeleton(Protocol):
    """Anything that stands on a skeleton: a rigged character, a body, a clip."""

    @property
    def skeleton(self) -> Skeleton:
        """The tree of joints that moves."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class RetargetTarget:
    """What retargeting knows of the body that receives a motion; other kinds of targets need to give no more."""

    skeleton: Skeleton
    roles: RoleMap
    sole: ContactPoints  # heel, ball and toe end of each foot, on the sole
    limits: JointLimits | None = None

    @classmethod
    def build(
        cls,
        target: Skeleton | HasSkeleton | RetargetTarget,
        *,
        roles: RoleMap | None = None,
        limits: JointLimits | None = None,
    ) -> RetargetTarget:
        """Describe a skeleton, or whatever has one; what is a description already is returned as it is.

        Raises:
            InputError: the skeleton is no human or has no known legs, or the target has no skeleton.
        """
        if isinstance(target, RetargetTarget):
            return target
        skeleton: object = target if isinstance(target, Skeleton) else getattr(target, "skeleton", None)
        if not isinstance(skeleton, Skeleton):
            raise InputError(f"a {type(target).__name__} is no target", "Give a Skeleton, a character or a motion")
        if roles is None:
            require_human(skeleton, "retargeting")
        roles = restored_roles(skeleton) if roles is None else roles
        require_legs(skeleton, roles)
        return cls(skeleton, roles, foot_points(skeleton, roles), limits)


def finger_joints(skeleton: Skeleton, roles: RoleMap) -> Mapping[str, int]:
    """Joints of fingers, ``left_index1`` the one nearest to the palm; hands without named fingers give none."""
    found: dict[str, int] = {}
    for side in SIDES:
        wrist = roles.get(f"{side}_wrist")
        if wrist is None:
            continue
        counts = dict.fromkeys(_FINGERS, 0)
        for j in skeleton.subtree(wrist)[1:]:
            name = skeleton.names[j].lower()
            finger = next((key for key, words in _FINGERS.items() if any(word in name for word in words)), None)
            if finger is not None and "metacarp" not in name:
                counts[finger] += 1
                found[f"{side}_{finger}{counts[finger]}"] = j
    return found


def foot_heading(skeleton: Skeleton, roles: RoleMap, side: str) -> float:
    """Heading of a foot in the calibration pose [rad]: 0 is +Z, positive towards +X."""
    points, pose = foot_points(skeleton, roles), t_pose(skeleton, roles)
    at = points.positions(pose.joint_positions(), pose.joint_rotations())
    along: FloatArray = at[points.index(f"{side}_ball")] - at[points.index(f"{side}_heel")]
    return float(np.arctan2(along[0], along[2]))


_TRUNK: Final = ("pelvis", "spine1", "spine2", "spine3")
_BONES: Final = (("hip", "knee"), ("knee", "ankle"), ("ankle", "foot"), ("shoulder", "elbow"), ("elbow", "wrist"))
MIN_BONE_M: Final = 1e-5  # [m] shorter bones have no direction
TWIST_LINE: Final = 0.06  # [-] of the forearm: a joint this near to its axis twists with it


def measure_turns(motion: Motion, roles: RoleMap) -> dict[str, SO3]:
    """Turn of every part of the source away from the calibration pose, in world axes: batch ``(F,)`` by role."""
    pose = t_pose(motion.skeleton, roles)
    R_world_rest, p_rest = pose.joint_rotations(), pose.joint_positions()
    positions, frames = motion.joint_frames()
    parts = {**roles.joints, **finger_joints(motion.skeleton, roles)}
    turns = {part: frames[:, joint] @ R_world_rest[joint].inverse() for part, joint in parts.items()}
    # Directions of limbs are those between their joints
    for side in SIDES:
        for upper, lower in _BONES:
            a, b = roles.get(f"{side}_{upper}"), roles.get(f"{side}_{lower}")
            if a is None or b is None:
                continue
            bone, rest = positions[:, b] - positions[:, a], p_rest[b] - p_rest[a]
            if min(np.linalg.norm(bone, axis=-1).min(), np.linalg.norm(rest)) > MIN_BONE_M:
                turn = turns[f"{side}_{upper}"]
                turns[f"{side}_{upper}"] = SO3.from_two_vectors(turn @ rest, bone) @ turn
    # The bend of the trunk is spread over spine joints that the source lacks
    known = [i for i, role in enumerate(_TRUNK) if role in turns]
    for i, role in enumerate(_TRUNK):
        below, above = [k for k in known if k < i], [k for k in known if k > i]
        if i not in known and below and above:
            a, b = below[-1], above[0]
            turns[role] = turns[_TRUNK[a]].slerp(turns[_TRUNK[b]], np.asarray((i - a) / (b - a)))
    return turns


def pose_target(
    turns: Mapping[str, SO3], skeleton: Skeleton, roles: RoleMap, headings: Mapping[str, float], frames: int
) -> FloatArray:
    """Local rotations ``(F, J, 4)`` of a skeleton whose parts are turned away from its calibration pose.

    Joints without a role keep their rest relation to the part that carries them; those inside the trunk share its
    bend, those along a forearm its twist.

    Args:
        turns: by role, as :func:`measure_turns` gives them.
        skeleton: of the target.
        roles: of its joints.
        headings: of the source's feet in its calibration pose by side [rad]; the target's are turned to them.
        frames: number of frames.
    """
    pose = t_pose(skeleton, roles)
    R_world_rest, p_rest = pose.joint_rotations().wxyz.copy(), pose.joint_positions()
    for side, heading in headings.items():
        about = SO3.exp([0.0, heading - foot_heading(skeleton, roles, side), 0.0])
        for j in skeleton.subtree(roles[f"{side}_ankle"]):
            R_world_rest[j] = (about @ SO3(R_world_rest[j])).wxyz
    named = {**roles.joints, **finger_joints(skeleton, roles)}
    part = {joint: role for role, joint in named.items() if role in turns}
    if "head" in turns and "head" not in roles and "neck" in roles:
        part[roles["neck"]] = "head"  # one joint moves neck and head: the head is what one sees
    # Turn of every joint of the target: its part's own, between two parts of the trunk, or its parent's
    # Joints of trunk and neck without a role: the parts below and above, and how far between them
    between: dict[int, tuple[str, str, float]] = {}
    for role in ("spine1", "spine2", "spine3", "neck", "head"):
        top = roles.get(role)
        if top is None or top not in part:
            continue
        path: list[int] = []
        low = int(skeleton.parents[top])
        while low != NO_PARENT and low not in part:
            path.insert(0, low)
            low = int(skeleton.parents[low])
        if low != NO_PARENT and part[low] in (*_TRUNK, "neck"):
            between |= {j: (part[low], part[top], (i + 1) / (len(path) + 1)) for i, j in enumerate(path)}
    moved: dict[int, SO3] = {}
    for j in range(skeleton.num_joints):
        parent = int(skeleton.parents[j])
        if j in part:
            moved[j] = turns[part[j]]
        elif j in between:
            below, above, share = between[j]
            moved[j] = turns[below].slerp(turns[above], np.asarray(share))
        elif parent != NO_PARENT:
            moved[j] = moved[parent]
        else:
            moved[j] = turns["pelvis"] if "pelvis" in turns else SO3.identity(frames)
    for side in SIDES:
        moved |= _twist_forearm(moved, skeleton, roles, p_rest, side)
    world = SO3(np.stack([moved[j].wxyz for j in range(skeleton.num_joints)], axis=1)) @ SO3(R_world_rest)
    parents = np.maximum(skeleton.parents, 0)
    local = (world[:, parents].inverse() @ world).wxyz.copy()
    local[:, 0] = world.wxyz[:, 0]
    return local


def _twist_forearm(
    moved: Mapping[int, SO3], skeleton: Skeleton, roles: RoleMap, p_rest: FloatArray, side: str
) -> dict[int, SO3]:
    """Turns of the joints along a forearm: each has its share of the twist between elbow and hand."""
    elbow, wrist = roles.get(f"{side}_elbow"), roles.get(f"{side}_wrist")
    if elbow is None or wrist is None:
        return {}
    axis = p_rest[wrist] - p_rest[elbow]
    length = float(np.linalg.norm(axis))
    if length < MIN_BONE_M:
        return {}
    axis = axis / length
    twist = (moved[elbow].inverse() @ moved[wrist]).twist_angle(axis)
    shared: dict[int, SO3] = {}
    for j in skeleton.subtree(elbow):
        away = p_rest[j] - p_rest[elbow]
        along = float(away @ axis) / length
        is_beside = float(np.linalg.norm(away - along * length * axis)) < TWIST_LINE * length and 0.05 < along < 0.99
        if is_beside and j not in roles.joints.values():
            shared[j] = moved[elbow] @ SO3.exp(along * twist[:, None] * axis)
    return shared
