"""C3D files: markers, analog channels and force plates as captured."""

from marey.io.laboratory.c3d.reader import load_c3d_analog, load_c3d_markers, read_c3d

__all__ = ["load_c3d_analog", "load_c3d_markers", "read_c3d"]
