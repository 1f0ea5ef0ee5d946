"""Time series of a clip: intervals in which a flag holds, zero-phase low-pass filtering, resampling."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray, check_frame_count, split_blocks
from marey.lie import SO3
from marey.motion.clip import Contacts, Motion


def find_runs(flags: BoolArray, bridge: int = 0, *, shortest: int = 1) -> list[tuple[int, int]]:
    """Return start and stop (exclusive) of each run of true flags ``(F,)``.

    Args:
        flags: one flag per frame.
        bridge: gaps of up to this many frames are closed first.
        shortest: shorter runs are dropped.
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    starts, stops = edges[::2], edges[1::2]
    apart = starts[1:] - stops[:-1] > bridge
    starts, stops = starts[np.append(True, apart)[: len(starts)]], stops[np.append(apart, True)[: len(stops)]]
    long = stops - starts >= shortest
    return list(zip(starts[long].tolist(), stops[long].tolist(), strict=True))


PAD_PERIODS = 3.0  # [-] length of the padding in periods of the cutoff, beyond the memory of the filter


def lowpass(motion: Motion, cutoff_hz: float, *, order: int = 4) -> Motion:
    r"""Low-pass a clip at ``cutoff_hz`` without delay.

    A zero-phase Butterworth filter, :math:`|H(f)| = (1 + (f/f_c)^{2n})^{-1/2}`, equivalent to forward and backward
    filtering ([Winter2009]_ §3.4.4.2): the amplitude at :math:`f_c` drops by 3 dB. It is applied to the spectrum of the
    clip, which is extended by point reflection, ``2 x(0) - x(t)`` for positions and ``q(0) q(t)⁻¹ q(0)`` for rotations,
    so that a steady motion stays steady up to the last frame.

    Rotations are filtered as quaternions of continuous sign and normalised: this commutes with a rotation of the parent
    or child frame, and leaves a spin at constant rate unchanged. Contacts are kept.

    Args:
        motion: any clip.
        cutoff_hz: 6 for walking, 10 to 12 for jumps [Hz].
        order: n above.

    Raises:
        InputError: the cutoff is not between zero and half the frame rate, or the order is not positive.
    """
    if order < 1:
        raise InputError(f"order is {order}", "Give 1 or more")
    positions = lowpass_values(motion.root_positions, motion.rate_hz, cutoff_hz, order=order)
    rotations, moving = motion.rotations, motion.translations
    pad = _pad_length(motion.num_frames, motion.rate_hz, cutoff_hz)
    if pad > 0:
        # Point reflection at both ends, then the filter on quaternions of continuous sign
        first, last = rotations[:1], rotations[-1:]
        before = first @ rotations[pad:0:-1].inverse() @ first
        after = last @ rotations[-2 : -pad - 2 : -1].inverse() @ last
        padded = continuous_signs(SO3.concatenate([before, rotations, after]).wxyz)
        smooth = _apply_butterworth(padded, motion.rate_hz, cutoff_hz, order)[pad:-pad]
        # A spin far above the cutoff averages to zero; it is kept unfiltered
        lost = np.linalg.norm(smooth, axis=-1, keepdims=True) < 1e-6
        rotations = SO3(np.where(lost, rotations.wxyz, smooth))
    return replace(
        motion,
        root_positions=positions,
        rotations=rotations,
        translations=None if moving is None else lowpass_values(moving, motion.rate_hz, cutoff_hz, order=order),
        source=motion.edited_source(),
    )


def lowpass_values(values: FloatArray, rate_hz: float, cutoff_hz: float, *, order: int = 4) -> FloatArray:
    """Apply the filter of :func:`lowpass` to an array ``(F, ...)`` sampled at ``rate_hz``."""
    pad = _pad_length(len(values), rate_hz, cutoff_hz)
    if pad == 0:
        return values
    before, after = values[pad:0:-1], values[-2 : -pad - 2 : -1]
    padded = np.concatenate([2.0 * values[:1] - before, values, 2.0 * values[-1:] - after])
    return _apply_butterworth(padded, rate_hz, cutoff_hz, order)[pad:-pad]


def continuous_signs(wxyz: FloatArray) -> FloatArray:
    """Flip the signs of quaternions ``(F, ..., 4)`` so that consecutive ones lie in the same hemisphere."""
    flips = np.where(np.einsum("f...i,f...i->f...", wxyz[1:], wxyz[:-1]) < 0.0, -1.0, 1.0)
    signs = np.concatenate([np.ones((1, *wxyz.shape[1:-1])), np.cumprod(flips, axis=0)])
    return wxyz * signs[..., None]


def _pad_length(num_frames: int, rate_hz: float, cutoff_hz: float) -> int:
    if not 0.0 < cutoff_hz < 0.5 * rate_hz:
        raise InputError(f"cutoff_hz is {cutoff_hz:g}", f"It must be between 0 and half the rate, {0.5 * rate_hz:g}")
    pad = int(min(num_frames - 1, np.ceil(PAD_PERIODS * rate_hz / cutoff_hz)))
    # Pad long series to a length without large prime factors, whose transform would take five times as long
    while num_frames > LONG_FRAMES and pad < num_frames - 1:
        count = num_frames + 2 * pad
        for factor in (2, 3, 5, 7):
            while count % factor == 0:
                count //= factor
        if count == 1:
            break
        pad += 1
    return pad


LONG_FRAMES = 20_000
BLOCK_NUMBERS = 1 << 18  # values that are filtered at a time


def _apply_butterworth(values: FloatArray, rate_hz: float, cutoff_hz: float, order: int) -> FloatArray:
    """Multiply the spectrum along the first axis by the Butterworth gain; the line from end to end is preserved."""
    count = len(values)
    along = np.arange(count) / (count - 1)
    ratio = np.fft.rfftfreq(count, 1.0 / rate_hz) / cutoff_hz
    gain = 1.0 / np.sqrt(1.0 + ratio ** (2 * order))
    rows = values.reshape(count, -1).T
    filtered = np.empty((count, len(rows)))
    # A few columns at a time, to bound the memory for the spectra of a long clip
    for part in split_blocks(len(rows), max(8, BLOCK_NUMBERS // count)):
        own = np.ascontiguousarray(rows[part])
        line = own[:, :1] + along * (own[:, -1:] - own[:, :1])
        filtered[:, part] = (line + np.fft.irfft(np.fft.rfft(own - line) * gain, count)).T
    return filtered.reshape(values.shape)


FRAME_TOL = 1e-7  # [frame] samples this close to a frame are that frame; above the rounding of index * ratio


def resample(motion: Motion, rate_hz: float) -> Motion:
    """Resample a clip to another frame rate.

    Positions are interpolated linearly, rotations by slerp; contacts are those of the nearest frame. Samples that
    coincide with a frame are copies, so 120 to 60 Hz keeps every second frame bit for bit. The last sample is not
    later than the end of the clip.

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
    # Frames before and after each sample and how far the sample is between them, in [0, 1)
    last = motion.num_frames - 1
    check_frame_count(last * rate_hz / motion.rate_hz, f"a rate of {rate_hz:g} Hz")
    count = int(np.floor(last * rate_hz / motion.rate_hz + FRAME_TOL)) + 1
    at: FloatArray = np.arange(count, dtype=np.float64) * motion.rate_hz / rate_hz
    whole = np.rint(at)
    at = np.minimum(np.where(np.abs(at - whole) < FRAME_TOL, whole, at), float(last))
    low = np.floor(at).astype(np.int64)
    high = np.minimum(low + 1, last)
    weight = at - low
    nearest = np.where(weight < 0.5, low, high)
    # Slerp only where a sample lies between two frames, so that the others stay copies
    wxyz, between = motion.rotations.wxyz[low].copy(), weight > 0.0
    if between.any():
        start, end = motion.rotations[low[between]], motion.rotations[high[between]]
        wxyz[between] = start.slerp(end, weight[between][:, None]).wxyz
    moving = motion.translations
    return replace(
        motion,
        rate_hz=rate_hz,
        root_positions=_lerp(motion.root_positions, low, high, weight),
        rotations=SO3(wxyz),
        contacts=None if motion.contacts is None else Contacts(motion.contacts.names, motion.contacts.active[nearest]),
        translations=None if moving is None else _lerp(moving, low, high, weight),
        source=motion.edited_source(),
    )


def _lerp(values: FloatArray, low: IntArray, high: IntArray, weight: FloatArray) -> FloatArray:
    t = weight.reshape(-1, *([1] * (values.ndim - 1)))
    return np.where(t == 0.0, values[low], (1.0 - t) * values[low] + t * values[high])
