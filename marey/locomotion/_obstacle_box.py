"""Obstacles on the ground: boxes, seen along the direction of travel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from marey.base import FloatArray, InputError
from marey.locomotion._steer import heading_vector

BODY_RADIUS_M: Final = 0.35  # what a walking body needs on each side of its root
TRACK_WIDTH_M: Final = 0.3  # [m] the feet of a walker, and of a leap, stay so near to its line
OBSTACLE_LENGTH_M: Final = (0.4, 2.6)  # ranges of the thesis's test bed, [Glardon2005]_ §IV.1.4
OBSTACLE_WIDTH_M: Final = (1.0, 6.0)
OBSTACLE_DISTANCE_M: Final = (2.0, 10.0)
MAX_COORDINATE_M: Final = 1e4  # [m] beyond this a number is a mistake


class Extent(NamedTuple):
    """A box as seen by somebody who walks straight on: along and to the left of the line [m]."""

    front: float  # nearest edge, ahead of the walker
    rear: float
    right: float  # of the line, positive to the left
    left: float

    @property
    def length_m(self) -> float:
        """From the front to the rear edge."""
        return self.rear - self.front


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A box that lies on the ground and may move."""

    position: tuple[float, float]  # (x, z) [m] of its centre
    size: tuple[float, float] = (0.6, 1.5)  # length along its own heading, width across [m]
    height_m: float = 0.1
    heading_rad: float = 0.0
    velocity: tuple[float, float] = (0.0, 0.0)  # (x, z) [m/s]

    def __post_init__(self) -> None:
        numbers = [*self.position, *self.size, self.height_m, self.heading_rad, *self.velocity]
        if not np.isfinite(numbers).all() or np.abs(numbers).max() > MAX_COORDINATE_M:
            raise InputError("an obstacle with a number that is not finite", "Give metres, radians and m/s")
        if min(self.size) <= 0.0 or self.height_m < 0.0:
            raise InputError(f"an obstacle of size {self.size} and height {self.height_m}", "Sizes are positive")

    def corners(self) -> FloatArray:
        """Corners ``(4, 2)`` [m], round the box."""
        along = 0.5 * self.size[0] * heading_vector(self.heading_rad)
        across = 0.5 * self.size[1] * heading_vector(self.heading_rad + 0.5 * np.pi)
        centre = np.array(self.position)
        return np.stack(
            [centre - along - across, centre - along + across, centre + along + across, centre + along - across]
        )

    def extent_from(self, point: FloatArray, heading_rad: float) -> Extent:
        """Extent of the bounding box that lies along a heading, for a walker at ``point`` (x, z)."""
        away = self.corners() - point
        ahead, left = away @ heading_vector(heading_rad), away @ heading_vector(heading_rad + 0.5 * np.pi)
        return Extent(float(ahead.min()), float(ahead.max()), float(left.min()), float(left.max()))

    def track_extent_from(
        self, point: FloatArray, heading_rad: float, half_width_m: float = TRACK_WIDTH_M
    ) -> Extent | None:
        """As :meth:`seen_from`, of the part that lies on the walker's own track; None where there is none."""
        away = self.corners() - point
        ahead, left = away @ heading_vector(heading_rad), away @ heading_vector(heading_rad + 0.5 * np.pi)
        kept = _clip_to_band(np.stack([ahead, left], axis=-1), half_width_m)
        if len(kept) == 0:
            return None
        low, high = kept.min(axis=0), kept.max(axis=0)
        return Extent(float(low[0]), float(high[0]), float(low[1]), float(high[1]))

    def distance(self, points: FloatArray) -> FloatArray:
        """Distance ``(...)`` [m] of points ``(..., 2)`` from the box; zero inside."""
        away = points - np.array(self.position)
        along = np.abs(away @ heading_vector(self.heading_rad)) - 0.5 * self.size[0]
        across = np.abs(away @ heading_vector(self.heading_rad + 0.5 * np.pi)) - 0.5 * self.size[1]
        return np.hypot(np.maximum(along, 0.0), np.maximum(across, 0.0))

    def after(self, seconds: float) -> Obstacle:
        """The obstacle where it will be."""
        x, z = (p + seconds * v for p, v in zip(self.position, self.velocity, strict=True))
        return replace(self, position=(x, z))

    @property
    def is_moving(self) -> bool:
        """Whether it has a velocity."""
        return self.velocity != (0.0, 0.0)


def _clip_to_band(polygon: FloatArray, half_width: float) -> FloatArray:
    """The part ``(K, 2)`` of a convex polygon (ahead, left) between two lines beside the way."""
    for sign in (1.0, -1.0):
        kept: list[FloatArray] = []
        for a, b in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
            over_a, over_b = sign * float(a[1]) - half_width, sign * float(b[1]) - half_width
            if over_a <= 0.0:
                kept.append(a)
            if over_a * over_b < 0.0:
                kept.append(a + over_a / (over_a - over_b) * (b - a))
        polygon = np.array(kept).reshape(-1, 2)
    return polygon


def sample_obstacle(rng: np.random.Generator, position: FloatArray, heading_rad: float) -> Obstacle:
    """An obstacle in front of a walker, as the thesis's test bed drops them ([Glardon2005]_ §IV.1.4).

    The distance is from the root to the front edge.
    """
    length, width = rng.uniform(*OBSTACLE_LENGTH_M), rng.uniform(*OBSTACLE_WIDTH_M)
    ahead = rng.uniform(*OBSTACLE_DISTANCE_M) + 0.5 * length
    x, z = (float(v) for v in np.asarray(position) + ahead * heading_vector(heading_rad))
    return Obstacle((x, z), (float(length), float(width)), 0.1, float(heading_rad))
