"""Readers and writers: any motion file in, any motion file out."""

from marey.base._deprecation import deprecated_names
from marey.io._amass import read_amass
from marey.io._amc import read_amc
from marey.io._asf import read_asf
from marey.io._bvh import read_bvh
from marey.io._bvh_write import write_bvh
from marey.io._c3d import read_c3d
from marey.io._c3d_load import load_markers
from marey.io._c3d_star import markers_to_motion
from marey.io._clip import CLIP_VERSION, clip_bytes, read_clip, write_clip
from marey.io._deepmimic import read_deepmimic
from marey.io._dispatch import READABLE_SUFFIXES, WRITABLE_SUFFIXES, load, save
from marey.io._gltf import read_gltf, write_gltf
from marey.io._gltf_container import to_glb
from marey.io._gltf_pack import GltfPack as GltfPack
from marey.io._ground_reaction import GroundReaction, load_ground_reaction
from marey.io._trc import read_trc
from marey.io._trc_table import OpenSimTable, load_table

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
