"""BVH files: hierarchy, frames, reading and writing."""
