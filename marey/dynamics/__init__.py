"""Mass, motion and force: bodies, inverse dynamics, momentum, contact cones, validity."""

from marey.base.deprecation import deprecated_names
from marey.dynamics.bodies import GRAVITY, Body, restore_bones
from marey.dynamics.contact_cones import (
    ConeMargins,
    ConeProjection,
    GripSupport,
    RectangleSupport,
    compute_friction_edges,
    compute_point_generators,
    project_on_cone,
    shift_wrench,
)
from marey.dynamics.inverse.differentiation import (
    MotionStates,
    compute_differences,
    compute_states,
    smooth_motion,
    smooth_values,
)
from marey.dynamics.inverse.momentum import (
    Flight,
    compute_kinetic_energy,
    compute_momentum,
    compute_potential_energy,
    fit_flight_gravity,
)
from marey.dynamics.inverse.newton_euler import InverseDynamics, solve_inverse_dynamics, solve_newton_euler
from marey.dynamics.inverse.support_split import (
    SupportSplit,
    compute_centre_of_pressure,
    split_by_pressure,
    split_support,
)
from marey.dynamics.linear_time.aggregate import (
    Aggregate,
    AggregateJacobians,
    compute_aggregate,
    compute_aggregate_jacobians,
)
from marey.dynamics.linear_time.baselines import pinocchio_model
from marey.dynamics.linear_time.points import (
    PointMotion,
    compute_com_motion,
    compute_point_motion,
    compute_points_motion,
)
from marey.dynamics.linear_time.torques import compute_torque_jacobians, compute_torques
from marey.dynamics.spatial import inverse_transform, spatial_cross, spatial_inertia, spatial_power, spatial_transform
from marey.dynamics.supports import Supports, find_supports
from marey.dynamics.tree.coordinates import PRISMATIC, REVOLUTE, TreeSkeleton
from marey.dynamics.tree.joint_tree import JointTree, tree_from_body
from marey.dynamics.tree.reduced import SimplifiedTree
from marey.dynamics.validation.check import check_validity
from marey.dynamics.validation.measured import ReactionComparison, compare_reaction
from marey.dynamics.validation.report import (
    CAUSES,
    COLOURS,
    ValidityReport,
    ValiditySpan,
    build_physics_curves,
    plot_report,
)

__all__ = [
    "CAUSES",
    "COLOURS",
    "GRAVITY",
    "PRISMATIC",
    "REVOLUTE",
    "Aggregate",
    "AggregateJacobians",
    "Body",
    "ConeMargins",
    "ConeProjection",
    "Flight",
    "GripSupport",
    "InverseDynamics",
    "JointTree",
    "MotionStates",
    "PointMotion",
    "ReactionComparison",
    "RectangleSupport",
    "SimplifiedTree",
    "SupportSplit",
    "Supports",
    "TreeSkeleton",
    "ValidityReport",
    "ValiditySpan",
    "build_physics_curves",
    "check_validity",
    "compare_reaction",
    "compute_aggregate",
    "compute_aggregate_jacobians",
    "compute_centre_of_pressure",
    "compute_com_motion",
    "compute_differences",
    "compute_friction_edges",
    "compute_kinetic_energy",
    "compute_momentum",
    "compute_point_generators",
    "compute_point_motion",
    "compute_points_motion",
    "compute_potential_energy",
    "compute_states",
    "compute_torque_jacobians",
    "compute_torques",
    "find_supports",
    "fit_flight_gravity",
    "inverse_transform",
    "pinocchio_model",
    "plot_report",
    "project_on_cone",
    "restore_bones",
    "shift_wrench",
    "smooth_motion",
    "smooth_values",
    "solve_inverse_dynamics",
    "solve_newton_euler",
    "spatial_cross",
    "spatial_inertia",
    "spatial_power",
    "spatial_transform",
    "split_by_pressure",
    "split_support",
    "tree_from_body",
]

__getattr__ = deprecated_names(
    __name__,
    {
        "ConeFit": "ConeProjection",
        "Figure": "TreeSkeleton",
        "States": "MotionStates",
        "aggregate": "compute_aggregate",
        "aggregate_jacobians": "compute_aggregate_jacobians",
        "centre_of_pressure": "compute_centre_of_pressure",
        "com_motion": "compute_com_motion",
        "cone_distance": "project_on_cone",
        "differences": "compute_differences",
        "flight_gravity": "fit_flight_gravity",
        "friction_edges": "compute_friction_edges",
        "inverse_dynamics": "solve_inverse_dynamics",
        "kinetic_energy": "compute_kinetic_energy",
        "momentum": "compute_momentum",
        "newton_euler": "solve_newton_euler",
        "physics_curves": "build_physics_curves",
        "point_generators": "compute_point_generators",
        "point_motion": "compute_point_motion",
        "points_motion": "compute_points_motion",
        "potential_energy": "compute_potential_energy",
        "smooth": "smooth_motion",
        "split_alpha": "split_by_pressure",
        "states": "compute_states",
        "torque_jacobians": "compute_torque_jacobians",
        "torques": "compute_torques",
        "validity": "check_validity",
        "wrench_about": "shift_wrench",
    },
)
