"""Legs that reach: the root comes down where an ankle would be too far away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.kinematics import Limb
from marey.motion import Motion

MAX_LEG_EXTENSION: Final = 0.992  # [-] straightest that the root's height leaves a leg
ALLOWED_LEG_EXTENSION: Final = 0.975  # [-] a leg that was not as straight as this before may become so
LOWERING_TIME_S: Final = 0.2  # [s] over which the root goes down so that a leg reaches
MAX_LOWERING_M: Final = 0.05  # [m]


def lower_root_to_reach(motion: Motion, ankles: Sequence[FloatArray]) -> Motion:
    """The clip with its root lower where a leg is too short for its ankle, with time to go down and up.

    Args:
        motion: any clip.
        ankles: where the left and the right ankle will be, ``(F, 3)`` [m] each.
    """
    positions, down = motion.joint_positions(), np.zeros(motion.num_frames)
    for side, goals in zip(("left", "right"), ankles, strict=True):
        limb = Limb.from_name(motion.skeleton, f"{side}_leg")
        hip, ankle = positions[:, limb.upper], positions[:, limb.end]
        chain = positions[0, [limb.upper, limb.middle, limb.end]]
        length = float(np.linalg.norm(np.diff(chain, axis=0), axis=1).sum())
        reach = np.clip(np.linalg.norm(hip - ankle, axis=1), ALLOWED_LEG_EXTENSION * length, MAX_LEG_EXTENSION * length)
        apart = hip - goals
        room = np.maximum(reach**2 - apart[:, 0] ** 2 - apart[:, 2] ** 2, 0.0)
        down = np.maximum(down, apart[:, 1] - np.sqrt(room))
    down = _smooth_upper_envelope(np.clip(down, 0.0, MAX_LOWERING_M), LOWERING_TIME_S * motion.rate_hz)
    return replace(motion, root_positions=motion.root_positions - down[:, None] * [0.0, 1.0, 0.0])


def _smooth_upper_envelope(values: FloatArray, reach: float) -> FloatArray:
    """A smooth curve above ``values`` (F,): the highest within ``reach`` frames, averaged over as many."""
    half = max(1, round(reach))
    padded = np.pad(values, half, mode="edge")
    high = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1).max(axis=1)
    window = np.asarray(np.hanning(2 * half + 3), dtype=np.float64)[1:-1]
    again = np.lib.stride_tricks.sliding_window_view(np.pad(high, half, mode="edge"), 2 * half + 1)
    return again @ (window / window.sum())
