"""Closed triangle surfaces: files, signed distance, and the tetrahedra that fill them.

The distance function of a surface goes through the same lattice as that of the shapes made here, so that cells are
good, their number is known before, and no other library is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, FormatError, InputError, MissingFileError, frozen, kernel
from marey.lie.kernels import cross, dot, row3, subtract3
from marey.muscle.mesh.shapes import tetrahedralise_shape
from marey.muscle.mesh.tet_mesh import IndexArray, TetMesh, freeze_indices, read_mesh_blocks

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

    def distance(self, points: ArrayLike) -> FloatArray:
        """Signed distance ``(N,)`` [m] of points ``(N, 3)``: negative inside."""
        p = np.array(points, dtype=np.float64).reshape(-1, 3)
        return compute_surface_distances(p, self.vertices, self.faces)

    def bounds(self) -> FloatArray:
        """Corners ``(2, 3)`` [m] of an upright box that holds the surface."""
        return np.stack([self.vertices.min(axis=0), self.vertices.max(axis=0)])

    def fill(self, edge_m: float | None = None, *, max_cells: int = DEFAULT_CELLS) -> TetMesh:
        """Tetrahedra inside the surface.

        Args:
            edge_m: longest edge of a cell [m]; as long as ``max_cells`` allows by default.
            max_cells: of a body whose edges are not asked for.

        Raises:
            InputError: the surface encloses nothing, or an edge that is not positive.
        """
        size = float(np.linalg.norm(np.ptp(self.vertices, axis=0)))
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
