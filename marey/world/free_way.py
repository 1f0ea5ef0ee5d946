"""The shortest way over the ground round walls, tables and boxes."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import combinations
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.world.things import Box, Table, World, box_distance, segment_distance

CLEARANCE_M: Final = 0.25  # [m] at which a body passes the end of a wall or a corner
LOW_BOX_M: Final = 0.3  # [m] a box no higher than this is stepped or leapt over
SAMPLE_M: Final = 0.02  # [m] between places of a line that are tested; walls count as so thick


def shortest_way(world: World, start: Sequence[float], end: Sequence[float]) -> float:
    """Length [m] of the shortest way from place to place over straight lines, past ends of walls and corners.

    What lies on a table is reached over its edge: tables and boxes that hold the start or the end are left out. Where
    everything is closed, the length of the line between them.
    """
    places = [np.array(start, dtype=np.float64), np.array(end, dtype=np.float64)]
    solids: list[Table | Box] = [*world.tables, *(box for box in world.boxes if box.height_m > LOW_BOX_M)]
    solids = [
        solid
        for solid in solids
        if all(
            box_distance(solid.position, solid.size, solid.heading_deg, *place[:, None])[0] > 0.0 for place in places
        )
    ]
    nodes = list(places)
    for wall in world.walls:
        a, b = np.array(wall.start), np.array(wall.end)
        along = (b - a) / max(float(np.linalg.norm(b - a)), 1e-9)
        nodes += [a - CLEARANCE_M * along, b + CLEARANCE_M * along]
    for solid in solids:
        angle = np.deg2rad(solid.heading_deg)
        u, v = np.array([np.cos(angle), -np.sin(angle)]), np.array([np.sin(angle), np.cos(angle)])
        half = 0.5 * np.array(solid.size) + CLEARANCE_M
        nodes += [np.array(solid.position) + i * half[0] * u + j * half[1] * v for i in (-1, 1) for j in (-1, 1)]
    # Lines that meet nothing, then Dijkstra over them
    lengths = np.full((len(nodes), len(nodes)), np.inf)
    for i, j in combinations(range(len(nodes)), 2):
        if _is_free(world, solids, nodes[i], nodes[j]):
            lengths[i, j] = lengths[j, i] = np.linalg.norm(nodes[j] - nodes[i])
    least, heap = np.full(len(nodes), np.inf), [(0.0, 0)]
    while heap:
        way, node = heapq.heappop(heap)
        if way >= least[node]:
            continue
        least[node] = way
        for other in np.flatnonzero(way + lengths[node] < least):
            heapq.heappush(heap, (float(way + lengths[node, other]), int(other)))
    return float(least[1] if np.isfinite(least[1]) else np.linalg.norm(places[1] - places[0]))


def _is_free(world: World, solids: Sequence[Table | Box], a: FloatArray, b: FloatArray) -> bool:
    count = max(2, int(np.ceil(np.linalg.norm(b - a) / SAMPLE_M)) + 1)
    x, z = np.linspace(a, b, count).T
    if any((segment_distance(wall.start, wall.end, x, z) < SAMPLE_M).any() for wall in world.walls):
        return False
    return not any((box_distance(s.position, s.size, s.heading_deg, x, z) < 0.0).any() for s in solids)
