"""Compiled distances over the ground round walls."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, kernel
from marey.graph._ara_kernels import pop, push


@kernel
def _eikonal(distance: FloatArray, row: int, column: int) -> float:
    """Distance of a cell, in cells, from its known neighbours: the upwind solution of |grad d| = 1."""
    height, width = distance.shape
    a = b = np.inf
    if row > 0:
        a = min(a, distance[row - 1, column])
    if row + 1 < height:
        a = min(a, distance[row + 1, column])
    if column > 0:
        b = min(b, distance[row, column - 1])
    if column + 1 < width:
        b = min(b, distance[row, column + 1])
    if a > b:
        a, b = b, a
    if b - a >= 1.0:
        return a + 1.0
    return 0.5 * (a + b + np.sqrt(2.0 - (a - b) * (a - b)))


@kernel
def march(free: BoolArray, start: FloatArray) -> FloatArray:
    """Distances ``(H, W)`` in cells to where ``start`` is finite, not through cells that are not free; inf if cut off.

    Fast marching ([Sethian1996]_): cells are settled in the order of their distance.
    """
    height, width = free.shape
    distance = np.full((height, width), np.inf)
    done = np.zeros((height, width), dtype=np.bool_)
    heap, keys = np.empty(8 * height * width + 16, dtype=np.int64), np.empty(8 * height * width + 16)
    size = 0
    for row in range(height):
        for column in range(width):
            if np.isfinite(start[row, column]) and free[row, column]:
                distance[row, column] = start[row, column]
                size = push(heap, keys, size, row * width + column, start[row, column])
    while size > 0:
        cell = heap[0]
        size = pop(heap, keys, size)
        row, column = cell // width, cell % width
        if done[row, column]:
            continue
        done[row, column] = True
        for k in range(4):
            r = row + (k == 0) - (k == 1)
            c = column + (k == 2) - (k == 3)
            if 0 <= r < height and 0 <= c < width and free[r, c] and not done[r, c]:
                d = _eikonal(distance, r, c)
                if d < distance[r, c]:
                    distance[r, c] = d
                    size = push(heap, keys, size, r * width + c, d)
    return distance
