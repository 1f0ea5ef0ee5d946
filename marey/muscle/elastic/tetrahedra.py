r"""The elastic model of tetrahedra: co-rotational and stable neo-Hookean laws, assembled eight cells at a time.

Both energies depend on the singular values of the deformation gradient :math:`F = U \Sigma V^T` alone,

.. math:: \mu\|\Sigma - I\|^2 + \frac\lambda2 \mathrm{tr}^2(\Sigma - I),\qquad
          \frac\mu2(\|\Sigma\|^2 - 3) - \mu(J-1) + \frac{\lambda+\mu}2(J-1)^2 + p\,(J-1),

with the pressure p of the nodes around a cell, so that both stiffnesses have the same shape in the frame of U and V: a
3x3 matrix A for stretches and, for each plane, one value for shear and one for twist. A stiffness that must not push
is clamped there ([Smith2018]_ §4).

The kernels do :data:`LANES` cells side by side, without branches, so that the processor does them together: every loop
over ``n`` does the same for each lane, and what stands between two loops lies in the rows of one flat table. The
constants below say where a quantity of the table begins; entry k of it, of lane n, is ``w[BEGIN + LANES * k + n]``.
The same laws cell by cell are the oracle of the tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, UnknownNameError, frozen, inline_kernel, kernel
from marey.muscle.elastic.assembly import BlockMatrix
from marey.muscle.mesh.tet_mesh import IndexArray, TetMesh, sum_by_index

COROTATIONAL, NEO_HOOKEAN = 0, 1
LANES = 8
SWEEPS = 5  # of Jacobi rotations over the lanes; four give all digits at strains of a tenth
CLAMP_SWEEPS = 8  # of Jacobi rotations that clamp one matrix; four suffice for a double
TINY = 1e-30
MIN_GAP = 1e-6  # [-] of two stretches: below, the twist of a co-rotational cell is that of this sum

# Begins of the quantities in the table: deformation gradient, slopes of corners 1 to 3, moduli, volume, pressure;
F, G, MU, LAM, VOLUME, PRESSURE = 0, LANES * 9, LANES * 18, LANES * 19, LANES * 20, LANES * 21
# F^T F (00, 11, 22, 01, 02, 12), the frames V and U, the stretches;
W, V, U, S = LANES * 22, LANES * 28, LANES * 37, LANES * 46
# A (00, 11, 22, 12, 02, 01), shear and twist of the planes, Piola stress, cofactors of F, slopes in the frame of V.
A, SHEAR, TWIST, P, COF, H = LANES * 49, LANES * 55, LANES * 58, LANES * 61, LANES * 70, LANES * 79
TABLE_SIZE = LANES * 88
BLOCK = LANES * 9
BLOCKS_SIZE = 10 * BLOCK


class CellArrays(NamedTuple):
    """Cells as kernels read them."""

    cells: IndexArray  # (T, 4) corners, lowest number first: sums then fill the upper half of the matrix
    slopes: FloatArray  # (T, 4, 3) [1/m] gradients of the four shape functions
    volumes: FloatArray  # (T,) [m^3] at rest
    mu: FloatArray  # (T,) [Pa]
    lam: FloatArray  # (T,) [Pa]
    places: IndexArray  # (T, 4, 4) where corner a, corner b adds into the values of the matrix
    mirrors: IndexArray  # (M, 2) places of each block above the diagonal and of its mirror image
    node_volumes: FloatArray  # (V,) [m^3] a quarter of each cell around a node
    node_bulk: FloatArray  # (V,) [Pa] of the volume term of nodes; zero has none


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
def compute_neo_hookean_energy(c: CellArrays, x: FloatArray, pressures: FloatArray) -> float:
    """Energy of neo-Hookean cells and of nodes [J]; ``pressures`` are those at x."""
    f = np.empty((3, 3))
    energy = 0.0
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
def compute_corotational_energy(c: CellArrays, x: FloatArray, pressures: FloatArray) -> float:
    """Energy of co-rotational cells [J]."""
    w, energy = np.zeros(TABLE_SIZE), 0.0
    for first in range(0, c.cells.shape[0], LANES):
        many = min(LANES, c.cells.shape[0] - first)
        _load_lanes(c, x, pressures, first, many, w)
        _decompose_lanes(w)
        for n in range(many):
            s0, s1, s2 = _load_row(w, S, 0, n)
            a, b, d = s0 - 1.0, s1 - 1.0, s2 - 1.0
            energy += w[VOLUME + n] * (w[MU + n] * (a * a + b * b + d * d) + 0.5 * w[LAM + n] * (a + b + d) ** 2)
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
        _load_lanes(c, x, pressures, first, many, w)
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
                f0, f1, f2 = _load_row(w, F, 0, n)
                k0, k1, k2 = _load_row(w, COF, 0, n)
                w[S + n] = f0 * k0 + f1 * k1 + f2 * k2
                w[S + LANES + n], w[S + 2 * LANES + n] = 1.0, 1.0
        else:
            _decompose_lanes(w)
        # The law: stress, and the stiffness in the frames of U and V.
        if material == COROTATIONAL:
            _evaluate_corotational(w, floor)
        else:
            _evaluate_neo_hookean(w, floor)
        for lane in range(many):
            # Forces of each cell: minus its volume times stress times slopes.
            t = first + lane
            for b in range(4):
                node, g0, g1, g2 = c.cells[t, b], c.slopes[t, b, 0], c.slopes[t, b, 1], c.slopes[t, b, 2]
                for i in range(3):
                    p0, p1, p2 = _load_row(w, P, i, lane)
                    sums.forces[node, i] -= w[VOLUME + lane] * (p0 * g0 + p1 * g1 + p2 * g2)
        if forces_only:
            continue
        # What pushes is taken from the stretches too.
        if not exact:
            for lane in range(many):
                _clamp_eigenvalues(w, A + lane, scratch[0], scratch[1])
        # Blocks turned to the world, and the sums over cells.
        _write_blocks(w, k)
        for lane in range(many):
            _scatter_blocks(c, first + lane, lane, w, k, sums)
    for m in range(0 if forces_only else c.mirrors.shape[0]):
        up, down = c.mirrors[m, 0], c.mirrors[m, 1]
        for i in range(3):
            for j in range(3):
                sums.values[down, i, j] = sums.values[up, j, i]


@inline_kernel
def _load_row(w: FloatArray, begin: int, i: int, n: int) -> tuple[float, float, float]:
    """Row i of a matrix with three columns, of lane n."""
    first = begin + LANES * 3 * i + n
    return w[first], w[first + LANES], w[first + LANES * 2]


@inline_kernel
def _load_column(w: FloatArray, begin: int, j: int, n: int) -> tuple[float, float, float]:
    """Column j of a 3x3 matrix, of lane n."""
    first = begin + LANES * j + n
    return w[first], w[first + LANES * 3], w[first + LANES * 6]


@inline_kernel
def _store_row(w: FloatArray, begin: int, i: int, n: int, row: tuple[float, float, float]) -> None:
    """Write row i of a matrix with three columns, of lane n."""
    first = begin + LANES * 3 * i + n
    w[first], w[first + LANES], w[first + LANES * 2] = row[0], row[1], row[2]


@kernel
def _load_lanes(c: CellArrays, x: FloatArray, pressures: FloatArray, first: int, many: int, w: FloatArray) -> None:
    for n in range(many):
        t = first + n
        n0, n1, n2, n3 = c.cells[t, 0], c.cells[t, 1], c.cells[t, 2], c.cells[t, 3]
        for i in range(3):
            e1, e2, e3 = x[n1, i] - x[n0, i], x[n2, i] - x[n0, i], x[n3, i] - x[n0, i]
            for j in range(3):
                k = LANES * (3 * i + j) + n
                w[F + k] = e1 * c.slopes[t, 1, j] + e2 * c.slopes[t, 2, j] + e3 * c.slopes[t, 3, j]
                w[G + k] = c.slopes[t, 1 + i, j]
        w[MU + n], w[LAM + n], w[VOLUME + n] = c.mu[t], c.lam[t], c.volumes[t]
        w[PRESSURE + n] = 0.25 * (pressures[n0] + pressures[n1] + pressures[n2] + pressures[n3])


@inline_kernel
def _jacobi_rotation(app: float, aqq: float, apq: float) -> tuple[float, float, float]:
    """Tangent, cosine and sine of the rotation that clears a_pq."""
    d = aqq - app
    t = 2.0 * apq / (abs(d) + sqrt(d * d + 4.0 * apq * apq) + TINY)
    t = t if d >= 0.0 else -t
    c = 1.0 / sqrt(t * t + 1.0)
    return t, c, t * c


@kernel
def _decompose_lanes(w: FloatArray) -> None:
    """Rotations U and V and stretches S of F; the smallest stretch is negative in a cell that is inside out."""
    # F^T F, and V = 1.
    for n in range(LANES):
        f00, f01, f02 = _load_row(w, F, 0, n)
        f10, f11, f12 = _load_row(w, F, 1, n)
        f20, f21, f22 = _load_row(w, F, 2, n)
        w[W + n] = f00 * f00 + f10 * f10 + f20 * f20
        w[W + LANES + n] = f01 * f01 + f11 * f11 + f21 * f21
        w[W + LANES * 2 + n] = f02 * f02 + f12 * f12 + f22 * f22
        w[W + LANES * 3 + n] = f00 * f01 + f10 * f11 + f20 * f21
        w[W + LANES * 4 + n] = f00 * f02 + f10 * f12 + f20 * f22
        w[W + LANES * 5 + n] = f01 * f02 + f11 * f12 + f21 * f22
        _store_row(w, V, 0, n, (1.0, 0.0, 0.0))
        _store_row(w, V, 1, n, (0.0, 1.0, 0.0))
        _store_row(w, V, 2, n, (0.0, 0.0, 1.0))
    for _ in range(SWEEPS):
        _sweep_jacobi(w)
    # The largest comes first; each swap turns one sign, so that V stays a rotation.
    for p, q in ((0, LANES), (LANES, 2 * LANES), (0, LANES)):
        for n in range(LANES):
            a, b = w[W + p + n], w[W + q + n]
            swap = b > a
            w[W + p + n], w[W + q + n] = (b if swap else a), (a if swap else b)
            for r in range(3):
                row = V + LANES * 3 * r + n
                a, b = w[row + p], w[row + q]
                w[row + p], w[row + q] = (b if swap else a), (-a if swap else b)
    # U of F V = U S: the first two columns are made orthonormal, the last is their cross product.
    for n in range(LANES):
        f00, f01, f02 = _load_row(w, F, 0, n)
        f10, f11, f12 = _load_row(w, F, 1, n)
        f20, f21, f22 = _load_row(w, F, 2, n)
        x, y, z = _load_column(w, V, 0, n)
        b0, b1, b2 = f00 * x + f01 * y + f02 * z, f10 * x + f11 * y + f12 * z, f20 * x + f21 * y + f22 * z
        s0 = sqrt(b0 * b0 + b1 * b1 + b2 * b2)
        inverse = 1.0 / (s0 + TINY)
        u00, u10, u20 = b0 * inverse, b1 * inverse, b2 * inverse
        x, y, z = _load_column(w, V, 1, n)
        b0, b1, b2 = f00 * x + f01 * y + f02 * z, f10 * x + f11 * y + f12 * z, f20 * x + f21 * y + f22 * z
        d = b0 * u00 + b1 * u10 + b2 * u20
        c0, c1, c2 = b0 - d * u00, b1 - d * u10, b2 - d * u20
        inverse = 1.0 / (sqrt(c0 * c0 + c1 * c1 + c2 * c2) + TINY)
        u01, u11, u21 = c0 * inverse, c1 * inverse, c2 * inverse
        s1 = b0 * u01 + b1 * u11 + b2 * u21
        u02, u12, u22 = u10 * u21 - u20 * u11, u20 * u01 - u00 * u21, u00 * u11 - u10 * u01
        x, y, z = _load_column(w, V, 2, n)
        b0, b1, b2 = f00 * x + f01 * y + f02 * z, f10 * x + f11 * y + f12 * z, f20 * x + f21 * y + f22 * z
        _store_row(w, S, 0, n, (s0, s1, b0 * u02 + b1 * u12 + b2 * u22))
        _store_row(w, U, 0, n, (u00, u01, u02))
        _store_row(w, U, 1, n, (u10, u11, u12))
        _store_row(w, U, 2, n, (u20, u21, u22))


@kernel
def _sweep_jacobi(w: FloatArray) -> None:
    """One rotation of F^T F and of V in each plane."""
    for n in range(LANES):
        a00, a11, a22 = _load_row(w, W, 0, n)
        a01, a02, a12 = _load_row(w, W, 1, n)
        v00, v01, v02 = _load_row(w, V, 0, n)
        v10, v11, v12 = _load_row(w, V, 1, n)
        v20, v21, v22 = _load_row(w, V, 2, n)
        # The plane (0, 1);
        t, c, s = _jacobi_rotation(a00, a11, a01)
        a00, a11, a02, a12 = a00 - t * a01, a11 + t * a01, c * a02 - s * a12, s * a02 + c * a12
        v00, v01 = c * v00 - s * v01, s * v00 + c * v01
        v10, v11 = c * v10 - s * v11, s * v10 + c * v11
        v20, v21 = c * v20 - s * v21, s * v20 + c * v21
        # the plane (0, 2), where a01 has become zero;
        t, c, s = _jacobi_rotation(a00, a22, a02)
        a00, a22, a01, a12 = a00 - t * a02, a22 + t * a02, -s * a12, c * a12
        v00, v02 = c * v00 - s * v02, s * v00 + c * v02
        v10, v12 = c * v10 - s * v12, s * v10 + c * v12
        v20, v22 = c * v20 - s * v22, s * v20 + c * v22
        # the plane (1, 2), where a02 has become zero.
        t, c, s = _jacobi_rotation(a11, a22, a12)
        a11, a22, a01, a02 = a11 - t * a12, a22 + t * a12, c * a01, s * a01
        v01, v02 = c * v01 - s * v02, s * v01 + c * v02
        v11, v12 = c * v11 - s * v12, s * v11 + c * v12
        v21, v22 = c * v21 - s * v22, s * v21 + c * v22
        _store_row(w, W, 0, n, (a00, a11, a22))
        _store_row(w, W, 1, n, (a01, a02, 0.0))
        _store_row(w, V, 0, n, (v00, v01, v02))
        _store_row(w, V, 1, n, (v10, v11, v12))
        _store_row(w, V, 2, n, (v20, v21, v22))


@kernel
def _evaluate_corotational(w: FloatArray, floor: float) -> None:
    """Stiffness in the frames, twists not below ``floor``, and the stress :math:`2 mu F + c R`."""
    for n in range(LANES):
        mu, lam = w[MU + n], w[LAM + n]
        s0, s1, s2 = _load_row(w, S, 0, n)
        c = lam * (s0 + s1 + s2 - 3.0) - 2.0 * mu
        for i in range(3):
            w[A + LANES * i + n] = 2.0 * mu + lam
            w[A + LANES * (3 + i) + n] = lam
            w[SHEAR + LANES * i + n] = 2.0 * mu
        # The twist of a plane is 2 mu + 2 c over the sum of its two stretches, which may vanish.
        g0, g1, g2 = s1 + s2, s0 + s2, s0 + s1
        t0 = 2.0 * mu + 2.0 * c / (g0 if g0 > MIN_GAP else MIN_GAP)
        t1 = 2.0 * mu + 2.0 * c / (g1 if g1 > MIN_GAP else MIN_GAP)
        t2 = 2.0 * mu + 2.0 * c / (g2 if g2 > MIN_GAP else MIN_GAP)
        t0, t1, t2 = (t0 if t0 > floor else floor), (t1 if t1 > floor else floor), (t2 if t2 > floor else floor)
        _store_row(w, TWIST, 0, n, (t0, t1, t2))
        w[H + n] = c
    # The rotation of the cell is R = U V^T; c waits in the first row of H.
    for i in range(3):
        for j in range(3):
            for n in range(LANES):
                u0, u1, u2 = _load_row(w, U, i, n)
                v0, v1, v2 = _load_row(w, V, j, n)
                k = LANES * (3 * i + j) + n
                w[P + k] = 2.0 * w[MU + n] * w[F + k] + w[H + n] * (u0 * v0 + u1 * v1 + u2 * v2)


@kernel
def _evaluate_neo_hookean(w: FloatArray, floor: float) -> None:
    """Stiffness in the frames, shears and twists not below ``floor``, and the stress :math:`mu F + p cof F`."""
    for n in range(LANES):
        mu = w[MU + n]
        bulk = w[LAM + n] + mu
        s0, s1, s2 = _load_row(w, S, 0, n)
        # Slopes of J, and the pressure -mu + (lambda + mu)(J - 1) + p; J = s0 s1 s2.
        c0, c1, c2 = s1 * s2, s0 * s2, s0 * s1
        p = bulk * (s0 * c0 - 1.0) - mu + w[PRESSURE + n]
        _store_row(w, A, 0, n, (mu + bulk * c0 * c0, mu + bulk * c1 * c1, mu + bulk * c2 * c2))
        _store_row(w, A, 1, n, (bulk * c1 * c2 + p * s0, bulk * c0 * c2 + p * s1, bulk * c0 * c1 + p * s2))
        # Shears mu - p s and twists mu + p s of the three planes.
        a0, a1, a2 = mu - p * s0, mu - p * s1, mu - p * s2
        b0, b1, b2 = mu + p * s0, mu + p * s1, mu + p * s2
        a0, a1, a2 = (a0 if a0 > floor else floor), (a1 if a1 > floor else floor), (a2 if a2 > floor else floor)
        _store_row(w, SHEAR, 0, n, (a0, a1, a2))
        b0, b1, b2 = (b0 if b0 > floor else floor), (b1 if b1 > floor else floor), (b2 if b2 > floor else floor)
        _store_row(w, TWIST, 0, n, (b0, b1, b2))
        for i in range(9):
            k = LANES * i + n
            w[P + k] = mu * w[F + k] + p * w[COF + k]


@kernel
def _clamp_eigenvalues(table: FloatArray, first: int, w: FloatArray, v: FloatArray) -> None:
    """Negative eigenvalues of the stretch matrix of one lane become zero; ``w``, ``v`` (3, 3) are scratch."""
    a00, a11, a22 = table[first], table[first + LANES], table[first + LANES * 2]
    a12, a02, a01 = table[first + LANES * 3], table[first + LANES * 4], table[first + LANES * 5]
    # Nothing is to be done where the leading minors are positive.
    d1 = a00 * a11 - a01 * a01
    d2 = a22 * d1 - a00 * a12 * a12 - a11 * a02 * a02 + 2.0 * a01 * a02 * a12
    if a00 > 0.0 and d1 > 0.0 and d2 > 0.0:
        return
    w[0, 0], w[1, 1], w[2, 2] = a00, a11, a22
    w[0, 1], w[0, 2], w[1, 2] = a01, a02, a12
    w[1, 0], w[2, 0], w[2, 1] = a01, a02, a12
    for i in range(3):
        for j in range(3):
            v[i, j] = 1.0 if i == j else 0.0
    # Jacobi rotations in the planes (p, q); r is the third axis.
    for _ in range(CLAMP_SWEEPS):
        for p, q, r in ((0, 1, 2), (0, 2, 1), (1, 2, 0)):
            apq = w[p, q]
            if apq == 0.0:
                continue
            theta = 0.5 * (w[q, q] - w[p, p]) / apq
            t = 1.0 / (abs(theta) + sqrt(theta * theta + 1.0))
            if theta < 0.0:
                t = -t
            c = 1.0 / sqrt(t * t + 1.0)
            s = t * c
            w[p, p] -= t * apq
            w[q, q] += t * apq
            w[p, q] = w[q, p] = 0.0
            arp, arq = w[r, p], w[r, q]
            w[r, p] = w[p, r] = c * arp - s * arq
            w[r, q] = w[q, r] = s * arp + c * arq
            for i in range(3):
                vip, viq = v[i, p], v[i, q]
                v[i, p] = c * vip - s * viq
                v[i, q] = s * vip + c * viq
    # The matrix again from what is not negative.
    for row, i, j in ((0, 0, 0), (1, 1, 1), (2, 2, 2), (3, 1, 2), (4, 0, 2), (5, 0, 1)):
        total = 0.0
        for k in range(3):
            total += max(w[k, k], 0.0) * v[i, k] * v[j, k]
        table[first + LANES * row] = total


@kernel
def _write_blocks(w: FloatArray, k: FloatArray) -> None:
    """Ten blocks of a cell: (0,0) (0,1) (0,2) (0,3) (1,1) (1,2) (1,3) (2,2) (2,3) (3,3)."""
    # Slopes in the frame of V.
    for a in range(3):
        for j in range(3):
            for n in range(LANES):
                g0, g1, g2 = _load_row(w, G, a, n)
                v0, v1, v2 = _load_column(w, V, j, n)
                w[H + LANES * (3 * a + j) + n] = g0 * v0 + g1 * v1 + g2 * v2
    # Blocks of corners 1 to 3.
    for a, b, number in ((0, 0, 4), (0, 1, 5), (0, 2, 6), (1, 1, 7), (1, 2, 8), (2, 2, 9)):
        # In the frames first, then turned by U on both sides.
        begin = BLOCK * number
        for n in range(LANES):
            volume = w[VOLUME + n]
            a0, a1, a2 = _load_row(w, H, a, n)
            a0, a1, a2 = volume * a0, volume * a1, volume * a2
            b0, b1, b2 = _load_row(w, H, b, n)
            # Straight and crossed parts of shear and twist, of the plane normal to each axis.
            h0, h1, h2 = _load_row(w, SHEAR, 0, n)
            t0, t1, t2 = _load_row(w, TWIST, 0, n)
            p0, p1, p2 = 0.5 * (h0 + t0), 0.5 * (h1 + t1), 0.5 * (h2 + t2)
            q0, q1, q2 = 0.5 * (h0 - t0), 0.5 * (h1 - t1), 0.5 * (h2 - t2)
            d0, d1, d2 = _load_row(w, A, 0, n)
            a12, a02, a01 = _load_row(w, A, 1, n)
            m00 = d0 * a0 * b0 + p2 * a1 * b1 + p1 * a2 * b2
            m11 = d1 * a1 * b1 + p0 * a2 * b2 + p2 * a0 * b0
            m22 = d2 * a2 * b2 + p1 * a0 * b0 + p0 * a1 * b1
            m01, m10 = a01 * a0 * b1 + q2 * a1 * b0, a01 * a1 * b0 + q2 * a0 * b1
            m02, m20 = a02 * a0 * b2 + q1 * a2 * b0, a02 * a2 * b0 + q1 * a0 * b2
            m12, m21 = a12 * a1 * b2 + q0 * a2 * b1, a12 * a2 * b1 + q0 * a1 * b2
            for i in range(3):
                u0, u1, u2 = _load_row(w, U, i, n)
                e0 = u0 * m00 + u1 * m10 + u2 * m20
                e1 = u0 * m01 + u1 * m11 + u2 * m21
                e2 = u0 * m02 + u1 * m12 + u2 * m22
                for j in range(3):
                    r0, r1, r2 = _load_row(w, U, j, n)
                    k[begin + LANES * (3 * i + j) + n] = e0 * r0 + e1 * r1 + e2 * r2
    # All four corners moved together give no force: blocks of corner 0 are minus the sums of the others.
    for i in range(3):
        for j in range(3):
            e, f = LANES * (3 * i + j), LANES * (3 * j + i)
            for n in range(LANES):
                c1 = k[BLOCK * 4 + e + n] + k[BLOCK * 5 + f + n] + k[BLOCK * 6 + f + n]
                c2 = k[BLOCK * 5 + e + n] + k[BLOCK * 7 + e + n] + k[BLOCK * 8 + f + n]
                c3 = k[BLOCK * 6 + e + n] + k[BLOCK * 8 + e + n] + k[BLOCK * 9 + e + n]
                k[BLOCK + e + n], k[BLOCK * 2 + e + n], k[BLOCK * 3 + e + n] = -c1, -c2, -c3
                k[e + n] = c1 + c2 + c3


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
                k0, k1, k2 = _load_row(w, COF, i, n)
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
        energy = compute_corotational_energy if self.number == COROTATIONAL else compute_neo_hookean_energy
        return energy(self.arrays, x, self.pressures)

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
