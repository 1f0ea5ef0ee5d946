"""Tracking a person in a picture: particle filters in end-effector space and in full pose space."""

from marey.tracking.end_effector_space import EffectorFilter
from marey.tracking.observation import Camera, Observations, Occlusion, observe
from marey.tracking.particle_filter import FilterResult, Likelihood, Particles, TrackFrame, TrackState
from marey.tracking.points import KEYPOINTS, TOOLS, body_points, track_points
from marey.tracking.pose_space import PoseFilter
from marey.tracking.seated import seated_limits, seated_motion

__all__ = [
    "KEYPOINTS",
    "TOOLS",
    "Camera",
    "EffectorFilter",
    "FilterResult",
    "Likelihood",
    "Observations",
    "Occlusion",
    "Particles",
    "PoseFilter",
    "TrackFrame",
    "TrackState",
    "body_points",
    "observe",
    "seated_limits",
    "seated_motion",
    "track_points",
]
