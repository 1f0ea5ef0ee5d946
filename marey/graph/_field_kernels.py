"""Compiled distances over the ground round walls."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, kernel
from marey.graph._heap_kernels import pop_heap, push_heap

GRID_NEIGHBOURS = ((0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1))
GRID_LEAPS = ((1, 2), (1, 3), (2, 3), (1, 4))
GRID_SIGNS = ((1, 1), (1, -1), (-1, 1), (-1, -1))
GRID_STEPS = np.array(
    [*GRID_NEIGHBOURS, *((p * i, q * j) for a, b in GRID_LEAPS for i, j in ((a, b), (b, a)) for p, q in GRID_SIGNS)]
)
"""Moves to forty neighbours; ways along them are at most 1 / cos(atan(1/4) / 2) = 1.0076 times as long."""


@kernel
def grid_distances(free: BoolArray, start: FloatArray, steps: IntArray) -> FloatArray:
    """Length ``(H, W)`` in cells of the shortest way over the neighbours to where ``start`` is finite, plus that.

    Ways lead from free cell to free cell; longer moves may pass a corner, so that no way is overestimated. Infinite
    where there is no way.
    """
    height, width = free.shape
    distance = np.full((height, width), np.inf)
    room = len(steps) * height * width + len(steps)
    heap, keys = np.empty(room, dtype=np.int64), np.empty(room)
    size = 0
    for row in range(height):
        for column in range(width):
            if np.isfinite(start[row, column]) and free[row, column]:
                distance[row, column] = start[row, column]
                size = push_heap(heap, keys, size, row * width + column, start[row, column])
    while size > 0:
        cell, key = heap[0], keys[0]
        size = pop_heap(heap, keys, size)
        row, column = cell // width, cell % width
        if key > distance[row, column]:
            continue
        for k in range(len(steps)):
            dr, dc = steps[k, 0], steps[k, 1]
            r, c = row + dr, column + dc
            if r < 0 or c < 0 or r >= height or c >= width or not free[r, c]:
                continue
            there = distance[row, column] + np.sqrt(float(dr * dr + dc * dc))
            if there < distance[r, c]:
                distance[r, c] = there
                size = push_heap(heap, keys, size, r * width + c, there)
    return distance
