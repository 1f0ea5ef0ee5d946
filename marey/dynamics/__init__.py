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
from marey.dynamics._inverse_states import States, smooth, states
from marey.dynamics._points import PointMotion, com_motion, point_motion, points_motion
from marey.dynamics._tree import PRISMATIC, REVOLUTE, Figure, JointTree
from marey.dynamics._tree_pinocchio import pinocchio_model
from marey.dynamics._tree_simplified import SimplifiedTree

__all__ = [
    "GRAVITY",
    "PRISMATIC",
    "REVOLUTE",
    "Aggregate",
    "AggregateJacobians",
    "Body",
    "ConeFit",
    "ConeMargins",
    "Figure",
    "GripSupport",
    "InverseDynamics",
    "JointTree",
    "PointMotion",
    "RectangleSupport",
    "SimplifiedTree",
    "States",
    "aggregate",
    "aggregate_jacobians",
    "com_motion",
    "cone_distance",
    "friction_edges",
    "inverse_dynamics",
    "newton_euler",
    "pinocchio_model",
    "point_generators",
    "point_motion",
    "points_motion",
    "restore_bones",
    "smooth",
    "states",
    "wrench_about",
]
