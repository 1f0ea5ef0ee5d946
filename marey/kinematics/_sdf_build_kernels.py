"""Compiled passes that build a distance field: unsigned distance, flood from outside, nearest nodes."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, kernel
from marey.kinematics._sdf_kernels import GridTables

SWEEPS = 2  # of a pass down and a pass up; more change nothing that a test can see


@kernel
def compute_unsigned_distance(grid: GridTables, samples: FloatArray) -> FloatArray:
    r"""Distance of every node to the nearest sample ``(N, 3)``, by looking at all: :math:`\min_i \|p^i - p\|`.

    ``samples`` is best in Fortran order, so that each coordinate is a run of memory. Axes with one node do not count;
    on periodic ones the nearer way round does.
    """
    shape, origin, spacing, periodic = grid
    out = np.empty(shape[0] * shape[1] * shape[2])
    xs, ys, zs = samples[:, 0], samples[:, 1], samples[:, 2]
    period = spacing * shape
    n = 0
    dx2, dxy2 = np.empty(samples.shape[0]), np.empty(samples.shape[0])
    for i in range(shape[0]):
        _axis_distances_squared(dx2, xs, origin[0] + i * spacing[0], period[0], shape[0], periodic[0])
        for j in range(shape[1]):
            _axis_distances_squared(dxy2, ys, origin[1] + j * spacing[1], period[1], shape[1], periodic[1])
            for s in range(dxy2.size):
                dxy2[s] += dx2[s]
            for k in range(shape[2]):
                out[n] = np.sqrt(
                    _least_distance_squared(dxy2, zs, origin[2] + k * spacing[2], period[2], shape[2], periodic[2])
                )
                n += 1
    return out


@kernel
def _axis_distances_squared(
    out: FloatArray, xs: FloatArray, x: float, period: float, count: int, periodic: bool
) -> None:
    for s in range(xs.size):
        d = 0.0 if count == 1 else xs[s] - x
        if periodic:
            d -= period * np.floor(d / period + 0.5)
        out[s] = d * d


@kernel
def _least_distance_squared(
    base: FloatArray, zs: FloatArray, z: float, period: float, count: int, periodic: bool
) -> float:
    best = np.inf
    if count == 1:
        for s in range(zs.size):
            best = min(best, base[s])
    elif periodic:
        for s in range(zs.size):
            d = zs[s] - z
            d -= period * np.floor(d / period + 0.5)
            best = min(best, base[s] + d * d)
    else:
        for s in range(zs.size):
            d = zs[s] - z
            best = min(best, base[s] + d * d)
    return best


@kernel
def flood_from_border(wall: BoolArray, shape: IntArray, periodic: BoolArray) -> BoolArray:
    """Nodes that can be reached from the border without stepping on the wall, over faces and across the seams."""
    reached, stack = np.zeros(wall.size, dtype=np.bool_), np.empty(wall.size, dtype=np.int64)
    count = 0
    for n in range(wall.size):
        at = (n // (shape[1] * shape[2]), n // shape[2] % shape[1], n % shape[2])
        is_border = False
        for a in range(3):
            is_border |= shape[a] > 1 and not periodic[a] and (at[a] == 0 or at[a] == shape[a] - 1)
        if is_border and not wall[n]:
            reached[n], stack[count], count = True, n, count + 1
    while count:
        count -= 1
        n = stack[count]
        at = (n // (shape[1] * shape[2]), n // shape[2] % shape[1], n % shape[2])
        stride = (shape[1] * shape[2], shape[2], 1)
        for a in range(3):
            for step in (-1, 1):
                to = at[a] + step
                if to < 0 or to >= shape[a]:
                    if not periodic[a]:
                        continue
                    to %= shape[a]
                m = n + (to - at[a]) * stride[a]
                if not (reached[m] or wall[m]):
                    reached[m], stack[count], count = True, m, count + 1
    return reached


@kernel
def _update_nearest(
    n: int, i: int, j: int, k: int, source: IntArray, best: FloatArray, weight: FloatArray, grid: GridTables, sense: int
) -> None:
    """Take over the source of a neighbour already visited, if it is nearer than the own one."""
    shape, _, spacing, periodic = grid
    for a in range(-1, 2):
        for b in range(-1, 2):
            for c in range(-1, 2):
                if (a * 3 + b) * 3 + c >= 0:
                    continue  # not before this node, or itself
                p, q, r = i + sense * a, j + sense * b, k + sense * c
                if p < 0 or p >= shape[0]:
                    if not periodic[0]:
                        continue
                    p %= shape[0]
                if q < 0 or q >= shape[1]:
                    if not periodic[1]:
                        continue
                    q %= shape[1]
                if r < 0 or r >= shape[2]:
                    if not periodic[2]:
                        continue
                    r %= shape[2]
                s = source[(p * shape[1] + q) * shape[2] + r]
                if s < 0 or s == source[n]:
                    continue
                di, dj, dk = i - s // (shape[1] * shape[2]), j - s // shape[2] % shape[1], k - s % shape[2]
                if periodic[0]:
                    di -= shape[0] * int(np.floor(di / shape[0] + 0.5))
                if periodic[1]:
                    dj -= shape[1] * int(np.floor(dj / shape[1] + 0.5))
                if periodic[2]:
                    dk -= shape[2] * int(np.floor(dk / shape[2] + 0.5))
                d = np.sqrt((di * spacing[0]) ** 2 + (dj * spacing[1]) ** 2 + (dk * spacing[2]) ** 2) - weight[s]
                if d < best[n]:
                    best[n], source[n] = d, s


@kernel
def find_nearest_sources(is_source: BoolArray, weight: FloatArray, grid: GridTables) -> tuple[IntArray, FloatArray]:
    r"""For every node, the source ``b`` with the least :math:`\|p - b\| - w(b)`, and that number.

    Sources are their own. Each pass hands sources on from node to node, as vector distance transforms do.
    """
    shape = grid[0]
    size = is_source.size
    source, best = np.full(size, -1, dtype=np.int64), np.full(size, np.inf)
    for n in range(size):
        if is_source[n]:
            source[n], best[n] = n, -np.inf
    for turn in range(2 * SWEEPS):
        sense = 1 if turn % 2 == 0 else -1
        for m in range(size):
            n = m if sense == 1 else size - 1 - m
            if not is_source[n]:
                i, j, k = n // (shape[1] * shape[2]), n // shape[2] % shape[1], n % shape[2]
                _update_nearest(n, i, j, k, source, best, weight, grid, sense)
    return source, best
