"""The floor under foot plants, and the least smooth curve over what a body needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray

TILT_REACH_M: Final = 0.1  # [m] contacts spread over less than this say nothing about how the floor tilts
MAX_TILT: Final = np.tan(np.radians(2.5))  # [-] floors of captures tilt by up to two degrees; more is a slope
FLOOR_BAND_M: Final = 0.08  # [m] contacts within this of the most common height tell the floor
PIT_M: Final = 0.2  # [m] contacts that are lower than that by more ...
FLOOR_SHARE: Final = 0.1  # [-] ... and more than this share of all: the floor is there


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


def fit_floor(at: FloatArray) -> FloorPlane:
    """Plane under contacts ``(N, 3)`` [m] of a clip, before they are corrected; steps and boxes are not part of it."""
    if not len(at):
        return FloorPlane(0.0, np.zeros(2))
    # The most common height, then a plane through what is near it
    heights = np.sort(at[:, 1])
    counts = np.searchsorted(heights, heights + FLOOR_BAND_M) - np.arange(len(heights))
    low = float(heights[int(np.argmax(counts))])
    # A ladder or a platform on which one stands most of the time is not the floor
    while (below := int(np.searchsorted(heights, low - PIT_M))) > FLOOR_SHARE * len(heights):
        low = float(heights[int(np.argmax(counts[:below]))])
    near = at[(at[:, 1] >= low) & (at[:, 1] <= low + FLOOR_BAND_M)]
    plane = _limit_tilt(FloorPlane.fit(near), near)
    for _ in range(2):
        near = at[np.abs(at[:, 1] - plane.under(at)) < 0.5 * FLOOR_BAND_M]
        if len(near) < 3:
            break
        plane = _limit_tilt(FloorPlane.fit(near), near)
    return plane


def _limit_tilt(plane: FloorPlane, points: FloatArray) -> FloorPlane:
    """The plane, or one of the steepest tilt that a floor has through the middle of its points."""
    tilt = float(np.linalg.norm(plane.slope))
    if tilt <= MAX_TILT:
        return plane
    slope = plane.slope * (MAX_TILT / tilt)
    return FloorPlane(float(np.median(points[:, 1] - points[:, [0, 2]] @ slope)), slope)


def smooth_upper_envelope(needed: FloatArray, rate_hz: float, seconds: float = 0.10) -> FloatArray:
    """Smallest smooth curve we can make that is nowhere below ``needed`` ``(F,)``: sliding maximum, then mean."""
    half = max(1, round(seconds * rate_hz))
    width = 2 * half + 1
    padded = np.concatenate([np.full(2 * half, needed[0]), needed, np.full(2 * half, needed[-1])])
    highest = np.lib.stride_tricks.sliding_window_view(padded, width).max(axis=1)
    window = np.hanning(width + 2)[1:-1]
    return np.lib.stride_tricks.sliding_window_view(highest, width) @ (window / window.sum())
