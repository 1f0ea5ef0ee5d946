"""Elastic models behind one interface, and the model of tetrahedra."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, UnknownNameError, frozen
from marey.muscle.elastic.assembly import (
    BlockMatrix,
    CellArrays,
    add_cell_forces,
    add_exact_stiffness,
    compute_cell_energy,
    compute_node_pressures,
    compute_node_volumes,
    compute_shape_gradients,
    find_block_positions,
    find_mirror_positions,
    make_block_pattern,
)
from marey.muscle.elastic.lanes import add_clamped_stiffness, compute_corotational_energy
from marey.muscle.mesh.graphs import load_sparse, sum_by_index
from marey.muscle.mesh.tet_mesh import IndexArray, TetMesh

if TYPE_CHECKING:
    from scipy.sparse import bsr_matrix


def to_sparse_tangent(elastic: ElasticModel) -> bsr_matrix:
    """The stiffness last assembled (3V, 3V) [N/m]: blocks, and the volumes of nodes as a product."""
    starts, columns, values = elastic.blocks
    count = len(starts) - 1
    matrix = load_sparse().bsr_matrix((values.copy(), columns, starts), shape=(3 * count, 3 * count))
    if not len(elastic.rises):
        return matrix
    wide = 3 * columns[:, None].astype(np.int64) + np.arange(3)
    rises = load_sparse().csr_matrix(
        (elastic.rises.ravel(), wide.ravel(), 3 * starts.astype(np.int64)), shape=(count, 3 * count)
    )
    whole = matrix.tocsr() + rises.T @ load_sparse().diags_array(elastic.rise_stiffness) @ rises
    return load_sparse().bsr_matrix(whole, blocksize=(3, 3))


MAX_POISSON: Final = 0.4999  # linear cells lock beyond
CELL_POISSON: Final = (
    0.3  # what a neo-Hookean cell holds by itself; its nodes hold the rest of the volume, so that beams bend
)
DEFAULT_POISSON: Final = {"neo-hookean": 0.49, "corotational": 0.45}
MATERIAL_NUMBERS: Final = {"corotational": 0, "neo-hookean": 1}


class ElasticModel(Protocol):
    """What a body asks of its material."""

    blocks: BlockMatrix
    rises: FloatArray  # (nnz, 3) [m^2] derivative of the volume around each node
    rise_stiffness: FloatArray  # (V,) [Pa / m^3]

    def energy(self, x: FloatArray) -> float:
        """Elastic energy [J]."""
        ...

    def forces(self, x: FloatArray) -> FloatArray:
        """Elastic forces (V, 3) [N]."""
        ...

    def assemble(self, x: FloatArray, *, exact: bool) -> FloatArray:
        """Fill ``blocks`` and ``rises`` at x; the forces (V, 3) [N]."""
        ...

    def inverted(self, x: FloatArray) -> int:
        """Number of cells turned inside out."""
        ...


@dataclass(slots=True, eq=False)
class TetrahedralElasticity:
    """Tetrahedra of one material.

    Cells hold a part of the volume, the averages around nodes the rest ([Bonet1998]_): linear cells alone would lock.
    """

    number: int
    arrays: CellArrays
    blocks: BlockMatrix
    mirrors: IndexArray  # (M, 2)
    rises: FloatArray
    rise_stiffness: FloatArray
    pressures: FloatArray  # (V,) [Pa] scratch

    def energy(self, x: FloatArray) -> float:
        """Elastic energy [J]."""
        compute_node_pressures(self.arrays, x, self.pressures)
        if self.number == MATERIAL_NUMBERS["corotational"]:
            return compute_corotational_energy(self.arrays, x, self.pressures)
        return compute_cell_energy(self.arrays, x, self.pressures)

    def forces(self, x: FloatArray) -> FloatArray:
        """Elastic forces (V, 3) [N]."""
        out = np.zeros_like(x)
        compute_node_pressures(self.arrays, x, self.pressures)
        add_cell_forces(self.number, self.arrays, x, self.pressures, out)
        return out

    def assemble(self, x: FloatArray, *, exact: bool) -> FloatArray:
        """Fill ``blocks`` and ``rises`` at x; the forces (V, 3) [N]."""
        out, values = np.zeros_like(x), self.blocks.values
        values[:] = 0.0
        self.rises[:] = 0.0
        compute_node_pressures(self.arrays, x, self.pressures)
        if exact:
            add_exact_stiffness(self.number, self.arrays, x, self.pressures, out, values, self.rises)
        else:
            add_clamped_stiffness(self.number, self.arrays, x, self.pressures, self.mirrors, out, values, self.rises)
        return out

    def inverted(self, x: FloatArray) -> int:
        """Number of cells turned inside out."""
        return compute_node_pressures(self.arrays, x, self.pressures)[0]


def make_tetrahedral_elasticity(
    mesh: TetMesh, material: str, young_pa: float, poisson: float | None, scale: ArrayLike | None
) -> TetrahedralElasticity:
    """Tetrahedra with moduli from Young and Poisson; ``scale`` (T,) multiplies both."""
    if material not in MATERIAL_NUMBERS:
        raise UnknownNameError("material", material, "soft bodies", (*MATERIAL_NUMBERS, "mass-spring"))
    factor = _stiffness_factors(scale, len(mesh.cells))
    mu, lam = _lame_moduli(young_pa, DEFAULT_POISSON[material] if poisson is None else poisson)
    own = min(lam, 2.0 * mu * CELL_POISSON / (1.0 - 2.0 * CELL_POISSON)) if material == "neo-hookean" else lam
    starts, columns = make_block_pattern(len(mesh.nodes), mesh.cells)
    shares = compute_node_volumes(mesh)
    whole = np.where(shares > 0, shares, 1.0)
    bulk = _node_means(mesh, factor * (lam - own)) / whole
    order = np.argsort(mesh.cells, axis=1)
    cells = np.take_along_axis(mesh.cells, order, axis=1)
    slopes = np.take_along_axis(compute_shape_gradients(mesh), order[:, :, None], axis=1)
    places = find_block_positions(starts, columns, cells)
    arrays = CellArrays(cells, slopes, mesh.volumes, factor * mu, factor * own, places, shares, bulk)
    blocks = BlockMatrix(starts, columns, np.zeros((len(columns), 3, 3)))
    rises = np.zeros((len(columns) if bulk.any() else 0, 3))
    mirrors = find_mirror_positions(starts, columns)
    return TetrahedralElasticity(
        MATERIAL_NUMBERS[material], arrays, blocks, mirrors, rises, bulk / whole, np.zeros(len(mesh.nodes))
    )


def _lame_moduli(young_pa: float, poisson: float) -> tuple[float, float]:
    if not (np.isfinite(young_pa) and young_pa > 0):
        raise InputError(f"young_pa is {young_pa}", "It must be positive")
    if not -1.0 < poisson < MAX_POISSON:
        raise InputError(f"poisson is {poisson}", f"Linear cells lock from {MAX_POISSON}; muscle has 0.45 to 0.49")
    return young_pa / (2 * (1 + poisson)), young_pa * poisson / ((1 + poisson) * (1 - 2 * poisson))


def _stiffness_factors(scale: ArrayLike | None, count: int) -> FloatArray:
    factors = np.ones(count) if scale is None else frozen(scale, count, name="stiffness_scale")
    if factors.size and factors.min() <= 0:
        raise InputError(f"stiffness_scale[{int(factors.argmin())}] is {factors.min()}", "It must be positive")
    return factors


def _node_means(mesh: TetMesh, values: FloatArray) -> FloatArray:
    """Sum over cells around a node of a quarter of volume times value (V,)."""
    return sum_by_index(mesh.cells, np.repeat(mesh.volumes * values / 4, 4), len(mesh.nodes))
