"""Parts of a graph one after the other: clips made ready without jobs, distances pair by pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from marey.base import FloatArray, IntArray
from marey.graph import MotionGraph, save_graph
from marey.graph.database.clips import Database, gather_database, make_clip_tasks
from marey.graph.database.settings import GraphSettings
from marey.lie import SO3
from marey.motion import Motion

UP = np.array([0.0, 1.0, 0.0])


def prepare_clips(
    motions: Sequence[Motion],
    settings: GraphSettings | None = None,
    *,
    behaviours: Mapping[str, str] | None = None,
) -> Database:
    """Make clips ready for a graph, one after the other ([Safonova2006]_ F2, F3).

    Args:
        motions: clips; the first gives the body.
        settings: thresholds.
        behaviours: behaviour of each clip by name; by default what happens in it: "pick", "jump", "run" or "walk".

    Raises:
        InputError: no clip has two phases.
    """
    settings = GraphSettings() if settings is None else settings
    tasks = make_clip_tasks(motions, settings, behaviours)
    return gather_database([task() for task in tasks], tasks[0].body, settings)


def planar_distance(first: FloatArray, second: FloatArray) -> float:
    """Mean squared distance [m²] of two clouds ``(K, 3)`` after the best turn and shift on the ground, pair by pair."""
    p, q = (np.asarray(cloud, dtype=np.float64) - cloud.mean(axis=0) * [1.0, 0.0, 1.0] for cloud in (first, second))
    angle = np.arctan2((p[:, 2] * q[:, 0] - p[:, 0] * q[:, 2]).sum(), (p[:, 0] * q[:, 0] + p[:, 2] * q[:, 2]).sum())
    turned = SO3.exp(-angle * UP) @ q
    return float(((p - turned) ** 2).sum(axis=1).mean())


def transitions_per_s(graph: MotionGraph, edges: Sequence[int] | IntArray) -> float:
    """Transitions between clips per second of a path [1/s]."""
    seconds = float(graph.arrays.seconds[np.asarray(edges, dtype=np.int64)].sum())
    jumps, end = 0, -1
    for edge in edges:
        stretches = graph.stretches(int(edge))
        jumps += len(stretches) - 1 + int(end >= 0 and stretches[0][0] != end)
        end = stretches[-1][1]
    return jumps / seconds if seconds > 0.0 else 0.0


def graph_bytes(graph: MotionGraph) -> bytes:
    """What :func:`save_graph` writes."""
    with TemporaryDirectory() as folder:
        save_graph(graph, Path(folder) / "graph.safetensors")
        return (Path(folder) / "graph.safetensors").read_bytes()
