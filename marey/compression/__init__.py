"""Motion codecs with a bound on the error."""

from marey.base import deprecated_names, guard_room
from marey.compression.codec import (
    compress,
    compute_distortion,
    compute_joint_errors,
    compute_shell_errors,
    decompress,
    evaluate_codec,
    rate_distortion,
    raw_bytes_acl,
    raw_bytes_tournier,
)
from marey.compression.tournier import EditGoal, decode_tournier, edit_motion, encode_tournier, fade_window

__all__ = [
    "EditGoal",
    "compress",
    "compute_distortion",
    "compute_joint_errors",
    "compute_shell_errors",
    "decode_tournier",
    "decompress",
    "edit_motion",
    "encode_tournier",
    "evaluate_codec",
    "fade_window",
    "rate_distortion",
    "raw_bytes_acl",
    "raw_bytes_tournier",
]

guard_room(__name__)

__getattr__ = deprecated_names(
    __name__,
    {
        "distortion": "compute_distortion",
        "evaluate": "evaluate_codec",
        "joint_errors": "compute_joint_errors",
        "restore": "decode_tournier",
        "shell_errors": "compute_shell_errors",
        "thin": "encode_tournier",
    },
)
