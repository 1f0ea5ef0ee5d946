"""Compiled shortest ways through the poses of one contact class."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.graph._heap_kernels import pop_heap, push_heap


@kernel
def find_cheapest_paths(
    starts: IntArray,
    stops: IntArray,
    after: IntArray,
    phase: IntArray,
    cost: FloatArray,
    first: IntArray,
    target: IntArray,
    extra: FloatArray,
    edges: IntArray,
    edge_costs: FloatArray,
    parents: IntArray,
) -> tuple[int, int]:
    """Cheapest way from the first pose of each phase to the end of every phase of its class that it can reach.

    Args:
        starts: first pose of each phase ``(S,)``.
        stops: pose after its last ``(S,)``.
        after: next phase ``(S,)``, negative if there is none.
        phase: of each pose ``(P,)``.
        cost: of showing a pose ``(P,)``.
        first: transitions of pose p are ``first[p]`` to ``first[p + 1]``, ``(P + 1,)``.
        target: where they lead ``(E,)``: a pose of the same class.
        extra: what they cost ``(E,)``.
        edges: out: phase left, phase whose end was reached, offset of the way in ``parents`` ``(M, 3)``.
        edge_costs: out ``(M,)``.
        parents: out: the ways, each a list of transitions, ended by -1.

    Returns:
        Number of edges, and of entries in ``parents``; the first is -1 if the arrays are too small.
    """
    count, poses = len(starts), len(cost)
    best = np.full(poses, np.inf)
    came = np.full(poses, -1, dtype=np.int64)  # transition by which the pose was entered, -1 from its predecessor
    heap = np.empty(len(target) + poses + 16, dtype=np.int64)  # every relaxation pushes once at most
    keys = np.empty(len(heap))
    touched = np.empty(poses, dtype=np.int64)
    source = np.empty(len(target), dtype=np.int64)
    for p in range(poses):
        source[first[p] : first[p + 1]] = p
    used, written = 0, 0
    for s in range(count):
        size = push_heap(heap, keys, 0, starts[s], 0.0)
        best[starts[s]], came[starts[s]] = 0.0, -2
        touched[0] = starts[s]
        num_touched = 1
        while size > 0:
            p, key = heap[0], keys[0]
            size = pop_heap(heap, keys, size)
            if key > best[p]:
                continue
            here = float(best[p] + cost[p])
            own = phase[p]
            if p + 1 == stops[own]:
                if after[own] >= 0:
                    if used >= len(edges) or written + 64 >= len(parents):
                        return -1, written
                    edges[used, 0], edges[used, 1], edges[used, 2] = s, own, written
                    edge_costs[used] = here
                    used += 1
                    q = p
                    while came[q] != -2:
                        if came[q] >= 0:
                            parents[written] = came[q]
                            written += 1
                            q = source[came[q]]
                        else:
                            q -= 1
                    parents[written] = -1
                    written += 1
            elif here < best[p + 1]:
                if best[p + 1] == np.inf:
                    touched[num_touched] = p + 1
                    num_touched += 1
                best[p + 1], came[p + 1] = here, -1
                size = push_heap(heap, keys, size, p + 1, here)
            for e in range(first[p], first[p + 1]):
                q = target[e]
                there = here + extra[e]
                if there < best[q]:
                    if best[q] == np.inf:
                        touched[num_touched] = q
                        num_touched += 1
                    best[q], came[q] = there, e
                    size = push_heap(heap, keys, size, q, there)
        for i in range(num_touched):
            best[touched[i]] = np.inf
    return used, written
