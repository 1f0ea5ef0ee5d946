"""Motion graphs: clips that flow into one another, searched for the way that a sketch asks for."""

from marey.graph._database import Database, PhaseTable, prepare
from marey.graph._settings import GraphSettings

__all__ = ["Database", "GraphSettings", "PhaseTable", "prepare"]
