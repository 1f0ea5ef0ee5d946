"""Readers and writers: any motion file in, any motion file out."""

from marey.io._clip import CLIP_VERSION, clip_bytes, read_clip, write_clip

__all__ = ["CLIP_VERSION", "clip_bytes", "read_clip", "write_clip"]
