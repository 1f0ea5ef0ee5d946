"""Tracking of a person in images: particle filters in end-effector space and in full pose space."""

from marey.tracking.end_effector_space import EffectorFilter
from marey.tracking.observation import Camera, Observations, Occlusion, observe
from marey.tracking.particle_filter import FilterResult, Likelihood
from marey.tracking.pose_space import PoseFilter
from marey.tracking.seated import seated_limits, seated_motion

__all__ = [
    "Camera",
    "EffectorFilter",
    "FilterResult",
    "Likelihood",
    "Observations",
    "Occlusion",
    "PoseFilter",
    "observe",
    "seated_limits",
    "seated_motion",
]
