"""Tremor of captures: how large it is, which part of the motion it hides, and a filter that takes no more than it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.motion.cleaning.interpolation import Correction
from marey.motion.clip import Motion
from marey.motion.time_series import lowpass, lowpass_values


@dataclass(frozen=True, slots=True)
class TremorSettings:
    """When to filter, and how low."""

    least_mm: float = 1.0  # RMS tremor of a joint in one direction that is worth a filter: below, nobody sees it
    lowest_hz: float = 6.0  # of the cut-off: walking has nothing above
    highest_hz: float = 16.0  # of the cut-off: landings and strokes reach up to here
    num_cutoffs: int = 24  # tried


TREMOR_SETTINGS: Final = TremorSettings()
MAX_FRAMES: Final = 2400  # [frame] of the middle of a long clip, enough to tell its tremor


def measure_tremor(motion: Motion, settings: TremorSettings = TREMOR_SETTINGS) -> tuple[float, float]:
    r"""RMS tremor [m] of the joints about the root, and the cut-off frequency [Hz] that removes it.

    Residual analysis ([Winter2009]_ §3.4.4.3): the RMS difference :math:`R(f_c)` between a signal and the signal
    filtered at :math:`f_c` falls along a straight line where only noise is removed. The line, fitted over the upper
    half of the cut-offs, meets :math:`f_c = 0` at the noise :math:`a`; the cut-off is where :math:`R(f_c) = a`.
    Zero, and half the rate, for a clip too short or too slow to tell.
    """
    top_hz = 0.45 * motion.rate_hz
    if motion.num_frames < motion.rate_hz or top_hz < 2.0 * settings.highest_hz:
        return 0.0, 0.5 * motion.rate_hz
    start = max(0, (motion.num_frames - MAX_FRAMES) // 2)
    part = motion[start : start + MAX_FRAMES]
    positions = part.joint_positions()
    signals = (positions - positions[:, :1])[:, 1:].reshape(len(positions), -1)
    cutoffs = np.linspace(0.5 * settings.lowest_hz, top_hz, settings.num_cutoffs)
    residuals = np.array(
        [np.sqrt(np.mean((signals - lowpass_values(signals, part.rate_hz, float(cutoff))) ** 2)) for cutoff in cutoffs]
    )
    # A line through the residuals of cut-offs above what bodies do: pure noise gives one, none gives zero
    upper = cutoffs > max(2.0 * settings.highest_hz, 0.5 * top_hz)
    slope, noise_m = np.polyfit(cutoffs[upper], residuals[upper], 1)
    if slope > 0.0 or noise_m <= 0.0:
        return 0.0, 0.5 * motion.rate_hz
    below = np.flatnonzero(residuals <= noise_m)
    cutoff = float(cutoffs[below[0]]) if len(below) else float(cutoffs[-1])
    return float(noise_m), float(np.clip(cutoff, settings.lowest_hz, settings.highest_hz))


def remove_tremor(motion: Motion, settings: TremorSettings = TREMOR_SETTINGS) -> Correction:
    """Low-pass a clip whose joints tremble by more than ``least_mm``, at the cut-off of :func:`measure_tremor`."""
    noise_m, cutoff_hz = measure_tremor(motion, settings)
    if 1e3 * noise_m < settings.least_mm:
        return Correction(motion)
    sentence = f"joints tremble by {1e3 * noise_m:.1f} mm RMS: filtered at {cutoff_hz:.1f} Hz"
    return Correction(lowpass(motion, cutoff_hz), (sentence,))
