"""Batches of rotations and rigid transforms, with their calculus."""

from marey.base import guard_room
from marey.lie.calculus import hat, right_jacobian
from marey.lie.mean import RobustMean, frechet_mean, robust_mean
from marey.lie.se3 import SE3
from marey.lie.so3 import SO3, geodesic_distance

__all__ = [
    "SE3",
    "SO3",
    "RobustMean",
    "frechet_mean",
    "geodesic_distance",
    "hat",
    "right_jacobian",
    "robust_mean",
]

guard_room(__name__)
