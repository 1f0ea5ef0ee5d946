"""Readers and writers: any motion file in, any motion file out."""

from marey.base.deprecation import deprecated_names
from marey.io.amass import read_amass
from marey.io.amc import read_amc
from marey.io.asf import read_asf
from marey.io.bvh.reader import read_bvh
from marey.io.bvh.writer import write_bvh
from marey.io.c3d import read_c3d
from marey.io.clip import CLIP_VERSION, clip_bytes, read_clip, write_clip
from marey.io.deepmimic import read_deepmimic
from marey.io.dispatch import READABLE_SUFFIXES, WRITABLE_SUFFIXES, load, save
from marey.io.gltf.buffers import GltfPack as GltfPack
from marey.io.gltf.buffers import to_glb
from marey.io.gltf.files import read_gltf, write_gltf
from marey.io.markers import markers_to_motion
from marey.io.opensim import GroundReaction, OpenSimTable, load_ground_reaction, load_table
from marey.io.trc import load_markers, read_trc

__all__ = [
    "CLIP_VERSION",
    "READABLE_SUFFIXES",
    "WRITABLE_SUFFIXES",
    "GltfPack",
    "GroundReaction",
    "OpenSimTable",
    "clip_bytes",
    "load",
    "load_ground_reaction",
    "load_markers",
    "load_table",
    "markers_to_motion",
    "read_amass",
    "read_amc",
    "read_asf",
    "read_bvh",
    "read_c3d",
    "read_clip",
    "read_deepmimic",
    "read_gltf",
    "read_trc",
    "save",
    "to_glb",
    "write_bvh",
    "write_clip",
    "write_gltf",
]

__getattr__ = deprecated_names(
    __name__,
    {
        "GltfPack": "GltfPack",
        "Table": "OpenSimTable",
    },
)
