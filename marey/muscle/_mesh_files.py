"""Meshes from files and from closed surfaces, by optional libraries."""

from __future__ import annotations

from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, FormatError, InputError, MissingExtraError, MissingFileError, frozen
from marey.muscle._mesh import IndexArray, TetMesh, freeze_indices
from marey.muscle._mesh_repair import repair_mesh

EDGE_FRACTION: Final = 0.05  # [-] length of an edge over the diagonal of the box, if none is asked for


def read_mesh(path: str | PathLike[str]) -> TetMesh:
    """Tetrahedra of a file, repaired."""
    file = Path(path)
    if not file.is_file():
        raise MissingFileError(str(file))
    points, blocks = _read_with_meshio(file)
    tetrahedra = [data for kind, data in blocks if kind == "tetra"]
    if not tetrahedra:
        kinds = ", ".join(sorted({kind for kind, _ in blocks})) or "nothing"
        raise FormatError(f"no tetrahedra, only {kinds}", str(file), 0, "Fill a surface by TetMesh.from_surface")
    nodes = frozen(points, None, 3, name=f"points of {file.name}")
    cells = freeze_indices(np.concatenate(tetrahedra), 4, len(nodes), name=f"cells of {file.name}")
    return repair_mesh(nodes, cells)[0]


def _read_with_meshio(file: Path) -> tuple[FloatArray, list[tuple[str, IndexArray]]]:
    """Points and blocks of cells as meshio reads them; its many errors become one."""
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


def fill_surface(vertices: ArrayLike, faces: ArrayLike, edge_m: float | None) -> TetMesh:
    """Tetrahedra inside a closed surface, repaired."""
    points = frozen(vertices, None, 3, name="vertices")
    triangles = freeze_indices(faces, 3, len(points), name="faces")
    if not len(triangles):
        raise InputError("the surface has no face")
    size = float(np.linalg.norm(np.ptp(points, axis=0)))
    edge = EDGE_FRACTION * size if edge_m is None else float(edge_m)
    if not (np.isfinite(edge) and edge > 0):
        raise InputError(f"edge_m is {edge_m}", "It must be positive")
    nodes, cells = _tetrahedralise(points, triangles, edge)
    if not len(cells):
        raise InputError("the surface encloses nothing", "It must be closed, and larger than its edges")
    return repair_mesh(nodes, cells)[0]


def _tetrahedralise(points: FloatArray, triangles: IndexArray, edge: float) -> tuple[FloatArray, IndexArray]:
    """Nodes and cells by fTetWild, which leaves a file where it runs: it runs in a folder of its own."""
    try:
        import pytetwild
    except ImportError:
        raise MissingExtraError("filling a surface", "soft") from None
    with TemporaryDirectory() as folder, chdir(folder):
        found = cast(Any, pytetwild).tetrahedralize(
            points.copy(), triangles.copy(), edge_length_abs=edge, num_threads=1
        )
    nodes, cells = found[:2]
    return np.asarray(nodes, dtype=np.float64), np.asarray(cells, dtype=np.int32)
