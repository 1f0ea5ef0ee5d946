"""Limb solvers, Jacobians and retargeting."""

from marey.base._deprecation import deprecated_names
from marey.kinematics._cones import ConeLimits, ReachConeLimits
from marey.kinematics._ellipsoids import Ellipsoid, EllipsoidLimits, fit_ellipsoid
from marey.kinematics._ik import solve_ik
from marey.kinematics._ik_result import IKResult
from marey.kinematics._jacobian import point_jacobian, point_jacobians
from marey.kinematics._limits import JointLimits, LimitCheck
from marey.kinematics._limits_box import BoxLimits, EulerBoxLimits
from marey.kinematics._limits_compare import LimitModel, LimitScore, compare_limits
from marey.kinematics._limits_field import QuaternionFieldLimits
from marey.kinematics._limits_file import load_limits
from marey.kinematics._limits_fit import JointEstimate, estimate_joints, fit_limits
from marey.kinematics._limits_plot import plot_limits
from marey.kinematics._marker_fit import MarkerFit, fit_markers
from marey.kinematics._marker_fit_sets import MarkerSite
from marey.kinematics._retarget import retarget
from marey.kinematics._sculpt import LimitMesh, field_from_mesh, iso_surface, resculpt_joint, shrink_wrap
from marey.kinematics._sdf import JointField, SdfLimits
from marey.kinematics._sdf_field import DistanceField, FieldGrid, build_field, make_grid
from marey.kinematics._tasks import ComTask, LookAtTask, OrientationTask, PointTask, PoseTask, Task
from marey.kinematics._track import IKTrackResult, track
from marey.kinematics._two_bone import Limb, TwoBoneResult, solve_two_bone

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
