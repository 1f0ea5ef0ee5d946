"""Ways round an obstacle: out to its side, along it, and back to the line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.locomotion._obstacle_box import BODY_RADIUS_M, Extent, Obstacle
from marey.locomotion._steer import HANDLE, SPACING_M, GroundPath, evaluate_bezier, heading_vector, resample_evenly

SIDE_FRACTION: Final = 0.3  # of the obstacle's length, beside the body's radius: delta of [Glardon2005]_ §IV.1.3.1
SWAY_M: Final = 0.08  # how far the root sways from its line, twice over
HANDLES: Final = (HANDLE, 0.5, 0.6, 0.3)
DETOUR_STEP_M: Final = 0.1
NUM_COARSE_POINTS, NUM_FINE_POINTS = 40, 400  # points of a curve, to compare and to walk
MAX_DETOURS_TRIED: Final = 12


def quintic_controls(
    start: FloatArray, heading: float, end: FloatArray, end_heading: float, handle: float
) -> FloatArray:
    """Control points ``(6, 2)`` of a Bézier curve of degree five that begins and ends straight.

    Two even control points at each end make the curvature zero there; the end speeds are those of the cubic.
    """
    arm = 0.6 * handle * float(np.linalg.norm(end - start))
    out, back = arm * heading_vector(heading), arm * heading_vector(end_heading)
    return np.stack([start, start + out, start + 2.0 * out, end - 2.0 * back, end - back, end])


def find_detour(
    obstacle: Obstacle,
    position: FloatArray,
    heading_rad: float,
    *,
    side: str | None = None,
    radius_m: float = BODY_RADIUS_M,
    others: Sequence[Obstacle] = (),
) -> GroundPath | None:
    """A way past an obstacle that comes back to the line at the same distance behind it ([Glardon2005]_ §IV.1.3.1).

    The thesis steers by one point at the side and one on the line, and slows down at both. Here the way follows the
    whole side, as its author proposes. It is widened in steps of 0.1 m until it is free.

    Args:
        obstacle: what is in the way.
        position: of the walker, ``(x, z)`` [m].
        heading_rad: of the walker, and of the line.
        side: "left" or "right"; by default the one with the shorter way that is free.
        radius_m: of the body.
        others: further obstacles to keep away from.

    Returns:
        The way from the walker on, or None when no side is free.
    """
    extent = obstacle.extent_from(position, heading_rad)
    free = [
        way
        for name in ("left", "right")
        if side in (None, name)
        for way in [_search_side(extent, name, position, heading_rad, radius_m, (obstacle, *others))]
        if way is not None
    ]
    return min(free, key=lambda way: way.length_m, default=None)


def _search_side(
    extent: Extent, side: str, position: FloatArray, heading: float, radius: float, boxes: Sequence[Obstacle]
) -> GroundPath | None:
    own = SIDE_FRACTION * min(extent.length_m, 1.0)
    for attempt in range(MAX_DETOURS_TRIED):
        margin = radius + SWAY_M + (own if attempt == 0 else 0.0) + DETOUR_STEP_M * max(0, attempt - 1)
        offset = extent.left + margin if side == "left" else extent.right - margin
        tried = [
            pair for handle in HANDLES for pair in _detour_controls(extent, offset, handle, position, heading, margin)
        ]
        rough = [GroundPath(_sample_controls(pair, NUM_COARSE_POINTS, 0.1)) for pair in tried]
        free = [i for i, way in enumerate(rough) if all(_is_clear(box, way, radius) for box in boxes)]
        if free:
            best = min(free, key=lambda i: float(np.abs(rough[i].curvatures).max()))
            return GroundPath(_sample_controls(tried[best], NUM_FINE_POINTS, SPACING_M))
    return None


def _sample_controls(pair: tuple[FloatArray, FloatArray], count: int, spacing_m: float) -> FloatArray:
    return resample_evenly(np.concatenate([evaluate_bezier(controls, count) for controls in pair]), spacing_m)


def _is_clear(box: Obstacle, way: GroundPath, radius: float) -> bool:
    return bool(box.distance(way.points).min() >= radius + 0.5 * SWAY_M)


def _detour_controls(
    extent: Extent, offset: float, handle: float, position: FloatArray, heading: float, margin: float
) -> list[tuple[FloatArray, FloatArray]]:
    """Controls of the ways out and back that reach the side early or late; the return mirrors the approach."""
    ahead, left = heading_vector(heading), heading_vector(heading + 0.5 * np.pi)
    home = position + (extent.front + extent.rear) * ahead
    found: list[tuple[FloatArray, FloatArray]] = []
    for early in (0.0, 0.5 * margin, margin):
        if extent.front - early < 0.3:
            continue
        first = position + (extent.front - early) * ahead + offset * left
        last = position + (extent.rear + early) * ahead + offset * left
        out = quintic_controls(position, heading, first, heading, handle)
        found.append((out, quintic_controls(last, heading, home, heading, handle)))
    return found
