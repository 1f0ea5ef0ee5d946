"""What a body's cells know before the first step: slopes, volumes, moduli, and where each adds into the matrix."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marey.base import FloatArray
from marey.muscle._assembly_scipy import sum_by_index
from marey.muscle._mesh import IndexArray, TetMesh


class BlockMatrix(NamedTuple):
    """A symmetric matrix of 3x3 blocks, row by row; every row holds its diagonal."""

    starts: IndexArray  # (V + 1,)
    columns: IndexArray  # (nnz,) ascending in each row
    values: FloatArray  # (nnz, 3, 3)


class CellArrays(NamedTuple):
    """Cells as kernels read them."""

    cells: IndexArray  # (T, 4) corners, lowest number first: sums then fill the upper half of the matrix
    slopes: FloatArray  # (T, 4, 3) [1/m] gradients of the four shape functions
    volumes: FloatArray  # (T,) [m^3] at rest
    mu: FloatArray  # (T,) [Pa]
    lam: FloatArray  # (T,) [Pa]
    places: IndexArray  # (T, 4, 4) where corner a, corner b adds into the values of the matrix
    node_volumes: FloatArray  # (V,) [m^3] a quarter of each cell around a node
    node_bulk: FloatArray  # (V,) [Pa] of the volume term of nodes; zero has none


def make_block_pattern(count: int, groups: IndexArray) -> tuple[IndexArray, IndexArray]:
    """Starts (V + 1,) and columns of a matrix that joins all nodes of each group (N, k), and each node to itself."""
    width = groups.shape[1]
    rows = np.repeat(groups, width, axis=1).ravel().astype(np.int64)
    columns = np.tile(groups, (1, width)).ravel().astype(np.int64)
    own = np.arange(count, dtype=np.int64)
    keys = np.unique(np.concatenate([rows * count + columns, own * count + own]))
    starts = np.searchsorted(keys, np.arange(count + 1, dtype=np.int64) * count)
    return starts.astype(np.int32), (keys % count).astype(np.int32)


def find_block_positions(starts: IndexArray, columns: IndexArray, groups: IndexArray) -> IndexArray:
    """Where each pair of a group (N, k, k) lies in the values of the matrix."""
    count = len(starts) - 1
    keys = np.repeat(np.arange(count, dtype=np.int64), np.diff(starts)) * count + columns
    wanted = groups[:, :, None].astype(np.int64) * count + groups[:, None, :]
    return np.searchsorted(keys, wanted).astype(np.int32)


def find_mirror_positions(starts: IndexArray, columns: IndexArray) -> IndexArray:
    """Places (M, 2) of each block above the diagonal and of its mirror image."""
    rows = np.repeat(np.arange(len(starts) - 1, dtype=np.int32), np.diff(starts))
    upper = np.flatnonzero(columns > rows)
    pairs = np.column_stack([rows[upper], columns[upper]])
    return np.ascontiguousarray(
        np.column_stack([upper, find_block_positions(starts, columns, pairs)[:, 1, 0]]).astype(np.int32)
    )


def find_diagonal_positions(starts: IndexArray, columns: IndexArray) -> IndexArray:
    """Where the diagonal blocks (V,) lie."""
    own = np.arange(len(starts) - 1, dtype=np.int32)[:, None]
    return np.ascontiguousarray(find_block_positions(starts, columns, own)[:, 0, 0])


def compute_shape_gradients(mesh: TetMesh) -> FloatArray:
    """Gradients (T, 4, 3) [1/m] of the shape functions at rest."""
    p = mesh.nodes[mesh.cells]
    inverse = np.linalg.inv((p[:, 1:] - p[:, :1]).transpose(0, 2, 1))  # rows are slopes of corners 1 to 3
    slopes = np.concatenate([-inverse.sum(axis=1, keepdims=True), inverse], axis=1)
    return np.ascontiguousarray(slopes, dtype=np.float64)


def compute_node_volumes(mesh: TetMesh) -> FloatArray:
    """A quarter of the volume of all cells around each node (V,) [m^3]."""
    return sum_by_index(mesh.cells, np.repeat(mesh.volumes / 4.0, 4), len(mesh.nodes))
