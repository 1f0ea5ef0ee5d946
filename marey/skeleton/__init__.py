"""Skeletons, poses, forward kinematics and the canonical human."""

from marey.skeleton._capsules import Capsules, capsules
from marey.skeleton._human import HUMAN, HUMAN_STATURE_M, human
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

__all__ = [
    "HUMAN",
    "HUMAN_STATURE_M",
    "MAX_JOINTS",
    "NO_PARENT",
    "Capsules",
    "EulerLimits",
    "Pose",
    "Skeleton",
    "SkeletonDraft",
    "capsules",
    "human",
    "joint_frames",
    "joint_positions",
]
