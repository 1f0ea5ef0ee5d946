"""Graphs that several files look at, built once."""

from __future__ import annotations

from pathlib import Path

import pytest

from marey.graph import MotionGraph, build_graph
from marey.io import load
from marey.motion import Motion

PICKING = ("69_01", "69_04", "69_13", "69_70", "69_72", "69_75")


@pytest.fixture(scope="session")
def picking_clips(mocap: Path) -> list[Motion]:
    """Walks, turns and picks of one person."""
    return [load(mocap / "cmu-bvh" / f"{name}.bvh") for name in PICKING]


@pytest.fixture(scope="session")
def prepared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the clips of the graph are kept once they are ready."""
    return tmp_path_factory.mktemp("prepared")


@pytest.fixture(scope="session")
def picking(picking_clips: list[Motion], prepared_folder: Path) -> MotionGraph:
    """The graph of those clips."""
    return build_graph(picking_clips, resume=prepared_folder)
