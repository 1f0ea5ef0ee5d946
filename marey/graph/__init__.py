"""Motion graphs: construction from clips, anytime search for a sketch, reconstruction of the motion."""

from marey.base import deprecated_names, guard_room
from marey.graph.arrays import GraphArrays
from marey.graph.construction.build import build_graph
from marey.graph.construction.event_tables import graph_report, register_event
from marey.graph.construction.file import load_graph, save_graph
from marey.graph.database.settings import GraphSettings, SearchSettings
from marey.graph.motion_graph import MotionGraph
from marey.graph.reconstruction.motion import rebuild_for_sketch, rebuild_motion
from marey.graph.search.solve import SearchResult, SearchSolution, search_graph

__all__ = [
    "GraphArrays",
    "GraphSettings",
    "MotionGraph",
    "SearchResult",
    "SearchSettings",
    "SearchSolution",
    "build_graph",
    "graph_report",
    "load_graph",
    "rebuild_for_sketch",
    "rebuild_motion",
    "register_event",
    "save_graph",
    "search_graph",
]

guard_room(__name__)

__getattr__ = deprecated_names(
    __name__,
    {
        "Solution": "SearchSolution",
        "build": "build_graph",
        "rebuild": "rebuild_motion",
        "rebuild_for": "rebuild_for_sketch",
    },
)
