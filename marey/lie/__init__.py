"""Rotations and rigid motions, in batches."""

from marey.lie._so3 import SO3, geodesic_distance

__all__ = ["SO3", "geodesic_distance"]
