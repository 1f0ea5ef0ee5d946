"""Pose models: few coordinates for a whole pose, learnt from clips."""

from marey.models._arrays import EULER_LINEAR, GEODESIC_PRODUCT, LINEAR_TANGENT, LOG_LINEAR, ModelArrays
from marey.models._contract import PoseModel
from marey.models._geodesic import GeodesicModel
from marey.models._linear import LinearModel
from marey.models._pca import PCA
from marey.models._pga import PGA
from marey.models._reconstruct import JointError, joint_distances, joint_error, reconstruct
from marey.models._selection import SelectionCurve, selection_curve
from marey.models._store import load_model

__all__ = [
    "EULER_LINEAR",
    "GEODESIC_PRODUCT",
    "LINEAR_TANGENT",
    "LOG_LINEAR",
    "PCA",
    "PGA",
    "GeodesicModel",
    "JointError",
    "LinearModel",
    "ModelArrays",
    "PoseModel",
    "SelectionCurve",
    "joint_distances",
    "joint_error",
    "load_model",
    "reconstruct",
    "selection_curve",
]
