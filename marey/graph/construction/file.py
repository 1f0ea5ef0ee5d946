"""Motion graphs on disk: one `.safetensors` file of plain numbers, whose parts are checked to fit together."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from marey.base import InputError, IntArray, MareyError, TensorFormat, frozen
from marey.dynamics import Body
from marey.graph.arrays import GraphArrays
from marey.graph.construction.event_tables import EventTable
from marey.graph.construction.packing import pack_tensors, unpack_tensors
from marey.graph.database.clips import Database, PhaseTable
from marey.graph.database.compact import PhasePaths
from marey.graph.database.settings import GraphSettings
from marey.graph.database.transitions import Transitions
from marey.graph.motion_graph import GraphSize, MotionGraph
from marey.skeleton import Skeleton


def hash_arrays(tensors: Mapping[str, NDArray[Any]]) -> str:
    """Fingerprint of named arrays."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def check_graph(graph: MotionGraph) -> None:
    """Raise ``InputError`` unless every number that points somewhere points into its table."""
    database, arrays, ways = graph.database, graph.arrays, graph.ways
    poses, phases = database.num_poses, len(database.phases.start)
    states, edges = graph.num_states, graph.num_edges
    # Tables of the database
    _check_indices("phase", database.phase, phases, poses)
    _check_indices("clip", database.clip, len(database.clips), poses)
    _check_indices("kind", database.phases.kind, len(database.classes), phases)
    _check_indices("start", database.phases.start, poses, phases)
    _check_indices("stop", database.phases.stop - 1, poses, phases)
    _check_indices("transition", graph.transitions.source, poses)
    _check_indices("transition", graph.transitions.target, poses)
    # Edges, their ways and the transitions on them
    _check_indices("target", arrays.target, states, edges)
    _check_indices("way", arrays.way, len(ways.source), edges)
    _check_indices("jump", ways.jump, len(graph.transitions.source))
    _check_indices("way", ways.source, phases)
    _check_indices("way", ways.through, phases)
    _check_row_count("first", arrays.first, states, edges)
    _check_row_count("jump_first", ways.jump_first, len(ways.source), len(ways.jump))
    # Groups of phases, and costs that a search can add up
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


GRAPH_FILE: Final = TensorFormat(
    "marey-motion-graph", "motion graph", 2, "Give a file that `marey graph build` wrote, or build it again."
)
AnyPath = str | os.PathLike[str]
Tensors = dict[str, NDArray[Any]]
DATABASE: Final = ("roots", "wxyz", "effort", "torque", "clip", "phase")
PHASES: Final = ("start", "stop", "kind", "after", "anchor", "feet")
TRANSITIONS: Final = ("source", "target", "distance")
WAYS: Final = ("source", "through", "cost", "jump_first", "jump")
TABLE: Final = ("states", "numbers", "cells", "costs")
BODY: Final = ("masses", "centres", "inertias")
SKELETON: Final = ("parents", "offsets", "tips")


def save_graph(graph: MotionGraph, path: AnyPath, *, is_packed: bool = False) -> None:
    """Write a graph that :func:`load_graph` gives back; the same graph makes the same bytes.

    Args:
        graph: what to write.
        path: of a file whose name ends in `.safetensors`.
        is_packed: a twentieth of the size, with poses kept to 0.2 mm (:mod:`marey.graph.construction.packing`).

    Raises:
        InputError: the name does not end in `.safetensors`.
        MissingFileError: the folder does not exist.
    """
    tensors, facts = _pack_graph(graph)
    if is_packed:
        tensors, facts["packed"] = pack_tensors(tensors)
    GRAPH_FILE.write(path, tensors, {**facts, "sha256": hash_arrays(tensors)})


def load_graph(path: AnyPath) -> MotionGraph:
    """Read a motion graph.

    Raises:
        MissingFileError: there is no such file.
        FormatError: the file is damaged, holds something else, or was written by a newer marey.
    """
    file = Path(path)
    tensors, facts = GRAPH_FILE.read(file)
    try:
        if facts.get("sha256") != hash_arrays(tensors):
            raise InputError("its numbers are not those that were written")
        return _unpack_graph(unpack_tensors(tensors, facts["packed"]) if "packed" in facts else tensors, facts)
    except (MareyError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise GRAPH_FILE.damage_error(file, error) from error


def _pack_graph(graph: MotionGraph) -> tuple[Tensors, dict[str, Any]]:
    database = graph.database
    tensors: Tensors = {}
    # Every array under the prefix of its owner
    for prefix, owner, names in [
        ("database", database, DATABASE),
        ("phases", database.phases, PHASES),
        ("body", database.body, BODY),
        ("skeleton", database.body.skeleton, SKELETON),
        ("transitions", graph.transitions, TRANSITIONS),
        ("ways", graph.ways, WAYS),
        ("arrays", graph.arrays, GraphArrays._fields),
        *((f"tables/{kind}", table, TABLE) for kind, table in graph.tables.items()),
    ]:
        for name in names:
            # Whole numbers in half the room, flags as bytes
            array: NDArray[Any] = getattr(owner, name)
            dtype = {"b": np.uint8, "i": np.int32}.get(array.dtype.kind, np.float64)
            tensors[f"{prefix}/{name}"] = array.astype(dtype, copy=False)
    # Members of the states as one list with offsets
    first = np.concatenate([[0], np.cumsum([len(row) for row in graph.members])])
    tensors["members/first"] = first.astype(np.int32)
    tensors["members/phases"] = np.concatenate(graph.members).astype(np.int32)
    facts = {
        "settings": asdict(graph.settings),
        "rate_hz": database.rate_hz,
        "clips": list(database.clips),
        "behaviours": list(database.behaviours),
        "classes": [list(planted) for planted in database.classes],
        "threshold": graph.transitions.threshold,
        "num_like": graph.transitions.num_like,
        "size": asdict(graph.size),
        "tables": {kind: {"axes": list(t.axes), "cell_m": t.cell_m} for kind, t in graph.tables.items()},
        "body": {"height_m": database.body.height_m, "source": database.body.source},
        "skeleton": {"name": database.body.skeleton.name, "joints": list(database.body.skeleton.names)},
        "notes": list(graph.notes),
    }
    return tensors, facts


def _unpack_graph(tensors: Tensors, facts: Mapping[str, Any]) -> MotionGraph:
    def group(prefix: str, names: Sequence[str]) -> dict[str, Any]:
        """All arrays under a prefix, read-only, by the kind of number that they hold."""
        found: dict[str, Any] = {}
        for name in names:
            array = tensors[f"{prefix}/{name}"]
            found[name] = array.astype({"u": np.bool_, "i": np.int64, "f": np.float64}[array.dtype.kind])
            found[name].setflags(write=False)
        return found

    about = facts["skeleton"]
    skeleton = Skeleton(tuple(about["joints"]), **group("skeleton", SKELETON), name=str(about["name"]))
    own = facts["body"]
    body = Body(skeleton, **group("body", BODY), height_m=float(own["height_m"]), source=str(own["source"]))
    poses = group("database", DATABASE)
    for name in ("roots", "wxyz", "effort", "torque"):
        frozen(poses[name], name=name)  # all finite
    database = Database(
        body=body,
        rate_hz=float(facts["rate_hz"]),
        clips=tuple(facts["clips"]),
        behaviours=tuple(facts["behaviours"]),
        classes=tuple(tuple(planted) for planted in facts["classes"]),
        phases=PhaseTable(**group("phases", PHASES)),
        **poses,
    )
    transitions = Transitions(
        **group("transitions", TRANSITIONS), threshold=float(facts["threshold"]), num_like=int(facts["num_like"])
    )
    members = group("members", ("first", "phases"))
    graph = MotionGraph(
        settings=GraphSettings(**cast(dict[str, Any], facts["settings"])),
        database=database,
        transitions=transitions,
        ways=PhasePaths(**group("ways", WAYS)),
        arrays=GraphArrays(**group("arrays", GraphArrays._fields)),
        members=tuple(np.split(members["phases"], members["first"][1:-1])),
        tables={
            kind: EventTable(kind, (str(axes[0]), str(axes[1])), float(cell_m), **group(f"tables/{kind}", TABLE))
            for kind, axes, cell_m in ((kind, row["axes"], row["cell_m"]) for kind, row in facts["tables"].items())
        },
        size=GraphSize(**facts["size"]),
        notes=tuple(str(note) for note in facts["notes"]),
    )
    check_graph(graph)
    return graph
