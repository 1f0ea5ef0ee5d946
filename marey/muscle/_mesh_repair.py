"""Repair of meshes that cannot be simulated as they are, with the numbers of what was wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.muscle._assembly_scipy import find_close_pairs, find_connected_parts
from marey.muscle._mesh import IndexArray, TetMesh, compute_cell_volumes

SLIVER_VOLUME: Final = 1e-9  # [-] volume of a cell over the cube of the box's diagonal
MERGE_DISTANCE: Final = 1e-9  # [-] distance of nodes over the box's diagonal
MAX_LISTED: Final = 6  # numbers that a message lists


@dataclass(frozen=True, slots=True, eq=False)
class MeshReport:
    """What a repair did; cells and nodes are numbered as they were given."""

    flipped: IntArray  # cells that were inside out
    slivers: IntArray  # cells without volume, dropped
    duplicates: IntArray  # cells given twice, dropped
    merged: IntArray  # nodes at the place of an earlier one, merged into it
    unreferenced: IntArray  # nodes of no cell, removed
    parts: int  # connected parts of the result
    node_numbers: IntArray  # (V,) new number of each node, -1 if removed

    @property
    def is_clean(self) -> bool:
        """Whether nothing had to be done."""
        changed = (self.flipped, self.slivers, self.duplicates, self.merged, self.unreferenced)
        return not any(len(numbers) for numbers in changed)

    def __str__(self) -> str:
        kinds = {
            "cells flipped": self.flipped, "slivers dropped": self.slivers, "duplicate cells dropped": self.duplicates,
            "nodes merged": self.merged, "nodes removed": self.unreferenced,
        }  # fmt: skip
        told = [f"{len(n)} {kind} ({format_indices(n)})" for kind, n in kinds.items() if len(n)]
        return "; ".join([*told, f"{self.parts} part{'s' if self.parts != 1 else ''}"])


def format_indices(numbers: IntArray) -> str:
    """The first few numbers, for a message."""
    shown = ", ".join(str(int(n)) for n in numbers[:MAX_LISTED])
    return shown + (", ..." if len(numbers) > MAX_LISTED else "")


def repair_mesh(nodes: FloatArray, cells: IndexArray) -> tuple[TetMesh, MeshReport]:
    """Merge nodes of one place, turn cells the right way out, drop slivers and copies, remove unused nodes.

    Raises:
        InputError: no cell is left.
    """
    size = float(np.linalg.norm(np.ptp(nodes, axis=0))) if len(nodes) else 0.0
    first = _find_first_coincident(nodes, MERGE_DISTANCE * size)
    joined = first[cells].astype(np.int32)
    volumes = compute_cell_volumes(nodes, joined)
    sliver = np.abs(volumes) <= SLIVER_VOLUME * size**3
    copy = ~sliver & ~_is_first_occurrence(np.sort(joined, axis=1))
    kept = ~sliver & ~copy
    if not kept.any():
        raise InputError(f"none of {len(cells)} cells has a volume", "Check the mesh and its units")
    flipped = kept & (volumes < 0)
    joined[flipped] = joined[flipped][:, [0, 2, 1, 3]]
    numbers, mesh = _remove_unused_nodes(nodes, joined[kept])
    merged = np.flatnonzero(first != np.arange(len(nodes)))
    used = np.zeros(len(nodes), dtype=bool)
    used[joined[kept]] = True
    report = MeshReport(
        np.flatnonzero(flipped), np.flatnonzero(sliver), np.flatnonzero(copy), merged,
        np.flatnonzero(~used & (first == np.arange(len(nodes)))), count_parts(mesh), numbers[first],
    )  # fmt: skip
    return mesh, report


def _find_first_coincident(nodes: FloatArray, tolerance: float) -> IntArray:
    """For each node the lowest number of a node at its place (V,)."""
    pairs = find_close_pairs(nodes, tolerance)
    _, groups = find_connected_parts(len(nodes), pairs[:, 0], pairs[:, 1])
    lowest = np.full(groups.max(initial=0) + 1, len(nodes))
    np.minimum.at(lowest, groups, np.arange(len(nodes)))
    return lowest[groups]


def _is_first_occurrence(rows: IndexArray) -> np.ndarray:
    _, first = np.unique(rows, axis=0, return_index=True)
    out = np.zeros(len(rows), dtype=bool)
    out[first] = True
    return out


def _remove_unused_nodes(nodes: FloatArray, cells: IndexArray) -> tuple[IntArray, TetMesh]:
    used = np.unique(cells)
    numbers = np.full(len(nodes), -1)
    numbers[used] = np.arange(len(used))
    return numbers, TetMesh(nodes[used], numbers[cells].astype(np.int32))


def count_parts(mesh: TetMesh) -> int:
    """How many connected parts a mesh has."""
    return find_connected_parts(len(mesh.nodes), np.repeat(mesh.cells[:, 0], 3), mesh.cells[:, 1:].ravel())[0]


def check_mesh(mesh: TetMesh) -> None:
    """Check that a mesh can be simulated.

    Raises:
        InputError: cells are inside out or flat, or nodes belong to no cell; the message numbers them.
    """
    if not len(mesh.cells):
        raise InputError("the mesh has no cell")
    size = float(np.linalg.norm(np.ptp(mesh.nodes, axis=0)))
    bad = np.flatnonzero(mesh.volumes <= SLIVER_VOLUME * size**3)
    if len(bad):
        raise InputError(
            f"{len(bad)} cells are inside out or flat: {format_indices(bad)}", "mesh, report = mesh.repaired()"
        )
    lone = np.setdiff1d(np.arange(len(mesh.nodes)), mesh.cells)
    if len(lone):
        raise InputError(
            f"{len(lone)} nodes belong to no cell: {format_indices(lone)}", "mesh, report = mesh.repaired()"
        )
