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
from marey.dynamics._momentum import kinetic_energy, momentum, potential_energy
from marey.dynamics._momentum_flights import Flight, flight_gravity
from marey.dynamics._points import PointMotion, com_motion, point_motion, points_motion
from marey.dynamics._torques import torque_jacobians, torques
from marey.dynamics._tree import PRISMATIC, REVOLUTE, Figure, JointTree
from marey.dynamics._tree_body import tree_from_body
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
    "Flight",
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
    "flight_gravity",
    "friction_edges",
    "inverse_dynamics",
    "kinetic_energy",
    "momentum",
    "newton_euler",
    "pinocchio_model",
    "point_generators",
    "point_motion",
    "points_motion",
    "potential_energy",
    "restore_bones",
    "smooth",
    "states",
    "torque_jacobians",
    "torques",
    "tree_from_body",
    "wrench_about",
]
