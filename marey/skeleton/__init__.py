"""Skeletons, poses, forward kinematics and the canonical human."""

from marey.skeleton.body import BodyMesh, Capsules, capsule_mesh, capsules
from marey.skeleton.calibration_pose import t_pose
from marey.skeleton.points import ContactPoints, contact_points, foot_points, leg_length
from marey.skeleton.roles import HUMAN, HUMAN_STATURE_M, ROLES, RoleMap, human, role_map
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
    "MAX_JOINTS",
    "NO_PARENT",
    "ROLES",
    "BodyMesh",
    "Capsules",
    "ContactPoints",
    "EulerLimits",
    "Pose",
    "RoleMap",
    "Skeleton",
    "SkeletonDraft",
    "capsule_mesh",
    "capsules",
    "contact_points",
    "foot_points",
    "human",
    "joint_frames",
    "joint_positions",
    "leg_length",
    "role_map",
    "t_pose",
    "tree_difference",
]
