"""A compiled heap of four children."""

from __future__ import annotations

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
