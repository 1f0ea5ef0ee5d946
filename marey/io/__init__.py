"""Readers and writers of motion and marker files."""

from marey.io.clip import read_clip, write_clip
from marey.io.dispatch import READABLE_SUFFIXES, WRITABLE_SUFFIXES, load, save
from marey.io.gltf.buffers import GltfPack, to_glb
from marey.io.opensim import GroundReaction, load_ground_reaction
from marey.io.trc import load_markers

__all__ = [
    "READABLE_SUFFIXES",
    "WRITABLE_SUFFIXES",
    "GltfPack",
    "GroundReaction",
    "load",
    "load_ground_reaction",
    "load_markers",
    "read_clip",
    "save",
    "to_glb",
    "write_clip",
]
