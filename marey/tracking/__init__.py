"""Tracking of a person in images: all frames at once with a pose model, and the particle filters of the thesis."""

from marey.base import guard_room
from marey.tracking.filters import EffectorFilter, PoseFilter, seated_limits, seated_motion
from marey.tracking.keypoint_files import CalibratedCamera, DetectedPoints, default_camera, load_cameras, load_keypoints
from marey.tracking.observation import (
    BODY_KEYPOINTS,
    KEYPOINTS,
    TOOLS,
    Camera,
    Observations,
    Occlusion,
    cut_views,
    fit_body,
    load_people_poses,
    measure_clip_segments,
    observe,
    track_points,
)
from marey.tracking.particle_filter import FilterResult, Likelihood
from marey.tracking.prior import PersonTrack, PersonTracker, PriorTrack, PriorTracker

__all__ = [
    "BODY_KEYPOINTS",
    "KEYPOINTS",
    "TOOLS",
    "CalibratedCamera",
    "Camera",
    "DetectedPoints",
    "EffectorFilter",
    "FilterResult",
    "Likelihood",
    "Observations",
    "Occlusion",
    "PersonTrack",
    "PersonTracker",
    "PoseFilter",
    "PriorTrack",
    "PriorTracker",
    "cut_views",
    "default_camera",
    "fit_body",
    "load_cameras",
    "load_keypoints",
    "load_people_poses",
    "measure_clip_segments",
    "observe",
    "seated_limits",
    "seated_motion",
    "track_points",
]

guard_room(__name__)
