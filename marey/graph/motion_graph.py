"""The motion graph as arrays, ready to be searched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from marey.base import IntArray
from marey.graph.arrays import GraphArrays
from marey.graph.database.clips import Database
from marey.graph.database.compact import PhasePaths, path_pose_ranges
from marey.graph.database.settings import GraphSettings
from marey.graph.database.transitions import Transitions
from marey.graph.search.solve import search_graph
from marey.world import Sketch

if TYPE_CHECKING:
    from marey.graph.construction.event_tables import EventTable
    from marey.graph.search.solve import SearchResult


@dataclass(frozen=True, slots=True)
class GraphSize:
    """How large a graph was at each stage of its build."""

    poses: int = 0
    like_pairs: int = 0  # pairs of poses under the thresholds
    transitions: int = 0  # of them the lowest of each valley, at most so many of one pose: the full graph
    phases: int = 0  # states after culling
    ways: int = 0  # edges after culling


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MotionGraph:
    """A database, its transitions, and the compact graph made of them."""

    settings: GraphSettings
    database: Database
    transitions: Transitions
    ways: PhasePaths
    arrays: GraphArrays
    members: tuple[IntArray, ...]  # phases of each state, the one in the middle first
    tables: Mapping[str, EventTable] = field(default_factory=dict[str, "EventTable"])  # by kind of event
    size: GraphSize = field(default_factory=lambda: GraphSize())
    notes: tuple[str, ...] = ()

    @property
    def num_states(self) -> int:
        """How many states the compact graph has."""
        return len(self.arrays.event)

    @property
    def num_edges(self) -> int:
        """How many edges it has."""
        return len(self.arrays.target)

    def __repr__(self) -> str:
        events = ", ".join(sorted(self.tables))
        return (
            f"MotionGraph({len(self.database.clips)} clips, {self.size.poses} poses, {self.num_states} states, "
            f"{self.num_edges} edges; {events})"
        )

    def search(self, sketch: Sketch, **options: Any) -> SearchResult:
        """The cheapest motion that does what a sketch asks for; options are those of ``search_graph``."""
        return search_graph(self, sketch, **options)

    def stretches(self, edge: int) -> list[tuple[int, int]]:
        """Poses ``[start, stop)`` of the database that an edge shows."""
        _, start, stop = path_pose_ranges(self.database, self.transitions, self.ways, self.arrays.way[[edge]])
        return list(zip(start.tolist(), stop.tolist(), strict=True))
