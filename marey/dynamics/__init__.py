"""Mass, motion and force: bodies, inverse dynamics, momentum, contact cones, validity."""

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

__all__ = [
    "GRAVITY",
    "Body",
    "ConeFit",
    "ConeMargins",
    "GripSupport",
    "InverseDynamics",
    "RectangleSupport",
    "States",
    "cone_distance",
    "friction_edges",
    "inverse_dynamics",
    "newton_euler",
    "point_generators",
    "restore_bones",
    "smooth",
    "states",
    "wrench_about",
]
