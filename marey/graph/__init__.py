"""Motion graphs: clips that flow into one another, searched for the way that a sketch asks for."""

from marey.base._deprecation import deprecated_names
from marey.graph._ara import GraphArrays
from marey.graph._build import assemble_graph, build_graph
from marey.graph._build_jobs import BuildCancelledError
from marey.graph._database import Database, PhaseTable, prepare_clips
from marey.graph._file import graph_bytes, load_graph, save_graph
from marey.graph._graph import GraphSize, MotionGraph
from marey.graph._rebuild import rebuild_for_sketch, rebuild_motion
from marey.graph._report import EventReach, GraphReport, graph_report, transitions_per_s
from marey.graph._search import SearchResult, SearchSolution, search_graph
from marey.graph._settings import GraphSettings
from marey.graph._tables import EventTable, event_table, register_event

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
