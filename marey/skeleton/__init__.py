"""Skeletons, poses, forward kinematics and the canonical human."""

from marey.base import guard_room
from marey.skeleton.anatomy import Anatomy, assess_anatomy, require_human
from marey.skeleton.body import Capsules, capsules
from marey.skeleton.body_mesh import BodyMesh, capsule_mesh
from marey.skeleton.branches import Branch, Handle, find_branches, list_handles
from marey.skeleton.calibration_pose import t_pose
from marey.skeleton.limbs import LEG_OF_STATURE, TRUNK_ON_LEG, BodyPlan, find_body_plan, is_rest_pose, stands_at_rest
from marey.skeleton.points import ContactPoints, contact_points, foot_points, leg_length
from marey.skeleton.roles import (
    HUMAN,
    HUMAN_STATURE_M,
    ROLES,
    RoleMap,
    find_lost_bones,
    human,
    known_thorax,
    restore_bones,
    restored_roles,
    role_map,
    thorax_from,
)
from marey.skeleton.tree import (
    MAX_JOINTS,
    NO_PARENT,
    EulerLimits,
    Pose,
    Skeleton,
    SkeletonDraft,
    joint_frames,
    joint_positions,
    tree_difference,
)

__all__ = [
    "HUMAN",
    "HUMAN_STATURE_M",
    "LEG_OF_STATURE",
    "MAX_JOINTS",
    "NO_PARENT",
    "ROLES",
    "TRUNK_ON_LEG",
    "Anatomy",
    "BodyMesh",
    "BodyPlan",
    "Branch",
    "Capsules",
    "ContactPoints",
    "EulerLimits",
    "Handle",
    "Pose",
    "RoleMap",
    "Skeleton",
    "SkeletonDraft",
    "assess_anatomy",
    "capsule_mesh",
    "capsules",
    "contact_points",
    "find_body_plan",
    "find_branches",
    "find_lost_bones",
    "foot_points",
    "human",
    "is_rest_pose",
    "joint_frames",
    "joint_positions",
    "known_thorax",
    "leg_length",
    "list_handles",
    "require_human",
    "restore_bones",
    "restored_roles",
    "role_map",
    "stands_at_rest",
    "t_pose",
    "thorax_from",
    "tree_difference",
]

guard_room(__name__)
