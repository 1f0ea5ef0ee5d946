"""Inverse kinematics, joint limits, Jacobians, two-bone limbs, retargeting and marker fits."""

from marey.base import deprecated_names, guard_room
from marey.kinematics.ik.clip import IKTrackResult, track
from marey.kinematics.ik.joint_types import BallJoint, HingeJoint, PrismaticJoint, UniversalJoint
from marey.kinematics.ik.solve import IKResult, solve_ik
from marey.kinematics.ik.tasks import ComTask, LookAtTask, OrientationTask, PointTask, PoseTask, Task
from marey.kinematics.in_betweens import InBetweens, fill_in_betweens
from marey.kinematics.limits.anatomy.model import (
    AnatomicalLimits,
    anatomical_limits,
    measure_poses,
    posing_limits,
)
from marey.kinematics.limits.anatomy.people import fit_people
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
from marey.kinematics.limits.sculpt import (
    brush_joint,
    build_solid,
    draw_joint,
    field_from_mesh,
    iso_surface,
    load_obj,
    resculpt_joint,
    shrink_wrap,
)
from marey.kinematics.limits.sdf import JointField, SdfLimits
from marey.kinematics.markers import fit_markers
from marey.kinematics.retargeting.report import RetargetReport
from marey.kinematics.retargeting.solve import RetargetResult, retarget, solve_retarget
from marey.kinematics.retargeting.target import RetargetTarget
from marey.kinematics.two_bone import Limb, point_jacobian, solve_two_bone

__all__ = [
    "AnatomicalLimits",
    "BallJoint",
    "BoxLimits",
    "ComTask",
    "ConeLimits",
    "DistanceField",
    "EllipsoidLimits",
    "FieldGrid",
    "HingeJoint",
    "IKResult",
    "IKTrackResult",
    "InBetweens",
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
    "PrismaticJoint",
    "RetargetReport",
    "RetargetResult",
    "RetargetTarget",
    "SdfLimits",
    "Task",
    "UniversalJoint",
    "anatomical_limits",
    "brush_joint",
    "build_solid",
    "compare_limits",
    "draw_joint",
    "estimate_joints",
    "field_from_mesh",
    "fill_in_betweens",
    "fit_limits",
    "fit_markers",
    "fit_people",
    "iso_surface",
    "load_limits",
    "load_obj",
    "measure_poses",
    "plot_limits",
    "point_jacobian",
    "posing_limits",
    "resculpt_joint",
    "retarget",
    "shrink_wrap",
    "solve_ik",
    "solve_retarget",
    "solve_two_bone",
    "track",
]

guard_room(__name__)

__getattr__ = deprecated_names(
    __name__,
    {
        "Grid": "FieldGrid",
        "TrackResult": "IKTrackResult",
        "resculpted": "resculpt_joint",
    },
)
