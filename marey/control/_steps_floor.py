"""Floor: the grounds of a simulator, as feet see them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray
from marey.simulate import Ground, Simulator

UP = np.array([0.0, 1.0, 0.0])


@dataclass(frozen=True, slots=True, eq=False)
class FloorPlanes:
    """What a figure walks on: the highest of some planes that are not too steep; without any, height zero."""

    grounds: tuple[Ground, ...]

    @classmethod
    def from_simulator(cls, simulator: Simulator) -> FloorPlanes:
        """The floor of a simulator; walls are left out."""
        constrainer = simulator.constrainer
        grounds = () if constrainer is None else constrainer.grounds
        return cls(tuple(g for g in grounds if float(g.normal[1]) > 0.5))

    def height(self, place: FloatArray) -> float:
        """Height [m] of the floor at a place ``(2,)`` (x, z)."""
        return max((_height(g, place) for g in self.grounds), default=0.0)

    def normal(self, place: FloatArray) -> FloatArray:
        """Normal ``(3,)`` of the floor at a place ``(2,)`` (x, z)."""
        if len(self.grounds) < 2:
            return self.grounds[0].normal if self.grounds else UP
        return max(self.grounds, key=lambda g: _height(g, place)).normal

    def rise(self, place: FloatArray) -> FloatArray:
        """How fast the floor rises ``(2,)`` [-] along x and z."""
        n = self.normal(place)
        return -n[[0, 2]] / n[1]

    def gaps(self, points: FloatArray) -> FloatArray:
        """How far ``(...)`` [m] points ``(..., 3)`` are above the floor."""
        if not self.grounds:
            return points[..., 1]
        return np.min([g.gaps(points) for g in self.grounds], axis=0)

    def under(self, point: FloatArray) -> FloatArray:
        """Place ``(3,)`` [m] of the floor below a point."""
        return np.array([point[0], self.height(point[[0, 2]]), point[2]])


def _height(ground: Ground, place: FloatArray) -> float:
    n, p = ground.normal, ground.point
    return float(p[1] - (n[0] * (place[0] - p[0]) + n[2] * (place[1] - p[2])) / n[1])
