"""Pose models: PCA, principal geodesics and hierarchical models, learnt from clips."""

from marey.base import deprecated_names, guard_room
from marey.models.hierarchy import (
    Components,
    HierarchicalModel,
    HierarchicalPCA,
    Leaf,
    MotionUnits,
    Person,
    SpeedLaw,
    find_outliers,
    fit_speed_law,
    joint_shares,
    principal_components,
    sort_gaits,
    sort_subjects,
)
from marey.models.in_between_model import InBetweenModel, KeyGaps, load_in_betweens
from marey.models.pca import PCA
from marey.models.pga import PGA
from marey.models.pose_model import GeodesicModel, PoseModel, load_model
from marey.models.samples import FarSamples, find_far_samples, select_alike
from marey.models.selection import (
    ModeCounts,
    SelectionCurve,
    choose_clips,
    clip_features,
    count_modes,
    joint_error,
    mode_motion,
    mode_strips,
    plot_explained,
    plot_mode_counts,
    plot_selection,
    selection_curve,
)

__all__ = [
    "PCA",
    "PGA",
    "Components",
    "FarSamples",
    "GeodesicModel",
    "HierarchicalModel",
    "HierarchicalPCA",
    "InBetweenModel",
    "KeyGaps",
    "Leaf",
    "ModeCounts",
    "MotionUnits",
    "Person",
    "PoseModel",
    "SelectionCurve",
    "SpeedLaw",
    "choose_clips",
    "clip_features",
    "count_modes",
    "find_far_samples",
    "find_outliers",
    "fit_speed_law",
    "joint_error",
    "joint_shares",
    "load_in_betweens",
    "load_model",
    "mode_motion",
    "mode_strips",
    "plot_explained",
    "plot_mode_counts",
    "plot_selection",
    "principal_components",
    "select_alike",
    "selection_curve",
    "sort_gaits",
    "sort_subjects",
]

guard_room(__name__)

__getattr__ = deprecated_names(
    __name__,
    {
        "Units": "MotionUnits",
        "outliers": "find_outliers",
    },
)
