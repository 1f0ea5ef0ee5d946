"""Pose models: few coordinates for a whole pose, learnt from clips."""

from marey.base._deprecation import deprecated_names
from marey.models._arrays import EULER_LINEAR, GEODESIC_PRODUCT, LINEAR_TANGENT, LOG_LINEAR, ModelArrays
from marey.models._basis_clips import ClipChoice, ClipFeatures, choose_clips, clip_features
from marey.models._components import Components, joint_shares, principal_components
from marey.models._contract import PoseModel
from marey.models._geodesic import GeodesicModel
from marey.models._hierarchy import CollapsedModel, HierarchicalModel, HierarchicalPCA, Leaf, MotionUnits, Person
from marey.models._linear import LinearModel
from marey.models._pca import PCA
from marey.models._pga import PGA
from marey.models._plots import mode_motion, mode_strips, plot_explained, plot_selection
from marey.models._reconstruct import JointError, joint_distances, joint_error, reconstruct
from marey.models._selection import SelectionCurve, selection_curve
from marey.models._sorting import find_outliers, k_means, sort_gaits, sort_subjects
from marey.models._speed_law import SpeedLaw, fit_speed_law
from marey.models._store import load_model

__all__ = [
    "EULER_LINEAR",
    "GEODESIC_PRODUCT",
    "LINEAR_TANGENT",
    "LOG_LINEAR",
    "PCA",
    "PGA",
    "ClipChoice",
    "ClipFeatures",
    "CollapsedModel",
    "Components",
    "GeodesicModel",
    "HierarchicalModel",
    "HierarchicalPCA",
    "JointError",
    "Leaf",
    "LinearModel",
    "ModelArrays",
    "MotionUnits",
    "Person",
    "PoseModel",
    "SelectionCurve",
    "SpeedLaw",
    "choose_clips",
    "clip_features",
    "find_outliers",
    "fit_speed_law",
    "joint_distances",
    "joint_error",
    "joint_shares",
    "k_means",
    "load_model",
    "mode_motion",
    "mode_strips",
    "plot_explained",
    "plot_selection",
    "principal_components",
    "reconstruct",
    "selection_curve",
    "sort_gaits",
    "sort_subjects",
]

__getattr__ = deprecated_names(
    __name__,
    {
        "Units": "MotionUnits",
        "outliers": "find_outliers",
    },
)
