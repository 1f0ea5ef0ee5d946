"""Tetrahedral meshes: nodes, cells of positive volume, and the boundary surface.

Meshes are made as boxes and cylinders, read from files, or filled into closed surfaces. Meshes that cannot be simulated
are repaired, and the report counts what was wrong.
"""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import permutations
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marey.base import FloatArray, FormatError, InputError, IntArray, MissingExtraError, MissingFileError, frozen

IndexArray: TypeAlias = NDArray[np.int32]

CELL_FACES: Final = np.array([[1, 2, 3], [0, 3, 2], [0, 1, 3], [0, 2, 1]])  # face a lies opposite to corner a


@dataclass(frozen=True, slots=True, eq=False)
class TetMesh:
    """Nodes and tetrahedra; corners are ordered so that every volume is positive."""

    nodes: FloatArray  # (V, 3) [m]
    cells: IndexArray  # (T, 4) node numbers

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", frozen(self.nodes, None, 3, name="nodes"))
        object.__setattr__(self, "cells", freeze_indices(self.cells, 4, len(self.nodes), name="cells"))

    @staticmethod
    def box(size: ArrayLike, counts: tuple[int, int, int], *, origin: ArrayLike = (0.0, 0.0, 0.0)) -> TetMesh:
        """A box of ``size`` (3,) [m] with its lowest corner at ``origin``; each of ``counts`` cubes makes six cells."""
        extent = frozen(size, 3, name="size")
        if extent.min() <= 0 or min(counts) < 1:
            raise InputError(f"a box of size {extent.tolist()} m in {tuple(counts)} cubes", "Both must be positive")
        nx, ny, nz = (int(n) for n in counts)
        grid = np.stack(np.meshgrid(np.arange(nx + 1), np.arange(ny + 1), np.arange(nz + 1), indexing="ij"), axis=-1)
        nodes = grid.reshape(-1, 3) * (extent / (nx, ny, nz)) + frozen(origin, 3, name="origin")
        strides = np.array([(ny + 1) * (nz + 1), nz + 1, 1])
        corners = grid[:nx, :ny, :nz].reshape(-1, 3) @ strides
        # Each cube is cut in six along its long diagonal (Kuhn); faces of neighbours match.
        paths = np.array([np.cumsum([0, *strides[list(order)]]) for order in permutations(range(3))])  # (6, 4)
        cells = (corners[:, None, None] + paths).reshape(-1, 4).astype(np.int32)
        return TetMesh(nodes, orient_cells(nodes, cells))

    @staticmethod
    def cylinder(radius_m: float, length_m: float, *, rings: int = 4, layers: int | None = None) -> TetMesh:
        """A cylinder about the y axis from y = 0 to ``length_m``: ``18 rings^2 layers`` cells.

        Ring k of a section has 6 k nodes; without ``layers`` the cells are about as long as wide.
        """
        if not (radius_m > 0 and length_m > 0 and rings >= 1 and (layers is None or layers >= 1)):
            raise InputError(f"a cylinder of radius {radius_m} m, length {length_m} m, {rings} rings, {layers} layers")
        height = layers or max(1, round(length_m / (radius_m / rings)))
        # Nodes (N, 2) in the unit disc, 6 k on ring k, and triangles (6 rings^2, 3).
        points = [np.zeros((1, 2))]
        corners: list[tuple[int, int, int]] = []
        for k in range(1, rings + 1):
            angles = 2 * np.pi * np.arange(6 * k) / (6 * k)
            points.append(k / rings * np.stack([np.cos(angles), np.sin(angles)], axis=1))
            # Triangles between ring k - 1 and ring k, which starts at node 1 + 3 k (k - 1).
            outer, inner = 1 + 3 * k * (k - 1), 1 + 3 * (k - 1) * (k - 2) if k > 1 else 0
            for sector in range(6):
                for i in range(k):
                    a, b = outer + sector * k + i, outer + (sector * k + i + 1) % (6 * k)
                    c = inner + (sector * (k - 1) + i) % max(1, 6 * (k - 1))
                    corners.append((a, b, c))
                    if i < k - 1:
                        corners.append((b, inner + (sector * (k - 1) + i + 1) % (6 * (k - 1)), c))
        # The disc is extruded in layers of prisms, each cut in three along diagonals that leave the lower number below:
        # neighbours choose the same.
        disc, low = np.concatenate(points), np.sort(np.array(corners), axis=1)
        levels = np.linspace(0.0, length_m, height + 1)
        layers_of_nodes = [
            np.column_stack([radius_m * disc[:, 0], np.full(len(disc), y), radius_m * disc[:, 1]]) for y in levels
        ]
        nodes, parts = np.concatenate(layers_of_nodes), list[IndexArray]()
        for k in range(height):
            a, b, c = (low + k * len(disc)).T
            up_a, up_b, up_c = a + len(disc), b + len(disc), c + len(disc)
            parts += [np.column_stack([a, b, c, up_c]), np.column_stack([a, b, up_b, up_c])]
            parts.append(np.column_stack([a, up_a, up_b, up_c]))
        cells = np.concatenate(parts).astype(np.int32)
        return TetMesh(nodes, orient_cells(nodes, cells))

    @staticmethod
    def from_file(path: str | PathLike[str]) -> TetMesh:
        """The tetrahedra of a mesh file (VTK, VTU, MSH, MEDIT, ...), repaired. Needs the extra ``soft``."""
        file = Path(path)
        points, blocks = read_mesh_blocks(file)
        tetrahedra = [data for kind, data in blocks if kind == "tetra"]
        if not tetrahedra:
            kinds = ", ".join(sorted({kind for kind, _ in blocks})) or "nothing"
            raise FormatError(f"no tetrahedra, only {kinds}", str(file), 0, "Fill a surface by SurfaceMesh.fill")
        nodes = frozen(points, None, 3, name=f"points of {file.name}")
        cells = freeze_indices(np.concatenate(tetrahedra), 4, len(nodes), name=f"cells of {file.name}")
        return TetMesh(nodes, cells).repair()[0]

    @staticmethod
    def from_surface(vertices: ArrayLike, faces: ArrayLike, *, edge_m: float | None = None) -> TetMesh:
        """Fill a closed surface, (N, 3) [m] and (M, 3); it may be dirty. See :class:`SurfaceMesh`."""
        from marey.muscle.mesh.surface_mesh import SurfaceMesh

        points = frozen(vertices, None, 3, name="vertices")
        return SurfaceMesh(points, freeze_indices(faces, 3, len(points), name="faces")).fill(edge_m)

    @property
    def volumes(self) -> FloatArray:
        """Volume of each cell (T,) [m^3]."""
        return compute_cell_volumes(self.nodes, self.cells)

    @property
    def volume(self) -> float:
        """Volume of all [m^3]."""
        return float(self.volumes.sum())

    @property
    def surface(self) -> IndexArray:
        """Faces (M, 3) that belong to one cell only, seen counter-clockwise from outside."""
        faces = self.cells[:, CELL_FACES].reshape(-1, 3)
        _, first, counts = np.unique(np.sort(faces, axis=1), axis=0, return_index=True, return_counts=True)
        return faces[np.sort(first[counts == 1])]

    def repair(self) -> tuple[TetMesh, MeshReport]:
        """A mesh that can be simulated, and what was done to get it, with cell numbers.

        Nodes of one place are merged, cells turned the right way out, slivers, copies and unused nodes dropped.

        Raises:
            InputError: no cell is left.
        """
        from scipy.spatial import KDTree

        nodes, cells = self.nodes, self.cells
        size = float(np.linalg.norm(np.ptp(nodes, axis=0))) if len(nodes) else 0.0
        # For each node the lowest number of a node at its place.
        pairs = np.zeros((0, 2), dtype=np.int64)
        if len(nodes):
            pairs = KDTree(nodes).query_pairs(MERGE_DISTANCE * size, output_type="ndarray")
        _, groups = find_connected_parts(len(nodes), pairs[:, 0], pairs[:, 1])
        lowest = np.full(groups.max(initial=0) + 1, len(nodes))
        np.minimum.at(lowest, groups, np.arange(len(nodes)))
        first = lowest[groups]
        # Cells without volume, and cells that were given before.
        joined = first[cells].astype(np.int32)
        volumes = compute_cell_volumes(nodes, joined)
        sliver = np.abs(volumes) <= SLIVER_VOLUME * size**3
        copy = ~sliver
        copy[np.unique(np.sort(joined, axis=1), axis=0, return_index=True)[1]] = False
        kept = ~sliver & ~copy
        if not kept.any():
            raise InputError(f"none of {len(cells)} cells has a volume", "Check the mesh and its units")
        flipped = kept & (volumes < 0)
        joined[flipped] = joined[flipped][:, [0, 2, 1, 3]]
        # Nodes of no cell are left out.
        used = np.unique(joined[kept])
        numbers = np.full(len(nodes), -1)
        numbers[used] = np.arange(len(used))
        mesh = TetMesh(nodes[used], numbers[joined[kept]].astype(np.int32))
        own = first == np.arange(len(nodes))
        parts, _ = find_connected_parts(len(mesh.nodes), np.repeat(mesh.cells[:, 0], 3), mesh.cells[:, 1:].ravel())
        report = MeshReport(
            flipped=np.flatnonzero(flipped),
            slivers=np.flatnonzero(sliver),
            duplicates=np.flatnonzero(copy),
            merged=np.flatnonzero(~own),
            unreferenced=np.flatnonzero((numbers < 0) & own),
            parts=parts,
            node_numbers=numbers[first],
        )
        return mesh, report


def read_mesh_blocks(file: Path) -> tuple[FloatArray, list[tuple[str, NDArray[Any]]]]:
    """Points and blocks of cells, each with its kind, of a file that meshio reads; its many errors become one."""
    if not file.is_file():
        raise MissingFileError(str(file))
    try:
        from meshio import (  # pyright: ignore[reportMissingTypeStubs]
            read,  # pyright: ignore[reportUnknownVariableType]
        )
    except ImportError:
        raise MissingExtraError("reading a mesh file", "soft") from None
    talk = StringIO()
    try:
        with redirect_stdout(talk), redirect_stderr(talk):
            mesh = cast(Any, read(file))
    except (Exception, SystemExit) as error:  # meshio ends the process on files it does not know
        what = talk.getvalue().strip() or str(error)
        raise FormatError(f"not a mesh file ({what})", str(file), 0, "meshio reads VTK, VTU, MSH, MEDIT") from None
    return np.asarray(mesh.points, dtype=np.float64), [(block.type, np.asarray(block.data)) for block in mesh.cells]


def freeze_indices(values: ArrayLike, width: int | None, bound: int, *, name: str) -> IndexArray:
    """Read-only (N, width) node numbers below ``bound``, or (N,) without a width."""
    array = np.asarray(values)
    if array.size == 0:
        array = array.reshape(0) if width is None else array.reshape(0, width)
    if array.ndim != (1 if width is None else 2) or (width is not None and array.shape[-1] != width):
        raise InputError(f"{name} has shape {array.shape}, expected (any{'' if width is None else f', {width}'})")
    if array.size and array.dtype.kind not in "iu":
        raise InputError(f"{name} holds {array.dtype}, expected whole numbers")
    if array.size and (array.min() < 0 or array.max() >= bound):
        row = int(np.argwhere((array < 0) | (array >= bound))[0, 0])
        raise InputError(f"{name}[{row}] = {array[row].tolist()} names a node out of 0..{bound - 1}")
    out = np.array(array, dtype=np.int32, order="C")
    out.setflags(write=False)
    return out


def compute_cell_volumes(nodes: FloatArray, cells: IndexArray) -> FloatArray:
    """Signed volumes (T,) [m^3]."""
    p = nodes[cells]
    edges = p[:, 1:] - p[:, :1]
    return np.einsum("ti,ti->t", edges[:, 0], np.cross(edges[:, 1], edges[:, 2])) / 6.0


SLIVER_VOLUME: Final = 1e-9  # [-] volume of a cell over the cube of the box's diagonal
MERGE_DISTANCE: Final = 1e-9  # [-] distance of nodes over the box's diagonal
MAX_LISTED: Final = 6  # numbers that a message lists


@dataclass(frozen=True, slots=True, eq=False)
class MeshReport:
    """Report of a repair; cells and nodes keep their original numbers."""

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


def find_connected_parts(count: int, rows: NDArray[Any], columns: NDArray[Any]) -> tuple[int, IntArray]:
    """Connected parts of a graph of ``count`` nodes with the given edges: how many, and the part of each node."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(rows)), (rows, columns)), shape=(count, count)).tocsr()
    found, labels = connected_components(graph, directed=False)
    return int(found), labels.astype(np.int64)


def sum_by_index(numbers: NDArray[Any], values: NDArray[Any], count: int) -> FloatArray:
    """Sum of the values of each number (count,)."""
    return cast(FloatArray, np.bincount(numbers.ravel(), weights=values, minlength=count))


def orient_cells(nodes: FloatArray, cells: IndexArray) -> IndexArray:
    """Cells with two corners swapped where the volume was negative."""
    out = cells.copy()
    flipped = compute_cell_volumes(nodes, cells) < 0
    out[flipped] = out[flipped][:, [0, 2, 1, 3]]
    return out
