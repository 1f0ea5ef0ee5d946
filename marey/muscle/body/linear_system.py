"""The linear system of a step, and its two-level preconditioner.

With Z the rigid motions of the regions and the rates of bones, :math:`B = D^{-1} + Z (Z^T A Z)^{-1} Z^T`. Diagonal
blocks pass forces from node to node; long, slow bending of a limb takes them as many iterations as the limb has nodes.
The regions, which move as if rigid, need one.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from marey.base import FloatArray, kernel
from marey.muscle.elastic.assembly import BlockMatrix
from marey.muscle.mesh.tet_mesh import IndexArray
from marey.muscle.muscles.transfer import MuscleArrays

FREE: Final = -1  # carrier of a node: itself;
HELD: Final = -2  # fixed node; bones are 0 and above


class BoneArrays(NamedTuple):
    """Nodes carried by bones and the rates that move them."""

    nodes: IndexArray  # (C,) carried nodes
    owners: IndexArray  # (C,) bone of each
    arms: FloatArray  # (C, 3) [m] where they are
    screws: FloatArray  # (D, 6) world twist (angular, linear at the origin) of each rate
    moves: IndexArray  # (B, D) 1 where a rate moves a bone
    inertia: FloatArray  # (D, D) what the rates weigh beside their nodes [kg m^2], limits included
    twists: FloatArray  # (B, 6) scratch


class CoarseSpace(NamedTuple):
    """Regions and bones that move as if rigid."""

    labels: IndexArray  # (V,) region of a free node, then bones; -1 for held nodes
    regions: int
    arms: FloatArray  # (V, 3) [m]
    raw: FloatArray  # (6 (A + B), 6 (A + B)) regions and bones, (angular, linear) each
    inverse: FloatArray  # (6 A + D, 6 A + D) regions and rates
    vectors: FloatArray  # (2, 6 A + D) scratch
    row: FloatArray  # (A + B, 3, 6) scratch
    touched: IndexArray  # (A + B,) scratch


class LinearSystem(NamedTuple):
    r"""The matrix :math:`P^T (A + G^T \mathrm{diag}(w) G + \text{muscles}) P + \text{inertia of rates}`.

    Unknowns are (V + R, 3): velocities of free nodes, then rates of joints in rows of three.
    """

    matrix: BlockMatrix  # A [kg]
    rises: FloatArray  # G (nnz, 3) [m^2], or (0, 3)
    weights: FloatArray  # w (V,)
    carriers: IndexArray  # (V,)
    diagonal: FloatArray  # (V, 3, 3) inverses of diagonal blocks
    bones: BoneArrays
    coarse: CoarseSpace
    muscles: MuscleArrays
    blocks: FloatArray  # (S, 3, 3) [kg] of segments of splines
    work: FloatArray  # (2, N, 3)
    nodal: FloatArray  # (2, V, 3) scratch


MIN_PIVOT = 1e-11  # [-] pivot over its diagonal; smaller ones mark dependent motions


@kernel
def update_region_arms(c: CoarseSpace, x: FloatArray) -> None:
    """Arms of nodes from the centre of their region, or from the world's origin for those of bones."""
    count = np.zeros(c.regions)
    centres = np.zeros((c.regions, 3))
    for n in range(x.shape[0]):
        a = c.labels[n]
        if 0 <= a < c.regions:
            count[a] += 1.0
            for i in range(3):
                centres[a, i] += x[n, i]
    for n in range(x.shape[0]):
        a = c.labels[n]
        for i in range(3):
            c.arms[n, i] = x[n, i] - (centres[a, i] / count[a] if 0 <= a < c.regions else 0.0)


@kernel
def _mark_touched(c: CoarseSpace, b: Any, touched: int) -> int:
    """Note that region b takes part in a row; how many do."""
    for t in range(touched):
        if c.touched[t] == b:
            return touched
    c.touched[touched] = b
    return touched + 1


@kernel
def assemble_coarse_matrix(s: LinearSystem) -> None:
    """Write :math:`Z^T A Z` of blocks and volumes, (angular, linear) for each region and bone."""
    c, m = s.coarse, s.matrix
    c.raw[:] = 0.0
    for n in range(s.carriers.shape[0]):
        a = c.labels[n]
        if a < 0:
            continue
        # A Z: the row of blocks of node n times the rigid motion of each region that it meets, (3, 6) each.
        touched = 0
        for k in range(m.starts[n], m.starts[n + 1]):
            b = c.labels[m.columns[k]]
            if b >= 0:
                touched = _mark_touched(c, b, touched)
                row, block, arm = c.row[b], m.values[k], c.arms[m.columns[k]]
                for i in range(3):
                    b0, b1, b2 = block[i, 0], block[i, 1], block[i, 2]
                    row[i, 0] += arm[1] * b2 - arm[2] * b1
                    row[i, 1] += arm[2] * b0 - arm[0] * b2
                    row[i, 2] += arm[0] * b1 - arm[1] * b0
                    row[i, 3] += b0
                    row[i, 4] += b1
                    row[i, 5] += b2
        # Z^T of it: the rigid motion of the region of n; the rows are cleared for the next node.
        arm, i = c.arms[n], 6 * a
        for t in range(touched):
            j, row = 6 * c.touched[t], c.row[c.touched[t]]
            for e in range(6):
                r0, r1, r2 = row[0, e], row[1, e], row[2, e]
                c.raw[i, j + e] += arm[1] * r2 - arm[2] * r1
                c.raw[i + 1, j + e] += arm[2] * r0 - arm[0] * r2
                c.raw[i + 2, j + e] += arm[0] * r1 - arm[1] * r0
                c.raw[i + 3, j + e] += r0
                c.raw[i + 4, j + e] += r1
                c.raw[i + 5, j + e] += r2
                row[0, e], row[1, e], row[2, e] = 0.0, 0.0, 0.0
    # Z^T G^T diag(w) G Z: a product of rank one for each node.
    for n in range(s.carriers.shape[0] if s.rises.shape[0] > 0 else 0):
        weight = s.weights[n]
        if weight == 0.0:
            continue
        # G Z: the change of the volume around n with the rigid motion of each region, (6,) each.
        touched = 0
        for k in range(m.starts[n], m.starts[n + 1]):
            b = c.labels[m.columns[k]]
            if b >= 0:
                touched = _mark_touched(c, b, touched)
                g, arm, row = s.rises[k], c.arms[m.columns[k]], c.row[b, 0]
                row[0] += arm[1] * g[2] - arm[2] * g[1]
                row[1] += arm[2] * g[0] - arm[0] * g[2]
                row[2] += arm[0] * g[1] - arm[1] * g[0]
                row[3] += g[0]
                row[4] += g[1]
                row[5] += g[2]
        for t in range(touched):
            for u in range(touched):
                a, b = c.touched[t], c.touched[u]
                for i in range(6):
                    for j in range(6):
                        c.raw[6 * a + i, 6 * b + j] += weight * c.row[a, 0, i] * c.row[b, 0, j]
        for t in range(touched):
            for i in range(6):
                c.row[c.touched[t], 0, i] = 0.0


@kernel
def invert_coarse_matrix(a: FloatArray) -> None:
    """The inverse of a symmetric positive matrix in place, by sweeps; motions that vanish are left out."""
    size = a.shape[0]
    diagonal, column = np.empty(size), np.empty(size)
    for k in range(size):
        diagonal[k] = a[k, k]
    # Sweep on each diagonal entry in turn; only the lower half is kept.
    for k in range(size):
        pivot = a[k, k]
        fits = pivot > MIN_PIVOT * diagonal[k]
        for j in range(size):
            column[j] = (a[k, j] if j < k else a[j, k]) if fits else 0.0
        column[k] = -1.0 if fits else 0.0
        scale = 1.0 / pivot if fits else 0.0
        for j in range(k + 1):
            a[k, j] = 0.0
        for i in range(k, size):
            a[i, k] = 0.0
        for i in range(size):
            factor = scale * column[i]
            for j in range(i + 1):
                a[i, j] -= factor * column[j]
    for i in range(size):
        for j in range(i + 1):
            a[i, j] = -a[i, j]
            a[j, i] = a[i, j]


@kernel
def apply_preconditioner(s: LinearSystem, r: FloatArray, z: FloatArray) -> None:
    """Write an approximate solution z of the system for r, both (V + R, 3)."""
    c, count = s.coarse, s.carriers.shape[0]
    d = s.diagonal
    given, found = c.vectors[0], c.vectors[1]
    given[:] = 0.0
    found[:] = 0.0
    # D^-1 r, and Z^T r of the regions.
    for n in range(count):
        r0, r1, r2 = r[n, 0], r[n, 1], r[n, 2]
        z[n, 0] = d[n, 0, 0] * r0 + d[n, 0, 1] * r1 + d[n, 0, 2] * r2
        z[n, 1] = d[n, 1, 0] * r0 + d[n, 1, 1] * r1 + d[n, 1, 2] * r2
        z[n, 2] = d[n, 2, 0] * r0 + d[n, 2, 1] * r1 + d[n, 2, 2] * r2
        a = c.labels[n]
        if 0 <= a < c.regions:
            x = c.arms[n]
            given[6 * a] += x[1] * r2 - x[2] * r1
            given[6 * a + 1] += x[2] * r0 - x[0] * r2
            given[6 * a + 2] += x[0] * r1 - x[1] * r0
            given[6 * a + 3] += r0
            given[6 * a + 4] += r1
            given[6 * a + 5] += r2
    rates = s.bones.screws.shape[0]
    for k in range(rates):
        given[6 * c.regions + k] = r[count + k // 3, k % 3]
    # (Z^T A Z)^-1 of it.
    for k in range(given.shape[0]):
        g = given[k]
        for j in range(given.shape[0]):
            found[j] += c.inverse[k, j] * g
    # Z of the answer.
    for n in range(count):
        a = c.labels[n]
        if 0 <= a < c.regions:
            x, w = c.arms[n], 6 * a
            z[n, 0] += found[w + 3] + found[w + 1] * x[2] - found[w + 2] * x[1]
            z[n, 1] += found[w + 4] + found[w + 2] * x[0] - found[w] * x[2]
            z[n, 2] += found[w + 5] + found[w] * x[1] - found[w + 1] * x[0]
    for n in range(count, z.shape[0]):
        for i in range(3):
            z[n, i] = 0.0
    for k in range(rates):
        z[count + k // 3, k % 3] = found[6 * c.regions + k]


NODES_PER_REGION: Final = 60
MAX_REGIONS: Final = 36  # the matrix of regions is dense: six rows each


def make_coarse_space(nodes: FloatArray, blocks: BlockMatrix, carriers: IndexArray, bones: BoneArrays) -> CoarseSpace:
    """Cut the free nodes (V, 3) into regions, along the edges of the matrix; each bone is one more."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    # Lengths of the edges between free nodes.
    rows = np.repeat(np.arange(len(nodes)), np.diff(blocks.starts))
    free = (carriers[rows] == FREE) & (carriers[blocks.columns] == FREE)
    rows, columns = rows[free], blocks.columns[free]
    lengths = np.linalg.norm(nodes[rows] - nodes[columns], axis=1)
    graph = csr_array((lengths + 1e-12, (rows, columns)), shape=(len(nodes), len(nodes)))
    # Each next seed is the node farthest from the seeds before it; a node belongs to the nearest seed.
    inside = carriers == FREE
    regions = min(MAX_REGIONS, -(-int(inside.sum()) // NODES_PER_REGION))
    labels = np.full(len(nodes), -1, dtype=np.int32)
    nearest = np.where(inside, np.inf, -1.0)
    for number in range(regions):
        seed = int(np.argmax(nearest))
        found = dijkstra(graph, indices=[seed])[0]
        closer = inside & (found < nearest)
        labels[closer] = number
        nearest[closer] = found[closer]
        nearest[seed] = 0.0
    regions = int(labels.max(initial=-1)) + 1
    labels[carriers >= 0] = regions + carriers[carriers >= 0]
    rigid, whole = regions + len(bones.moves), 6 * regions + len(bones.screws)
    return CoarseSpace(
        labels,
        regions,
        arms=np.zeros_like(nodes),
        raw=np.zeros((6 * rigid, 6 * rigid)),
        inverse=np.zeros((whole, whole)),
        vectors=np.zeros((2, whole)),
        row=np.zeros((rigid, 3, 6)),
        touched=np.zeros(rigid, dtype=np.int32),
    )
