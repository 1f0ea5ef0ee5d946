"""Pose models: few coordinates for a whole pose, learnt from clips."""

from marey.models._arrays import EULER_LINEAR, GEODESIC_PRODUCT, LINEAR_TANGENT, LOG_LINEAR, ModelArrays
from marey.models._contract import PoseModel
from marey.models._geodesic import GeodesicModel
from marey.models._pga import PGA

__all__ = [
    "EULER_LINEAR",
    "GEODESIC_PRODUCT",
    "LINEAR_TANGENT",
    "LOG_LINEAR",
    "PGA",
    "GeodesicModel",
    "ModelArrays",
    "PoseModel",
]
