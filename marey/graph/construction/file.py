"""Motion graphs on disk: one `.safetensors` file of plain numbers, whose parts are checked to fit together.

Packed arrays take a twentieth of the size, for graphs that are shipped or sent. Poses are then kept to 0.2 mm at the
hands: rotations as rotation vectors in steps of 0.1 mrad, positions in steps of 0.1 mm, both as differences from pose
to pose. Costs are single-precision floats, likenesses of poses half as long. Whole numbers are kept exactly. Torques of
single poses are left out, since only a build reads them.
"""

from __future__ import annotations

import hashlib
import lzma
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
from marey.graph.database.clips import Database, PhaseTable
from marey.graph.database.compact import PhasePaths
from marey.graph.database.settings import GraphSettings
from marey.graph.database.transitions import Transitions
from marey.graph.motion_graph import GraphSize, MotionGraph
from marey.lie import SO3
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
ROTATION_STEP: Final = 1e-4  # [rad] half of it is the largest error, 0.05 mm at the end of a leg
POSITION_STEP_M: Final = 1e-4  # [m]
LEFT_OUT: Final = "database/torque"
ROTATIONS: Final = "database/wxyz"
POSITIONS: Final = "database/roots"
HALF_FLOATS: Final = ("transitions/distance", "arrays/torque")  # likenesses of poses and of torques
DROPPED_BITS: Final = 5  # of the ten of a half float: what is left is exact to 2^-6 + 2^-11, 1.6 %
EXACT_FLOATS: Final = ("body/", "skeleton/", "phases/feet")  # few numbers, and those that may be undefined
MAX_UNPACKED_BYTES: Final = 1 << 31  # a damaged size is refused before anything is allocated
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


def pack_tensors(tensors: Mapping[str, NDArray[Any]]) -> tuple[Tensors, dict[str, Any]]:
    """Compressed bytes of each array, and what :func:`unpack_tensors` has to know: stored type and shape by name."""
    packed: Tensors = {}
    kinds: dict[str, Any] = {}
    for name, array in tensors.items():
        if name == LEFT_OUT:
            continue
        if name == ROTATIONS:
            # Rotation vectors fit into two bytes, and their differences wrap around with them; time runs fastest
            steps = np.rint(SO3(array).log() / ROTATION_STEP).astype(np.int16)
            stored = np.diff(steps, axis=0, prepend=np.int16(0)).transpose(1, 2, 0)
        elif name == POSITIONS:
            stored = np.diff(np.rint(array / POSITION_STEP_M).astype(np.int32), axis=0, prepend=np.int32(0)).T
        elif array.dtype.kind == "i":
            stored = np.diff(array.astype(np.int32), axis=0, prepend=np.int32(0))
        elif name in HALF_FLOATS:
            bits = array.astype(np.float16).view(np.uint16).astype(np.uint32) + (1 << (DROPPED_BITS - 1))
            stored = (bits >> DROPPED_BITS << DROPPED_BITS).astype(np.uint16).view(np.float16)
        elif array.dtype.kind == "f" and not name.startswith(EXACT_FLOATS):
            stored = array.astype(np.float32)
        else:
            stored = array
        # Bytes of one significance stand together, so that the high ones are nearly constant
        planes = np.ascontiguousarray(stored).view(np.uint8).reshape(-1, stored.itemsize).T
        packed[name] = np.frombuffer(lzma.compress(planes.tobytes(), lzma.FORMAT_ALONE, preset=9), np.uint8)
        kinds[name] = [stored.dtype.str, list(stored.shape)]
    return packed, kinds


def unpack_tensors(packed: Mapping[str, NDArray[Any]], kinds: Mapping[str, Any]) -> Tensors:
    """Arrays as :func:`pack_tensors` was given them, to its precision.

    Raises:
        InputError: sizes do not fit, or bytes are damaged.
    """
    tensors: Tensors = {}
    for name, (code, shape) in kinds.items():
        dtype, size = np.dtype(str(code)), int(np.prod([int(n) for n in shape], dtype=object))
        if dtype.hasobject or not 0 <= size * dtype.itemsize <= MAX_UNPACKED_BYTES:
            raise InputError(f"'{name}' cannot have the shape {shape}")
        try:
            reader = lzma.LZMADecompressor(lzma.FORMAT_ALONE)
            planes = reader.decompress(packed[name].tobytes(), max_length=size * dtype.itemsize + 1)
        except lzma.LZMAError as error:
            raise InputError(f"the bytes of '{name}' are damaged: {error}") from error
        if len(planes) != size * dtype.itemsize:
            raise InputError(f"'{name}' does not have the {size} numbers that it announces")
        rows = np.frombuffer(planes, np.uint8).reshape(dtype.itemsize, size).T
        stored = np.ascontiguousarray(rows).view(dtype).reshape([int(n) for n in shape])
        if name == ROTATIONS:
            steps = np.cumsum(stored.transpose(2, 0, 1), axis=0, dtype=np.int16)
            tensors[name] = SO3.exp(steps * ROTATION_STEP).wxyz
        elif name == POSITIONS:
            tensors[name] = np.cumsum(stored.T, axis=0, dtype=np.int32) * POSITION_STEP_M
        elif stored.dtype.kind == "i":
            tensors[name] = np.cumsum(stored, axis=0, dtype=np.int32)
        else:
            tensors[name] = stored.astype(np.float64) if stored.dtype.kind == "f" else stored
    tensors[LEFT_OUT] = np.zeros((len(tensors[POSITIONS]), 1))
    return tensors
