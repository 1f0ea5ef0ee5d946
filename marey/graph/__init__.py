"""Motion graphs: clips that flow into one another, searched for the way that a sketch asks for."""

from marey.base.deprecation import deprecated_names
from marey.graph.arrays import GraphArrays
from marey.graph.construction.build import assemble_graph, build_graph
from marey.graph.construction.event_tables import (
    EventReach,
    EventTable,
    GraphReport,
    event_table,
    graph_report,
    register_event,
    transitions_per_s,
)
from marey.graph.construction.file import graph_bytes, load_graph, save_graph
from marey.graph.construction.jobs import BuildCancelledError
from marey.graph.database.clips import Database, PhaseTable, prepare_clips
from marey.graph.database.settings import GraphSettings
from marey.graph.motion_graph import GraphSize, MotionGraph
from marey.graph.reconstruction.motion import rebuild_for_sketch, rebuild_motion
from marey.graph.search.solve import SearchResult, SearchSolution, search_graph

__all__ = [
    "BuildCancelledError",
    "Database",
    "EventReach",
    "EventTable",
    "GraphArrays",
    "GraphReport",
    "GraphSettings",
    "GraphSize",
    "MotionGraph",
    "PhaseTable",
    "SearchResult",
    "SearchSolution",
    "assemble_graph",
    "build_graph",
    "event_table",
    "graph_bytes",
    "graph_report",
    "load_graph",
    "prepare_clips",
    "rebuild_for_sketch",
    "rebuild_motion",
    "register_event",
    "save_graph",
    "search_graph",
    "transitions_per_s",
]

__getattr__ = deprecated_names(
    __name__,
    {
        "Solution": "SearchSolution",
        "assemble": "assemble_graph",
        "build": "build_graph",
        "prepare": "prepare_clips",
        "rebuild": "rebuild_motion",
        "rebuild_for": "rebuild_for_sketch",
    },
)
