"""Meshes of simple solids, made here: boxes of cubes cut in six, cylinders of rings and layers."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen
from marey.muscle._mesh import IndexArray, TetMesh, compute_cell_volumes


def make_box(size: ArrayLike, counts: tuple[int, int, int], origin: ArrayLike) -> TetMesh:
    """Cubes cut in six along the long diagonal (Kuhn); faces of neighbours match."""
    extent = frozen(size, 3, name="size")
    if extent.min() <= 0 or min(counts) < 1:
        raise InputError(f"a box of size {extent.tolist()} m in {tuple(counts)} cubes", "Both must be positive")
    nx, ny, nz = (int(n) for n in counts)
    grid = np.stack(np.meshgrid(np.arange(nx + 1), np.arange(ny + 1), np.arange(nz + 1), indexing="ij"), axis=-1)
    nodes = grid.reshape(-1, 3) * (extent / (nx, ny, nz)) + frozen(origin, 3, name="origin")
    strides = np.array([(ny + 1) * (nz + 1), nz + 1, 1])
    corners = grid[:nx, :ny, :nz].reshape(-1, 3) @ strides
    return TetMesh(nodes, orient_cells(nodes, _split_cubes(corners, strides)))


def _split_cubes(corners: np.ndarray, strides: np.ndarray) -> IndexArray:
    paths = np.array([np.cumsum([0, *strides[list(order)]]) for order in permutations(range(3))])  # (6, 4)
    return (corners[:, None, None] + paths).reshape(-1, 4).astype(np.int32)


def make_cylinder(radius_m: float, length_m: float, rings: int, layers: int | None) -> TetMesh:
    """Disc of rings of 6 k nodes, extruded in layers of prisms, each cut in three."""
    if not (radius_m > 0 and length_m > 0 and rings >= 1 and (layers is None or layers >= 1)):
        raise InputError(f"a cylinder of radius {radius_m} m, length {length_m} m, {rings} rings, {layers} layers")
    height = layers or max(1, round(length_m / (radius_m / rings)))
    disc, triangles = _mesh_disc(rings)
    levels = np.linspace(0.0, length_m, height + 1)
    nodes = np.concatenate([np.column_stack([radius_m * disc[:, 0], np.full(len(disc), y), radius_m * disc[:, 1]])
                            for y in levels])  # fmt: skip
    cells = np.concatenate([_split_layer_prisms(triangles, k * len(disc), len(disc)) for k in range(height)])
    return TetMesh(nodes, orient_cells(nodes, cells))


def _mesh_disc(rings: int) -> tuple[FloatArray, np.ndarray]:
    """Nodes (N, 2) in the unit disc and triangles (6 rings^2, 3)."""
    points = [np.zeros((1, 2))]
    triangles: list[tuple[int, int, int]] = []
    for k in range(1, rings + 1):
        angles = 2 * np.pi * np.arange(6 * k) / (6 * k)
        points.append(k / rings * np.stack([np.cos(angles), np.sin(angles)], axis=1))
        triangles += _mesh_ring(k)
    return np.concatenate(points), np.array(triangles)


def _mesh_ring(k: int) -> list[tuple[int, int, int]]:
    """Triangles between ring k - 1 and ring k; ring k starts at node ``1 + 3 k (k - 1)``."""
    outer, inner = 1 + 3 * k * (k - 1), 1 + 3 * (k - 1) * (k - 2) if k > 1 else 0
    out: list[tuple[int, int, int]] = []
    for sector in range(6):
        for i in range(k):
            a, b = outer + sector * k + i, outer + (sector * k + i + 1) % (6 * k)
            c = inner + (sector * (k - 1) + i) % max(1, 6 * (k - 1))
            out.append((a, b, c))
            if i < k - 1:
                out.append((b, inner + (sector * (k - 1) + i + 1) % (6 * (k - 1)), c))
    return out


def _split_layer_prisms(triangles: np.ndarray, start: int, step: int) -> IndexArray:
    """Cut along diagonals that leave the lower number below: neighbours choose the same."""
    low = np.sort(triangles, axis=1) + start
    a, b, c = low.T
    cells = np.concatenate([
        np.column_stack([a, b, c, c + step]),
        np.column_stack([a, b, b + step, c + step]),
        np.column_stack([a, a + step, b + step, c + step]),
    ])  # fmt: skip
    return cells.astype(np.int32)


def orient_cells(nodes: FloatArray, cells: IndexArray) -> IndexArray:
    """Cells with two corners swapped where the volume was negative."""
    out = cells.copy()
    flipped = compute_cell_volumes(nodes, cells) < 0
    out[flipped] = out[flipped][:, [0, 2, 1, 3]]
    return out
