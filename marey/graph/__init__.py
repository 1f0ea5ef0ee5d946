"""Motion graphs: clips that flow into one another, searched for the way that a sketch asks for."""

from marey.graph._build import assemble, build
from marey.graph._build_jobs import BuildCancelledError
from marey.graph._database import Database, PhaseTable, prepare
from marey.graph._file import graph_bytes, load_graph, save_graph
from marey.graph._graph import GraphArrays, GraphSize, MotionGraph
from marey.graph._rebuild import rebuild, rebuild_for
from marey.graph._report import EventReach, GraphReport, graph_report, transitions_per_s
from marey.graph._search import SearchResult, Solution, search_graph
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
    "Solution",
    "assemble",
    "build",
    "event_table",
    "graph_bytes",
    "graph_report",
    "load_graph",
    "prepare",
    "rebuild",
    "rebuild_for",
    "register_event",
    "save_graph",
    "search_graph",
    "transitions_per_s",
]
