"""Graphs of nodes: connected parts, shortest paths, close pairs, sums by index.

The untyped parts of scipy are behind typed names and load at the first call.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, IntArray


def load_sparse() -> Any:
    """``scipy.sparse``, without types."""
    import scipy.sparse as module

    return cast(Any, module)


def load_linear_solvers() -> Any:
    """``scipy.sparse.linalg``, without types."""
    import scipy.sparse.linalg as module

    return cast(Any, module)


def find_connected_parts(count: int, rows: NDArray[Any], columns: NDArray[Any]) -> tuple[int, IntArray]:
    """Connected parts of a graph of ``count`` nodes with the given edges: how many, and the part of each node."""
    import scipy.sparse.csgraph as module

    graph = load_sparse().coo_array((np.ones(len(rows)), (rows, columns)), shape=(count, count)).tocsr()
    found, labels = cast(Any, module).connected_components(graph, directed=False)
    return int(found), np.asarray(labels, dtype=np.int64)


def compute_graph_distances(graph: Any, seed: int) -> FloatArray:
    """Shortest ways from a node over the edges of a sparse matrix."""
    import scipy.sparse.csgraph as module

    return np.asarray(cast(Any, module).dijkstra(graph, indices=seed), dtype=np.float64)


def find_close_pairs(points: FloatArray, distance: float) -> IntArray:
    """Pairs (P, 2) of points no farther apart than ``distance``."""
    from scipy.spatial import KDTree

    if not len(points):
        return np.zeros((0, 2), dtype=np.int64)
    return np.asarray(cast(Any, KDTree(points)).query_pairs(distance, output_type="ndarray"), dtype=np.int64)


def sum_by_index(numbers: NDArray[Any], values: NDArray[Any], count: int) -> FloatArray:
    """Sum of the values of each number (count,)."""
    return cast(FloatArray, np.bincount(numbers.ravel(), weights=values, minlength=count))
