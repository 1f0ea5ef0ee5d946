"""What it costs to get to an event, by the numbers of the event: the table H_mg."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray, UnknownNameError
from marey.graph._ara import FLIGHT, PICK_LEFT, PICK_RIGHT, STAND, GraphArrays
from marey.graph._links import shortest_costs_to

TABLE_CELL_M: Final = 0.2  # [m] of a table ([Safonova2006]_ Fig. 4.17)

Finder = Callable[[GraphArrays], tuple[IntArray, FloatArray]]
"""States at which an event begins ``(K,)``, and its two numbers ``(K, 2)``; a state may come several times."""


@dataclass(frozen=True, slots=True)
class EventKind:
    """A kind of event: how its two numbers are called, and where it happens."""

    name: str
    axes: tuple[str, str]
    find: Finder


@dataclass(frozen=True, slots=True, eq=False)
class EventTable:
    """Least cost from every state to the events of each cell of parameters ([Safonova2006]_ §4.3.2)."""

    kind: str
    axes: tuple[str, str]
    cell_m: float
    states: IntArray  # (K,) where events begin
    numbers: FloatArray  # (K, 2) [m] what they are
    cells: IntArray  # (B, 2) cells that hold an event
    costs: FloatArray  # (N, B) least cost to an event of the cell, inf where there is no way

    def bound(self, low: tuple[float, float], high: tuple[float, float]) -> FloatArray:
        """Least cost ``(N,)`` to an event whose numbers may lie between ``low`` and ``high``.

        All cells that the range meets count, else an event near the edge of a cell would be overestimated.
        """
        first, last = (np.floor(np.asarray(end) / self.cell_m) for end in (low, high))
        near = ((self.cells >= first) & (self.cells <= last)).all(axis=1)
        return self.costs[:, near].min(axis=1, initial=np.inf)

    def nearest(self, number: float, axis: int = 0) -> float | None:
        """The event number nearest to one asked for; none if there are no events."""
        if not len(self.numbers):
            return None
        return float(self.numbers[int(np.argmin(np.abs(self.numbers[:, axis] - number))), axis])


def _find_picks(arrays: GraphArrays) -> tuple[IntArray, FloatArray]:
    """Height of the hand and its distance from the root over the ground."""
    states = np.flatnonzero((arrays.event == PICK_LEFT) | (arrays.event == PICK_RIGHT))
    hand, root = arrays.hand[states], arrays.root[states]
    return states, np.stack([hand[:, 1], np.hypot(hand[:, 0] - root[:, 0], hand[:, 2] - root[:, 1])], axis=1)


def _find_flights(arrays: GraphArrays) -> tuple[IntArray, FloatArray]:
    """Length and rise of every flight."""
    source = np.repeat(np.arange(len(arrays.event)), np.diff(arrays.first))
    edges = np.flatnonzero(arrays.event[source] == FLIGHT)
    return source[edges], arrays.flight[edges]


def _find_stands(arrays: GraphArrays) -> tuple[IntArray, FloatArray]:
    """Standing states; their numbers are the root's place before the anchor foot."""
    states = np.flatnonzero(arrays.event == STAND)
    return states, np.abs(arrays.root[states, :2])


EVENT_KINDS: Final[dict[str, EventKind]] = {
    "pick": EventKind("pick", ("height", "reach"), _find_picks),
    "jump": EventKind("jump", ("length", "height"), _find_flights),
    "stand": EventKind("stand", ("aside", "ahead"), _find_stands),
}
"""Kinds by name; :func:`register_event` adds others."""


def register_event(name: str, axes: tuple[str, str], find: Finder) -> None:
    """Make graphs built from now on have a table of another kind of event.

    A kick, say, is a state and two numbers, its height and its reach. From then on ``graph.tables["kick"].bound(low,
    high)`` is the least cost from every state to a kick between two heights and reaches, and the report counts kicks::

        def kicks(arrays):
            states = np.flatnonzero(...)  # of the arrays of the graph, (K,)
            return states, numbers        # (K, 2) [m]

        register_event("kick", ("height", "reach"), kicks)

    Args:
        name: of the kind.
        axes: what its two numbers are called.
        find: tells where in a graph the events begin, and their numbers.

    Raises:
        InputError: there is such a kind already.
    """
    if name in EVENT_KINDS:
        raise InputError(f"there are '{name}' events already", "Choose another name")
    EVENT_KINDS[name] = EventKind(name, axes, find)


def event_table(kind: str, arrays: GraphArrays, cell_m: float = TABLE_CELL_M) -> EventTable:
    """The table of one kind of event: a search backwards from the states of each cell, so exact and consistent."""
    if kind not in EVENT_KINDS:
        raise UnknownNameError("event", kind, "the graph", tuple(EVENT_KINDS))
    known = EVENT_KINDS[kind]
    states, numbers = known.find(arrays)
    count = len(arrays.event)
    source = np.repeat(np.arange(count), np.diff(arrays.first))
    if not len(states):
        none = np.zeros((0, 2))
        return EventTable(kind, known.axes, cell_m, states, none, none.astype(np.int64), np.zeros((count, 0)))
    of_event = np.floor(numbers / cell_m).astype(np.int64)
    cells = np.unique(of_event, axis=0)
    columns = [
        shortest_costs_to(np.unique(states[_has_event(of_event, cell)]), source, arrays.target, arrays.cost, count)
        for cell in cells
    ]
    return EventTable(kind, known.axes, cell_m, states, numbers, cells, np.stack(columns, axis=1))


def _has_event(cells: IntArray, cell: IntArray) -> BoolArray:
    return (cells == cell).all(axis=1)
