"""Tracking a person in a picture: particle filters in end-effector space and in full pose space."""

from marey.tracking._camera import Camera
from marey.tracking._effector import EffectorFilter
from marey.tracking._filter import Likelihood, TrackFrame
from marey.tracking._observe import Observations, Occlusion, observe
from marey.tracking._particles import Particles, TrackState
from marey.tracking._points import KEYPOINTS, TOOLS, body_points, track_points
from marey.tracking._pose import PoseFilter
from marey.tracking._result import FilterResult
from marey.tracking._seated import seated_limits, seated_motion

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
