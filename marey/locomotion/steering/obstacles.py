"""Obstacles on the ground as boxes, and paths round them.

A detour leaves the line to one side of an obstacle and returns to it; a route goes round all that stands between
start and goal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Final, NamedTuple

import numpy as np

from marey.base import FloatArray, InputError
from marey.locomotion.planning.ground_path import (
    HANDLE,
    GroundPath,
    evaluate_bezier,
    heading_vector,
    quintic_controls,
    resample_evenly,
)

BODY_RADIUS_M: Final = 0.35  # what a walking body needs on each side of its root
TRACK_WIDTH_M: Final = 0.3  # [m] the feet of a walker, and of a leap, stay so near to its line
OBSTACLE_LENGTH_M: Final = (0.4, 2.6)  # ranges of the thesis's test bed, [Glardon2005]_ §IV.1.4
OBSTACLE_WIDTH_M: Final = (1.0, 6.0)
OBSTACLE_DISTANCE_M: Final = (2.0, 10.0)
MAX_COORDINATE_M: Final = 1e4  # [m] beyond this a number is a mistake


class Extent(NamedTuple):
    """Extent of a box along and to the left of a straight walking direction [m]."""

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
        """As :meth:`seen_from`, of the part on the walker's own track; None if there is none."""
        away = self.corners() - point
        ahead, left = away @ heading_vector(heading_rad), away @ heading_vector(heading_rad + 0.5 * np.pi)
        # The corners (ahead, left), clipped to the band between two lines beside the way
        polygon = np.stack([ahead, left], axis=-1)
        for sign in (1.0, -1.0):
            kept: list[FloatArray] = []
            for a, b in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
                over_a, over_b = sign * float(a[1]) - half_width_m, sign * float(b[1]) - half_width_m
                if over_a <= 0.0:
                    kept.append(a)
                if over_a * over_b < 0.0:
                    kept.append(a + over_a / (over_a - over_b) * (b - a))
            polygon = np.array(kept).reshape(-1, 2)
        if len(polygon) == 0:
            return None
        low, high = polygon.min(axis=0), polygon.max(axis=0)
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


def sample_obstacle(rng: np.random.Generator, position: FloatArray, heading_rad: float) -> Obstacle:
    """An obstacle in front of a walker, as the thesis's test bed drops them ([Glardon2005]_ §IV.1.4).

    The distance is from the root to the front edge.
    """
    length, width = rng.uniform(*OBSTACLE_LENGTH_M), rng.uniform(*OBSTACLE_WIDTH_M)
    ahead = rng.uniform(*OBSTACLE_DISTANCE_M) + 0.5 * length
    x, z = (float(v) for v in np.asarray(position) + ahead * heading_vector(heading_rad))
    return Obstacle((x, z), (float(length), float(width)), 0.1, float(heading_rad))


SIDE_FRACTION: Final = 0.3  # of the obstacle's length, beside the body's radius: delta of [Glardon2005]_ §IV.1.3.1
SWAY_M: Final = 0.08  # how far the root sways from its line, twice over
HANDLES: Final = (HANDLE, 0.5, 0.6, 0.3)
DETOUR_STEP_M: Final = 0.1
NUM_COARSE_POINTS, NUM_FINE_POINTS = 40, 400  # points of a curve, to compare and to walk
MAX_DETOURS_TRIED: Final = 12


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
    boxes, own = (obstacle, *others), SIDE_FRACTION * min(extent.length_m, 1.0)
    ways: list[GroundPath] = []
    for name in ("left", "right") if side is None else (side,):
        for attempt in range(MAX_DETOURS_TRIED):
            margin = radius_m + SWAY_M + (own if attempt == 0 else 0.0) + DETOUR_STEP_M * max(0, attempt - 1)
            offset = extent.left + margin if name == "left" else extent.right - margin
            tried = [
                pair
                for handle in HANDLES
                for pair in _detour_controls(extent, offset, handle, position, heading_rad, margin)
            ]
            # Of the ways that are free, compared by few points, the one that bends least is taken.
            curves = [np.concatenate([evaluate_bezier(c, NUM_COARSE_POINTS) for c in pair]) for pair in tried]
            rough = [GroundPath(resample_evenly(curve, 0.1)) for curve in curves]
            clearances = [min(box.distance(way.points).min() for box in boxes) for way in rough]
            free = [i for i, clearance in enumerate(clearances) if clearance >= radius_m + 0.5 * SWAY_M]
            if free:
                best = min(free, key=lambda i: float(np.abs(rough[i].curvatures).max()))
                curve = np.concatenate([evaluate_bezier(c, NUM_FINE_POINTS) for c in tried[best]])
                ways.append(GroundPath(resample_evenly(curve)))
                break
    return min(ways, key=lambda way: way.length_m, default=None)


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
        # The end speeds are those of the cubic with these handles.
        arm, back = (0.6 * handle * float(np.linalg.norm(way)) * ahead for way in (first - position, home - last))
        found.append((quintic_controls(position, arm, first, arm), quintic_controls(last, back, home, back)))
    return found


CLEARANCE_M: Final = 0.1  # [m] beside the body's radius
VISIBILITY_STEP_M: Final = 0.03  # [m] between the points at which a line is tested
SHIFT_RAMP: Final = 3.0  # a dodge is so many times longer than wide


def find_route(start: FloatArray, goal: FloatArray, boxes: Sequence[Obstacle], *, radius_m: float) -> FloatArray:
    """Shortest line of straight pieces ``(N, 2)`` that keeps away from boxes: a visibility graph, by Dijkstra.

    Raises:
        InputError: there is none.
    """
    # Nodes are the ends and, round each corner of a box, two points that keep away from it.
    rows, away = [start, goal], radius_m + CLEARANCE_M
    for box in boxes:
        centre = np.array(box.position)
        along, across = heading_vector(box.heading_rad), heading_vector(box.heading_rad + 0.5 * np.pi)
        for corner in box.corners():
            side = np.sign([(corner - centre) @ along, (corner - centre) @ across])
            rows += [corner + away * (side[0] * along + 0.4 * side[1] * across)]
            rows += [corner + away * (0.4 * side[0] * along + side[1] * across)]
    nodes = np.array(rows)
    is_open = _is_free(nodes, boxes, radius_m)
    is_open[:2] = True
    # Dijkstra's search; a line of sight is tested only where it would shorten the way.
    best, before, heap = {0: 0.0}, {0: 0}, [(0.0, 0)]
    while heap:
        cost, at = heappop(heap)
        if at == 1:
            chain = [1]
            while chain[-1] != 0:
                chain.append(before[chain[-1]])
            return nodes[chain[::-1]]
        if cost > best[at]:
            continue
        for to in np.flatnonzero(is_open):
            new = cost + float(np.hypot(*(nodes[to] - nodes[at])))
            if new >= best.get(int(to), np.inf):
                continue
            count = max(2, int(np.hypot(*(nodes[to] - nodes[at])) / VISIBILITY_STEP_M))
            line = nodes[at] + np.linspace(0.0, 1.0, count)[:, None] * (nodes[to] - nodes[at])
            ends = min(3, count // 3)  # starts and ends close to a box are allowed
            if _is_free(line[ends : count - ends], boxes, radius_m).all():
                best[int(to)], before[int(to)] = new, at
                heappush(heap, (new, int(to)))
    raise InputError("no way leads from the start to the goal", "Move them, or open a gap of a metre")


def _is_free(points: FloatArray, boxes: Sequence[Obstacle], radius: float) -> np.ndarray:
    return np.all([box.distance(points) >= radius for box in boxes], axis=0) if boxes else np.ones(len(points), bool)


def shift_path_past(
    way: GroundPath, box: Obstacle, slack_m: float, *, radius_m: float = BODY_RADIUS_M
) -> FloatArray | None:
    """The way, shifted to one side where it passes a box; None if that takes more than ``slack_m``."""
    corners = box.corners()
    along = np.array([way.nearest(corner) for corner in corners])
    headings = way.heading_at(along)
    left = np.stack([np.cos(headings), -np.sin(headings)], axis=-1)
    beside = np.einsum("ij,ij->i", corners - way.point_at(along), left)
    away = radius_m + CLEARANCE_M
    # To either side of the box, the nearer one first
    shifts = sorted((float(beside.max()) + away, float(beside.min()) - away), key=abs)
    for shift in shifts:
        if abs(shift) > slack_m:
            break
        # A bump beside the box, with ramps of a quintic step before and after it
        first, last = float(along.min()) - radius_m, float(along.max()) + radius_m
        ramp = max(1.0, SHIFT_RAMP * abs(shift))
        u = np.clip(np.minimum((way.lengths - first + ramp) / ramp, (last + ramp - way.lengths) / ramp), 0.0, 1.0)
        bump = shift * u**3 * (10.0 - 15.0 * u + 6.0 * u * u)
        sideways = np.stack([np.cos(way.headings), -np.sin(way.headings)], axis=-1)
        bent = resample_evenly(way.points + bump[:, None] * sideways)
        if box.distance(bent).min() >= radius_m:
            return bent
    return None
