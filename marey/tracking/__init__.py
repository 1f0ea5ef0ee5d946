"""Tracking of a person: particle filters in end-effector space and full pose space, and a pose model as prior."""

from marey.base import guard_room
from marey.tracking.end_effector_space import EffectorFilter
from marey.tracking.observation import BODY_KEYPOINTS, KEYPOINTS, Camera, Observations, Occlusion, observe
from marey.tracking.particle_filter import FilterResult, Likelihood
from marey.tracking.pose_space import PoseFilter
from marey.tracking.prior import PriorTrack, PriorTracker
from marey.tracking.seated import seated_limits, seated_motion

__all__ = [
    "BODY_KEYPOINTS",
    "KEYPOINTS",
    "Camera",
    "EffectorFilter",
    "FilterResult",
    "Likelihood",
    "Observations",
    "Occlusion",
    "PoseFilter",
    "PriorTrack",
    "PriorTracker",
    "observe",
    "seated_limits",
    "seated_motion",
]

guard_room(__name__)
