"""Lattices of squares or cubes held together by springs, the first kind of body of [Engell2012]_."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, frozen
from marey.muscle.elastic.segments import (
    BlockMatrix,
    WeightedSegments,
    add_segment_blocks,
    add_segment_forces,
    differentiate_segments,
    make_pair_segments,
)
from marey.muscle.mesh.tet_mesh import IndexArray, freeze_indices, sum_by_index

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
