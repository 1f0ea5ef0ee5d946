"""Marker fit: poses, bone lengths and marker sites of a body from captured markers, with or without names."""

from marey.kinematics.markers.belt import Belt, find_belt
from marey.kinematics.markers.body import group_bones
from marey.kinematics.markers.fit import MarkerFit, fit_markers
from marey.kinematics.markers.segments import fit_bone_frames, measure_separation
from marey.kinematics.markers.sites import MarkerSite, known_sites

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
