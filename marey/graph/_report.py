"""What a graph can do: how small it is, which events can be reached from where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.graph._ara import GraphArrays
from marey.graph._links import shortest_costs_to
from marey.graph._pairs import BlendPartners, find_partners
from marey.graph._tables import EVENT_KINDS, EventTable

if TYPE_CHECKING:
    from marey.graph._graph import MotionGraph

LOW_REACH_FRACTION = 0.10  # [-] of pairs of states that reach an event: fewer and blends will hardly be found


@dataclass(frozen=True, slots=True)
class CellReach:
    """One cell of a table of events."""

    low: tuple[float, float]  # [m] its corner
    events: int
    share_to: float  # of the states from which an event of the cell can be reached
    share_from: float  # of the states that can be reached from one
    median_cost: float  # of getting there


@dataclass(frozen=True, slots=True)
class EventReach:
    """All events of one kind."""

    kind: str
    axes: tuple[str, str]
    events: int
    share_to: float
    share_from: float
    share_of_pairs: float  # of the pairs of states that may be blended, those that reach a pair of events together
    cells: tuple[CellReach, ...]


@dataclass(frozen=True, slots=True)
class GraphReport:
    """Sizes and reach of a graph; ``to_dict`` for files."""

    poses: int
    states: int
    edges: int
    state_factor: float  # poses per state
    edge_factor: float  # transitions of the full graph per edge
    seconds: float  # of all clips
    events: tuple[EventReach, ...]
    warnings: tuple[str, ...]

    def lines(self) -> list[str]:
        """The report in words."""
        said = [
            f"{self.poses} poses, {self.states} states ({self.state_factor:.1f}x), "
            f"{self.edges} edges ({self.edge_factor:.1f}x)"
        ]
        for event in self.events:
            said.append(
                f"{event.kind}: {event.events} events, reached from {100 * event.share_to:.0f} % of the states, "
                f"from {100 * event.share_of_pairs:.0f} % of the pairs"
            )
            said += [
                f"  {event.axes[0]} {c.low[0]:.1f} m, {event.axes[1]} {c.low[1]:.1f} m: {c.events} events, "
                f"median cost {c.median_cost:.1f}"
                for c in event.cells
            ]
        return [*said, *self.warnings]


def graph_report(graph: MotionGraph, *, pairs: bool = True) -> GraphReport:
    """Sizes, and for each kind of event and cell who reaches it ([Safonova2006]_ F28).

    Args:
        graph: the graph.
        pairs: also count the pairs of states that may be blended; takes a second for a thousand states.
    """
    arrays, size = graph.arrays, graph.size
    partners = find_partners(graph) if pairs else None
    events = tuple(
        measure_event_reach(table, arrays, partners) for table in graph.tables.values() if table.kind in EVENT_KINDS
    )
    few = [e for e in events if pairs and e.events and e.share_of_pairs < LOW_REACH_FRACTION]
    warnings = tuple(
        f"only {100 * e.share_of_pairs:.0f} % of the pairs of states reach a {e.kind}: blends will be few" for e in few
    )
    return GraphReport(
        poses=size.poses,
        states=graph.num_states,
        edges=graph.num_edges,
        state_factor=size.poses / max(graph.num_states, 1),
        edge_factor=size.transitions / max(graph.num_edges, 1),
        seconds=size.poses / graph.settings.rate_hz,
        events=events,
        warnings=warnings,
    )


def measure_event_reach(table: EventTable, arrays: GraphArrays, partners: BlendPartners | None = None) -> EventReach:
    """Who reaches the events of a table, and whom they reach."""
    count = len(arrays.event)
    source = np.repeat(np.arange(count), np.diff(arrays.first))
    onward = _costs_from(np.unique(table.states), source, arrays, count)
    to = table.costs.min(axis=1, initial=np.inf)
    cells = tuple(_measure_cell(table, b, source, arrays) for b in range(len(table.cells)))
    share = 0.0 if partners is None else _fraction_of_pairs(table, arrays, partners)
    return EventReach(table.kind, table.axes, len(table.states), _fraction(to), _fraction(onward), share, cells)


def _measure_cell(table: EventTable, number: int, source: IntArray, arrays: GraphArrays) -> CellReach:
    cell = table.cells[number]
    own = (np.floor(table.numbers / table.cell_m).astype(np.int64) == cell).all(axis=1)
    onward = _costs_from(np.unique(table.states[own]), source, arrays, len(arrays.event))
    costs = table.costs[:, number]
    known = costs[np.isfinite(costs)]
    corner = (float(cell[0]) * table.cell_m, float(cell[1]) * table.cell_m)
    median = float(np.median(known)) if len(known) else float("inf")
    return CellReach(corner, int(own.sum()), _fraction(costs), _fraction(onward), median)


def _costs_from(states: IntArray, source: IntArray, arrays: GraphArrays, count: int) -> FloatArray:
    """Least cost ``(N,)`` from the nearest of some states to each."""
    if not len(states):
        return np.full(count, np.inf)
    return shortest_costs_to(states, arrays.target, source, arrays.cost, count)


def _fraction(costs: FloatArray) -> float:
    return float(np.isfinite(costs).mean()) if len(costs) else 0.0


def _fraction_of_pairs(table: EventTable, arrays: GraphArrays, partners: BlendPartners) -> float:
    """Share of the pairs that may be blended from which both go, step by step, to a pair of events."""
    allowed = _adjacency(partners)
    is_event = np.zeros(len(arrays.event), dtype=bool)
    is_event[table.states] = True
    reached = find_reaching_pairs(arrays, allowed, allowed & is_event[:, None] & is_event[None])
    return float(reached.sum() / max(allowed.sum(), 1))


def _adjacency(partners: BlendPartners) -> BoolArray:
    count = len(partners.first) - 1
    allowed = np.zeros((count, count), dtype=bool)
    allowed[np.repeat(np.arange(count), np.diff(partners.first)), partners.partner] = True
    return allowed


def find_reaching_pairs(arrays: GraphArrays, allowed: BoolArray, goal: BoolArray) -> BoolArray:
    """Pairs ``(N, N)`` from which a goal pair can be reached, both going along one edge at a time, always allowed."""
    count = len(arrays.event)
    step = np.zeros((count, count), dtype=np.float32)
    step[np.repeat(np.arange(count), np.diff(arrays.first)), arrays.target] = 1.0
    reached = goal & allowed
    while True:
        more = reached | (allowed & (step @ reached.astype(np.float32) @ step.T > 0.5))
        if (more == reached).all():
            return reached
        reached = more


def transitions_per_s(graph: MotionGraph, edges: Sequence[int] | IntArray) -> float:
    """How often a way goes over from one clip to another, inside its edges and where they meet [1/s]."""
    seconds = float(graph.arrays.seconds[np.asarray(edges, dtype=np.int64)].sum())
    jumps, end = 0, -1
    for edge in edges:
        stretches = graph.stretches(int(edge))
        jumps += len(stretches) - 1 + int(end >= 0 and stretches[0][0] != end)
        end = stretches[-1][1]
    return jumps / seconds if seconds > 0.0 else 0.0


def to_dict(report: GraphReport) -> Mapping[str, object]:
    """The report as plain values."""
    from dataclasses import asdict

    return asdict(report)
