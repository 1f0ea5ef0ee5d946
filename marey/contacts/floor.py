"""The floor under foot plants, and the least smooth curve over what a body needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray

TILT_REACH_M: Final = 0.1  # [m] contacts spread over less than this say nothing about how the floor tilts


@dataclass(frozen=True, slots=True, eq=False)
class FloorPlane:
    """A nearly level plane: captured floors tilt by up to two degrees against the world's axes."""

    height: float  # [m] at the world's origin
    slope: FloatArray  # (2,) [-] rise along x and along z

    @classmethod
    def fit(cls, points: FloatArray) -> FloorPlane:
        """Fit contacts ``(N, 3)`` [m] by least squares, the slope drawn to zero where they are close together."""
        middle = points.mean(axis=0)
        away = points - middle
        level = away[:, [0, 2]]
        normal = level.T @ level + len(points) * TILT_REACH_M**2 * np.eye(2)
        a, b, c = float(normal[0, 0]), float(normal[0, 1]), float(normal[1, 1])
        slope = np.array([[c, -b], [-b, a]]) @ (level.T @ away[:, 1]) / (a * c - b * b)
        return cls(float(middle[1] - slope @ middle[[0, 2]]), slope)

    def raise_by(self, height: float) -> FloorPlane:
        """Return the plane higher by a height [m]."""
        return FloorPlane(self.height + height, self.slope)

    def under(self, points: FloatArray) -> FloatArray:
        """Heights ``(...)`` [m] of the floor under points ``(..., 3)``."""
        return self.height + points[..., [0, 2]] @ self.slope


LEVEL_FLOOR: Final = FloorPlane(0.0, np.zeros(2))


def smooth_upper_envelope(needed: FloatArray, rate_hz: float, seconds: float = 0.10) -> FloatArray:
    """Smallest smooth curve we can make that is nowhere below ``needed`` ``(F,)``: sliding maximum, then mean."""
    half = max(1, round(seconds * rate_hz))
    width = 2 * half + 1
    padded = np.concatenate([np.full(2 * half, needed[0]), needed, np.full(2 * half, needed[-1])])
    highest = np.lib.stride_tricks.sliding_window_view(padded, width).max(axis=1)
    window = np.hanning(width + 2)[1:-1]
    return np.lib.stride_tricks.sliding_window_view(highest, width) @ (window / window.sum())
