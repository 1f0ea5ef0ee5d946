"""Limb solvers, Jacobians and retargeting."""

from marey.kinematics._jacobian import point_jacobian, point_jacobians
from marey.kinematics._retarget import retarget
from marey.kinematics._two_bone import Limb, TwoBoneResult, solve_two_bone

__all__ = ["Limb", "TwoBoneResult", "point_jacobian", "point_jacobians", "retarget", "solve_two_bone"]
