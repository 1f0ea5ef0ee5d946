"""Motion codecs: a motion to few bytes and back, with a bound on the error."""

from marey.base.deprecation import deprecated_names
from marey.compression.codec import compress, decompress, rate_distortion
from marey.compression.file_format import FORMAT_VERSION
from marey.compression.lifting import (
    PointPyramid,
    RotationPyramid,
    level_sizes,
    lift_points,
    lift_rotations,
    unlift_points,
    unlift_rotations,
    upsample_points,
    upsample_rotations,
)
from marey.compression.measures import (
    CodecReport,
    compute_distortion,
    compute_distortion_energy,
    compute_joint_errors,
    compute_shell_errors,
    evaluate_codec,
    measure_foot_skate,
    raw_bytes_acl,
    raw_bytes_tournier,
)
from marey.compression.tournier import TournierCode, decode_tournier, edit_motion, edit_window, encode_tournier

SUFFIX = ".marey"  # of compressed motions on disk

__all__ = [
    "FORMAT_VERSION",
    "SUFFIX",
    "CodecReport",
    "PointPyramid",
    "RotationPyramid",
    "TournierCode",
    "compress",
    "compute_distortion",
    "compute_distortion_energy",
    "compute_joint_errors",
    "compute_shell_errors",
    "decode_tournier",
    "decompress",
    "edit_motion",
    "edit_window",
    "encode_tournier",
    "evaluate_codec",
    "level_sizes",
    "lift_points",
    "lift_rotations",
    "measure_foot_skate",
    "rate_distortion",
    "raw_bytes_acl",
    "raw_bytes_tournier",
    "unlift_points",
    "unlift_rotations",
    "upsample_points",
    "upsample_rotations",
]

__getattr__ = deprecated_names(
    __name__,
    {
        "ThinMotion": "TournierCode",
        "distortion": "compute_distortion",
        "distortion_energy": "compute_distortion_energy",
        "evaluate": "evaluate_codec",
        "fill_points": "upsample_points",
        "fill_rotations": "upsample_rotations",
        "foot_skate": "measure_foot_skate",
        "joint_errors": "compute_joint_errors",
        "restore": "decode_tournier",
        "shell_errors": "compute_shell_errors",
        "thin": "encode_tournier",
    },
)
