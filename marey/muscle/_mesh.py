"""Tetrahedral meshes: nodes, cells of positive volume, and the surface that is seen."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marey.base import FloatArray, InputError, frozen

if TYPE_CHECKING:
    from marey.muscle._mesh_repair import MeshReport

IndexArray: TypeAlias = NDArray[np.int32]

CELL_FACES: Final = np.array(
    [[1, 2, 3], [0, 3, 2], [0, 1, 3], [0, 2, 1]]
)  # of a cell; face a lies opposite to corner a


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
        from marey.muscle._mesh_shapes import make_box

        return make_box(size, counts, origin)

    @staticmethod
    def cylinder(radius_m: float, length_m: float, *, rings: int = 4, layers: int | None = None) -> TetMesh:
        """A cylinder about the y axis from y = 0 to ``length_m``: ``18 rings^2 layers`` cells.

        Ring k of a section has 6 k nodes; without ``layers`` the cells are about as long as wide.
        """
        from marey.muscle._mesh_shapes import make_cylinder

        return make_cylinder(radius_m, length_m, rings, layers)

    @staticmethod
    def from_file(path: str | PathLike[str]) -> TetMesh:
        """The tetrahedra of a mesh file (VTK, VTU, MSH, MEDIT, ...), repaired. Needs the extra ``soft``."""
        from marey.muscle._mesh_files import read_mesh

        return read_mesh(path)

    @staticmethod
    def from_surface(vertices: ArrayLike, faces: ArrayLike, *, edge_m: float | None = None) -> TetMesh:
        """Fill a closed surface, (N, 3) [m] and (M, 3), by fTetWild; it may be dirty. Needs the extra ``soft``."""
        from marey.muscle._mesh_files import fill_surface

        return fill_surface(vertices, faces, edge_m)

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
        return find_boundary_faces(self.cells)

    def repair(self) -> tuple[TetMesh, MeshReport]:
        """A mesh that can be simulated, and what was done to get it, with cell numbers."""
        from marey.muscle._mesh_repair import repair_mesh

        return repair_mesh(self.nodes, self.cells)

    def moved(self, offset: ArrayLike) -> TetMesh:
        """The mesh shifted by ``offset`` (3,) [m]."""
        return TetMesh(self.nodes + frozen(offset, 3, name="offset"), self.cells)


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


def find_boundary_faces(cells: IndexArray) -> IndexArray:
    """Faces (M, 3) of one cell only, outward, in the order of cells."""
    faces = cells[:, CELL_FACES].reshape(-1, 3)
    _, first, counts = np.unique(np.sort(faces, axis=1), axis=0, return_index=True, return_counts=True)
    return faces[np.sort(first[counts == 1])]
