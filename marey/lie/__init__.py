"""Rotations and rigid motions, in batches."""

from marey.lie.calculus import hat, left_jacobian, left_jacobian_inverse, right_jacobian, right_jacobian_inverse, vee
from marey.lie.quaternions import half_cotangent_remainder, one_minus_cos_over_square, sinc, stumpff
from marey.lie.se3 import SE3
from marey.lie.so3 import SO3, frechet_mean, geodesic_distance

__all__ = [
    "SE3",
    "SO3",
    "frechet_mean",
    "geodesic_distance",
    "half_cotangent_remainder",
    "hat",
    "left_jacobian",
    "left_jacobian_inverse",
    "one_minus_cos_over_square",
    "right_jacobian",
    "right_jacobian_inverse",
    "sinc",
    "stumpff",
    "vee",
]
