"""Mass, motion and force: bodies, inverse dynamics, momentum, contact cones, validity."""

from marey.dynamics._aggregate import Aggregate, AggregateJacobians, aggregate, aggregate_jacobians
from marey.dynamics._body import GRAVITY, Body
from marey.dynamics._body_repair import restore_bones
from marey.dynamics._cones import (
    ConeFit,
    ConeMargins,
    GripSupport,
    RectangleSupport,
    cone_distance,
    friction_edges,
    point_generators,
    wrench_about,
)
from marey.dynamics._inverse import InverseDynamics, inverse_dynamics, newton_euler
from marey.dynamics._inverse_states import States, differences, smooth, smooth_values, states
from marey.dynamics._momentum import kinetic_energy, momentum, potential_energy
from marey.dynamics._momentum_flights import Flight, flight_gravity
from marey.dynamics._points import PointMotion, com_motion, point_motion, points_motion
from marey.dynamics._report import CAUSES, COLOURS, ValidityReport, ValiditySpan
from marey.dynamics._report_plot import physics_curves, plot_report
from marey.dynamics._spatial import inverse_transform, spatial_cross, spatial_inertia, spatial_power, spatial_transform
from marey.dynamics._split import SupportSplit, centre_of_pressure, split_alpha, split_support
from marey.dynamics._supports import Supports, find_supports
from marey.dynamics._torques import torque_jacobians, torques
from marey.dynamics._tree import PRISMATIC, REVOLUTE, Figure, JointTree
from marey.dynamics._tree_body import tree_from_body
from marey.dynamics._tree_pinocchio import pinocchio_model
from marey.dynamics._tree_simplified import SimplifiedTree
from marey.dynamics._validity import validity
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
    "ConeFit",
    "ConeMargins",
    "Figure",
    "Flight",
    "GripSupport",
    "InverseDynamics",
    "JointTree",
    "PointMotion",
    "ReactionComparison",
    "RectangleSupport",
    "SimplifiedTree",
    "States",
    "SupportSplit",
    "Supports",
    "ValidityReport",
    "ValiditySpan",
    "aggregate",
    "aggregate_jacobians",
    "centre_of_pressure",
    "com_motion",
    "compare_reaction",
    "cone_distance",
    "differences",
    "find_supports",
    "flight_gravity",
    "friction_edges",
    "inverse_dynamics",
    "inverse_transform",
    "kinetic_energy",
    "momentum",
    "newton_euler",
    "physics_curves",
    "pinocchio_model",
    "plot_report",
    "point_generators",
    "point_motion",
    "points_motion",
    "potential_energy",
    "restore_bones",
    "smooth",
    "smooth_values",
    "spatial_cross",
    "spatial_inertia",
    "spatial_power",
    "spatial_transform",
    "split_alpha",
    "split_support",
    "states",
    "torque_jacobians",
    "torques",
    "tree_from_body",
    "validity",
    "wrench_about",
]
