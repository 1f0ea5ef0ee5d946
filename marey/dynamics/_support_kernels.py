"""How far inside the polygon of its supports the centre of pressure is, frame by frame."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, kernel


@kernel
def _convex_hull(points: FloatArray, count: int, hull: FloatArray) -> int:
    """Corners of the convex hull of ``points[:count]`` ``(n, 2)``, counter-clockwise; returns how many (Andrew)."""
    order = np.argsort(points[:count, 0] + 1e-9 * points[:count, 1], kind="mergesort")
    size = 0
    for turn in range(2):
        start = size
        for i in range(count):
            p = order[i] if turn == 0 else order[count - 1 - i]
            while size - start >= 2:
                ax, ay = hull[size - 1, 0] - hull[size - 2, 0], hull[size - 1, 1] - hull[size - 2, 1]
                bx, by = points[p, 0] - hull[size - 2, 0], points[p, 1] - hull[size - 2, 1]
                if ax * by - ay * bx > 0.0:
                    break
                size -= 1
            hull[size, 0], hull[size, 1] = points[p, 0], points[p, 1]
            size += 1
        size -= 1
    return size


@kernel
def compute_polygon_margins(places: FloatArray, points: FloatArray, active: BoolArray) -> FloatArray:
    """Distance ``(F,)`` from places ``(F, 2)`` to the edge of the hull of active points ``(F, P, 2)``.

    Positive inside, negative outside, zero where there are no points.
    """
    num_frames, num_points = active.shape
    margins = np.zeros(num_frames)
    chosen = np.zeros((max(num_points, 1), 2))
    hull = np.zeros((2 * num_points + 2, 2))
    for f in range(num_frames):
        count = 0
        for p in range(num_points):
            if active[f, p]:
                chosen[count, 0] = points[f, p, 0] - places[f, 0]  # from the place, so that far away is as exact
                chosen[count, 1] = points[f, p, 1] - places[f, 1]
                count += 1
        if count == 0:
            continue
        size = max(_convex_hull(chosen, count, hull), 1)
        nearest, is_inside = np.inf, size >= 3
        for k in range(size):
            ax, ay = hull[k, 0], hull[k, 1]
            ex, ey = hull[(k + 1) % size, 0] - ax, hull[(k + 1) % size, 1] - ay
            dx, dy = -ax, -ay
            length = ex * ex + ey * ey
            along = min(max((dx * ex + dy * ey) / length, 0.0), 1.0) if length > 0.0 else 0.0
            nearest = min(nearest, np.hypot(dx - along * ex, dy - along * ey))
            is_inside = is_inside and ex * dy - ey * dx >= 0.0
        margins[f] = nearest if is_inside else -nearest
    return margins
