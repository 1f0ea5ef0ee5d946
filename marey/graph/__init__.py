"""Motion graphs: clips that flow into one another, searched for the way that a sketch asks for."""

from marey.graph._build import assemble, build
from marey.graph._database import Database, PhaseTable, prepare
from marey.graph._graph import GraphArrays, MotionGraph
from marey.graph._rebuild import rebuild
from marey.graph._search import SearchResult, Solution, search_graph
from marey.graph._settings import GraphSettings

__all__ = [
    "Database",
    "GraphArrays",
    "GraphSettings",
    "MotionGraph",
    "PhaseTable",
    "SearchResult",
    "Solution",
    "assemble",
    "build",
    "prepare",
    "rebuild",
    "search_graph",
]
