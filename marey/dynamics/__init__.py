"""Mass, motion and force: bodies, inverse dynamics, momentum, contact cones, validity."""

from marey.base import deprecated_names, guard_room
from marey.dynamics.bodies import GRAVITY, Body
from marey.dynamics.contact_cones import shift_wrench
from marey.dynamics.inverse.differentiation import MotionStates, compute_differences, smooth_values
from marey.dynamics.inverse.newton_euler import compute_momentum, solve_inverse_dynamics, solve_newton_euler
from marey.dynamics.inverse.support_split import compute_centre_of_pressure
from marey.dynamics.joint_tree import JointTree
from marey.dynamics.linear_time.aggregate import (
    Aggregate,
    compute_aggregate,
    compute_aggregate_jacobians,
    compute_torque_jacobians,
    compute_torques,
)
from marey.dynamics.linear_time.baselines import pinocchio_model
from marey.dynamics.linear_time.points import (
    PointMotion,
    compute_com_motion,
    compute_point_motion,
    compute_point_positions,
    compute_points_motion,
)
from marey.dynamics.spatial import PRISMATIC, REVOLUTE, TreeSkeleton
from marey.dynamics.supports import Supports, find_supports
from marey.dynamics.validation.check import check_validity
from marey.dynamics.validation.measured import (
    Flight,
    ReactionComparison,
    compare_reaction,
    estimate_reaction,
    fit_flight_gravity,
)
from marey.dynamics.validation.report import CAUSES, ValidityReport, ValiditySpan, make_overlay, plot_report

__all__ = [
    "CAUSES",
    "GRAVITY",
    "PRISMATIC",
    "REVOLUTE",
    "Aggregate",
    "Body",
    "Flight",
    "JointTree",
    "MotionStates",
    "PointMotion",
    "ReactionComparison",
    "Supports",
    "TreeSkeleton",
    "ValidityReport",
    "ValiditySpan",
    "check_validity",
    "compare_reaction",
    "compute_aggregate",
    "compute_aggregate_jacobians",
    "compute_centre_of_pressure",
    "compute_com_motion",
    "compute_differences",
    "compute_momentum",
    "compute_point_motion",
    "compute_point_positions",
    "compute_points_motion",
    "compute_torque_jacobians",
    "compute_torques",
    "estimate_reaction",
    "find_supports",
    "fit_flight_gravity",
    "make_overlay",
    "pinocchio_model",
    "plot_report",
    "shift_wrench",
    "smooth_values",
    "solve_inverse_dynamics",
    "solve_newton_euler",
]

guard_room(__name__)

__getattr__ = deprecated_names(
    __name__,
    {
        "Figure": "TreeSkeleton",
        "States": "MotionStates",
        "aggregate": "compute_aggregate",
        "aggregate_jacobians": "compute_aggregate_jacobians",
        "centre_of_pressure": "compute_centre_of_pressure",
        "com_motion": "compute_com_motion",
        "differences": "compute_differences",
        "flight_gravity": "fit_flight_gravity",
        "inverse_dynamics": "solve_inverse_dynamics",
        "momentum": "compute_momentum",
        "newton_euler": "solve_newton_euler",
        "point_motion": "compute_point_motion",
        "points_motion": "compute_points_motion",
        "torque_jacobians": "compute_torque_jacobians",
        "torques": "compute_torques",
        "validity": "check_validity",
        "wrench_about": "shift_wrench",
    },
)
