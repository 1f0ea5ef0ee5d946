r"""Elastic models: lattices of springs, and tetrahedra by co-rotational and stable neo-Hookean laws.

Lattices of squares or cubes are the first kind of body of [Engell2012]_. Both energies of tetrahedra depend on the
singular values of the deformation gradient :math:`F = U \Sigma V^T` alone,

.. math:: \mu\|\Sigma - I\|^2 + \frac\lambda2 \mathrm{tr}^2(\Sigma - I),\qquad
          \frac\mu2(\|\Sigma\|^2 - 3) - \mu(J-1) + \frac{\lambda+\mu}2(J-1)^2 + p\,(J-1),

with the pressure p of the nodes around a cell, so that both stiffnesses have the same shape in the frame of U and V: a
3x3 matrix A for stretches and, for each plane, one value for shear and one for twist. A stiffness that must not push
is clamped there ([Smith2018]_ §4).

The same laws cell by cell are the oracle of the tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from math import inf
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, UnknownNameError, frozen, kernel
from marey.muscle.elastic.cell_lanes import (
    BLOCKS_SIZE,
    COF,
    LAM,
    LANES,
    MU,
    TABLE_SIZE,
    VOLUME,
    A,
    CellArrays,
    F,
    P,
    S,
    clamp_eigenvalues,
    decompose_lanes,
    evaluate_corotational,
    evaluate_neo_hookean,
    load_lanes,
    load_row,
    write_blocks,
)
from marey.muscle.elastic.mesh import IndexArray, TetMesh, freeze_indices, sum_by_index
from marey.muscle.elastic.segments import (
    BlockMatrix,
    WeightedSegments,
    add_segment_blocks,
    add_segment_forces,
    differentiate_segments,
    make_pair_segments,
)

CUBE_QUADS: Final = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """Squares (in the plane z = 0) or cubes of one size; corner ``4 dx + 2 dy + dz``, or ``2 dx + dy`` in the plane."""

    nodes: FloatArray  # (V, 3) [m]
    cells: IndexArray  # (C, 8) or (C, 4)
    springs: IndexArray  # (S, 2) edges, face diagonals, body diagonals
    shares: FloatArray  # (S,) stiffness of each spring over that of Young's modulus times the spacing
    spacing_m: float

    @staticmethod
    def from_mask(mask: ArrayLike, spacing_m: float, *, origin: ArrayLike = (0.0, 0.0, 0.0)) -> Lattice:
        """Cells where the grid ``mask``, (nx, ny) or (nx, ny, nz), is true; its first corner lies at ``origin`` [m]."""
        filled = np.asarray(mask)
        if filled.dtype != np.bool_ or filled.ndim not in (2, 3):
            raise InputError(
                f"mask is {filled.dtype} of {filled.ndim} axes", "Give a grid of truth values, 2 or 3 axes"
            )
        if not filled.any():
            raise InputError("mask is empty", "At least one cell must be true")
        if not (np.isfinite(spacing_m) and spacing_m > 0):
            raise InputError(f"spacing_m is {spacing_m}", "It must be positive")
        corners = np.array(list(product((0, 1), repeat=filled.ndim)))
        keys = np.argwhere(filled)[:, None, :] + corners
        grid, cells = np.unique(keys.reshape(-1, filled.ndim), axis=0, return_inverse=True)
        flat = np.zeros((len(grid), 3))
        flat[:, : filled.ndim] = grid * spacing_m
        numbered = cells.reshape(-1, len(corners)).astype(np.int32)
        # All springs once, with the sum of what each cell gives to them. Every cell gives k1/4 to its edges, k2/2 to
        # diagonals of faces, k3 to its own (in the plane k1/2, k2), with k1 = 11/3 k, k2 = k3 = k = 6 E h/35 (in the
        # plane k1 = 2 k, k = 3 E h/8). A lattice is then isotropic with Young's modulus E; Poisson's ratio is 1/4, in
        # the plane 1/3, as it must be where all forces are central.
        solid = {1: 11 / 3 * 6 / 35 / 4, 2: 6 / 35 / 2, 3: 6 / 35}
        share = solid if filled.ndim == 3 else {1: 2 * 3 / 8 / 2, 2: 3 / 8}
        pairs = list(combinations(range(len(corners)), 2))
        gifts = np.array([share[int(np.abs(corners[a] - corners[b]).sum())] for a, b in pairs])
        joined = np.sort(numbered[:, pairs].reshape(-1, 2), axis=1)
        found, which = np.unique(joined, axis=0, return_inverse=True)
        springs, shares = found.astype(np.int32), sum_by_index(which, np.tile(gifts, len(numbered)), len(found))
        return Lattice(flat + frozen(origin, 3, name="origin"), numbered, springs, shares, float(spacing_m))

    @property
    def is_flat(self) -> bool:
        """Whether the cells are squares."""
        return self.cells.shape[1] == 4

    @property
    def volumes(self) -> FloatArray:
        """Volume of each cell (C,) [m^3]; a square is as thick as wide."""
        return np.full(len(self.cells), self.spacing_m**3)

    @property
    def surface(self) -> IndexArray:
        """Triangles (M, 3) for display: squares, or outer faces of cubes seen from outside."""
        if self.is_flat:
            quads = self.cells[:, [0, 2, 3, 1]]
        else:
            quads = self.cells[:, CUBE_QUADS].reshape(-1, 4)
            _, first, counts = np.unique(np.sort(quads, axis=1), axis=0, return_index=True, return_counts=True)
            quads = quads[np.sort(first[counts == 1])]
        return quads[:, [0, 1, 2, 0, 2, 3]].reshape(-1, 3)


@dataclass(slots=True, eq=False)
class SpringElasticity:
    """Springs as an elastic model."""

    springs: WeightedSegments
    places: IntArray  # (4 S,) where the ends of each spring add into the values of the matrix
    cells: IndexArray
    blocks: BlockMatrix
    rises: FloatArray  # (0, 3): no volume term
    rise_stiffness: FloatArray  # (V,) zeros

    def energy(self, x: FloatArray) -> float:
        r"""Elastic energy :math:`\sum \frac{k}{2} (l - l_0)^2` [J]."""
        lengths = np.linalg.norm(np.diff(x[self.springs.nodes.reshape(-1, 2)], axis=1)[:, 0], axis=1)
        return 0.5 * float(self.springs.stiffness @ (lengths - self.springs.rest) ** 2)

    def forces(self, x: FloatArray) -> FloatArray:
        """Elastic forces (V, 3) [N]."""
        out = np.zeros_like(x)
        add_segment_forces(self.springs, x, out.copy(), np.ones(len(self.springs.rest)), out)
        return out

    def assemble(self, x: FloatArray, *, exact: bool) -> FloatArray:
        """Fill ``blocks`` at x; the forces (V, 3) [N]. Unless exact, a pushing spring is not stiff sideways."""
        self.blocks.values[:] = 0.0
        by_x, _, _ = differentiate_segments(self.springs, x, np.zeros_like(x), np.ones(len(self.springs.rest)), exact)
        add_segment_blocks(self.springs, by_x, self.places, self.blocks.values)
        return self.forces(x)

    def count_inverted(self, x: FloatArray) -> int:
        """Cells turned inside out at their first corner."""
        corner = x[self.cells[:, 0]]
        if self.cells.shape[1] == 4:
            a, b = x[self.cells[:, 2]] - corner, x[self.cells[:, 1]] - corner
            return int(np.count_nonzero(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0] <= 0))
        edges = [x[self.cells[:, k]] - corner for k in (4, 2, 1)]
        return int(np.count_nonzero(np.einsum("ci,ci->c", edges[0], np.cross(edges[1], edges[2])) <= 0))


def make_spring_elasticity(lattice: Lattice, young_pa: float, scale: ArrayLike | None) -> SpringElasticity:
    """Springs of a lattice; ``scale`` (C,) multiplies those of each cell (a shared spring takes the mean)."""
    if not (np.isfinite(young_pa) and young_pa > 0):
        raise InputError(f"young_pa is {young_pa}", "It must be positive")
    factor = np.ones(len(lattice.springs))
    if scale is not None:
        factors = frozen(scale, len(lattice.cells), name="stiffness_scale")
        if factors.min() <= 0:
            raise InputError(f"stiffness_scale[{int(factors.argmin())}] is {factors.min()}", "It must be positive")
        # Mean over the cells that share a spring; keys number its two ends.
        count = len(lattice.nodes)
        pairs = np.array(list(combinations(range(lattice.cells.shape[1]), 2)))
        joined = np.sort(lattice.cells[:, pairs].reshape(-1, 2), axis=1).astype(np.int64)
        keys = lattice.springs[:, 0].astype(np.int64) * count + lattice.springs[:, 1]
        which = np.searchsorted(keys, joined[:, 0] * count + joined[:, 1])
        total = sum_by_index(which, np.repeat(factors, len(pairs)), len(keys))
        factor = total / np.bincount(which, minlength=len(keys))
    ends = freeze_indices(lattice.springs, 2, len(lattice.nodes), name="springs")
    # Stiffness E h times the share of each spring, and its length at rest.
    blocks = BlockMatrix.from_groups(len(lattice.nodes), ends)
    lengths = np.linalg.norm(lattice.nodes[ends[:, 0]] - lattice.nodes[ends[:, 1]], axis=1)
    stiffness = young_pa * lattice.spacing_m * lattice.shares * factor
    springs = make_pair_segments(ends.astype(np.int64), lengths, stiffness, np.zeros(len(ends)))
    places = blocks.find_positions(ends).astype(np.int64).ravel()
    return SpringElasticity(springs, places, lattice.cells, blocks, np.zeros((0, 3)), np.zeros(len(lattice.nodes)))


COROTATIONAL, NEO_HOOKEAN = 0, 1


class CellSums(NamedTuple):
    """What the cells add to."""

    forces: FloatArray  # (V, 3) [N]
    values: FloatArray  # (nnz, 3, 3) [N/m] blocks of the stiffness, or (0, 3, 3)
    rises: FloatArray  # (nnz, 3) [m^2] derivative of the volume around node n by node j at block (n, j), or (0, 3)


@kernel
def deformation_gradient(c: CellArrays, x: FloatArray, t: int, f: FloatArray) -> float:
    """Write the deformation gradient F (3, 3) of cell t; its determinant."""
    n0, n1, n2, n3 = c.cells[t, 0], c.cells[t, 1], c.cells[t, 2], c.cells[t, 3]
    g = c.slopes[t]
    for i in range(3):
        e1, e2, e3 = x[n1, i] - x[n0, i], x[n2, i] - x[n0, i], x[n3, i] - x[n0, i]
        for j in range(3):
            f[i, j] = e1 * g[1, j] + e2 * g[2, j] + e3 * g[3, j]
    return (
        f[0, 0] * (f[1, 1] * f[2, 2] - f[1, 2] * f[2, 1])
        - f[0, 1] * (f[1, 0] * f[2, 2] - f[1, 2] * f[2, 0])
        + f[0, 2] * (f[1, 0] * f[2, 1] - f[1, 1] * f[2, 0])
    )


@kernel
def compute_node_pressures(c: CellArrays, x: FloatArray, out: FloatArray) -> int:
    r"""Write the pressure :math:`\kappa_n (J_n - 1)` of each node (V,) [Pa]; the number of inverted cells.

    J is the volume around a node over that at rest.
    """
    f = np.empty((3, 3))
    out[:] = 0.0
    inverted = 0
    for t in range(c.cells.shape[0]):
        ratio = deformation_gradient(c, x, t, f)
        inverted += ratio <= 0.0
        for a in range(4):
            out[c.cells[t, a]] += 0.25 * c.volumes[t] * ratio
    for n in range(out.shape[0]):
        if c.node_volumes[n] > 0.0:
            out[n] = c.node_bulk[n] * (out[n] / c.node_volumes[n] - 1.0)
    return inverted


@kernel
def compute_energy(material: int, c: CellArrays, x: FloatArray, pressures: FloatArray) -> float:
    """Elastic energy of the cells and of the volumes around nodes [J]; ``pressures`` are those at x."""
    energy = 0.0
    if material == COROTATIONAL:
        # mu |S - 1|^2 + lambda tr(S - 1)^2 / 2 of the stretches S; these cells hold all of the volume themselves.
        w = np.zeros(TABLE_SIZE)
        for first in range(0, c.cells.shape[0], LANES):
            many = min(LANES, c.cells.shape[0] - first)
            load_lanes(c, x, pressures, first, many, w)
            decompose_lanes(w)
            for n in range(many):
                s0, s1, s2 = load_row(w, S, 0, n)
                a, b, d = s0 - 1.0, s1 - 1.0, s2 - 1.0
                energy += w[VOLUME + n] * (w[MU + n] * (a * a + b * b + d * d) + 0.5 * w[LAM + n] * (a + b + d) ** 2)
        return energy
    # mu (|F|^2 - 3)/2 - mu (J - 1) + (lambda + mu)(J - 1)^2 / 2 of each cell, then the volumes around nodes.
    f = np.empty((3, 3))
    for t in range(c.cells.shape[0]):
        rise = deformation_gradient(c, x, t, f) - 1.0
        mu, square = c.mu[t], 0.0
        for i in range(3):
            square += f[i, 0] * f[i, 0] + f[i, 1] * f[i, 1] + f[i, 2] * f[i, 2]
        energy += c.volumes[t] * (0.5 * mu * (square - 3.0) - mu * rise + 0.5 * (c.lam[t] + mu) * rise * rise)
    for n in range(c.node_bulk.shape[0]):
        if c.node_bulk[n] > 0.0:
            energy += 0.5 * c.node_volumes[n] * pressures[n] * pressures[n] / c.node_bulk[n]
    return energy


@kernel
def add_cell_terms(
    material: int, c: CellArrays, x: FloatArray, pressures: FloatArray, exact: bool, sums: CellSums
) -> None:
    r"""Add forces, and stiffness blocks :math:`-\partial f/\partial x` and rises of node volumes where there are any.

    Unless ``exact``, no cell has a negative eigenvalue. The upper half of the matrix is summed, then mirrored.
    """
    forces_only = sums.values.shape[0] == 0
    w, k = np.zeros(TABLE_SIZE), np.zeros(BLOCKS_SIZE)
    scratch = np.empty((2, 3, 3))
    floor = -inf if exact else 0.0
    count = c.cells.shape[0]
    for first in range(0, count, LANES):
        # Kinematics of the cells: F = U S V^T, and the derivative of its determinant.
        many = min(LANES, count - first)
        load_lanes(c, x, pressures, first, many, w)
        # Cofactors of F: the derivative of its determinant
        for i in range(3):
            for j in range(3):
                a, b = F + LANES * 3 * ((i + 1) % 3), F + LANES * 3 * ((i + 2) % 3)
                p, q = LANES * ((j + 1) % 3), LANES * ((j + 2) % 3)
                for n in range(LANES):
                    w[COF + LANES * (3 * i + j) + n] = w[a + p + n] * w[b + q + n] - w[a + q + n] * w[b + p + n]
        if forces_only and material == NEO_HOOKEAN:
            # The stress needs the determinant of F alone: no singular values.
            for n in range(LANES):
                f0, f1, f2 = load_row(w, F, 0, n)
                k0, k1, k2 = load_row(w, COF, 0, n)
                w[S + n] = f0 * k0 + f1 * k1 + f2 * k2
                w[S + LANES + n], w[S + 2 * LANES + n] = 1.0, 1.0
        else:
            decompose_lanes(w)
        # The law: stress, and the stiffness in the frames of U and V.
        if material == COROTATIONAL:
            evaluate_corotational(w, floor)
        else:
            evaluate_neo_hookean(w, floor)
        for lane in range(many):
            # Forces of each cell: minus its volume times stress times slopes.
            t = first + lane
            for b in range(4):
                node, g0, g1, g2 = c.cells[t, b], c.slopes[t, b, 0], c.slopes[t, b, 1], c.slopes[t, b, 2]
                for i in range(3):
                    p0, p1, p2 = load_row(w, P, i, lane)
                    sums.forces[node, i] -= w[VOLUME + lane] * (p0 * g0 + p1 * g1 + p2 * g2)
        if forces_only:
            continue
        # What pushes is taken from the stretches too.
        if not exact:
            for lane in range(many):
                clamp_eigenvalues(w, A + lane, scratch[0], scratch[1])
        # Blocks turned to the world, and the sums over cells.
        write_blocks(w, k)
        for lane in range(many):
            _scatter_blocks(c, first + lane, lane, w, k, sums)
    for m in range(0 if forces_only else c.mirrors.shape[0]):
        up, down = c.mirrors[m, 0], c.mirrors[m, 1]
        for i in range(3):
            for j in range(3):
                sums.values[down, i, j] = sums.values[up, j, i]


@kernel
def _scatter_blocks(c: CellArrays, t: int, n: int, w: FloatArray, k: FloatArray, sums: CellSums) -> None:
    """Add the ten blocks of cell t, which is lane n, and the rises of the volumes around its nodes."""
    row = n
    for a in range(4):
        for b in range(a, 4):
            place = c.places[t, a, b]
            for i in range(3):
                for j in range(3):
                    sums.values[place, i, j] += k[row]
                    row += LANES
    if sums.rises.shape[0] > 0:
        for b in range(4):
            g0, g1, g2 = c.slopes[t, b, 0], c.slopes[t, b, 1], c.slopes[t, b, 2]
            for i in range(3):
                k0, k1, k2 = load_row(w, COF, i, n)
                rise = 0.25 * w[VOLUME + n] * (k0 * g0 + k1 * g1 + k2 * g2)
                for a in range(4):
                    sums.rises[c.places[t, a, b], i] += rise


MAX_POISSON: Final = 0.4999  # linear cells lock beyond
CELL_POISSON: Final = 0.3  # what a neo-Hookean cell holds by itself; its nodes hold the rest, so that beams bend
DEFAULT_POISSON: Final = {"neo-hookean": 0.49, "corotational": 0.45}
MATERIAL_NUMBERS: Final = {"corotational": COROTATIONAL, "neo-hookean": NEO_HOOKEAN}


@dataclass(slots=True, eq=False)
class TetrahedralElasticity:
    """Tetrahedra of one material.

    Cells hold a part of the volume, the averages around nodes the rest ([Bonet1998]_): linear cells alone would lock.
    """

    number: int
    arrays: CellArrays
    blocks: BlockMatrix
    rises: FloatArray
    rise_stiffness: FloatArray
    pressures: FloatArray  # (V,) [Pa] scratch

    def energy(self, x: FloatArray) -> float:
        """Elastic energy [J]."""
        compute_node_pressures(self.arrays, x, self.pressures)
        return compute_energy(self.number, self.arrays, x, self.pressures)

    def forces(self, x: FloatArray) -> FloatArray:
        """Elastic forces (V, 3) [N]."""
        sums = CellSums(np.zeros_like(x), np.zeros((0, 3, 3)), np.zeros((0, 3)))
        compute_node_pressures(self.arrays, x, self.pressures)
        add_cell_terms(self.number, self.arrays, x, self.pressures, True, sums)
        return sums.forces

    def assemble(self, x: FloatArray, *, exact: bool) -> FloatArray:
        """Fill ``blocks`` and ``rises`` at x; the forces (V, 3) [N]."""
        sums = CellSums(np.zeros_like(x), self.blocks.values, self.rises)
        sums.values[:] = 0.0
        sums.rises[:] = 0.0
        compute_node_pressures(self.arrays, x, self.pressures)
        add_cell_terms(self.number, self.arrays, x, self.pressures, exact, sums)
        return sums.forces

    def count_inverted(self, x: FloatArray) -> int:
        """Number of cells turned inside out."""
        return compute_node_pressures(self.arrays, x, self.pressures)


def make_tetrahedral_elasticity(
    mesh: TetMesh, material: str, young_pa: float, poisson: float | None, scale: ArrayLike | None
) -> TetrahedralElasticity:
    """Tetrahedra with moduli from Young and Poisson; ``scale`` (T,) multiplies both."""
    if material not in MATERIAL_NUMBERS:
        raise UnknownNameError("material", material, "soft bodies", (*MATERIAL_NUMBERS, "mass-spring"))
    factor = np.ones(len(mesh.cells)) if scale is None else frozen(scale, len(mesh.cells), name="stiffness_scale")
    if factor.size and factor.min() <= 0:
        raise InputError(f"stiffness_scale[{int(factor.argmin())}] is {factor.min()}", "It must be positive")
    if not (np.isfinite(young_pa) and young_pa > 0):
        raise InputError(f"young_pa is {young_pa}", "It must be positive")
    nu = DEFAULT_POISSON[material] if poisson is None else poisson
    if not -1.0 < nu < MAX_POISSON:
        raise InputError(f"poisson is {nu}", f"Linear cells lock from {MAX_POISSON}; muscle has 0.45 to 0.49")
    # Lamé's moduli; the cells of a neo-Hookean body hold only a part of the second.
    mu, lam = young_pa / (2 * (1 + nu)), young_pa * nu / ((1 + nu) * (1 - 2 * nu))
    own = min(lam, 2.0 * mu * CELL_POISSON / (1.0 - 2.0 * CELL_POISSON)) if material == "neo-hookean" else lam
    # The rest is held by the nodes, each with a quarter of the cells around it.
    shares = sum_by_index(mesh.cells, np.repeat(mesh.volumes / 4.0, 4), len(mesh.nodes))
    held = sum_by_index(mesh.cells, np.repeat(mesh.volumes * (factor * (lam - own)) / 4, 4), len(mesh.nodes))
    whole = np.where(shares > 0, shares, 1.0)
    bulk = held / whole
    # Gradients of the shape functions: rows of the inverse are slopes of corners 1 to 3.
    p = mesh.nodes[mesh.cells]
    inverse = np.linalg.inv((p[:, 1:] - p[:, :1]).transpose(0, 2, 1))
    slopes = np.concatenate([-inverse.sum(axis=1, keepdims=True), inverse], axis=1).astype(np.float64)
    order = np.argsort(mesh.cells, axis=1)
    cells = np.take_along_axis(mesh.cells, order, axis=1)
    blocks = BlockMatrix.from_groups(len(mesh.nodes), mesh.cells)
    # Each block above the diagonal, and its mirror image.
    rows = np.repeat(np.arange(len(mesh.nodes), dtype=np.int32), np.diff(blocks.starts))
    upper = np.flatnonzero(blocks.columns > rows)
    below = blocks.find_positions(np.column_stack([rows[upper], blocks.columns[upper]]))[:, 1, 0]
    arrays = CellArrays(
        cells,
        np.take_along_axis(slopes, order[:, :, None], axis=1),
        mesh.volumes,
        factor * mu,
        factor * own,
        blocks.find_positions(cells),
        np.ascontiguousarray(np.column_stack([upper, below]).astype(np.int32)),
        shares,
        bulk,
    )
    rises = np.zeros((len(blocks.columns) if bulk.any() else 0, 3))
    number = MATERIAL_NUMBERS[material]
    return TetrahedralElasticity(number, arrays, blocks, rises, bulk / whole, np.zeros(len(mesh.nodes)))
