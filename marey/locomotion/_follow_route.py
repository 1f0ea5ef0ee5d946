"""Finding a way: round what stands between start and goal, and past what lies beside a path."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.locomotion._obstacle_box import BODY_RADIUS_M, Obstacle
from marey.locomotion._steer import GroundPath, heading_vector, resample_evenly

CLEARANCE_M: Final = 0.1  # [m] beside the body's radius
VISIBILITY_STEP_M: Final = 0.03  # [m] between the points at which a line is tested
SHIFT_RAMP: Final = 3.0  # a dodge is so many times longer than wide


def find_route(start: FloatArray, goal: FloatArray, boxes: Sequence[Obstacle], *, radius_m: float) -> FloatArray:
    """Shortest line of straight pieces ``(N, 2)`` that keeps away from boxes: a visibility graph, by Dijkstra.

    Raises:
        InputError: there is none.
    """
    nodes = np.concatenate([start[None], goal[None], *[_corner_points(box, radius_m + CLEARANCE_M) for box in boxes]])
    is_open = _is_free(nodes, boxes, radius_m)
    is_open[:2] = True
    best, before, heap = {0: 0.0}, {0: 0}, [(0.0, 0)]
    while heap:
        cost, at = heappop(heap)
        if at == 1:
            return _trace_route(nodes, before)
        if cost > best[at]:
            continue
        for to in np.flatnonzero(is_open):
            new = cost + float(np.hypot(*(nodes[to] - nodes[at])))
            if new < best.get(int(to), np.inf) and _is_visible(nodes[at], nodes[to], boxes, radius_m):
                best[int(to)], before[int(to)] = new, at
                heappush(heap, (new, int(to)))
    raise InputError("no way leads from the start to the goal", "Move them, or open a gap of a metre")


def _corner_points(box: Obstacle, away: float) -> FloatArray:
    """Points round the corners of a box, two to a corner."""
    corners, centre = box.corners(), np.array(box.position)
    along, across = heading_vector(box.heading_rad), heading_vector(box.heading_rad + 0.5 * np.pi)
    rows: list[FloatArray] = []
    for corner in corners:
        side = np.sign([(corner - centre) @ along, (corner - centre) @ across])
        rows += [corner + away * (side[0] * along + 0.4 * side[1] * across)]
        rows += [corner + away * (0.4 * side[0] * along + side[1] * across)]
    return np.array(rows)


def _is_free(points: FloatArray, boxes: Sequence[Obstacle], radius: float) -> np.ndarray:
    return np.all([box.distance(points) >= radius for box in boxes], axis=0) if boxes else np.ones(len(points), bool)


def _is_visible(a: FloatArray, b: FloatArray, boxes: Sequence[Obstacle], radius: float) -> bool:
    count = max(2, int(np.hypot(*(b - a)) / VISIBILITY_STEP_M))
    line = a + np.linspace(0.0, 1.0, count)[:, None] * (b - a)
    ends = min(3, count // 3)  # whoever starts or ends close to a box may
    return bool(_is_free(line[ends : count - ends], boxes, radius).all())


def _trace_route(nodes: FloatArray, before: dict[int, int]) -> FloatArray:
    chain = [1]
    while chain[-1] != 0:
        chain.append(before[chain[-1]])
    return nodes[chain[::-1]]


def shift_path_past(
    way: GroundPath, box: Obstacle, slack_m: float, *, radius_m: float = BODY_RADIUS_M
) -> FloatArray | None:
    """The way, shifted to one side where it passes a box; None if that takes more than ``slack_m``."""
    corners = box.corners()
    along = np.array([way.nearest(corner) for corner in corners])
    left = left_vectors(way.heading_at(along))
    beside = np.einsum("ij,ij->i", corners - way.point_at(along), left)
    away = radius_m + CLEARANCE_M
    shifts = sorted((float(beside.max()) + away, float(beside.min()) - away), key=abs)
    for shift in shifts:
        if abs(shift) > slack_m:
            break
        bent = _shift_path(way, shift, float(along.min()) - radius_m, float(along.max()) + radius_m)
        if box.distance(bent).min() >= radius_m:
            return bent
    return None


def _shift_path(way: GroundPath, shift: float, first: float, last: float) -> FloatArray:
    ramp = max(1.0, SHIFT_RAMP * abs(shift))
    u = np.clip(np.minimum((way.lengths - first + ramp) / ramp, (last + ramp - way.lengths) / ramp), 0.0, 1.0)
    bump = shift * u**3 * (10.0 - 15.0 * u + 6.0 * u * u)
    return resample_evenly(way.points + bump[:, None] * left_vectors(way.headings))


def left_vectors(headings: FloatArray) -> FloatArray:
    """Unit vectors ``(..., 2)`` to the left of headings."""
    return np.stack([np.cos(headings), -np.sin(headings)], axis=-1)
