"""Steps of the quantiser as the file holds them: quarters of an octave, the same float on every machine."""

from __future__ import annotations

from math import ldexp

import numpy as np

from marey.base import FloatArray, IntArray
from marey.compression._fields import format_error

QUARTERS = (1.0, 1.189207115002721, 1.4142135623730951, 1.681792830507429)
MAX_STEP_CODE = 4 * 64  # quarters of an octave either way


def encode_steps(steps: FloatArray) -> IntArray:
    """Quarters of an octave, rounded."""
    return np.rint(4.0 * np.log2(steps)).astype(np.int64)


def decode_steps(codes: IntArray) -> FloatArray:
    """Steps from their codes."""
    if np.abs(codes).max(initial=0) > MAX_STEP_CODE:
        raise format_error("a step of the quantiser is out of range")
    return np.array([ldexp(QUARTERS[int(code) % 4], int(code) // 4) for code in codes])
