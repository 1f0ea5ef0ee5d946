"""A graph made ready for the search, once; and memory that searches share."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.graph._ara import EMPTY, Memory, Roads, clear, new_memory
from marey.graph._graph import GraphArrays, MotionGraph, composed
from marey.graph._heuristics import PICKS, Rates, diverse_first, measure_rates, rates_without
from marey.graph._search_pairs import Blends, lay_out_pairs

CAPACITY: Final = 5_000_000  # search states; about 0.8 GB if all are used
STAND_MPS: Final = 0.35  # [m/s] where the clips have no such state, double support at most so fast will do
MIN_STANDS: Final = 40  # and at least so many of the slowest
CHEAP: Final = 5  # edges of a state that are kept besides those that differ
LONGEST_LEAD: Final = 20  # edges before a pick
KEPT: Final = 8  # graphs that are kept ready


@dataclass(frozen=True, slots=True, eq=False)
class Ready:
    """A graph as the search walks it."""

    source: object  # what it was made of
    roads: Roads
    rates: Rates
    blends: Blends | None = None  # what its edges are blends of; None: edges of the graph
    is_calm: bool = False  # whether flights and picks are only where a constraint asks for them


_ready: list[Ready] = []
_spare: list[Memory] = []
_lock = threading.Lock()


def ready(graph: MotionGraph, k: int = 1, *, calm: bool = False) -> Ready:
    """A graph, with blends of two near its picks if ``k`` is 2; made ready when it is first asked for.

    A calm one has flights and picks only where a constraint asks for them.
    """
    with _lock:
        for known in _ready:
            if known.source is graph.arrays and (known.blends is not None) == (k == 2) and known.is_calm == calm:
                return known
    made = _calm(ready(graph, k)) if calm else _made(graph, k)
    with _lock:
        _ready.append(made)
        del _ready[:-KEPT]
    return made


def _made(graph: MotionGraph, k: int) -> Ready:
    arrays = graph.arrays
    if k == 1:
        roads = roads_of(arrays, standing(arrays))
        return Ready(arrays, roads, measure_rates(roads, arrays.arc, _nothing(roads)))
    roads, arc, blends = lay_out_pairs(graph, ready(graph).roads)
    return Ready(arrays, roads, measure_rates(roads, arc, _nothing(roads)), blends)


def _nothing(roads: Roads) -> BoolArray:
    return np.zeros(len(roads.target), dtype=bool)


def _calm(made: Ready) -> Ready:
    """The same graph with all flights and picks set apart."""
    roads = with_picks(made.roads)
    apart = (roads.flight[:, 0] > 0.0) | np.isin(roads.event[roads.target], PICKS)
    return replace(made, roads=roads, rates=rates_without(roads, made.rates, apart), is_calm=True)


def with_picks(roads: Roads) -> Roads:
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
        end[single[new]] = composed(roads.delta[edge[new]], end[roads.target[edge[new]]])
    return roads._replace(pick=np.where(own == EMPTY, pick, EMPTY), pick_end=end)


def roads_of(arrays: GraphArrays, stands: BoolArray) -> Roads:
    """Arrays of a graph in the order in which they are searched: copies, since kernels want them not frozen."""
    order, few = diverse_first(arrays.first, arrays.cost, arrays.delta, CHEAP)
    whole = np.array
    return Roads(
        whole(arrays.first), order, few, whole(arrays.target), whole(arrays.cost), whole(arrays.delta),
        whole(arrays.path), whole(arrays.flight), whole(arrays.event), whole(arrays.hand), whole(arrays.root),
        whole(arrays.feet), whole(stands),
    )  # fmt: skip


def standing(arrays: GraphArrays) -> BoolArray:
    """States ``(N,)`` in which one may begin, stop and end: standing still, else both feet planted and slow."""
    if arrays.is_standing.any():
        return arrays.is_standing
    double = np.isfinite(arrays.feet[:, :, 0]).all(axis=1) & (arrays.event == 0)
    speed = np.where(double, slowest(arrays), np.inf)
    kth = np.sort(speed)[min(MIN_STANDS, len(speed)) - 1]
    return double & (speed <= max(STAND_MPS, kth))


def slowest(arrays: GraphArrays) -> FloatArray:
    """Speed [m/s] of the slowest edge that leaves each state ``(N,)``."""
    speed = arrays.arc / np.maximum(arrays.seconds, 1e-9)
    least = np.full(len(arrays.first) - 1, np.inf)
    np.minimum.at(least, np.repeat(np.arange(len(least)), np.diff(arrays.first)), speed)
    return least


@contextmanager
def borrowed_memory(capacity: int) -> Generator[Memory]:
    """Memory for one search; that of an earlier one, if it is large enough."""
    with _lock:
        at = next((n for n, memory in enumerate(_spare) if len(memory.whole) == capacity), None)
        memory = _spare.pop(at) if at is not None else None
    memory = new_memory(capacity) if memory is None else memory
    try:
        yield memory
    finally:
        clear(memory)
        with _lock:
            _spare.append(memory)
            del _spare[:-2]
