"""Limb solvers, Jacobians and retargeting."""

from marey.kinematics._cones import ConeLimits, ReachConeLimits
from marey.kinematics._ellipsoids import Ellipsoid, EllipsoidLimits, fit_ellipsoid
from marey.kinematics._ik import solve_ik
from marey.kinematics._ik_result import IKResult
from marey.kinematics._jacobian import point_jacobian, point_jacobians
from marey.kinematics._limits import JointLimits, LimitCheck
from marey.kinematics._limits_box import BoxLimits, EulerBoxLimits
from marey.kinematics._limits_field import QuaternionFieldLimits
from marey.kinematics._limits_file import load_limits
from marey.kinematics._limits_fit import JointEstimate, estimate_joints, fit_limits
from marey.kinematics._retarget import retarget
from marey.kinematics._sdf import JointField, SdfLimits
from marey.kinematics._sdf_field import DistanceField, Grid, build_field, make_grid
from marey.kinematics._tasks import ComTask, LookAtTask, OrientationTask, PointTask, PoseTask, Task
from marey.kinematics._track import TrackResult, track
from marey.kinematics._two_bone import Limb, TwoBoneResult, solve_two_bone

__all__ = [
    "BoxLimits",
    "ComTask",
    "ConeLimits",
    "DistanceField",
    "Ellipsoid",
    "EllipsoidLimits",
    "EulerBoxLimits",
    "Grid",
    "IKResult",
    "JointEstimate",
    "JointField",
    "JointLimits",
    "Limb",
    "LimitCheck",
    "LookAtTask",
    "OrientationTask",
    "PointTask",
    "PoseTask",
    "QuaternionFieldLimits",
    "ReachConeLimits",
    "SdfLimits",
    "Task",
    "TrackResult",
    "TwoBoneResult",
    "build_field",
    "estimate_joints",
    "fit_ellipsoid",
    "fit_limits",
    "load_limits",
    "make_grid",
    "point_jacobian",
    "point_jacobians",
    "retarget",
    "solve_ik",
    "solve_two_bone",
    "track",
]
