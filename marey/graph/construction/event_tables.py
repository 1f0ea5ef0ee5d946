"""Tables of costs to events by their parameters (H_mg), and the report of a graph.

The report lists which events are reachable from which states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray, Result, UnknownNameError
from marey.graph.algorithms import shortest_costs_to
from marey.graph.arrays import FLIGHT, PICK_LEFT, PICK_RIGHT, STAND, GraphArrays, to_frame
from marey.graph.database.compact import path_pose_ranges
from marey.graph.paths import BlendPartners, find_partners

if TYPE_CHECKING:
    from marey.graph.motion_graph import MotionGraph


TABLE_CELL_M: Final = 0.2  # [m] of a table ([Safonova2006]_ Fig. 4.17)

Finder = Callable[[GraphArrays], tuple[IntArray, FloatArray]]
"""States at which an event begins ``(K,)``, and its two numbers ``(K, 2)``; a state may come several times."""


@dataclass(frozen=True, slots=True)
class EventKind:
    """A kind of event: how its two numbers are called, and where it happens."""

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
    costs: FloatArray  # (N, B) least cost to an event of the cell, inf where it is unreachable

    def bound(self, low: tuple[float, float], high: tuple[float, float]) -> FloatArray:
        """Least cost ``(N,)`` to an event whose numbers may lie between ``low`` and ``high``.

        All cells that the range meets count, else an event near the edge of a cell would be overestimated.
        """
        first, last = (np.floor(np.asarray(end) / self.cell_m) for end in (low, high))
        near = ((self.cells >= first) & (self.cells <= last)).all(axis=1)
        return self.costs[:, near].min(axis=1, initial=np.inf)


def _find_picks(arrays: GraphArrays) -> tuple[IntArray, FloatArray]:
    """Height of the hand and its distance from the root over the ground."""
    states = np.flatnonzero((arrays.event == PICK_LEFT) | (arrays.event == PICK_RIGHT))
    hand, root = arrays.hand[states], arrays.root[states]
    return states, np.stack([hand[:, 1], np.hypot(hand[:, 0] - root[:, 0], hand[:, 2] - root[:, 1])], axis=1)


def _find_flights(arrays: GraphArrays) -> tuple[IntArray, FloatArray]:
    """Length and rise of every flight."""
    source = arrays.source
    edges = np.flatnonzero(arrays.event[source] == FLIGHT)
    return source[edges], arrays.flight[edges]


def _find_stands(arrays: GraphArrays) -> tuple[IntArray, FloatArray]:
    """Standing states; their numbers are the root's place before the anchor foot."""
    states = np.flatnonzero(arrays.event == STAND)
    return states, np.abs(arrays.root[states, :2])


EVENT_KINDS: Final[dict[str, EventKind]] = {
    "pick": EventKind(("height", "reach"), _find_picks),
    "jump": EventKind(("length", "height"), _find_flights),
    "stand": EventKind(("aside", "ahead"), _find_stands),
}
"""Kinds by name; :func:`register_event` adds others."""


def register_event(name: str, axes: tuple[str, str], find: Finder) -> None:
    """Make graphs built from now on have a table of another kind of event.

    A kick, say, is a state and two numbers, its height and its reach. From then on ``graph.tables["kick"].bound(low,
    high)`` is the least cost from every state to a kick between two heights and reaches, the report counts kicks, and a
    sketch asks for one by ``Event("custom", name="kick", at=(x, z), numbers=(height, reach))``::

        def kicks(arrays):
            states = np.flatnonzero(...)  # of the arrays of the graph, (K,)
            return states, numbers        # (K, 2) [m]

        register_event("kick", ("height", "reach"), kicks)

    Args:
        name: of the kind.
        axes: what its two numbers are called.
        find: returns the states of a graph at which events begin, and their parameters.

    Raises:
        InputError: there is such a kind already.
    """
    if name in EVENT_KINDS:
        raise InputError(f"there are '{name}' events already", "Choose another name")
    EVENT_KINDS[name] = EventKind(axes, find)


def event_table(kind: str, arrays: GraphArrays, cell_m: float = TABLE_CELL_M) -> EventTable:
    """The table of one kind of event: a search backwards from the states of each cell, so exact and consistent."""
    if kind not in EVENT_KINDS:
        raise UnknownNameError("event", kind, "the graph", tuple(EVENT_KINDS))
    known = EVENT_KINDS[kind]
    states, numbers = known.find(arrays)
    count = len(arrays.event)
    source = arrays.source
    if not len(states):
        none = np.zeros((0, 2))
        return EventTable(kind, known.axes, cell_m, states, none, none.astype(np.int64), np.zeros((count, 0)))
    of_event = np.floor(numbers / cell_m).astype(np.int64)
    cells = np.unique(of_event, axis=0)
    columns = [
        shortest_costs_to(np.unique(states[(of_event == cell).all(axis=1)]), source, arrays.target, arrays.cost, count)
        for cell in cells
    ]
    return EventTable(kind, known.axes, cell_m, states, numbers, cells, np.stack(columns, axis=1))


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


@dataclass(frozen=True, slots=True, repr=False)
class GraphReport(Result):
    """Sizes and reach of a graph."""

    poses: int
    states: int
    edges: int
    state_factor: float  # poses per state
    edge_factor: float  # transitions of the full graph per edge
    seconds: float  # of all clips
    events: tuple[EventReach, ...]
    warnings: tuple[str, ...]
    shown: int = 0  # poses that an edge shows
    speeds_mps: tuple[float, float] = (0.0, 0.0)  # tenth and ninetieth percentile over the steps
    turns_deg: tuple[float, float] = (0.0, 0.0)  # farthest turn of one step, left and right
    join_m: float = 0.0  # median jump of the root over the standing foot at joins of clips, which is spread out

    def lines(self) -> list[str]:
        """The report in words."""
        said = [
            f"{self.poses} poses, {self.states} states ({self.state_factor:.1f}x), "
            f"{self.edges} edges ({self.edge_factor:.1f}x)",
            f"{self.shown} poses are shown ({100.0 * self.shown / max(self.poses, 1):.0f} %), "
            f"{self.shown / max(self.states, 1):.1f} a state",
            f"steps of {self.speeds_mps[0]:.1f} to {self.speeds_mps[1]:.1f} m/s; "
            f"turns of up to {self.turns_deg[0]:.0f}° left and {self.turns_deg[1]:.0f}° right in a step; "
            f"joins move the root by {100.0 * self.join_m:.1f} cm",
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
    """Sizes, and for each kind of event and cell the states that reach it ([Safonova2006]_ F28).

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
    fitness = measure_fitness(graph)
    warnings = (*warnings, *fitness.pop("warnings"))
    return GraphReport(
        **fitness,
        poses=size.poses,
        states=graph.num_states,
        edges=graph.num_edges,
        state_factor=size.poses / max(graph.num_states, 1),
        edge_factor=size.transitions / max(graph.num_edges, 1),
        seconds=size.poses / graph.settings.rate_hz,
        events=events,
        warnings=warnings,
    )


MIN_STATES: Final = 12  # a walker has four phases a cycle, and starts, turns and stops beside
MIN_TURN_DEG: Final = 20.0  # in one step: less leads round no corner
WALK_MPS: Final = 0.4  # [m/s] a slower set shuffles
RUNS_TOLD: Final = 12  # by name
MAX_JOIN_M: Final = 0.09  # [m] median jump of the root at joins: large sets have 2 to 4 cm, six clips 8 cm


def measure_fitness(graph: MotionGraph) -> dict[str, Any]:
    """What a graph shows of its clips, how fast it steps and turns, and what it lacks to walk: fields of its report."""
    database, arrays = graph.database, graph.arrays
    first, start, stop = path_pose_ranges(database, graph.transitions, graph.ways, arrays.way)
    # Stretches that are open at each pose
    bounds = np.bincount(start, minlength=database.num_poses + 1) - np.bincount(stop, minlength=database.num_poses + 1)
    is_shown = np.cumsum(bounds)[:-1] > 0
    # Pose that is shown and pose before that to which it is joined, both seen from the foot on which they stand
    later = np.setdiff1d(np.arange(len(start)), first)
    level = np.column_stack([database.roots[:, [0, 2]], np.zeros(database.num_poses)])
    roots = to_frame(level, database.phases.anchor[database.phase])[:, :2]
    offs = np.linalg.norm(roots[stop[later - 1] - 1] - roots[start[later] - 1], axis=1)
    join_m = float(np.median(offs)) if len(later) else 0.0
    lost = [name for n, name in enumerate(database.clips) if not is_shown[database.clip == n].any()]
    # Steps: edges on one foot, whose anchor goes from one foot to the other; the time of both supports belongs to them
    feet = np.isfinite(arrays.feet[arrays.source][:, :, 0]).sum(axis=1)
    step = (feet == 1) & (arrays.flight[:, 0] <= 0.0)
    speeds = arrays.arc[step] / np.maximum(arrays.seconds[step], 1e-9)
    speeds = np.percentile(speeds, (10.0, 90.0)) if len(speeds) else np.zeros(2)
    # Yaw is positive towards +X, which is the left of one who faces +Z
    yaw = np.degrees(arrays.delta[step, 2]) if step.any() else np.zeros(1)
    left, right = float(max(yaw.max(), 0.0)), float(max(-yaw.min(), 0.0))
    missing = [
        *(["no clip stands: motions begin and end walking"] if not arrays.is_standing.any() else []),
        *([f"no left turn above {MIN_TURN_DEG:.0f}° in a step"] if left < MIN_TURN_DEG else []),
        *([f"no right turn above {MIN_TURN_DEG:.0f}° in a step"] if right < MIN_TURN_DEG else []),
        *([f"no steps faster than {speeds[1]:.1f} m/s"] if speeds[1] < WALK_MPS else []),
    ]
    warnings = [f"missing to walk anywhere: {'; '.join(missing)}"] if missing else []
    if graph.num_states < MIN_STATES or not step.any() or speeds[1] < WALK_MPS:
        warnings.insert(0, "this set cannot make a walker: add walks of the same person with starts, turns and stops")
    if lost:
        more = f" and {len(lost) - RUNS_TOLD} more" if len(lost) > RUNS_TOLD else ""
        names = ", ".join(sorted(lost)[:RUNS_TOLD])
        warnings.append(f"nothing is shown of {len(lost)} of {len(database.clips)} runs: {names}{more}")
    if join_m > MAX_JOIN_M:
        warnings.append(
            f"few poses are alike: joins move the root by {100.0 * join_m:.0f} cm in the median, and knees will not be "
            "those of the clips: add clips of the same kinds of steps"
        )
    shown = int(is_shown.sum())
    pair = (float(speeds[0]), float(speeds[1]))
    return {
        "shown": shown,
        "speeds_mps": pair,
        "turns_deg": (left, right),
        "join_m": join_m,
        "warnings": tuple(warnings),
    }


def measure_event_reach(table: EventTable, arrays: GraphArrays, partners: BlendPartners | None = None) -> EventReach:
    """Who reaches the events of a table, and whom they reach."""
    count = len(arrays.event)
    source = arrays.source

    def fraction_after(states: IntArray) -> float:
        """Share of all states that can be reached from the nearest of some."""
        if not len(states):
            return 0.0
        costs = shortest_costs_to(np.unique(states), arrays.target, source, arrays.cost, count)
        return float(np.isfinite(costs).mean())

    # Each cell of the table: its events, who reaches them, whom they reach, and at what cost
    cells: list[CellReach] = []
    of_event = np.floor(table.numbers / table.cell_m).astype(np.int64)
    for cell, costs in zip(table.cells, table.costs.T, strict=True):
        own, known = (of_event == cell).all(axis=1), costs[np.isfinite(costs)]
        corner = (float(cell[0]) * table.cell_m, float(cell[1]) * table.cell_m)
        median = float(np.median(known)) if len(known) else float("inf")
        share_to = float(np.isfinite(costs).mean()) if count else 0.0
        cells.append(CellReach(corner, int(own.sum()), share_to, fraction_after(table.states[own]), median))
    # Share of the pairs that may be blended from which both go, step by step, to a pair of events
    share = 0.0
    if partners is not None:
        allowed, is_event = partners.matrix(), np.zeros(count, dtype=bool)
        is_event[table.states] = True
        reached = find_reaching_pairs(arrays, allowed, allowed & is_event[:, None] & is_event[None])
        share = float(reached.sum() / max(allowed.sum(), 1))
    to = float(np.isfinite(table.costs.min(axis=1, initial=np.inf)).mean()) if count else 0.0
    return EventReach(table.kind, table.axes, len(table.states), to, fraction_after(table.states), share, tuple(cells))


def find_reaching_pairs(arrays: GraphArrays, allowed: BoolArray, goal: BoolArray) -> BoolArray:
    """Pairs ``(N, N)`` from which a goal pair can be reached, both going along one edge at a time, always allowed."""
    count = len(arrays.event)
    step = np.zeros((count, count), dtype=np.float32)
    step[arrays.source, arrays.target] = 1.0
    reached = goal & allowed
    while True:
        more = reached | (allowed & (step @ reached.astype(np.float32) @ step.T > 0.5))
        if (more == reached).all():
            return reached
        reached = more
