"""Jumps as tables of one size: sampled between shared instants, so that like is mixed with like."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.lie import SO3
from marey.locomotion._jump_capture import CapturedJump
from marey.locomotion._segment import measure_leg_length
from marey.locomotion._units import unit_rows
from marey.motion import Motion

LEAP_STEPS: Final = (10, 12, 18)  # intervals: stance, flight, landing foot's stance and the swing to the next strike
STANDING_STEPS: Final = (8, 9, 10, 6, 10)  # sinking, pushing, flight, giving way, rising


def canonical_steps(kind: str) -> tuple[int, ...]:
    """Intervals between the shared instants of a kind of jump."""
    return STANDING_STEPS if kind == "standing" else LEAP_STEPS


def canonical_times(knots: FloatArray, steps: tuple[int, ...]) -> FloatArray:
    """Times ``(sum(steps) + 1,)`` [s], evenly spaced between knots ``(len(steps) + 1,)``."""
    places = np.array([sum(steps[:k]) for k in range(len(steps) + 1)], dtype=np.float64)
    return np.interp(np.arange(sum(steps) + 1, dtype=np.float64), places, knots)


def sample_captured_jump(jump: CapturedJump, means: FloatArray, steps: tuple[int, ...]) -> FloatArray:
    """Rows ``(N, D)`` of a captured jump at the canonical times, root over leg length."""
    sampled = sample_motion(jump.motion, canonical_times(jump.knots, steps))
    return unit_rows(sampled[0] / measure_leg_length(jump.motion.skeleton), sampled[1], means)


def sample_motion(motion: Motion, times_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Root positions ``(n, 3)`` [m] and rotations ``(n, J, 4)`` at times within a clip."""
    where = np.clip(times_s * motion.rate_hz, 0.0, motion.num_frames - 1.0)
    low = np.minimum(where.astype(np.int64), max(motion.num_frames - 2, 0))
    part = where - low
    high = np.minimum(low + 1, motion.num_frames - 1)
    root = motion.root_positions[low] + part[:, None] * (motion.root_positions[high] - motion.root_positions[low])
    wxyz = motion.rotations.wxyz
    return root, SO3(wxyz[low]).slerp(SO3(wxyz[high]), part[:, None]).wxyz


def interpolate_cubic(times: FloatArray, values: FloatArray, at: FloatArray) -> FloatArray:
    r"""Cubic interpolation ``(n, D)`` of rows ``(N, D)`` given at rising, uneven times.

    Hermite pieces whose slopes are those of the parabola through three neighbours (Catmull-Rom for uneven spacing).
    """
    keep = np.concatenate([[True], np.diff(times) > 1e-9])
    times, values = times[keep], values[keep]
    slopes = np.gradient(values, times, axis=0, edge_order=2)
    low = np.clip(np.searchsorted(times, at, side="right") - 1, 0, len(times) - 2)
    width = (times[low + 1] - times[low])[:, None]
    u = (at - times[low])[:, None] / width
    square, cube = u * u, u * u * u
    return (
        (2.0 * cube - 3.0 * square + 1.0) * values[low]
        + (cube - 2.0 * square + u) * width * slopes[low]
        + (3.0 * square - 2.0 * cube) * values[low + 1]
        + (cube - square) * width * slopes[low + 1]
    )
