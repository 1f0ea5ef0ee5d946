"""Edges whose own way meets a wall: another way through the same phase, longer but free ([Safonova2006]_ F26)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.graph._ara import compose_planar, to_frame
from marey.graph._compact import compute_pose_costs, compute_transition_costs
from marey.lie import SO3

if TYPE_CHECKING:
    from marey.graph._graph import MotionGraph


@dataclass(frozen=True, slots=True, eq=False)
class Detour:
    """Another way for an edge."""

    stretches: tuple[tuple[int, int], ...]  # poses shown
    cost: float


class Detours:
    """Looks for ways inside phases in the full graph of poses."""

    def __init__(self, graph: MotionGraph) -> None:
        self._graph, self._is_ready = graph, False

    def _prepare(self) -> None:
        graph = self._graph
        database, transitions = graph.database, graph.transitions
        self._cost = compute_pose_costs(database, graph.settings)
        self._extra = compute_transition_costs(database, transitions, graph.settings)
        self._order = np.argsort(transitions.source, kind="stable")
        self._first = np.searchsorted(transitions.source[self._order], np.arange(database.num_poses + 1))
        yaw = SO3(database.wxyz[:, 0]).twist_angle([0.0, 1.0, 0.0])
        roots = np.stack([database.roots[:, 0], database.roots[:, 2], yaw], axis=1)
        self._roots = to_frame(roots, database.phases.anchor[database.phase])  # (P, 3) in the frame of the anchor
        self._is_ready = True

    def find(self, edge: int, place: FloatArray, free: BoolArray, grid: FloatArray) -> Detour | None:
        """The cheapest way along an edge, from an anchor, on which the root keeps to free cells; None if there is none.

        Args:
            edge: of the graph.
            place: anchor in the world: x, z, yaw.
            free: cells where the root may be ``(H, W)``.
            grid: x and z of the first corner and size of a cell [m].
        """
        if not self._is_ready:
            self._prepare()
        stretches = self._graph.stretches(edge)
        start, stop = stretches[0][0], stretches[-1][1]
        table = self._graph.database.phases
        same = np.flatnonzero(table.kind == table.kind[self._graph.database.phase[start]])
        legal = np.zeros(self._graph.database.num_poses, dtype=bool)
        for phase in same:
            poses = np.arange(int(table.start[phase]), int(table.stop[phase]))
            legal[poses] = _is_free(compose_planar(place, self._roots[poses]), free, grid)
        return self._shortest_pose_path(start, stop - 1, legal)

    def _shortest_pose_path(self, start: int, last: int, legal: BoolArray) -> Detour | None:
        """Dijkstra over legal poses from one pose to another; the next pose of the clip, or a transition."""
        import heapq

        if not (legal[start] and legal[last]):
            return None
        best: dict[int, float] = {start: 0.0}
        came: dict[int, int] = {}
        heap = [(0.0, start)]
        while heap:
            spent, pose = heapq.heappop(heap)
            if pose == last:
                return Detour(_consecutive_ranges(came, start, last), spent + float(self._cost[last]))
            if spent > best[pose]:
                continue
            for there, cost in self._next(pose):
                total = spent + cost
                if legal[there] and total < best.get(there, np.inf):
                    best[there], came[there] = total, pose
                    heapq.heappush(heap, (total, there))
        return None

    def _next(self, pose: int) -> list[tuple[int, float]]:
        database, transitions = self._graph.database, self._graph.transitions
        own = float(self._cost[pose])
        found = [(pose + 1, own)] if pose + 1 < database.phases.stop[database.phase[pose]] else []
        jumps: IntArray = self._order[self._first[pose] : self._first[pose + 1]]
        return found + [(int(transitions.target[j]), own + float(self._extra[j])) for j in jumps]


def _is_free(places: FloatArray, free: BoolArray, grid: FloatArray) -> BoolArray:
    column = np.floor((places[:, 0] - grid[0]) / grid[2]).astype(np.int64)
    row = np.floor((places[:, 1] - grid[1]) / grid[2]).astype(np.int64)
    inside = (row >= 0) & (column >= 0) & (row < free.shape[0]) & (column < free.shape[1])
    return inside & free[np.clip(row, 0, free.shape[0] - 1), np.clip(column, 0, free.shape[1] - 1)]


def _consecutive_ranges(came: dict[int, int], start: int, last: int) -> tuple[tuple[int, int], ...]:
    """Runs of poses from start to last."""
    poses = [last]
    while poses[-1] != start:
        poses.append(came[poses[-1]])
    poses.reverse()
    cuts = [0, *(n for n in range(1, len(poses)) if poses[n] != poses[n - 1] + 1), len(poses)]
    return tuple((poses[a], poses[b - 1] + 1) for a, b in pairwise(cuts))
