"""A graph made ready for the search, once; and memory that searches share."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.graph._ara import (
    EMPTY,
    GraphArrays,
    SearchGraph,
    SearchMemory,
    allocate_memory,
    clear_memory,
    compose_planar,
)
from marey.graph._heuristics import PICKS, CostRates, measure_rates, measure_rates_without, order_diverse_edges
from marey.graph._search_pairs import EdgeBlends, lay_out_pairs

if TYPE_CHECKING:
    from marey.graph._graph import MotionGraph

DEFAULT_MAX_STATES: Final = 5_000_000  # search states; about 0.8 GB if all are used
STAND_MPS: Final = 0.35  # [m/s] where the clips have no such state, double support at most so fast will do
MIN_STANDS: Final = 40  # and at least so many of the slowest
NUM_CHEAP_EDGES: Final = 5  # edges of a state that are kept besides those that differ
LONGEST_LEAD: Final = 20  # edges before a pick
NUM_KEPT_GRAPHS: Final = 8  # graphs that are kept ready


@dataclass(frozen=True, slots=True, eq=False)
class PreparedGraph:
    """A graph as the search walks it."""

    source: object  # what it was made of
    roads: SearchGraph
    rates: CostRates
    blends: EdgeBlends | None = None  # what its edges are blends of; None: edges of the graph
    is_calm: bool = False  # whether flights and picks are only where a constraint asks for them


_prepared_graphs: list[PreparedGraph] = []
_spare_memories: list[SearchMemory] = []
_lock = threading.Lock()


def prepare_graph(graph: MotionGraph, k: int = 1, *, calm: bool = False) -> PreparedGraph:
    """A graph, with blends of two near its picks if ``k`` is 2; made ready when it is first asked for.

    A calm one has flights and picks only where a constraint asks for them.
    """
    with _lock:
        for known in _prepared_graphs:
            if known.source is graph.arrays and (known.blends is not None) == (k == 2) and known.is_calm == calm:
                return known
    made = _forbid_extra_events(prepare_graph(graph, k)) if calm else _lay_out_graph(graph, k)
    with _lock:
        _prepared_graphs.append(made)
        del _prepared_graphs[:-NUM_KEPT_GRAPHS]
    return made


def _lay_out_graph(graph: MotionGraph, k: int) -> PreparedGraph:
    arrays = graph.arrays
    if k == 1:
        roads = make_search_graph(arrays, find_standing_states(arrays))
        return PreparedGraph(arrays, roads, measure_rates(roads, arrays.arc, _no_edges(roads)))
    roads, arc, blends = lay_out_pairs(graph, prepare_graph(graph).roads)
    return PreparedGraph(arrays, roads, measure_rates(roads, arc, _no_edges(roads)), blends)


def _no_edges(roads: SearchGraph) -> BoolArray:
    return np.zeros(len(roads.target), dtype=bool)


def _forbid_extra_events(made: PreparedGraph) -> PreparedGraph:
    """The same graph with all flights and picks set apart."""
    roads = link_single_picks(made.roads)
    apart = (roads.flight[:, 0] > 0.0) | np.isin(roads.event[roads.target], PICKS)
    return replace(made, roads=roads, rates=measure_rates_without(roads, made.rates, apart), is_calm=True)


def link_single_picks(roads: SearchGraph) -> SearchGraph:
    """The same, with the picks to which states lead that have but one way to go."""
    single = np.flatnonzero(np.diff(roads.first) == 1)
    edge = roads.first[single]
    pick: IntArray = np.where(np.isin(roads.event, PICKS), np.arange(len(roads.event)), EMPTY)
    end, own = np.zeros((len(pick), 3)), pick.copy()
    for _ in range(LONGEST_LEAD):
        after = pick[roads.target[edge]]
        new = (pick[single] == EMPTY) & (after != EMPTY)
        if not new.any():
            break
        pick[single[new]] = after[new]
        end[single[new]] = compose_planar(roads.delta[edge[new]], end[roads.target[edge[new]]])
    return roads._replace(pick=np.where(own == EMPTY, pick, EMPTY), pick_end=end)


def make_search_graph(arrays: GraphArrays, stands: BoolArray) -> SearchGraph:
    """Arrays of a graph in the order in which they are searched: copies, since kernels want them not frozen."""
    order, few = order_diverse_edges(arrays.first, arrays.cost, arrays.delta, NUM_CHEAP_EDGES)
    whole = np.array
    return SearchGraph(
        whole(arrays.first), order, few, whole(arrays.target), whole(arrays.cost), whole(arrays.delta),
        whole(arrays.path), whole(arrays.flight), whole(arrays.event), whole(arrays.hand), whole(arrays.root),
        whole(arrays.feet), whole(stands),
    )  # fmt: skip


def find_standing_states(arrays: GraphArrays) -> BoolArray:
    """States ``(N,)`` in which one may begin, stop and end: standing still, else both feet planted and slow."""
    if arrays.is_standing.any():
        return arrays.is_standing
    double = np.isfinite(arrays.feet[:, :, 0]).all(axis=1) & (arrays.event == 0)
    speed = np.where(double, slowest_edge_speeds(arrays), np.inf)
    kth = np.sort(speed)[min(MIN_STANDS, len(speed)) - 1]
    return double & (speed <= max(STAND_MPS, kth))


def slowest_edge_speeds(arrays: GraphArrays) -> FloatArray:
    """Speed [m/s] of the slowest edge that leaves each state ``(N,)``."""
    speed = arrays.arc / np.maximum(arrays.seconds, 1e-9)
    least = np.full(len(arrays.first) - 1, np.inf)
    np.minimum.at(least, np.repeat(np.arange(len(least)), np.diff(arrays.first)), speed)
    return least


@contextmanager
def borrow_memory(capacity: int) -> Generator[SearchMemory]:
    """Memory for one search; that of an earlier one, if it is large enough."""
    with _lock:
        at = next((n for n, memory in enumerate(_spare_memories) if len(memory.whole) == capacity), None)
        memory = _spare_memories.pop(at) if at is not None else None
    memory = allocate_memory(capacity) if memory is None else memory
    try:
        yield memory
    finally:
        clear_memory(memory)
        with _lock:
            _spare_memories.append(memory)
            del _spare_memories[:-2]
