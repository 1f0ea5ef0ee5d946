"""Which frame rate a set of key times was made with."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray

USUAL_HZ: Final = (24.0, 25.0, 30000 / 1001, 30.0, 48.0, 50.0, 60000 / 1001, 60.0, 72.0, 90.0, 100.0, 120.0, 240.0)
SLOWEST_HZ: Final = 12.0  # evenly spaced keys that are rarer than this are poses, not captured frames
FALLBACK_HZ: Final = 60.0
_OFF_GRID: Final = 0.02  # [frame] how far a key may lie from a frame


def guess_rate(times: FloatArray) -> tuple[float, str]:
    """Frame rate [Hz] of rising key times [s], and a sentence on how it was found.

    Evenly spaced keys give their own rate, set to a usual one where it agrees to float32; else the lowest usual rate
    on whose frames all keys lie; else 60 Hz.
    """
    if len(times) < 2:
        return 30.0, "there is one key time only; 30 Hz is assumed"
    steps = times - times[0]
    rate = (len(times) - 1) / steps[-1]
    if rate >= SLOWEST_HZ and _grid_error(steps, rate) < _OFF_GRID:
        return _nearest_usual_rate(rate), f"the keys are evenly spaced: {_nearest_usual_rate(rate):g} Hz"
    for usual in USUAL_HZ:
        if _grid_error(steps, usual) < _OFF_GRID:
            return usual, f"all keys lie on frames of {usual:g} Hz, the rate used"
    return FALLBACK_HZ, f"the keys lie on no usual frame rate; the motion is sampled at {FALLBACK_HZ:g} Hz"


def _grid_error(steps: FloatArray, rate: float) -> float:
    frames = steps * rate
    return float(np.abs(frames - np.round(frames)).max())


def _nearest_usual_rate(rate: float) -> float:
    whole = float(round(rate))
    near = min((*USUAL_HZ, whole), key=lambda usual: abs(usual - rate))
    return near if abs(near - rate) < 1e-4 * rate else float(rate)
