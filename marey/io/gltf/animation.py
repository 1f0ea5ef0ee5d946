"""Key frames to frames: the samplers of glTF 2.0 ([Khronos2021]_ §3.11 and appendix C), and their frame rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from marey.base import FloatArray
from marey.io.binary import format_error
from marey.io.gltf.buffers import GltfDocument, read_accessor

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


SNAP: Final = 1e-3  # [frame] a key this near to a frame is that frame: float32 times are not exact
_WIDTHS: Final = {"translation": 3, "rotation": 4, "scale": 3}


@dataclass(frozen=True, slots=True, eq=False)
class AnimationTrack:
    """Keys of one property of one node."""

    node: int
    path: str  # "translation", "rotation" (xyzw) or "scale"
    times: FloatArray  # (K,) [s] rising
    keys: FloatArray  # (K, C), or (K, 3, C) for CUBICSPLINE: in-tangent, value, out-tangent
    interpolation: str  # "LINEAR", "STEP" or "CUBICSPLINE"


def read_tracks(document: GltfDocument, animation: dict[str, Any]) -> list[AnimationTrack]:
    """Return every translation, rotation and scale track of an animation; other channels are skipped."""
    tracks: list[AnimationTrack] = []
    samplers = animation.get("samplers", [])
    for channel in animation.get("channels", []):
        target = channel["target"]
        if "node" not in target or target.get("path") not in _WIDTHS:
            continue
        if not 0 <= channel["sampler"] < len(samplers):
            raise format_error(document.path, f"an animation uses sampler {channel['sampler']} of {len(samplers)}")
        document.item("nodes", target["node"])
        tracks.append(_read_track(document, target["node"], target["path"], samplers[channel["sampler"]]))
    return tracks


def _read_track(document: GltfDocument, node: int, path: str, sampler: dict[str, Any]) -> AnimationTrack:
    times = read_accessor(document, sampler.get("input"))[:, 0]
    values = read_accessor(document, sampler.get("output"))
    mode = sampler.get("interpolation", "LINEAR")
    rows = len(times) * (3 if mode == "CUBICSPLINE" else 1)
    if mode not in ("LINEAR", "STEP", "CUBICSPLINE"):
        raise format_error(document.path, f"an animation is interpolated by '{mode}'")
    if values.shape != (rows, _WIDTHS[path]):
        what = f"a {path} track has {len(times)} times and values of shape {values.shape}"
        raise format_error(document.path, what)
    if (np.diff(times) <= 0.0).any():
        raise format_error(document.path, f"the key times of a {path} track do not rise")
    return AnimationTrack(
        node, path, times, values.reshape(len(times), 3, -1) if mode == "CUBICSPLINE" else values, mode
    )


def sample_track(track: AnimationTrack, times: FloatArray, rate_hz: float) -> FloatArray:
    """Values ``(F, C)`` of a track at ``times`` [s]; before the first key and after the last it stands still."""
    keys = track.times
    snap = SNAP / rate_hz
    before = np.clip(np.searchsorted(keys, times + snap, side="right") - 1, 0, max(len(keys) - 2, 0))
    after = np.minimum(before + 1, len(keys) - 1)
    spans = np.where(after > before, keys[after] - keys[before], 1.0)
    elapsed = times - keys[before]
    elapsed = np.where(np.abs(elapsed) < snap, 0.0, np.where(np.abs(elapsed - spans) < snap, spans, elapsed))
    u = np.clip(elapsed / spans, 0.0, 1.0)
    if track.interpolation == "CUBICSPLINE":
        keys_hermite = track.keys
        t, d = u[:, None], spans[:, None]
        value = (2 * t**3 - 3 * t**2 + 1) * keys_hermite[before, 1] + (3 * t**2 - 2 * t**3) * keys_hermite[after, 1]
        values = (
            value + d * (t**3 - 2 * t**2 + t) * keys_hermite[before, 2] + d * (t**3 - t**2) * keys_hermite[after, 0]
        )
    elif track.interpolation == "STEP":
        values = track.keys[np.where(u >= 1.0, after, before)]
    elif track.path == "rotation":
        # \frac{\sin((1-u)\theta)}{\sin\theta}a + \frac{\sin(u\theta)}{\sin\theta}b along the shorter arc
        a = track.keys[before]
        b = track.keys[after]
        u_slerp = u[:, None]
        cosine = np.einsum("fc,fc->f", a, b)[:, None]
        b = np.where(cosine < 0.0, -b, b)
        angle = np.arccos(np.clip(np.abs(cosine), 0.0, 1.0))
        sine = np.sin(angle)
        near = sine < 1e-6  # [-] below this the chord and the arc agree to 1e-12
        safe = np.where(near, 1.0, sine)
        from_a = np.where(near, 1.0 - u_slerp, np.sin((1.0 - u_slerp) * angle) / safe)
        from_b = np.where(near, u_slerp, np.sin(u_slerp * angle) / safe)
        values = from_a * a + from_b * b
    else:
        values = track.keys[before] * (1.0 - u[:, None]) + track.keys[after] * u[:, None]
    return values
