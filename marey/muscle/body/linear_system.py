"""The linear system of a step, its two-level preconditioner, and conjugate gradients over blocks of three.

With Z the rigid motions of the regions and the rates of bones, :math:`B = D^{-1} + Z (Z^T A Z)^{-1} Z^T`. Diagonal
blocks pass forces from node to node; long, slow bending of a limb takes them as many iterations as the limb has nodes.
The regions, which move as if rigid, need one.
"""

from __future__ import annotations

from math import sqrt
from typing import Any, Final, NamedTuple

import numpy as np

from marey.base import FloatArray, inline_kernel, kernel
from marey.lie.kernels import Vector, cross, row3
from marey.muscle.elastic.mesh import IndexArray
from marey.muscle.elastic.segments import BlockMatrix
from marey.muscle.muscles.transfer import (
    MuscleArrays,
    clear_rows,
    gather_velocities,
    scatter_forces,
    symmetric_cofactors,
)

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


class ContactPairs(NamedTuple):
    """Nodes that touch triangles: blocks on the velocity of one over the other."""

    nodes: IndexArray  # (P, 4) the node, then the corners
    shares: FloatArray  # (P, 4) 1, then minus the barycentric weights
    blocks: FloatArray  # (P, 3, 3) [kg]


NO_PAIRS: Final = ContactPairs(np.zeros((0, 4), dtype=np.int32), np.zeros((0, 4)), np.zeros((0, 3, 3)))


class LinearSystem(NamedTuple):
    r"""The matrix :math:`P^T (A + G^T \mathrm{diag}(w) G + \text{muscles, pairs}) P + \text{inertia of rates}`.

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
    pairs: ContactPairs = NO_PAIRS


MIN_PIVOT = 1e-11  # [-] pivot over its diagonal; smaller ones mark dependent motions


@inline_kernel
def _add_wrench(out: FloatArray, first: int, arm: Vector, force: Vector) -> None:
    """Add (torque, force) of a force at an arm to six entries of a row."""
    torque = cross(arm, force)
    for i in range(3):
        out[first + i] += torque[i]
        out[first + 3 + i] += force[i]


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
                arm = row3(c.arms, m.columns[k])
                for i in range(3):
                    _add_wrench(c.row[b, i], 0, arm, row3(m.values[k], i))
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
                _add_wrench(c.row[b, 0], 0, row3(c.arms, m.columns[k]), row3(s.rises, k))
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
            _add_wrench(given, 6 * a, row3(c.arms, n), (r0, r1, r2))
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


@kernel
def multiply_blocks(
    blocks: BlockMatrix, rises: FloatArray, weights: FloatArray, velocities: FloatArray, out: FloatArray
) -> None:
    r"""Write :math:`(A + G^T\,\mathrm{diag}(w)\,G)\,v` (V, 3); G: rises of node volumes, w (V,): their weights."""
    starts, columns, a = blocks.starts, blocks.columns, blocks.values.ravel()
    g, v, y = rises.ravel(), velocities.ravel(), out.ravel()
    y[:] = 0.0
    if rises.shape[0] == 0:
        for n in range(starts.shape[0] - 1):
            y0, y1, y2 = 0.0, 0.0, 0.0
            for k in range(starts[n], starts[n + 1]):
                j, q = 3 * np.uint32(columns[k]), 9 * np.uint32(k)
                v0, v1, v2 = v[j], v[j + 1], v[j + 2]
                y0 += a[q] * v0 + a[q + 1] * v1 + a[q + 2] * v2
                y1 += a[q + 3] * v0 + a[q + 4] * v1 + a[q + 5] * v2
                y2 += a[q + 6] * v0 + a[q + 7] * v1 + a[q + 8] * v2
            y[3 * n], y[3 * n + 1], y[3 * n + 2] = y0, y1, y2
        return
    for n in range(starts.shape[0] - 1):
        # Row n of A v and of G v in one pass over its blocks;
        y0, y1, y2, rise = 0.0, 0.0, 0.0, 0.0
        for k in range(starts[n], starts[n + 1]):
            j, q, p = 3 * np.uint32(columns[k]), 9 * np.uint32(k), 3 * np.uint32(k)
            v0, v1, v2 = v[j], v[j + 1], v[j + 2]
            y0 += a[q] * v0 + a[q + 1] * v1 + a[q + 2] * v2
            y1 += a[q + 3] * v0 + a[q + 4] * v1 + a[q + 5] * v2
            y2 += a[q + 6] * v0 + a[q + 7] * v1 + a[q + 8] * v2
            rise += g[p] * v0 + g[p + 1] * v1 + g[p + 2] * v2
        y[3 * n] += y0
        y[3 * n + 1] += y1
        y[3 * n + 2] += y2
        # then G^T of it, weighted.
        rise *= weights[n]
        for k in range(starts[n], starts[n + 1]):
            j, p = 3 * np.uint32(columns[k]), 3 * np.uint32(k)
            y[j] += g[p] * rise
            y[j + 1] += g[p + 1] * rise
            y[j + 2] += g[p + 2] * rise


@kernel
def expand_unknowns(bones: BoneArrays, u: FloatArray, v: FloatArray) -> None:
    """Write velocities (V, 3) of all nodes from unknowns (V + R, 3)."""
    count = v.shape[0]
    for n in range(count):
        for i in range(3):
            v[n, i] = u[n, i]
    # Twists of bones: the sum of the screws of all rates that move them.
    twists = bones.twists
    twists[:] = 0.0
    for d in range(bones.screws.shape[0]):
        rate = u[count + d // 3, d % 3]
        for b in range(twists.shape[0]):
            if bones.moves[b, d] != 0:
                for i in range(6):
                    twists[b, i] += rate * bones.screws[d, i]
    # Carried nodes: v + omega x arm.
    for c in range(bones.nodes.shape[0]):
        n, t, x = bones.nodes[c], twists[bones.owners[c]], bones.arms[c]
        v[n, 0] = t[3] + t[1] * x[2] - t[2] * x[1]
        v[n, 1] = t[4] + t[2] * x[0] - t[0] * x[2]
        v[n, 2] = t[5] + t[0] * x[1] - t[1] * x[0]


@kernel
def contract_forces(carriers: IndexArray, bones: BoneArrays, f: FloatArray, out: FloatArray) -> None:
    """Write what forces (V, 3) do to the unknowns (V + R, 3): the transpose of :func:`expand_unknowns`."""
    count = f.shape[0]
    for n in range(count):
        free = carriers[n] == FREE
        for i in range(3):
            out[n, i] = f[n, i] if free else 0.0
    for n in range(count, out.shape[0]):
        for i in range(3):
            out[n, i] = 0.0
    # Wrenches on bones of the forces on their nodes, then along the screw of each rate.
    wrenches = bones.twists
    wrenches[:] = 0.0
    for c in range(bones.nodes.shape[0]):
        _add_wrench(wrenches[bones.owners[c]], 0, row3(bones.arms, c), row3(f, bones.nodes[c]))
    for d in range(bones.screws.shape[0]):
        total = 0.0
        for b in range(wrenches.shape[0]):
            if bones.moves[b, d] != 0:
                for i in range(6):
                    total += wrenches[b, i] * bones.screws[d, i]
        out[count + d // 3, d % 3] = total


@kernel
def apply_system(s: LinearSystem, u: FloatArray, out: FloatArray) -> None:
    """Write the matrix times the unknowns, both (V + R, 3)."""
    count = s.carriers.shape[0]
    v, f = s.nodal[0], s.nodal[1]
    expand_unknowns(s.bones, u, v)
    multiply_blocks(s.matrix, s.rises, s.weights, v, f)
    if s.blocks.shape[0] > 0:
        # The muscles' part of the implicit matrix times v
        moved, pulls = s.work[0], s.work[1]
        gather_velocities(s.muscles, v, moved)
        clear_rows(pulls)
        for n in range(s.muscles.segments.shape[0]):
            i, j = s.muscles.segments[n, 0], s.muscles.segments[n, 1]
            dx, dy, dz = moved[j, 0] - moved[i, 0], moved[j, 1] - moved[i, 1], moved[j, 2] - moved[i, 2]
            for r in range(3):
                g = s.blocks[n, r, 0] * dx + s.blocks[n, r, 1] * dy + s.blocks[n, r, 2] * dz
                pulls[i, r] -= g
                pulls[j, r] += g
        scatter_forces(s.muscles, pulls, f)
    # Pairs: B on the velocity of the node over its triangle, and back on both
    for p in range(s.pairs.nodes.shape[0]):
        u0, u1, u2 = 0.0, 0.0, 0.0
        for k in range(4):
            n, share = s.pairs.nodes[p, k], s.pairs.shares[p, k]
            u0, u1, u2 = u0 + share * v[n, 0], u1 + share * v[n, 1], u2 + share * v[n, 2]
        for k in range(4):
            n, share = s.pairs.nodes[p, k], s.pairs.shares[p, k]
            for i in range(3):
                b = s.pairs.blocks[p, i]
                f[n, i] += share * (b[0] * u0 + b[1] * u1 + b[2] * u2)
    contract_forces(s.carriers, s.bones, f, out)
    for d in range(s.bones.inertia.shape[0]):
        for e in range(s.bones.inertia.shape[0]):
            out[count + d // 3, d % 3] += s.bones.inertia[d, e] * u[count + e // 3, e % 3]


@kernel
def invert_diagonal(s: LinearSystem, places: IndexArray) -> None:
    """Write inverses of the diagonal blocks, volumes, muscles and pairs included; ``places`` (V,): where they lie."""
    out, count = s.diagonal, places.shape[0]
    for n in range(count):
        for i in range(3):
            for j in range(3):
                out[n, i, j] = s.matrix.values[places[n], i, j]
    # The volume of node n adds w_n g g^T to each node around it.
    if s.rises.shape[0] > 0:
        for n in range(count):
            for k in range(s.matrix.starts[n], s.matrix.starts[n + 1]):
                for i in range(3):
                    for j in range(3):
                        out[s.matrix.columns[k], i, j] += s.weights[n] * s.rises[k, i] * s.rises[k, j]
    if s.blocks.shape[0] > 0:
        # The muscles' diagonal blocks, without the turn of regions
        for m in range(s.muscles.segments.shape[0]):
            for side in range(2):
                i = s.muscles.segments[m, side]
                for e in range(s.muscles.starts[i], s.muscles.starts[i + 1]):
                    j, w = s.muscles.nodes[e], s.muscles.weights[e] * s.muscles.weights[e]
                    for r in range(3):
                        for c in range(3):
                            out[j, r, c] += w * s.blocks[m, r, c]
    for p in range(s.pairs.nodes.shape[0]):
        for k in range(4):
            n, square = s.pairs.nodes[p, k], s.pairs.shares[p, k] ** 2
            for i in range(3):
                for j in range(3):
                    out[n, i, j] += square * s.pairs.blocks[p, i, j]
    # Each block is symmetric: its inverse by cofactors.
    for n in range(count):
        b = out[n]
        c00, c01, c02, c11, c12, c22, det = symmetric_cofactors(b)
        scale = 1.0 / det
        b[0, 0], b[1, 1], b[2, 2] = c00 * scale, c11 * scale, c22 * scale
        b[0, 1] = b[1, 0] = c01 * scale
        b[0, 2] = b[2, 0] = c02 * scale
        b[1, 2] = b[2, 1] = c12 * scale


@kernel
def dot_rows(a: FloatArray, b: FloatArray) -> float:
    """Sum of products of (N, 3)."""
    t0, t1, t2 = 0.0, 0.0, 0.0
    for n in range(a.shape[0]):
        t0 += a[n, 0] * b[n, 0]
        t1 += a[n, 1] * b[n, 1]
        t2 += a[n, 2] * b[n, 2]
    return t0 + t1 + t2


@kernel
def solve_conjugate_gradients(
    s: LinearSystem, rhs: FloatArray, drive: FloatArray, u: FloatArray, scratch: FloatArray, tolerance: float, most: int
) -> tuple[int, float]:
    """Solve for u (V + R, 3) in place, from what it holds; iterations and the share of the residual that is left.

    It is held against the residual at the start, or against ``drive``, what moves the body without its own elastic
    forces, if that is larger: they may cancel it, and nothing is then left to solve. Norms are those of the
    preconditioner, about that of the energy of the error; ``scratch`` is (4, V + R, 3).
    """
    r, z, p, q = scratch[0], scratch[1], scratch[2], scratch[3]
    # How large a residual counts as solved.
    apply_preconditioner(s, drive, z)
    scale = max(dot_rows(drive, z), 0.0)
    # The residual of what u holds, and the first direction.
    apply_system(s, u, q)
    for n in range(r.shape[0]):
        for i in range(3):
            r[n, i] = rhs[n, i] - q[n, i]
    apply_preconditioner(s, r, z)
    for n in range(r.shape[0]):
        for i in range(3):
            p[n, i] = z[n, i]
    rz = dot_rows(r, z)
    scale = sqrt(max(scale, rz))
    count = 0
    while count < most and rz > (tolerance * scale) ** 2:
        apply_system(s, p, q)
        curvature = dot_rows(p, q)
        if not curvature > 0.0:
            break
        # Go to the minimum along p, then take the next conjugate direction.
        step = rz / curvature
        for n in range(r.shape[0]):
            for i in range(3):
                u[n, i] += step * p[n, i]
                r[n, i] -= step * q[n, i]
        apply_preconditioner(s, r, z)
        new = dot_rows(r, z)
        turn = new / rz
        for n in range(r.shape[0]):
            for i in range(3):
                p[n, i] = z[n, i] + turn * p[n, i]
        rz = new
        count += 1
    return count, (sqrt(rz) / scale if scale > 0.0 else 0.0)


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
