"""Ways round an obstacle: out to its side, along it, and back to the line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.locomotion._obstacle_box import BODY_RADIUS_M, Extent, Obstacle
from marey.locomotion._steer import HANDLE, SPACING_M, Way, bernstein, direction, resampled

SIDE_PART: Final = 0.3  # of the obstacle's length, beside the body's radius: delta of [Glardon2005]_ §IV.1.3.1
SWAY_M: Final = 0.08  # how far the root sways from its line, twice over
HANDLES: Final = (HANDLE, 0.5, 0.6, 0.3)
WIDER_M: Final = 0.1
ROUGH, FINE = 40, 400  # points of a curve, to compare and to walk
MOST_TRIES: Final = 12


def smooth_controls(
    start: FloatArray, heading: float, end: FloatArray, end_heading: float, handle: float
) -> FloatArray:
    """Control points ``(6, 2)`` of a Bézier curve of degree five that begins and ends straight.

    Two even control points at each end make the curvature zero there; the end speeds are those of the cubic.
    """
    arm = 0.6 * handle * float(np.linalg.norm(end - start))
    out, back = arm * direction(heading), arm * direction(end_heading)
    return np.stack([start, start + out, start + 2.0 * out, end - 2.0 * back, end - back, end])


def way_round(
    obstacle: Obstacle,
    position: FloatArray,
    heading_rad: float,
    *,
    side: str | None = None,
    radius_m: float = BODY_RADIUS_M,
    others: Sequence[Obstacle] = (),
) -> Way | None:
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
    extent = obstacle.seen_from(position, heading_rad)
    free = [
        way
        for name in ("left", "right")
        if side in (None, name)
        for way in [_past(extent, name, position, heading_rad, radius_m, (obstacle, *others))]
        if way is not None
    ]
    return min(free, key=lambda way: way.length_m, default=None)


def _past(
    extent: Extent, side: str, position: FloatArray, heading: float, radius: float, boxes: Sequence[Obstacle]
) -> Way | None:
    own = SIDE_PART * min(extent.length_m, 1.0)
    for attempt in range(MOST_TRIES):
        margin = radius + SWAY_M + (own if attempt == 0 else 0.0) + WIDER_M * max(0, attempt - 1)
        offset = extent.left + margin if side == "left" else extent.right - margin
        tried = [pair for handle in HANDLES for pair in _candidates(extent, offset, handle, position, heading, margin)]
        rough = [Way(_joined(pair, ROUGH, 0.1)) for pair in tried]
        free = [i for i, way in enumerate(rough) if all(_is_clear(box, way, radius) for box in boxes)]
        if free:
            best = min(free, key=lambda i: float(np.abs(rough[i].curvatures).max()))
            return Way(_joined(tried[best], FINE, SPACING_M))
    return None


def _joined(pair: tuple[FloatArray, FloatArray], count: int, spacing_m: float) -> FloatArray:
    return resampled(np.concatenate([bernstein(controls, count) for controls in pair]), spacing_m)


def _is_clear(box: Obstacle, way: Way, radius: float) -> bool:
    return bool(box.distance(way.points).min() >= radius + 0.5 * SWAY_M)


def _candidates(
    extent: Extent, offset: float, handle: float, position: FloatArray, heading: float, margin: float
) -> list[tuple[FloatArray, FloatArray]]:
    """Controls of the ways out and back that reach the side early or late; the return mirrors the approach."""
    ahead, left = direction(heading), direction(heading + 0.5 * np.pi)
    home = position + (extent.front + extent.rear) * ahead
    found: list[tuple[FloatArray, FloatArray]] = []
    for early in (0.0, 0.5 * margin, margin):
        if extent.front - early < 0.3:
            continue
        first = position + (extent.front - early) * ahead + offset * left
        last = position + (extent.rear + early) * ahead + offset * left
        out = smooth_controls(position, heading, first, heading, handle)
        found.append((out, smooth_controls(last, heading, home, heading, handle)))
    return found
