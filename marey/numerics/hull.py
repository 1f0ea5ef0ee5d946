"""The convex hull of points in a plane."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, frozen

STRAIGHT_TOL = 1e-12  # twice the area of three corners, below which the middle one is on a line


def convex_hull(points: FloatArray) -> FloatArray:
    """Corners ``(h, 2)`` of the hull of points ``(n, 2)``, counter-clockwise from the leftmost (Andrew's chain)."""
    points = frozen(points, None, 2, name="points")
    if len(points) < 2:
        return points
    order = points[np.lexsort((points[:, 1], points[:, 0]))].tolist()
    hull: list[list[float]] = []
    for line in (order, order[::-1]):
        chain: list[list[float]] = []
        for c in line:
            # A corner that does not turn to the left is inside
            while len(chain) > 1:
                a, b = chain[-2:]
                if (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]) > STRAIGHT_TOL:
                    break
                chain.pop()
            chain.append(c)
        hull += chain[:-1]
    return np.array(hull)
