"""Smooth steps from 0 to 1, and gaps of a sampled signal filled with them."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray


def smoothstep(u: FloatArray | float) -> FloatArray:
    """Return 0 before ``u = 0``, 1 after ``u = 1`` and 3u² − 2u³ between: no slope at either end."""
    u = np.clip(u, 0.0, 1.0)
    return u * u * (3.0 - 2.0 * u)


def smootherstep(u: FloatArray | float) -> FloatArray:
    """Return 0 before ``u = 0``, 1 after ``u = 1`` and 10u³ − 15u⁴ + 6u⁵ between: no slope and no bend at either end.

    It is the way from rest to rest with the least jerk.
    """
    u = np.clip(u, 0.0, 1.0)
    return u**3 * (10.0 - 15.0 * u + 6.0 * u * u)


def fill_gaps(values: FloatArray, known: BoolArray) -> FloatArray:
    """Rows ``(F, k)`` with smooth steps over the gaps between known ones ``(F,)``; the ends hold the nearest known row.

    All are zero when none is known.
    """
    at = np.flatnonzero(known)
    if not len(at):
        return np.zeros_like(values)
    frames = np.arange(len(values))
    after = np.clip(np.searchsorted(at, frames), 0, len(at) - 1)
    low, high = at[np.where(frames < at[after], np.maximum(after - 1, 0), after)], at[after]
    step = smoothstep((frames - low) / np.maximum(high - low, 1))[:, None]
    return (1.0 - step) * values[low] + step * values[high]
