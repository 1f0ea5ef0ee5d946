"""Mass, motion and force: bodies, inverse dynamics, momentum, contact cones, validity."""

from marey.base._deprecation import deprecated_names
from marey.dynamics._aggregate import Aggregate, AggregateJacobians, compute_aggregate, compute_aggregate_jacobians
from marey.dynamics._body import GRAVITY, Body
from marey.dynamics._body_repair import restore_bones
from marey.dynamics._cones import (
    ConeMargins,
    ConeProjection,
    GripSupport,
    RectangleSupport,
    compute_friction_edges,
    compute_point_generators,
    project_on_cone,
    shift_wrench,
)
from marey.dynamics._inverse import InverseDynamics, solve_inverse_dynamics, solve_newton_euler
from marey.dynamics._inverse_states import (
    MotionStates,
    compute_differences,
    compute_states,
    smooth_motion,
    smooth_values,
)
from marey.dynamics._momentum import compute_kinetic_energy, compute_momentum, compute_potential_energy
from marey.dynamics._momentum_flights import Flight, fit_flight_gravity
from marey.dynamics._points import PointMotion, compute_com_motion, compute_point_motion, compute_points_motion
from marey.dynamics._report import CAUSES, COLOURS, ValidityReport, ValiditySpan
from marey.dynamics._report_plot import build_physics_curves, plot_report
from marey.dynamics._spatial import inverse_transform, spatial_cross, spatial_inertia, spatial_power, spatial_transform
from marey.dynamics._split import SupportSplit, compute_centre_of_pressure, split_by_pressure, split_support
from marey.dynamics._supports import Supports, find_supports
from marey.dynamics._torques import compute_torque_jacobians, compute_torques
from marey.dynamics._tree import JointTree, tree_from_body
from marey.dynamics._tree_motion import PRISMATIC, REVOLUTE, TreeSkeleton
from marey.dynamics._tree_pinocchio import pinocchio_model
from marey.dynamics._tree_simplified import SimplifiedTree
from marey.dynamics._validity import check_validity
from marey.dynamics._validity_measured import ReactionComparison, compare_reaction

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
