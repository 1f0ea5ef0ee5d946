"""Skeletons, poses, forward kinematics and the canonical human."""

from marey.skeleton._capsules import Capsules, capsules
from marey.skeleton._human import HUMAN, HUMAN_STATURE_M, human
from marey.skeleton._mesh import BodyMesh, capsule_mesh
from marey.skeleton._points import ContactPoints, FootPoints, contact_points, foot_points, leg_length
from marey.skeleton._roles import ROLES, RoleMap, role_map
from marey.skeleton._skeleton import (
    MAX_JOINTS,
    NO_PARENT,
    EulerLimits,
    Pose,
    Skeleton,
    SkeletonDraft,
    joint_frames,
    joint_positions,
)
from marey.skeleton._tpose import t_pose

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
    "FootPoints",
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
]
