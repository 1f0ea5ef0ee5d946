"""Readers and writers of motion and marker files."""

from marey.base import guard_room
from marey.io.character import Character, load_character, pose_vertices
from marey.io.clip import read_clip, write_clip
from marey.io.dispatch import READABLE_SUFFIXES, WRITABLE_SUFFIXES, clips, load, save
from marey.io.export import bone_difference, fit_joint_order
from marey.io.gltf.buffers import GltfPack, to_glb
from marey.io.laboratory.capture import Subject, find_subject, load_analog, load_markers
from marey.io.laboratory.opensim import GroundReaction, load_ground_reaction
from marey.io.person import find_person
from marey.io.vertical_axis import parse_up

__all__ = [
    "READABLE_SUFFIXES",
    "WRITABLE_SUFFIXES",
    "Character",
    "GltfPack",
    "GroundReaction",
    "Subject",
    "bone_difference",
    "clips",
    "find_person",
    "find_subject",
    "fit_joint_order",
    "load",
    "load_analog",
    "load_character",
    "load_ground_reaction",
    "load_markers",
    "parse_up",
    "pose_vertices",
    "read_clip",
    "save",
    "to_glb",
    "write_clip",
]

guard_room(__name__)
