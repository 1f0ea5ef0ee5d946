"""Meshes of a soft body: closed triangle surfaces and the tetrahedra that fill them.

Meshes are made as boxes and cylinders, read from files, or filled into closed surfaces. Meshes that cannot be simulated
are repaired, and the report counts what was wrong.

The distance function of a surface goes through the same lattice as that of the shapes made here, so that cells are
good, their number is known before, and no other library is needed.
"""

from __future__ import annotations

import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise, permutations
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marey.base import (
    FloatArray,
    FormatError,
    InputError,
    IntArray,
    MareyWarning,
    MissingExtraError,
    MissingFileError,
    frozen,
    kernel,
)
from marey.lie.kernels import cross, dot, row3, subtract3
from marey.muscle.elastic.shapes import tetrahedralise_shape

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


SURFACE_SUFFIXES: Final = (".obj", ".ply", ".stl", ".off")
DEFAULT_CELLS: Final = 3000  # cells of a body whose size nobody asked for: 30 frames a second on one core
MAX_FACES: Final = 500_000
MAX_TRIES: Final = 6
VOLUME_TOL: Final = 0.015  # [-] of the volume that cells may lack or have too much
LONGEST_EDGE: Final = 1.46  # [-] of a clipped cell over the side of a cube of the lattice
CELLS_A_CUBE: Final = 12  # tetrahedra of a cube of the lattice


@kernel
def compute_surface_distances(points: FloatArray, vertices: FloatArray, faces: IndexArray) -> FloatArray:
    r"""Signed distance ``(N,)`` [m] of points ``(N, 3)`` to triangles: negative where they wind around the point.

    .. math:: w = \frac{1}{4\pi}\sum_f \Omega_f, \qquad
        \tan\frac{\Omega}{2} = \frac{a\cdot b\times c}{abc + (a\cdot b)c + (b\cdot c)a + (c\cdot a)b}

    The winding number ([Jacobson2013]_) is a half on the surface; small holes and overlaps do not change its side.
    """
    out = np.empty(len(points))
    for i in range(len(points)):
        p = row3(points, i)
        nearest, winding = np.inf, 0.0
        for f in range(len(faces)):
            a = subtract3(row3(vertices, faces[f, 0]), p)
            b = subtract3(row3(vertices, faces[f, 1]), p)
            c = subtract3(row3(vertices, faces[f, 2]), p)
            # Solid angle of the triangle
            la, lb, lc = np.sqrt(dot(a, a)), np.sqrt(dot(b, b)), np.sqrt(dot(c, c))
            below = la * lb * lc + dot(a, b) * lc + dot(b, c) * la + dot(c, a) * lb
            winding += np.arctan2(dot(a, cross(b, c)), below)
            # Nearest point of the triangle to the origin: inside it, or on an edge
            u, v = subtract3(b, a), subtract3(c, a)
            n = cross(u, v)
            area = dot(n, n)
            square = np.inf
            if area > 0.0:
                s, t = dot(cross(v, n), a) / area, dot(cross(n, u), a) / area
                # a + s' u + t' v is the foot of the perpendicular with s' = -(a . v x n) / |n|^2 and likewise t'
                s, t = -s, -t
                if s >= 0.0 and t >= 0.0 and s + t <= 1.0:
                    square = dot(a, n) ** 2 / area
            if square == np.inf:
                square = min(_edge_square(a, b), min(_edge_square(b, c), _edge_square(c, a)))
            nearest = min(nearest, square)
        out[i] = -np.sqrt(nearest) if winding > np.pi else np.sqrt(nearest)
    return out


@kernel
def _edge_square(a: tuple[float, float, float], b: tuple[float, float, float]) -> float:
    """Square of the distance of the origin to the edge between two points."""
    e = subtract3(b, a)
    length = dot(e, e)
    s = min(max(-dot(a, e) / length, 0.0), 1.0) if length > 0.0 else 0.0
    r = (a[0] + s * e[0], a[1] + s * e[1], a[2] + s * e[2])
    return dot(r, r)


@dataclass(frozen=True, slots=True, eq=False)
class SurfaceMesh:
    """A closed surface of triangles, counter-clockwise from outside; turned if it is the other way round."""

    vertices: FloatArray  # (N, 3) [m]
    faces: IndexArray  # (M, 3)

    def __post_init__(self) -> None:
        object.__setattr__(self, "vertices", frozen(self.vertices, None, 3, name="vertices"))
        faces = freeze_indices(self.faces, 3, len(self.vertices), name="faces")
        if not len(faces):
            raise InputError("the surface has no face")
        if len(faces) > MAX_FACES:
            raise InputError(f"a surface of {len(faces)} faces", f"Simplify it to at most {MAX_FACES}")
        object.__setattr__(self, "faces", faces)
        if self.volume < 0.0:
            object.__setattr__(self, "faces", np.ascontiguousarray(faces[:, ::-1]))

    @staticmethod
    def load(path: str | PathLike[str], *, scale: float = 1.0) -> SurfaceMesh:
        """Read the triangles of an OBJ, PLY, STL or OFF file, polygons as fans; lengths times ``scale`` are metres.

        Raises:
            MissingFileError: there is no such file.
            FormatError: it holds no triangles, or a number that is none.
        """
        file = Path(path)
        if not file.is_file():
            raise MissingFileError(str(file))
        if file.suffix.lower() == ".obj":
            # A Wavefront file; groups, normals and textures are passed over
            points, triangles = list[list[float]](), list[list[int]]()
            for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
                words = line.split()
                if not words or words[0] not in ("v", "f"):
                    continue
                try:
                    if words[0] == "v":
                        x, y, z = (float(word) for word in words[1:4])
                        points.append([x, y, z])
                    else:
                        corners = [int(word.split("/")[0]) for word in words[1:]]
                        corners = [corner - 1 if corner > 0 else len(points) + corner for corner in corners]
                        triangles += [[corners[0], b, c] for b, c in pairwise(corners[1:])]
                except ValueError:
                    raise FormatError(
                        f"'{line.strip()[:60]}' is no vertex or face", str(file), number, "Export it again"
                    ) from None
            if not triangles:
                raise FormatError("no faces", str(file), 0, "Give a surface")
            vertices, faces = np.array(points), np.array(triangles, dtype=np.int32)
        else:
            vertices, blocks = read_mesh_blocks(file)
            polygons = [np.asarray(data) for kind, data in blocks if kind in ("triangle", "quad", "polygon")]
            fans = [p[:, [0, k, k + 1]] for p in polygons for k in range(1, p.shape[1] - 1)]
            if not fans:
                kinds = ", ".join(sorted({kind for kind, _ in blocks})) or "nothing"
                raise FormatError(f"no triangles, only {kinds}", str(file), 0, "Give a surface")
            faces = np.concatenate(fans)
        # Corners of one place are one vertex: STL has three for each triangle
        _, first, numbers = np.unique(vertices.round(9), axis=0, return_index=True, return_inverse=True)
        return SurfaceMesh(scale * vertices[first], numbers.ravel()[faces].astype(np.int32))

    @property
    def volume(self) -> float:
        """Volume inside [m^3]."""
        a, b, c = (self.vertices[self.faces[:, k]] for k in range(3))
        return float(np.einsum("fi,fi->", a, np.cross(b, c))) / 6.0

    def measure_holes(self) -> FloatArray:
        """Widths [m] of the holes, widest first: each is the diagonal of a box around edges of one triangle only."""
        edges = np.sort(np.concatenate([self.faces[:, [0, 1]], self.faces[:, [1, 2]], self.faces[:, [2, 0]]]), axis=1)
        edges, counts = np.unique(edges[edges[:, 0] != edges[:, 1]], axis=0, return_counts=True)
        corners, numbers = np.unique(edges[counts == 1], return_inverse=True)
        a, b = numbers.reshape(-1, 2).T
        count, labels = find_connected_parts(len(corners), a, b)
        rings = [self.vertices[corners[labels == k]] for k in range(count)]
        return np.sort([float(np.linalg.norm(np.ptp(ring, axis=0))) for ring in rings])[::-1]

    def distance(self, points: ArrayLike) -> FloatArray:
        """Signed distance ``(N,)`` [m] of points ``(N, 3)``: negative inside."""
        p = np.array(points, dtype=np.float64).reshape(-1, 3)
        return compute_surface_distances(p, self.vertices, self.faces)

    def bounds(self) -> FloatArray:
        """Corners ``(2, 3)`` [m] of an upright box that holds the surface."""
        return np.stack([self.vertices.min(axis=0), self.vertices.max(axis=0)])

    def fill(self, edge_m: float | None = None, *, max_cells: int = DEFAULT_CELLS) -> TetMesh:
        """Tetrahedra inside the surface; holes are closed where the surface winds around half of a point's view.

        Warns:
            MareyWarning: the surface has holes: how many, and how wide.

        Args:
            edge_m: longest edge of a cell [m]; as long as ``max_cells`` allows by default.
            max_cells: of a body whose edges are not asked for.

        Raises:
            InputError: the surface encloses nothing, or an edge that is not positive.
        """
        size, holes = float(np.linalg.norm(np.ptp(self.vertices, axis=0))), self.measure_holes()
        if len(holes) and self.volume > 1e-9 * size**3:
            text = f"the surface has {len(holes)} hole{'s' * (len(holes) > 1)}, up to {holes[0]:.3g} m wide"
            warnings.warn(f"{text} (it is {size:.3g} m long); they are closed", MareyWarning, stacklevel=2)
        if edge_m is not None:
            if not (np.isfinite(edge_m) and edge_m > 0.0):
                raise InputError(f"edge_m is {edge_m}", "It must be positive")
            return self._fill_lattice(float(edge_m) / LONGEST_EDGE)
        if not self.volume > 1e-9 * size**3:
            raise InputError("the surface encloses nothing", "It must be closed")
        spacing = float((1.4 * CELLS_A_CUBE * self.volume / max_cells) ** (1 / 3))
        for _ in range(MAX_TRIES):
            mesh = self._fill_lattice(spacing)
            count = len(mesh.cells)
            if count <= max_cells:
                return mesh
            spacing *= 1.04 * (count / max_cells) ** (1 / 3)
        raise InputError(f"the surface takes more than {max_cells} cells", "Give edge_m, or more cells")

    def _fill_lattice(self, spacing_m: float) -> TetMesh:
        """Cells that hold the volume of the surface: what they lose at its corners they gain along its faces."""
        a, b, c = (self.vertices[self.faces[:, k]] for k in range(3))
        area = 0.5 * float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum())
        swell, tries = 0.0, 0
        while True:
            mesh = TetMesh(*tetrahedralise_shape(self, spacing_m, swell)).repair()[0]
            missing, tries = self.volume - mesh.volume, tries + 1
            if abs(missing) <= VOLUME_TOL * self.volume or tries == MAX_TRIES:
                return mesh
            swell = float(np.clip(swell + missing / area, -0.25 * spacing_m, 0.25 * spacing_m))
