"""What scipy knows about graphs, typed."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from marey.base import FloatArray, IntArray


def largest_component(source: IntArray, target: IntArray, count: int) -> IntArray:
    """Nodes of the largest part in which everything can be reached from everything."""
    import scipy.sparse.csgraph as csgraph
    from scipy.sparse import csr_array

    links = csr_array((np.ones(len(source)), (source, target)), shape=(count, count))
    labels: IntArray = cast(Any, csgraph).connected_components(links, directed=True, connection="strong")[1]
    return np.flatnonzero(labels == np.argmax(np.bincount(labels)))


def shortest_costs_to(wanted: IntArray, source: IntArray, target: IntArray, cost: FloatArray, count: int) -> FloatArray:
    """Least cost ``(N,)`` from every node to the nearest wanted one; inf where there is no way."""
    import scipy.sparse.csgraph as csgraph
    from scipy.sparse import csr_array

    order = np.lexsort((cost, source, target))  # of parallel edges scipy would add the costs
    key = np.stack([target[order], source[order]])
    fresh = np.concatenate([[True], (key[:, 1:] != key[:, :-1]).any(axis=0)]) if len(order) else np.zeros(0, dtype=bool)
    kept = order[fresh]
    back = csr_array((cost[kept], (target[kept], source[kept])), shape=(count, count))
    return np.asarray(cast(Any, csgraph).dijkstra(back, indices=wanted, min_only=True), dtype=np.float64)


def cluster_complete_linkage(distances: FloatArray, limit: float) -> IntArray:
    """Groups ``(n,)`` in which all pairs are nearer than ``limit``, the nearest joined first."""
    import scipy.cluster.hierarchy as hierarchy
    from scipy.spatial.distance import squareform

    joined = cast(Any, hierarchy).linkage(squareform(distances, checks=False), "complete")
    labels: IntArray = cast(Any, hierarchy).fcluster(joined, limit, "distance")
    return np.asarray(labels, dtype=np.int64) - 1
