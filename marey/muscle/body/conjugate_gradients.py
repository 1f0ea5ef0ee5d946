"""Compiled conjugate gradients over blocks of three: cells, volumes of nodes, muscles, bones, held nodes."""

from __future__ import annotations

from math import sqrt

import numpy as np

from marey.base import FloatArray, kernel
from marey.muscle.body.linear_system import FREE, BoneArrays, LinearSystem, apply_preconditioner
from marey.muscle.elastic.assembly import BlockMatrix
from marey.muscle.mesh.tet_mesh import IndexArray
from marey.muscle.muscles.transfer import add_muscle_diagonal, add_muscle_product, symmetric_cofactors


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
        n, w, x = bones.nodes[c], wrenches[bones.owners[c]], bones.arms[c]
        w[0] += x[1] * f[n, 2] - x[2] * f[n, 1]
        w[1] += x[2] * f[n, 0] - x[0] * f[n, 2]
        w[2] += x[0] * f[n, 1] - x[1] * f[n, 0]
        for i in range(3):
            w[3 + i] += f[n, i]
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
        add_muscle_product(s.muscles, s.blocks, v, f, s.work)
    contract_forces(s.carriers, s.bones, f, out)
    for d in range(s.bones.inertia.shape[0]):
        for e in range(s.bones.inertia.shape[0]):
            out[count + d // 3, d % 3] += s.bones.inertia[d, e] * u[count + e // 3, e % 3]


@kernel
def invert_diagonal(s: LinearSystem, places: IndexArray) -> None:
    """Write the inverses of the diagonal blocks; volumes and muscles included. ``places`` (V,) of the diagonal."""
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
        add_muscle_diagonal(s.muscles, s.blocks, out)
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
