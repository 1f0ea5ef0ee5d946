"""General algorithms on graphs: a compiled heap of four children, and what scipy offers, typed."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from marey.base import FloatArray, IntArray, kernel


@kernel
def push_heap(heap: IntArray, keys: FloatArray, size: int, node: int, key: float) -> int:
    """Put a number into a heap of four children; returns its new size."""
    at = size
    while at > 0:
        parent = (at - 1) >> 2
        if keys[parent] <= key:
            break
        heap[at], keys[at] = heap[parent], keys[parent]
        at = parent
    heap[at], keys[at] = node, key
    return size + 1


@kernel
def pop_heap(heap: IntArray, keys: FloatArray, size: int) -> int:
    """Take the first away (read it before); returns the new size."""
    size -= 1
    # The last takes the place of the first and sinks below its least child, four children each
    node, key = heap[size], keys[size]
    at = 0
    while True:
        child = 4 * at + 1
        if child >= size:
            break
        least = child
        for other in range(child + 1, min(child + 4, size)):
            if keys[other] < keys[least]:
                least = other
        if keys[least] >= key:
            break
        heap[at], keys[at] = heap[least], keys[least]
        at = least
    heap[at], keys[at] = node, key
    return size


def select_cheapest(columns: list[IntArray], cost: FloatArray) -> IntArray:
    """Numbers of the cheapest row of each group of equal ``columns``."""
    order = np.lexsort((cost, *columns[::-1]))
    key = np.stack(columns)[:, order]
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = (key[:, 1:] != key[:, :-1]).any(axis=0)
    return order[fresh]


def largest_component(source: IntArray, target: IntArray, count: int) -> IntArray:
    """Nodes of the largest part in which everything can be reached from everything."""
    import scipy.sparse.csgraph as csgraph
    from scipy.sparse import csr_array

    links = csr_array((np.ones(len(source)), (source, target)), shape=(count, count))
    labels: IntArray = cast(Any, csgraph).connected_components(links, directed=True, connection="strong")[1]
    return np.flatnonzero(labels == np.argmax(np.bincount(labels)))


def shortest_costs_to(wanted: IntArray, source: IntArray, target: IntArray, cost: FloatArray, count: int) -> FloatArray:
    """Least cost ``(N,)`` from every node to the nearest target; inf where it is unreachable."""
    import scipy.sparse.csgraph as csgraph
    from scipy.sparse import csr_array

    # Of parallel edges scipy would add the costs
    kept = select_cheapest([target, source], cost)
    back = csr_array((cost[kept], (target[kept], source[kept])), shape=(count, count))
    return np.asarray(cast(Any, csgraph).dijkstra(back, indices=wanted, min_only=True), dtype=np.float64)


def cluster_complete_linkage(distances: FloatArray, limit: float) -> IntArray:
    """Groups ``(n,)`` in which all pairs are nearer than ``limit``, the nearest joined first."""
    import scipy.cluster.hierarchy as hierarchy
    from scipy.spatial.distance import squareform

    joined = cast(Any, hierarchy).linkage(squareform(distances, checks=False), "complete")
    labels: IntArray = cast(Any, hierarchy).fcluster(joined, limit, "distance")
    return np.asarray(labels, dtype=np.int64) - 1
