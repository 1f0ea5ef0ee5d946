"""Mass, motion and force: bodies, inverse dynamics, momentum, contact cones, validity."""

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

__all__ = [
    "ConeFit",
    "ConeMargins",
    "GripSupport",
    "RectangleSupport",
    "cone_distance",
    "friction_edges",
    "point_generators",
    "wrench_about",
]
