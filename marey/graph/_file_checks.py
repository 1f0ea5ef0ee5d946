"""Whether the parts of a graph fit together: a file may hold anything."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marey.base import InputError, IntArray, TensorFormat

if TYPE_CHECKING:
    from marey.graph._graph import MotionGraph


def hash_arrays(tensors: Mapping[str, NDArray[Any]]) -> str:
    """Fingerprint of named arrays."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def write_atomically(
    kind: TensorFormat, path: Path, tensors: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]
) -> None:
    """Write a file at once: somebody who is killed meanwhile leaves the old file, or none."""
    if path.suffix != ".safetensors":
        kind.write(path, tensors, facts)  # which refuses the name
    unfinished = path.with_name(f".{path.stem}.{os.getpid()}.safetensors")
    try:
        kind.write(unfinished, tensors, facts)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def check_graph(graph: MotionGraph) -> None:
    """Raise ``InputError`` unless every number that points somewhere points into its table."""
    database, arrays, ways = graph.database, graph.arrays, graph.ways
    poses, phases = database.num_poses, len(database.phases.start)
    states, edges = graph.num_states, graph.num_edges
    _check_indices("phase", database.phase, phases, poses)
    _check_indices("clip", database.clip, len(database.clips), poses)
    _check_indices("kind", database.phases.kind, len(database.classes), phases)
    _check_indices("start", database.phases.start, poses, phases)
    _check_indices("stop", database.phases.stop - 1, poses, phases)
    _check_indices("transition", graph.transitions.source, poses)
    _check_indices("transition", graph.transitions.target, poses)
    _check_indices("target", arrays.target, states, edges)
    _check_indices("way", arrays.way, len(ways.source), edges)
    _check_indices("jump", ways.jump, len(graph.transitions.source))
    _check_indices("way", ways.source, phases)
    _check_indices("way", ways.through, phases)
    _check_row_count("first", arrays.first, states, edges)
    _check_row_count("jump_first", ways.jump_first, len(ways.source), len(ways.jump))
    if len(graph.members) != states:
        raise InputError(f"{len(graph.members)} groups of phases for {states} states")
    for members in graph.members:
        _check_indices("members", members, phases)
    for name in ("cost", "seconds", "arc", "power"):
        values = getattr(arrays, name)
        if not (np.isfinite(values).all() and (values >= 0.0).all() and len(values) == edges):
            raise InputError(f"'{name}' holds a number that is not finite and positive")


def _check_indices(name: str, numbers: IntArray, count: int, length: int | None = None) -> None:
    if length is not None and len(numbers) != length:
        raise InputError(f"'{name}' has {len(numbers)} rows, not {length}")
    if len(numbers) and (int(numbers.min()) < 0 or int(numbers.max()) >= count):
        raise InputError(f"'{name}' points outside its table of {count}")


def _check_row_count(name: str, first: IntArray, count: int, total: int) -> None:
    if len(first) != count + 1 or first[0] != 0 or first[-1] != total or (np.diff(first) < 0).any():
        raise InputError(f"'{name}' does not cut a table of {total} rows into {count}")
