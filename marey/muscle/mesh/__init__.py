"""Tetrahedral meshes, the shapes they are cut from, and graphs of their nodes."""
