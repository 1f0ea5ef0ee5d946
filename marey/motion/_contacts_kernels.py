"""Compiled loops of contact detection: local floors and runs of flags."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, kernel


@kernel
def local_floor(heights: FloatArray, before: int, after: int) -> FloatArray:
    """Lowest height ``(F, K)`` from ``before`` frames before to ``after`` frames after each frame."""
    num_frames, num_points = heights.shape
    floor = np.empty_like(heights)
    for k in range(num_points):
        for i in range(num_frames):
            lowest = heights[i, k]
            for j in range(max(0, i - before), min(num_frames, i + after + 1)):
                lowest = min(lowest, heights[j, k])
            floor[i, k] = lowest
    return floor


@kernel
def keep_entered_runs(stay: BoolArray, enter: BoolArray) -> BoolArray:
    """Keep those runs of ``stay`` ``(F, K)`` in which ``enter`` holds at least once: hysteresis, the same both ways."""
    num_frames, num_points = stay.shape
    kept = np.zeros(stay.shape, dtype=np.bool_)
    for k in range(num_points):
        start = 0
        while start < num_frames:
            if not stay[start, k]:
                start += 1
                continue
            stop, found = start, False
            while stop < num_frames and stay[stop, k]:
                found = found or enter[stop, k]
                stop += 1
            for i in range(start, stop):
                kept[i, k] = found
            start = stop
    return kept
