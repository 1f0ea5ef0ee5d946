"""Limb solvers, Jacobians and retargeting."""

from marey.base.deprecation import deprecated_names
from marey.kinematics.ik.clip import IKTrackResult, track
from marey.kinematics.ik.solve import IKResult, solve_ik
from marey.kinematics.ik.tasks import ComTask, LookAtTask, OrientationTask, PointTask, PoseTask, Task
from marey.kinematics.jacobian import point_jacobian, point_jacobians
from marey.kinematics.limits.baseline_field import QuaternionFieldLimits
from marey.kinematics.limits.box import BoxLimits, EulerBoxLimits
from marey.kinematics.limits.cones import ConeLimits, ReachConeLimits
from marey.kinematics.limits.contract import JointLimits, LimitCheck
from marey.kinematics.limits.distance_field import DistanceField, FieldGrid, build_field, make_grid
from marey.kinematics.limits.ellipsoids import Ellipsoid, EllipsoidLimits, fit_ellipsoid
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
from marey.kinematics.limits.sculpt import LimitMesh, field_from_mesh, iso_surface, resculpt_joint, shrink_wrap
from marey.kinematics.limits.sdf import JointField, SdfLimits
from marey.kinematics.markers import MarkerFit, MarkerSite, fit_markers
from marey.kinematics.retargeting import retarget
from marey.kinematics.two_bone import Limb, TwoBoneResult, solve_two_bone

__all__ = [
    "BoxLimits",
    "ComTask",
    "ConeLimits",
    "DistanceField",
    "Ellipsoid",
    "EllipsoidLimits",
    "EulerBoxLimits",
    "FieldGrid",
    "IKResult",
    "IKTrackResult",
    "JointEstimate",
    "JointField",
    "JointLimits",
    "Limb",
    "LimitCheck",
    "LimitMesh",
    "LimitModel",
    "LimitScore",
    "LookAtTask",
    "MarkerFit",
    "MarkerSite",
    "OrientationTask",
    "PointTask",
    "PoseTask",
    "QuaternionFieldLimits",
    "ReachConeLimits",
    "SdfLimits",
    "Task",
    "TwoBoneResult",
    "build_field",
    "compare_limits",
    "estimate_joints",
    "field_from_mesh",
    "fit_ellipsoid",
    "fit_limits",
    "fit_markers",
    "iso_surface",
    "load_limits",
    "make_grid",
    "plot_limits",
    "point_jacobian",
    "point_jacobians",
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
