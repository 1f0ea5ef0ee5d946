"""Speeds of a clip."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray
from marey.motion._motion import Motion


def root_speeds(motion: Motion) -> FloatArray:
    """Horizontal speed of the root ``(F,)`` [m/s], by central differences."""
    if motion.num_frames == 1:
        return np.zeros(1)
    velocity = np.gradient(motion.root_positions[:, [0, 2]], axis=0) * motion.rate_hz
    return np.hypot(velocity[:, 0], velocity[:, 1])


def mean_speed(motion: Motion) -> float:
    """Length of the root's horizontal path over the time it takes [m/s]; zero for one frame."""
    if motion.num_frames == 1:
        return 0.0
    steps = np.diff(motion.root_positions[:, [0, 2]], axis=0)
    return float(np.hypot(steps[:, 0], steps[:, 1]).sum() / motion.duration_s)
