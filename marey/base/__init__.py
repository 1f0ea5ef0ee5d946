"""Ground floor: errors, read-only arrays, the kernel decorator."""

from marey.base._arrays import EPS, BoolArray, FloatArray, IntArray, frozen, frozen_bools, frozen_ints
from marey.base._errors import (
    ConvergenceError,
    FormatError,
    InputError,
    MareyError,
    MissingExtraError,
    MissingFileError,
    UnknownNameError,
)
from marey.base._kernels import kernel

__all__ = [
    "EPS",
    "BoolArray",
    "ConvergenceError",
    "FloatArray",
    "FormatError",
    "InputError",
    "IntArray",
    "MareyError",
    "MissingExtraError",
    "MissingFileError",
    "UnknownNameError",
    "frozen",
    "frozen_bools",
    "frozen_ints",
    "kernel",
]
