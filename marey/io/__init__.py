"""Readers and writers: any motion file in, any motion file out."""

from marey.io._bvh import read_bvh
from marey.io._clip import CLIP_VERSION, clip_bytes, read_clip, write_clip
from marey.io._dispatch import load, save
from marey.io._gltf import read_gltf, write_gltf

__all__ = ["CLIP_VERSION", "clip_bytes", "load", "read_bvh", "read_clip", "read_gltf", "save", "write_clip", "write_gltf"]
