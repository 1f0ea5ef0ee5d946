"""Keys of a scene's nodes: the frames that they lie on, and the values between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.motion import Contacts

USUAL_HZ: Final = (24.0, 25.0, 30000 / 1001, 30.0, 48.0, 50.0, 60000 / 1001, 60.0, 72.0, 90.0, 100.0, 120.0, 240.0)
SLOWEST_HZ: Final = 12.0  # evenly spaced keys that are rarer than this are poses, not captured frames
FALLBACK_HZ: Final = 60.0
_OFF_GRID: Final = 0.02  # [frame] how far a key may lie from a frame
SNAP: Final = 1e-3  # [frame] a key this near to a frame is that frame: float32 times are not exact


def guess_rate(times: FloatArray, declared_hz: float | None = None) -> tuple[float, str]:
    """Frame rate [Hz] of rising key times [s], and a sentence on how it was found.

    Evenly spaced keys give their own rate, set to a usual one where it agrees to float32; else the file's own rate
    where keys lie on its frames; else the lowest usual rate on whose frames all keys lie; else the file's, or 60 Hz.
    """
    if len(times) < 2:
        rate = declared_hz or 30.0
        return rate, f"there is one key time only; {rate:g} Hz is assumed"
    steps = times - times[0]
    rate = (len(times) - 1) / steps[-1]
    if rate >= SLOWEST_HZ and _grid_error(steps, rate) < _OFF_GRID:
        return _nearest_usual_rate(rate), f"the keys are evenly spaced: {_nearest_usual_rate(rate):g} Hz"
    if declared_hz is not None and _grid_error(steps, declared_hz) < _OFF_GRID:
        return declared_hz, f"all keys lie on frames of the file's {declared_hz:g} Hz"
    for usual in USUAL_HZ:
        if _grid_error(steps, usual) < _OFF_GRID:
            return usual, f"all keys lie on frames of {usual:g} Hz, the rate used"
    rate = declared_hz or FALLBACK_HZ
    return rate, f"the keys lie on no usual frame rate; the motion is sampled at {rate:g} Hz"


def _grid_error(steps: FloatArray, rate: float) -> float:
    frames = steps * rate
    return float(np.abs(frames - np.round(frames)).max())


def _nearest_usual_rate(rate: float) -> float:
    whole = float(round(rate))
    near = min((*USUAL_HZ, whole), key=lambda usual: abs(usual - rate))
    return near if abs(near - rate) < 1e-4 * rate else float(rate)


def place_frames(
    times: FloatArray, asked_hz: float | None, notes: list[str], *, declared_hz: float | None = None
) -> tuple[float, float, int]:
    """Rate [Hz], time of the first frame [s] and number of frames of rising key times; decisions go to ``notes``.

    Args:
        times: of all keys [s].
        asked_hz: the rate that the user wants, else that of the keys.
        notes: of the load report.
        declared_hz: the rate that the file states.
    """
    rate, note = guess_rate(times, declared_hz)
    notes.append(note)
    rate = rate if asked_hz is None else float(asked_hz)
    first, last = float(times[0]), float(times[-1])
    if first != 0.0:
        notes.append(f"the animation starts at {first:g} s; the motion starts at 0")
    return rate, first, count_frames(first, last, rate)


def count_frames(first_s: float, last_s: float, rate_hz: float) -> int:
    """Return how many frames lie between two times, both included.

    Raises:
        InputError: the rate is no rate.
    """
    if not (np.isfinite(rate_hz) and rate_hz > 0.0):
        raise InputError(f"rate_hz is {rate_hz}", "It must be a positive number of frames per second")
    return int(min((last_s - first_s) * rate_hz + 1e-3, 1e12)) + 1


def block_times(start_s: float, rate_hz: float, block: slice) -> FloatArray:
    """Times [s] of the frames of a block."""
    return start_s + np.arange(int(block.start), int(block.stop)) / rate_hz


@dataclass(frozen=True, slots=True, eq=False)
class AnimationTrack:
    """Keys of one property of one node."""

    node: int
    path: str  # "translation", "rotation" (xyzw) or "scale"
    times: FloatArray  # (K,) [s] rising
    keys: FloatArray  # (K, C), or (K, 3, C) for CUBICSPLINE: in-tangent, value, out-tangent
    interpolation: str  # "LINEAR", "STEP" or "CUBICSPLINE"


def sample_track(track: AnimationTrack, times: FloatArray, rate_hz: float) -> FloatArray:
    """Values ``(F, C)`` of a track at ``times`` [s]; before the first key and after the last it stands still.

    As glTF 2.0 interpolates ([Khronos2021]_ appendix C).
    """
    keys = track.times
    snap = SNAP / rate_hz
    # Keys around each time and how far it is between them, in [0, 1]
    before = np.clip(np.searchsorted(keys, times + snap, side="right") - 1, 0, max(len(keys) - 2, 0))
    after = np.minimum(before + 1, len(keys) - 1)
    spans = np.where(after > before, keys[after] - keys[before], 1.0)
    elapsed = times - keys[before]
    elapsed = np.where(np.abs(elapsed) < snap, 0.0, np.where(np.abs(elapsed - spans) < snap, spans, elapsed))
    u = np.clip(elapsed / spans, 0.0, 1.0)
    if track.interpolation == "CUBICSPLINE":
        # Hermite: values, out-tangent of the key before, in-tangent of the key after
        t, d = u[:, None], spans[:, None]
        value = (2 * t**3 - 3 * t**2 + 1) * track.keys[before, 1] + (3 * t**2 - 2 * t**3) * track.keys[after, 1]
        leave, arrive = d * (t**3 - 2 * t**2 + t), d * (t**3 - t**2)
        values = value + leave * track.keys[before, 2] + arrive * track.keys[after, 0]
    elif track.interpolation == "STEP":
        values = track.keys[np.where(u >= 1.0, after, before)]
    elif track.path == "rotation":
        # \frac{\sin((1-u)\theta)}{\sin\theta}a + \frac{\sin(u\theta)}{\sin\theta}b along the shorter arc
        a, b, t = track.keys[before], track.keys[after], u[:, None]
        cosine = np.einsum("fc,fc->f", a, b)[:, None]
        b = np.where(cosine < 0.0, -b, b)
        angle = np.arccos(np.clip(np.abs(cosine), 0.0, 1.0))
        sine = np.sin(angle)
        near = sine < 1e-6  # [-] below this the chord and the arc agree to 1e-12
        safe = np.where(near, 1.0, sine)
        from_a = np.where(near, 1.0 - t, np.sin((1.0 - t) * angle) / safe)
        from_b = np.where(near, t, np.sin(t * angle) / safe)
        values = from_a * a + from_b * b
    else:
        values = track.keys[before] * (1.0 - u[:, None]) + track.keys[after] * u[:, None]
    return values


def sample_contacts(
    tracks: Mapping[str, Sequence[tuple[float, float]]], start_s: float, rate_hz: float, num_frames: int
) -> Contacts | None:
    """Contacts at frames, from ``(time [s], 0 or 1)`` keys that hold until the next; None where no track is one."""
    times = block_times(start_s, rate_hz, slice(0, num_frames)) + SNAP / rate_hz
    found: dict[str, FloatArray] = {}
    for name, keys in tracks.items():
        table: FloatArray = np.array(keys, dtype=np.float64).reshape(-1, 2)
        if len(table) and np.isin(table[:, 1], (0.0, 1.0)).all() and (np.diff(table[:, 0]) > 0.0).all():
            found[name] = table[np.maximum(np.searchsorted(table[:, 0], times, side="right") - 1, 0), 1]
    return Contacts(tuple(found), np.stack(list(found.values()), axis=1) > 0.5) if found else None
