"""Marker fit: poses, bone lengths and marker sites of a body from captured markers, with or without names."""

from marey.kinematics.markers.fit import MarkerFit, fit_markers
from marey.kinematics.markers.poses import group_bones
from marey.kinematics.markers.sites import Belt, MarkerSite, find_belt, fit_bone_frames, known_sites, measure_separation

__all__ = [
    "Belt",
    "MarkerFit",
    "MarkerSite",
    "find_belt",
    "fit_bone_frames",
    "fit_markers",
    "group_bones",
    "known_sites",
    "measure_separation",
]
