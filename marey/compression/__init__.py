"""Motion codecs: a motion to few bytes and back, with a bound on the error."""

from marey.compression._codec import compress, decompress, rate_distortion
from marey.compression._container import FORMAT_VERSION
from marey.compression._edit import edit_motion, edit_window
from marey.compression._lifting import (
    PointPyramid,
    RotationPyramid,
    fill_points,
    fill_rotations,
    level_sizes,
    lift_points,
    lift_rotations,
    unlift_points,
    unlift_rotations,
)
from marey.compression._measures import (
    CodecReport,
    distortion,
    distortion_energy,
    evaluate,
    foot_skate,
    joint_errors,
    raw_bytes_acl,
    raw_bytes_tournier,
    shell_errors,
)
from marey.compression._tournier import ThinMotion, restore, thin

SUFFIX = ".marey"  # of compressed motions on disk

__all__ = [
    "FORMAT_VERSION",
    "SUFFIX",
    "CodecReport",
    "PointPyramid",
    "RotationPyramid",
    "ThinMotion",
    "compress",
    "decompress",
    "distortion",
    "distortion_energy",
    "edit_motion",
    "edit_window",
    "evaluate",
    "fill_points",
    "fill_rotations",
    "foot_skate",
    "joint_errors",
    "level_sizes",
    "lift_points",
    "lift_rotations",
    "rate_distortion",
    "raw_bytes_acl",
    "raw_bytes_tournier",
    "restore",
    "shell_errors",
    "thin",
    "unlift_points",
    "unlift_rotations",
]
