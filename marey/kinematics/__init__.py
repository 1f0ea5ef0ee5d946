"""Inverse kinematics, joint limits, Jacobians, two-bone limbs, retargeting and marker fits."""

from marey.base import deprecated_names
from marey.kinematics.ik.clip import IKTrackResult, track
from marey.kinematics.ik.solve import IKResult, solve_ik
from marey.kinematics.ik.tasks import ComTask, LookAtTask, OrientationTask, PointTask, PoseTask, Task
from marey.kinematics.limits.box import BoxLimits
from marey.kinematics.limits.cones import ConeLimits
from marey.kinematics.limits.contract import JointLimits
from marey.kinematics.limits.distance_field import DistanceField, FieldGrid
from marey.kinematics.limits.ellipsoids import EllipsoidLimits
from marey.kinematics.limits.learn import (
    JointEstimate,
    LimitModel,
    LimitScore,
    compare_limits,
    estimate_joints,
    fit_limits,
    load_limits,
)
from marey.kinematics.limits.plot import plot_limits
from marey.kinematics.limits.sculpt import field_from_mesh, iso_surface, load_obj, resculpt_joint, shrink_wrap
from marey.kinematics.limits.sdf import JointField, SdfLimits
from marey.kinematics.markers import fit_markers
from marey.kinematics.retargeting import retarget
from marey.kinematics.two_bone import Limb, solve_two_bone

__all__ = [
    "BoxLimits",
    "ComTask",
    "ConeLimits",
    "DistanceField",
    "EllipsoidLimits",
    "FieldGrid",
    "IKResult",
    "IKTrackResult",
    "JointEstimate",
    "JointField",
    "JointLimits",
    "Limb",
    "LimitModel",
    "LimitScore",
    "LookAtTask",
    "OrientationTask",
    "PointTask",
    "PoseTask",
    "SdfLimits",
    "Task",
    "compare_limits",
    "estimate_joints",
    "field_from_mesh",
    "fit_limits",
    "fit_markers",
    "iso_surface",
    "load_limits",
    "load_obj",
    "plot_limits",
    "resculpt_joint",
    "retarget",
    "shrink_wrap",
    "solve_ik",
    "solve_two_bone",
    "track",
]

__getattr__ = deprecated_names(
    __name__,
    {
        "Grid": "FieldGrid",
        "TrackResult": "IKTrackResult",
        "resculpted": "resculpt_joint",
    },
)
