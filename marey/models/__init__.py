"""Pose models: few coordinates for a whole pose, learnt from clips."""

from marey.base.deprecation import deprecated_names
from marey.models.basis_clips import ClipChoice, ClipFeatures, choose_clips, clip_features
from marey.models.evaluation import EULER_LINEAR, GEODESIC_PRODUCT, LINEAR_TANGENT, LOG_LINEAR, ModelArrays
from marey.models.gait_sorting import find_outliers, k_means, sort_gaits, sort_subjects
from marey.models.hierarchy import (
    CollapsedModel,
    Components,
    HierarchicalModel,
    HierarchicalPCA,
    Leaf,
    MotionUnits,
    Person,
    SpeedLaw,
    fit_speed_law,
    joint_shares,
    principal_components,
)
from marey.models.pca import PCA
from marey.models.pga import PGA
from marey.models.plots import mode_motion, mode_strips, plot_explained, plot_selection
from marey.models.pose_model import GeodesicModel, LinearModel, PoseModel, load_model
from marey.models.selection import (
    JointError,
    SelectionCurve,
    joint_distances,
    joint_error,
    reconstruct,
    selection_curve,
)

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
