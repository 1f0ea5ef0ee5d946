"""The graph of blends near events: states (A, C, w), edges that are pairs of edges, beside all that is not blended.

A way leaves a state along two of its edges at once, keeps its weight while it is blended, and comes back to one state
([Safonova2006]_ F21). Both ends of a blend are one pose, so no planted foot moves when the weight changes there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.graph._ara import Roads
from marey.graph._graph import MotionGraph
from marey.graph._heuristics import diverse_first
from marey.graph._pairs import Partners, blended_costs, blended_deltas, blended_hands, blended_paths, find_partners

NUM_WEIGHTS: Final = 10  # from 0 to 1 ([Safonova2006]_ §4.3.1); those between are blends
FORKS: Final = (24, 10, 6)  # pairs of edges from or to one state, kept for each pair, by how far from the event
LINKS: Final = (12, 4, 0)  # and of pairs of edges between pairs
MAX_RATIO: Final = 1.6  # of the durations of two blended edges
EVENTS: Final = (1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class Blends:
    """Edges of a graph of blends: edge e is ``a[e]`` with ``weight[e]`` and ``c[e]`` with the rest."""

    a: IntArray  # (E,)
    c: IntArray  # (E,)
    weight: FloatArray  # (E,)


@dataclass(frozen=True, slots=True, eq=False)
class _Links:
    """Pairs of edges (a, c) from one pair of states to another; states alone are pairs of equals."""

    a: IntArray
    c: IntArray


def lay_out_pairs(graph: MotionGraph, roads: Roads) -> tuple[Roads, FloatArray, Blends]:
    """All edges of a graph, and blends of two within some edges of a pick.

    Returns:
        Roads, their arc lengths ``(E,)`` [m], and what is blended.
    """
    partners = find_partners(graph)
    links = _gather(graph, roads, partners)
    return _unroll(graph, roads, links)


def _gather(graph: MotionGraph, roads: Roads, partners: Partners) -> _Links:
    """Pairs of edges up to some edges before and after pairs of events."""
    count = graph.num_states
    source = np.repeat(np.arange(count), np.diff(roads.first))
    into = np.argsort(roads.target, kind="stable")
    in_first = np.searchsorted(roads.target[into], np.arange(count + 1))
    events = _event_pairs(graph, partners)
    allowed = _allowed(partners)
    found: list[IntArray] = []
    for order, first, end in ((into, in_first, source), (np.arange(len(source)), roads.first, roads.target)):
        frontier, known = events, _as_set(events)
        for forks, links in zip(FORKS, LINKS, strict=True):
            kept = [_around(graph, pair, order, first, end, allowed, forks, links) for pair in frontier]
            if not kept:
                break
            edges = np.concatenate(kept)
            found.append(edges)
            ends = np.sort(end[edges], axis=1)
            ends = np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0)
            fresh = sorted(_as_set(ends) - known)
            frontier = np.array(fresh, dtype=np.int64).reshape(-1, 2)
            known.update(fresh)
    edges = np.concatenate(found) if found else np.zeros((0, 2), dtype=np.int64)
    edges = np.unique(np.where((_swapped(edges, source, roads.target))[:, None], edges[:, ::-1], edges), axis=0)
    return _Links(edges[:, 0], edges[:, 1])


def _as_set(pairs: IntArray) -> set[tuple[int, int]]:
    return {(int(p), int(q)) for p, q in pairs}


def _allowed(partners: Partners) -> BoolArray:
    """Whether two states may be blended ``(N, N)``."""
    count = len(partners.first) - 1
    found = np.zeros((count, count), dtype=bool)
    found[np.repeat(np.arange(count), np.diff(partners.first)), partners.partner] = True
    return found


def _swapped(edges: IntArray, source: IntArray, target: IntArray) -> BoolArray:
    """Pairs whose states are not in rising order, at their source, else at their target."""
    s, t = source[edges], target[edges]
    return np.where(s[:, 0] != s[:, 1], s[:, 0] > s[:, 1], t[:, 0] > t[:, 1])


def _event_pairs(graph: MotionGraph, partners: Partners) -> IntArray:
    """Pairs of picks of one class ``(n, 2)``."""
    events = np.flatnonzero(np.isin(graph.arrays.event, EVENTS))
    pairs = [(int(s), int(p)) for s in events for p in partners.of(int(s)) if s < p]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _around(
    graph: MotionGraph,
    pair: IntArray,
    order: IntArray,
    first: IntArray,
    end: IntArray,
    allowed: BoolArray,
    forks: int,
    links: int,
) -> IntArray:
    """The cheapest pairs of edges ``(n, 2)`` that reach (or leave) a pair of states from one state, and from two."""
    own = [order[first[s] : first[s + 1]] for s in pair]
    a, c = (grid.ravel() for grid in np.meshgrid(*own, indexing="ij"))
    arrays = graph.arrays
    T = arrays.seconds
    good = (arrays.kind[end[a]] == arrays.kind[end[c]]) & (np.abs(np.log(T[a] / T[c])) <= np.log(MAX_RATIO))
    a, c = a[good], c[good]
    cost = arrays.cost[a] + arrays.cost[c]
    same = end[a] == end[c]
    apart = ~same & allowed[end[a], end[c]] if links else np.zeros(len(a), dtype=bool)
    kept = [np.flatnonzero(which)[np.argsort(cost[which], kind="stable")][:limit]
            for which, limit in ((same, forks), (apart, links))]  # fmt: skip
    chosen = np.concatenate(kept)
    return np.stack([a[chosen], c[chosen]], axis=1)


def _unroll(graph: MotionGraph, roads: Roads, links: _Links) -> tuple[Roads, FloatArray, Blends]:
    """Number the states (A, C, w) and write their edges after those of the graph."""
    count, edges = graph.num_states, len(roads.target)
    source = np.repeat(np.arange(count), np.diff(roads.first))
    weights: FloatArray = np.linspace(0.0, 1.0, NUM_WEIGHTS)[1:-1]
    W = len(weights)
    ends = np.stack([source[links.a], source[links.c], roads.target[links.a], roads.target[links.c]], axis=1)
    pairs = np.unique(np.sort(np.concatenate([ends[:, :2], ends[:, 2:]]), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    number = {(int(p), int(q)): n for n, (p, q) in enumerate(pairs)}
    rising = np.arange(W)

    def numbers(columns: IntArray) -> IntArray:
        rows = np.empty((len(columns), W), dtype=np.int64)
        for k, (p, q) in enumerate(columns.tolist()):
            rows[k] = p if p == q else count + W * number[min(p, q), max(p, q)] + (rising if p < q else rising[::-1])
        return rows

    begins, finishes = numbers(ends[:, :2]), numbers(ends[:, 2:])
    a, c = links.a, links.c
    blends = Blends(
        np.concatenate([np.arange(edges), np.repeat(a, W)]),
        np.concatenate([np.arange(edges), np.repeat(c, W)]),
        np.concatenate([np.ones(edges), np.tile(weights, len(a))]),
    )
    return _with_states(graph, roads, pairs, weights, blends, begins.ravel(), finishes.ravel(), source)


def _with_states(
    graph: MotionGraph,
    roads: Roads,
    pairs: IntArray,
    weights: FloatArray,
    blends: Blends,
    begins: IntArray,
    finishes: IntArray,
    source: IntArray,
) -> tuple[Roads, FloatArray, Blends]:
    arrays, edges, W = graph.arrays, len(roads.target), len(weights)
    a, c = blends.a[edges::W], blends.c[edges::W]
    w = weights[None, :, None]

    def mixed(values: FloatArray) -> FloatArray:
        """Values of states, and of pairs of states at all weights."""
        flat = values.reshape(len(values), -1)
        blend = w * flat[pairs[:, 0]][:, None] + (1.0 - w) * flat[pairs[:, 1]][:, None]
        return np.concatenate([values, blend.reshape(-1, *values.shape[1:])])

    hand, event = mixed(roads.hand), np.concatenate([roads.event, np.zeros(W * len(pairs), dtype=np.int64)])
    picks = np.flatnonzero(np.isin(roads.event[pairs[:, 0]], EVENTS))
    if len(picks):
        at = (len(roads.event) + W * picks[:, None] + np.arange(W)).ravel()
        hand[at] = blended_hands(graph, pairs[picks, 0], pairs[picks, 1], weights).reshape(-1, 3)
        event[at] = np.repeat(roads.event[pairs[picks, 0]], W)
    start, target = np.concatenate([source, begins]), np.concatenate([roads.target, finishes])
    cost = np.concatenate([roads.cost, blended_costs(graph, a, c, weights).ravel()])
    delta = np.concatenate([roads.delta, blended_deltas(graph, a, c, weights).reshape(-1, 3)])
    path = np.concatenate([roads.path, blended_paths(graph, a, c, weights).reshape(-1, *roads.path.shape[1:])])
    flight = np.concatenate([roads.flight, np.zeros((len(begins), 2))])
    arcs = weights * arrays.arc[a][:, None] + (1.0 - weights) * arrays.arc[c][:, None]
    arc = np.concatenate([arrays.arc, arcs.ravel()])
    by = np.argsort(start, kind="stable")
    first = np.searchsorted(start[by], np.arange(len(event) + 1))
    order, few = diverse_first(first, cost[by], delta[by], 5)
    stands = np.concatenate([roads.stands, np.zeros(W * len(pairs), dtype=bool)])
    laid = Roads(
        first, order, few, target[by], cost[by], delta[by], path[by], flight[by], event, hand, mixed(roads.root),
        mixed(roads.feet), stands,
    )  # fmt: skip
    return laid, arc[by], Blends(blends.a[by], blends.c[by], blends.weight[by])
