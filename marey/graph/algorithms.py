"""General algorithms on graphs: a compiled heap of four children, products of rows, and what scipy offers, typed.

Products and principal directions have kernels of their own. Those of BLAS and LAPACK depend on the number of threads in
their last bits, and the bytes of a graph must not.
"""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np

from marey.base import FloatArray, IntArray, kernel

BLOCK_COLUMNS: Final = 256  # columns of a product of rows that are worked on at once
MAX_SWEEPS: Final = 30  # of Jacobi's method; about 8 suffice
OFF_DIAGONAL: Final = 1e-12  # [-] norm beside the diagonal, relative to all, at which a matrix counts as diagonal


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


def multiply_rows(first: FloatArray, second: FloatArray) -> FloatArray:
    """Dot products ``(n, m)`` of rows ``(n, K)`` and ``(m, K)``, each summed from the first column to the last."""
    return _add_products(np.ascontiguousarray(first), np.ascontiguousarray(second.T))


@kernel
def _add_products(rows: FloatArray, columns: FloatArray) -> FloatArray:
    """Product of ``(n, K)`` and ``(K, m)``, by blocks of columns that stay near the processor."""
    count, length = columns.shape
    found = np.zeros((len(rows), length))
    for begin in range(0, length, BLOCK_COLUMNS):
        end = min(begin + BLOCK_COLUMNS, length)
        for i in range(len(rows)):
            # Four columns at a time, added one after another: sums are those of one at a time
            for k in range(0, count - 3, 4):
                a, b, c, d = rows[i, k], rows[i, k + 1], rows[i, k + 2], rows[i, k + 3]
                for j in range(begin, end):
                    found[i, j] = (
                        ((found[i, j] + a * columns[k, j]) + b * columns[k + 1, j]) + c * columns[k + 2, j]
                    ) + d * columns[k + 3, j]
            for k in range(count - count % 4, count):
                factor = rows[i, k]
                for j in range(begin, end):
                    found[i, j] += factor * columns[k, j]
    return found


@kernel
def multiply_row_pairs(first: FloatArray, second: FloatArray, a: IntArray, b: IntArray) -> FloatArray:
    """Dot products ``(n,)`` of rows ``first[a]`` and ``second[b]``: to the last bit those of :func:`multiply_rows`."""
    found = np.empty(len(a))
    size, whole = first.shape[1], len(a) - len(a) % 4
    for n in range(0, whole, 4):
        # Four pairs at a time, as each sum waits for itself
        one, two, three, four = 0.0, 0.0, 0.0, 0.0
        for k in range(size):
            one += first[a[n], k] * second[b[n], k]
            two += first[a[n + 1], k] * second[b[n + 1], k]
            three += first[a[n + 2], k] * second[b[n + 2], k]
            four += first[a[n + 3], k] * second[b[n + 3], k]
        found[n], found[n + 1], found[n + 2], found[n + 3] = one, two, three, four
    for n in range(whole, len(a)):
        found[n] = 0.0
        for k in range(size):
            found[n] += first[a[n], k] * second[b[n], k]
    return found


def project_principal(rows: FloatArray, count: int) -> FloatArray:
    """Rows ``(n, m)`` in the ``count`` directions that keep their dot products best, about zero ``(n, count)``."""
    matrix, directions = multiply_rows(rows.T, rows.T), np.eye(rows.shape[1])
    _rotate_to_diagonal(matrix, directions)
    kept = directions[np.argsort(-np.diagonal(matrix), kind="stable")[:count]]
    scores = multiply_rows(rows, kept)
    missing = count - scores.shape[1]
    return np.concatenate([scores, np.zeros((len(rows), missing))], axis=1) if missing > 0 else scores


@kernel
def _rotate_to_diagonal(matrix: FloatArray, directions: FloatArray) -> None:
    """Make a symmetric matrix diagonal by the cyclic method of Jacobi; the rows of ``directions`` turn along."""
    count = len(matrix)
    for _ in range(MAX_SWEEPS):
        beside, total = 0.0, 0.0
        for p in range(count):
            for q in range(count):
                total += matrix[p, q] ** 2
                beside += matrix[p, q] ** 2 if p != q else 0.0
        if beside <= OFF_DIAGONAL**2 * total:
            return
        for p in range(count - 1):
            for q in range(p + 1, count):
                if matrix[p, q] == 0.0:
                    continue
                # The smaller angle whose rotation makes the entry (p, q) vanish: t = tan, c = cos, s = sin
                tau = (matrix[q, q] - matrix[p, p]) / (2.0 * matrix[p, q])
                t = (1.0 if tau >= 0.0 else -1.0) / (abs(tau) + np.sqrt(1.0 + tau * tau))
                c = 1.0 / np.sqrt(1.0 + t * t)
                s = t * c
                for k in range(count):
                    a, b = matrix[k, p], matrix[k, q]
                    matrix[k, p], matrix[k, q] = c * a - s * b, s * a + c * b
                for k in range(count):
                    a, b = matrix[p, k], matrix[q, k]
                    matrix[p, k], matrix[q, k] = c * a - s * b, s * a + c * b
                    a, b = directions[p, k], directions[q, k]
                    directions[p, k], directions[q, k] = c * a - s * b, s * a + c * b


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
