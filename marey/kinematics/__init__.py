"""Limb solvers, Jacobians and retargeting."""

from marey.kinematics._cones import ConeLimits, ReachConeLimits
from marey.kinematics._jacobian import point_jacobian, point_jacobians
from marey.kinematics._limits import JointLimits, LimitCheck
from marey.kinematics._limits_box import BoxLimits, EulerBoxLimits
from marey.kinematics._retarget import retarget
from marey.kinematics._two_bone import Limb, TwoBoneResult, solve_two_bone

__all__ = [
    "BoxLimits",
    "ConeLimits",
    "EulerBoxLimits",
    "JointLimits",
    "Limb",
    "LimitCheck",
    "ReachConeLimits",
    "TwoBoneResult",
    "point_jacobian",
    "point_jacobians",
    "retarget",
    "solve_two_bone",
]
