"""Resampling in time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.lie import SO3
from marey.motion._motion import Contacts, Motion

FRAME_TOL = 1e-7  # [frame] a sample this near to a frame is that frame; rounding in index * ratio stays below


def resample(motion: Motion, rate_hz: float) -> Motion:
    """The same motion at another frame rate.

    Positions are interpolated linearly, rotations by slerp, contacts are those of the nearest frame. Samples that fall
    on a frame are copies of it, so 120 to 60 Hz keeps every second frame bit by bit. The last sample is the last that
    is not after the end of the clip.

    Args:
        motion: any clip.
        rate_hz: the new rate [Hz]; it need not divide the old one (29.97 is fine).

    Raises:
        InputError: the rate is not a positive number.
    """
    if not (np.isfinite(rate_hz) and rate_hz > 0.0):
        raise InputError(f"rate_hz is {rate_hz}", "Give a positive number of frames per second")
    if rate_hz == motion.rate_hz:
        return motion
    low, high, weight = _samples(motion.num_frames, motion.rate_hz, rate_hz)
    nearest = np.where(weight < 0.5, low, high)
    moving = motion.translations
    return replace(
        motion,
        rate_hz=rate_hz,
        root_positions=_lerp(motion.root_positions, low, high, weight),
        rotations=_slerp(motion.rotations, low, high, weight),
        contacts=None if motion.contacts is None else Contacts(motion.contacts.names, motion.contacts.active[nearest]),
        translations=None if moving is None else _lerp(moving, low, high, weight),
        source=None if motion.source is None else replace(motion.source, channels=None, dropped=None),
    )


def _samples(num_frames: int, old_hz: float, new_hz: float) -> tuple[IntArray, IntArray, FloatArray]:
    """Frames before and after each sample and how far the sample is between them, in [0, 1)."""
    last = num_frames - 1
    count = int(np.floor(last * new_hz / old_hz + FRAME_TOL)) + 1
    at: FloatArray = np.arange(count, dtype=np.float64) * old_hz / new_hz
    whole = np.rint(at)
    at = np.minimum(np.where(np.abs(at - whole) < FRAME_TOL, whole, at), float(last))
    low = np.floor(at).astype(np.int64)
    return low, np.minimum(low + 1, last), at - low


def _lerp(values: FloatArray, low: IntArray, high: IntArray, weight: FloatArray) -> FloatArray:
    t = weight.reshape(-1, *([1] * (values.ndim - 1)))
    return np.where(t == 0.0, values[low], (1.0 - t) * values[low] + t * values[high])


def _slerp(rotations: SO3, low: IntArray, high: IntArray, weight: FloatArray) -> SO3:
    wxyz = rotations.wxyz[low].copy()
    between = weight > 0.0
    if between.any():
        start, end = rotations[low[between]], rotations[high[between]]
        wxyz[between] = start.slerp(end, weight[between][:, None]).wxyz
    return SO3(wxyz)
