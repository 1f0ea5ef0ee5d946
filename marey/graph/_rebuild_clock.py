"""Poses at other times: the clock of the output, on which events fall on frames."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray
from marey.graph._rebuild_joins import PoseTrack
from marey.lie import SO3


def output_times(seconds: float, events: FloatArray, rate_hz: float) -> FloatArray:
    """Times ``(F,)`` [s] of the frames of a clip so long, moved by half a frame at most so that events have a frame."""
    last = max(1, round(seconds * rate_hz))
    marks = np.unique(np.concatenate([[0.0], events, [seconds]]))
    frames = np.rint(marks * rate_hz)
    frames[-1] = last
    frames, first = np.unique(frames, return_index=True)
    return np.interp(np.arange(last + 1), frames, marks[first])


def sample_track(track: PoseTrack, times: FloatArray) -> PoseTrack:
    """Poses of a track at times ``(F,)`` [s]: a cubic through four poses, for places and, by logarithms, rotations.

    Plants are those of the pose before. Times that are those of poses give these poses.
    """
    low = np.clip(np.searchsorted(track.times, times + 1e-9, side="right") - 1, 0, len(track.times) - 1)
    last = len(track.times) - 1
    high = np.minimum(low + 1, last)
    span = np.maximum(track.times[high] - track.times[low], 1e-12)
    part = np.clip((times - track.times[low]) / span, 0.0, 1.0)
    near = [np.maximum(low - 1, 0), low, high, np.minimum(high + 1, last)]
    return PoseTrack(times, _interpolate_positions(track.roots, near, part), _interpolate_rotations(track.wxyz, near,
        part), track.plants[low],
                 track.is_anchor[low])  # fmt: skip


def _interpolate_positions(values: FloatArray, near: list[IntArray], part: FloatArray) -> FloatArray:
    p0, p1, p2, p3 = (values[rows] for rows in near)
    return p1 + _catmull_rom(p0 - p1, p2 - p1, p3 - p1, part[:, None])


def _interpolate_rotations(wxyz: FloatArray, near: list[IntArray], part: FloatArray) -> FloatArray:
    here = SO3(wxyz[near[1]])
    r0, r2, r3 = ((here.inverse() @ SO3(wxyz[near[k]])).log() for k in (0, 2, 3))
    return (here @ SO3.exp(_catmull_rom(r0, r2, r3, part[:, None, None]))).wxyz


def _catmull_rom(p0: FloatArray, p2: FloatArray, p3: FloatArray, t: FloatArray) -> FloatArray:
    """Cubic from zero (t = 0) to ``p2`` (t = 1) with the neighbours ``p0`` and ``p3``."""
    return 0.5 * t * (p2 - p0 + t * (2.0 * p0 + 4.0 * p2 - p3 + t * (-3.0 * p2 + p3 - p0)))
