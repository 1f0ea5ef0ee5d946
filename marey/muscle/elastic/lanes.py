"""Compiled forces and stiffness of eight cells at once, side by side, so that the processor does them together.

The mathematics is that of ``elastic.assembly``, written without branches: every loop over ``n`` does the same for
each of :data:`LANES` cells, and what is between loops lies in the rows of one flat table, (ROWS, LANES). Only the upper
half of the matrix is summed, then mirrored.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from marey.base import FloatArray, inline_kernel, kernel
from marey.muscle.elastic.assembly import COROTATIONAL, CellArrays, clamp_eigenvalues
from marey.muscle.mesh.tet_mesh import IndexArray

LANES = 8
SWEEPS = 5  # of Jacobi rotations; four give all digits at strains of a tenth
TINY = 1e-30
# rows of the table
F, G, MU, LAM, VOLUME, PRESSURE = 0, 9, 18, 19, 20, 21
W, V, U, S = 22, 28, 37, 46
A, SHEAR, TWIST, P, COF, H = 49, 55, 58, 61, 70, 79
ROWS = 88
BLOCKS = 90  # ten blocks of nine


@kernel
def add_clamped_stiffness(
    material: int, c: CellArrays, x: FloatArray, pressures: FloatArray, mirrors: IndexArray, forces: FloatArray,
    values: FloatArray, rises: FloatArray,
) -> None:  # fmt: skip
    """Add forces (V, 3) and stiffness without negative eigenvalues, and the rises of node volumes where there are any.

    ``mirrors`` (M, 2) are places of blocks above the diagonal and of their mirror images, which are written.
    """
    w, k = np.zeros(ROWS * LANES), np.zeros(BLOCKS * LANES)
    scratch = np.empty((2, 3, 3))
    count = c.cells.shape[0]
    for first in range(0, count, LANES):
        many = min(LANES, count - first)
        _load_lanes(c, x, pressures, first, many, w)
        _write_cauchy_green(w)
        for _ in range(SWEEPS):
            _jacobi_sweep(w)
        _sort_lanes(w)
        _write_frames(w)
        _write_lane_cofactors(w)
        if material == COROTATIONAL:
            _evaluate_corotational(w)
        else:
            _evaluate_neo_hookean(w)
        for lane in range(many):
            clamp_eigenvalues(w, LANES * A + lane, LANES, scratch[0], scratch[1])
        _rotate_lane_gradients(w)
        _write_lane_blocks(w, k)
        for lane in range(many):
            _scatter_lane(c, first + lane, lane, w, k, forces, values, rises)
    for m in range(mirrors.shape[0]):
        up, down = mirrors[m, 0], mirrors[m, 1]
        for i in range(3):
            for j in range(3):
                values[down, i, j] = values[up, j, i]


@kernel
def compute_corotational_energy(c: CellArrays, x: FloatArray, pressures: FloatArray) -> float:
    """Energy of co-rotational cells [J]."""
    w, energy = np.zeros(ROWS * LANES), 0.0
    for first in range(0, c.cells.shape[0], LANES):
        many = min(LANES, c.cells.shape[0] - first)
        _load_lanes(c, x, pressures, first, many, w)
        _write_cauchy_green(w)
        for _ in range(SWEEPS):
            _jacobi_sweep(w)
        _sort_lanes(w)
        _write_frames(w)
        for n in range(many):
            mu, lam = w[LANES * MU + n], w[LANES * LAM + n]
            a, b, d = w[LANES * S + n] - 1.0, w[LANES * (S + 1) + n] - 1.0, w[LANES * (S + 2) + n] - 1.0
            energy += w[LANES * VOLUME + n] * (mu * (a * a + b * b + d * d) + 0.5 * lam * (a + b + d) ** 2)
    return energy


@kernel
def _load_lanes(c: CellArrays, x: FloatArray, pressures: FloatArray, first: int, many: int, w: FloatArray) -> None:
    for n in range(many):
        t = first + n
        n0, n1, n2, n3 = c.cells[t, 0], c.cells[t, 1], c.cells[t, 2], c.cells[t, 3]
        for i in range(3):
            e1, e2, e3 = x[n1, i] - x[n0, i], x[n2, i] - x[n0, i], x[n3, i] - x[n0, i]
            for j in range(3):
                w[LANES * (F + 3 * i + j) + n] = (
                    e1 * c.slopes[t, 1, j] + e2 * c.slopes[t, 2, j] + e3 * c.slopes[t, 3, j]
                )
                w[LANES * (G + 3 * i + j) + n] = c.slopes[t, 1 + i, j]
        w[LANES * MU + n], w[LANES * LAM + n], w[LANES * VOLUME + n] = c.mu[t], c.lam[t], c.volumes[t]
        w[LANES * PRESSURE + n] = 0.25 * (pressures[n0] + pressures[n1] + pressures[n2] + pressures[n3])


@kernel
def _write_cauchy_green(w: FloatArray) -> None:
    """F^T F (00, 11, 22, 01, 02, 12), and V = 1."""
    for n in range(LANES):
        f00, f01, f02 = w[LANES * F + n], w[LANES * (F + 1) + n], w[LANES * (F + 2) + n]
        f10, f11, f12 = w[LANES * (F + 3) + n], w[LANES * (F + 4) + n], w[LANES * (F + 5) + n]
        f20, f21, f22 = w[LANES * (F + 6) + n], w[LANES * (F + 7) + n], w[LANES * (F + 8) + n]
        w[LANES * W + n] = f00 * f00 + f10 * f10 + f20 * f20
        w[LANES * (W + 1) + n] = f01 * f01 + f11 * f11 + f21 * f21
        w[LANES * (W + 2) + n] = f02 * f02 + f12 * f12 + f22 * f22
        w[LANES * (W + 3) + n] = f00 * f01 + f10 * f11 + f20 * f21
        w[LANES * (W + 4) + n] = f00 * f02 + f10 * f12 + f20 * f22
        w[LANES * (W + 5) + n] = f01 * f02 + f11 * f12 + f21 * f22
        w[LANES * V + n], w[LANES * (V + 1) + n], w[LANES * (V + 2) + n] = 1.0, 0.0, 0.0
        w[LANES * (V + 3) + n], w[LANES * (V + 4) + n], w[LANES * (V + 5) + n] = 0.0, 1.0, 0.0
        w[LANES * (V + 6) + n], w[LANES * (V + 7) + n], w[LANES * (V + 8) + n] = 0.0, 0.0, 1.0


@inline_kernel
def _jacobi_rotation(app: float, aqq: float, apq: float) -> tuple[float, float, float]:
    """Tangent, cosine and sine of the rotation that clears a_pq."""
    d = aqq - app
    t = 2.0 * apq / (abs(d) + sqrt(d * d + 4.0 * apq * apq) + TINY)
    t = t if d >= 0.0 else -t
    c = 1.0 / sqrt(t * t + 1.0)
    return t, c, t * c


@kernel
def _jacobi_sweep(w: FloatArray) -> None:
    """One rotation in each plane."""
    for n in range(LANES):
        a00, a11, a22 = w[LANES * W + n], w[LANES * (W + 1) + n], w[LANES * (W + 2) + n]
        a01, a02, a12 = w[LANES * (W + 3) + n], w[LANES * (W + 4) + n], w[LANES * (W + 5) + n]
        v00, v01, v02 = w[LANES * V + n], w[LANES * (V + 1) + n], w[LANES * (V + 2) + n]
        v10, v11, v12 = w[LANES * (V + 3) + n], w[LANES * (V + 4) + n], w[LANES * (V + 5) + n]
        v20, v21, v22 = w[LANES * (V + 6) + n], w[LANES * (V + 7) + n], w[LANES * (V + 8) + n]
        t, c, s = _jacobi_rotation(a00, a11, a01)
        a00, a11, a02, a12 = a00 - t * a01, a11 + t * a01, c * a02 - s * a12, s * a02 + c * a12
        v00, v01 = c * v00 - s * v01, s * v00 + c * v01
        v10, v11 = c * v10 - s * v11, s * v10 + c * v11
        v20, v21 = c * v20 - s * v21, s * v20 + c * v21
        t, c, s = _jacobi_rotation(a00, a22, a02)
        a00, a22, a01, a12 = a00 - t * a02, a22 + t * a02, -s * a12, c * a12
        v00, v02 = c * v00 - s * v02, s * v00 + c * v02
        v10, v12 = c * v10 - s * v12, s * v10 + c * v12
        v20, v22 = c * v20 - s * v22, s * v20 + c * v22
        t, c, s = _jacobi_rotation(a11, a22, a12)
        a11, a22, a01, a02 = a11 - t * a12, a22 + t * a12, c * a01, s * a01
        v01, v02 = c * v01 - s * v02, s * v01 + c * v02
        v11, v12 = c * v11 - s * v12, s * v11 + c * v12
        v21, v22 = c * v21 - s * v22, s * v21 + c * v22
        w[LANES * W + n], w[LANES * (W + 1) + n], w[LANES * (W + 2) + n] = a00, a11, a22
        w[LANES * (W + 3) + n], w[LANES * (W + 4) + n], w[LANES * (W + 5) + n] = a01, a02, 0.0
        w[LANES * V + n], w[LANES * (V + 1) + n], w[LANES * (V + 2) + n] = v00, v01, v02
        w[LANES * (V + 3) + n], w[LANES * (V + 4) + n], w[LANES * (V + 5) + n] = v10, v11, v12
        w[LANES * (V + 6) + n], w[LANES * (V + 7) + n], w[LANES * (V + 8) + n] = v20, v21, v22


@kernel
def _sort_lanes(w: FloatArray) -> None:
    """Largest first; each swap turns one sign, so that V stays a rotation."""
    for p, q in ((0, 1), (1, 2), (0, 1)):
        for n in range(LANES):
            swap = w[LANES * (W + q) + n] > w[LANES * (W + p) + n]
            a, b = w[LANES * (W + p) + n], w[LANES * (W + q) + n]
            w[LANES * (W + p) + n], w[LANES * (W + q) + n] = (b if swap else a), (a if swap else b)
            a, b = w[LANES * (V + p) + n], w[LANES * (V + q) + n]
            w[LANES * (V + p) + n], w[LANES * (V + q) + n] = (b if swap else a), (-a if swap else b)
            a, b = w[LANES * (V + 3 + p) + n], w[LANES * (V + 3 + q) + n]
            w[LANES * (V + 3 + p) + n], w[LANES * (V + 3 + q) + n] = (b if swap else a), (-a if swap else b)
            a, b = w[LANES * (V + 6 + p) + n], w[LANES * (V + 6 + q) + n]
            w[LANES * (V + 6 + p) + n], w[LANES * (V + 6 + q) + n] = (b if swap else a), (-a if swap else b)


@kernel
def _write_frames(w: FloatArray) -> None:
    """U and s of F V = U s: the first two columns made orthonormal, the last their cross product."""
    for n in range(LANES):
        f00, f01, f02 = w[LANES * F + n], w[LANES * (F + 1) + n], w[LANES * (F + 2) + n]
        f10, f11, f12 = w[LANES * (F + 3) + n], w[LANES * (F + 4) + n], w[LANES * (F + 5) + n]
        f20, f21, f22 = w[LANES * (F + 6) + n], w[LANES * (F + 7) + n], w[LANES * (F + 8) + n]
        x, y, z = w[LANES * V + n], w[LANES * (V + 3) + n], w[LANES * (V + 6) + n]
        b0, b1, b2 = f00 * x + f01 * y + f02 * z, f10 * x + f11 * y + f12 * z, f20 * x + f21 * y + f22 * z
        size = sqrt(b0 * b0 + b1 * b1 + b2 * b2)
        inverse = 1.0 / (size + TINY)
        u00, u10, u20 = b0 * inverse, b1 * inverse, b2 * inverse
        x, y, z = w[LANES * (V + 1) + n], w[LANES * (V + 4) + n], w[LANES * (V + 7) + n]
        b0, b1, b2 = f00 * x + f01 * y + f02 * z, f10 * x + f11 * y + f12 * z, f20 * x + f21 * y + f22 * z
        d = b0 * u00 + b1 * u10 + b2 * u20
        c0, c1, c2 = b0 - d * u00, b1 - d * u10, b2 - d * u20
        inverse = 1.0 / (sqrt(c0 * c0 + c1 * c1 + c2 * c2) + TINY)
        u01, u11, u21 = c0 * inverse, c1 * inverse, c2 * inverse
        w[LANES * S + n], w[LANES * (S + 1) + n] = size, b0 * u01 + b1 * u11 + b2 * u21
        u02, u12, u22 = u10 * u21 - u20 * u11, u20 * u01 - u00 * u21, u00 * u11 - u10 * u01
        x, y, z = w[LANES * (V + 2) + n], w[LANES * (V + 5) + n], w[LANES * (V + 8) + n]
        b0, b1, b2 = f00 * x + f01 * y + f02 * z, f10 * x + f11 * y + f12 * z, f20 * x + f21 * y + f22 * z
        w[LANES * (S + 2) + n] = b0 * u02 + b1 * u12 + b2 * u22
        w[LANES * U + n], w[LANES * (U + 1) + n], w[LANES * (U + 2) + n] = u00, u01, u02
        w[LANES * (U + 3) + n], w[LANES * (U + 4) + n], w[LANES * (U + 5) + n] = u10, u11, u12
        w[LANES * (U + 6) + n], w[LANES * (U + 7) + n], w[LANES * (U + 8) + n] = u20, u21, u22


@kernel
def _write_lane_cofactors(w: FloatArray) -> None:
    for i in range(3):
        for j in range(3):
            a, b = F + 3 * ((i + 1) % 3), F + 3 * ((i + 2) % 3)
            p, q = (j + 1) % 3, (j + 2) % 3
            for n in range(LANES):
                w[LANES * (COF + 3 * i + j) + n] = (
                    w[LANES * (a + p) + n] * w[LANES * (b + q) + n] - w[LANES * (a + q) + n] * w[LANES * (b + p) + n]
                )


@kernel
def _evaluate_corotational(w: FloatArray) -> None:
    """Stiffness in the frames, and the stress 2 mu F + c R."""
    for n in range(LANES):
        mu, lam = w[LANES * MU + n], w[LANES * LAM + n]
        s0, s1, s2 = w[LANES * S + n], w[LANES * (S + 1) + n], w[LANES * (S + 2) + n]
        c = lam * (s0 + s1 + s2 - 3.0) - 2.0 * mu
        for i in range(3):
            w[LANES * (A + i) + n] = 2.0 * mu + lam
            w[LANES * (A + 3 + i) + n] = lam
            w[LANES * (SHEAR + i) + n] = 2.0 * mu
        g0, g1, g2 = s1 + s2, s0 + s2, s0 + s1
        t0 = 2.0 * mu + 2.0 * c / (g0 if g0 > 1e-6 else 1e-6)
        t1 = 2.0 * mu + 2.0 * c / (g1 if g1 > 1e-6 else 1e-6)
        t2 = 2.0 * mu + 2.0 * c / (g2 if g2 > 1e-6 else 1e-6)
        w[LANES * TWIST + n] = t0 if t0 > 0.0 else 0.0
        w[LANES * (TWIST + 1) + n] = t1 if t1 > 0.0 else 0.0
        w[LANES * (TWIST + 2) + n] = t2 if t2 > 0.0 else 0.0
        w[LANES * H + n] = c
    for i in range(3):
        for j in range(3):
            for n in range(LANES):
                turn = (
                    w[LANES * (U + 3 * i) + n] * w[LANES * (V + 3 * j) + n]
                    + w[LANES * (U + 3 * i + 1) + n] * w[LANES * (V + 3 * j + 1) + n]
                    + w[LANES * (U + 3 * i + 2) + n] * w[LANES * (V + 3 * j + 2) + n]
                )
                w[LANES * (P + 3 * i + j) + n] = (
                    2.0 * w[LANES * MU + n] * w[LANES * (F + 3 * i + j) + n] + w[LANES * H + n] * turn
                )


@kernel
def _evaluate_neo_hookean(w: FloatArray) -> None:
    """Stiffness in the frames, and the stress mu F + p cof F."""
    for n in range(LANES):
        mu = w[LANES * MU + n]
        bulk = w[LANES * LAM + n] + mu
        s0, s1, s2 = w[LANES * S + n], w[LANES * (S + 1) + n], w[LANES * (S + 2) + n]
        c0, c1, c2 = s1 * s2, s0 * s2, s0 * s1
        p = bulk * (s0 * c0 - 1.0) - mu + w[LANES * PRESSURE + n]
        w[LANES * A + n], w[LANES * (A + 1) + n], w[LANES * (A + 2) + n] = (
            mu + bulk * c0 * c0,
            mu + bulk * c1 * c1,
            mu + bulk * c2 * c2,
        )
        w[LANES * (A + 3) + n] = bulk * c1 * c2 + p * s0
        w[LANES * (A + 4) + n] = bulk * c0 * c2 + p * s1
        w[LANES * (A + 5) + n] = bulk * c0 * c1 + p * s2
        a0, a1, a2 = mu - p * s0, mu - p * s1, mu - p * s2
        b0, b1, b2 = mu + p * s0, mu + p * s1, mu + p * s2
        w[LANES * SHEAR + n], w[LANES * TWIST + n] = (a0 if a0 > 0.0 else 0.0), (b0 if b0 > 0.0 else 0.0)
        w[LANES * (SHEAR + 1) + n], w[LANES * (TWIST + 1) + n] = (a1 if a1 > 0.0 else 0.0), (b1 if b1 > 0.0 else 0.0)
        w[LANES * (SHEAR + 2) + n], w[LANES * (TWIST + 2) + n] = (a2 if a2 > 0.0 else 0.0), (b2 if b2 > 0.0 else 0.0)
        for i in range(9):
            w[LANES * (P + i) + n] = mu * w[LANES * (F + i) + n] + p * w[LANES * (COF + i) + n]


@kernel
def _rotate_lane_gradients(w: FloatArray) -> None:
    """Slopes in the frame of V."""
    for a in range(3):
        for j in range(3):
            for n in range(LANES):
                w[LANES * (H + 3 * a + j) + n] = (
                    w[LANES * (G + 3 * a) + n] * w[LANES * (V + j) + n]
                    + w[LANES * (G + 3 * a + 1) + n] * w[LANES * (V + 3 + j) + n]
                    + w[LANES * (G + 3 * a + 2) + n] * w[LANES * (V + 6 + j) + n]
                )  # fmt: skip


@kernel
def _write_lane_blocks(w: FloatArray, k: FloatArray) -> None:
    """Ten blocks of a cell: (0,0) (0,1) (0,2) (0,3) (1,1) (1,2) (1,3) (2,2) (2,3) (3,3)."""
    for a, b, row in ((0, 0, 36), (0, 1, 45), (0, 2, 54), (1, 1, 63), (1, 2, 72), (2, 2, 81)):
        _write_lane_block(w, H + 3 * a, H + 3 * b, row, k)
    for i in range(3):
        for j in range(3):
            e, f = 3 * i + j, 3 * j + i
            for n in range(LANES):
                c1 = k[LANES * (36 + e) + n] + k[LANES * (45 + f) + n] + k[LANES * (54 + f) + n]
                c2 = k[LANES * (45 + e) + n] + k[LANES * (63 + e) + n] + k[LANES * (72 + f) + n]
                c3 = k[LANES * (54 + e) + n] + k[LANES * (72 + e) + n] + k[LANES * (81 + e) + n]
                k[LANES * (9 + e) + n], k[LANES * (18 + e) + n], k[LANES * (27 + e) + n] = -c1, -c2, -c3
                k[LANES * e + n] = c1 + c2 + c3


@kernel
def _write_lane_block(w: FloatArray, ga: int, gb: int, row: int, k: FloatArray) -> None:
    """One block: in the frames, then turned by U on both sides."""
    for n in range(LANES):
        volume = w[LANES * VOLUME + n]
        a0, a1, a2 = volume * w[LANES * ga + n], volume * w[LANES * (ga + 1) + n], volume * w[LANES * (ga + 2) + n]
        b0, b1, b2 = w[LANES * gb + n], w[LANES * (gb + 1) + n], w[LANES * (gb + 2) + n]
        p0, p1, p2 = 0.5 * (w[LANES * SHEAR + n] + w[LANES * TWIST + n]), 0.5 * (w[LANES * (SHEAR + 1) + n] + w[LANES * (TWIST + 1) + n]), 0.5 * (w[LANES * (SHEAR + 2) + n] + w[LANES * (TWIST + 2) + n])  # fmt: skip  # noqa: E501
        q0, q1, q2 = 0.5 * (w[LANES * SHEAR + n] - w[LANES * TWIST + n]), 0.5 * (w[LANES * (SHEAR + 1) + n] - w[LANES * (TWIST + 1) + n]), 0.5 * (w[LANES * (SHEAR + 2) + n] - w[LANES * (TWIST + 2) + n])  # fmt: skip  # noqa: E501
        m00 = w[LANES * A + n] * a0 * b0 + p2 * a1 * b1 + p1 * a2 * b2
        m11 = w[LANES * (A + 1) + n] * a1 * b1 + p0 * a2 * b2 + p2 * a0 * b0
        m22 = w[LANES * (A + 2) + n] * a2 * b2 + p1 * a0 * b0 + p0 * a1 * b1
        m01, m10 = w[LANES * (A + 5) + n] * a0 * b1 + q2 * a1 * b0, w[LANES * (A + 5) + n] * a1 * b0 + q2 * a0 * b1
        m02, m20 = w[LANES * (A + 4) + n] * a0 * b2 + q1 * a2 * b0, w[LANES * (A + 4) + n] * a2 * b0 + q1 * a0 * b2
        m12, m21 = w[LANES * (A + 3) + n] * a1 * b2 + q0 * a2 * b1, w[LANES * (A + 3) + n] * a2 * b1 + q0 * a1 * b2
        u00, u01, u02 = w[LANES * U + n], w[LANES * (U + 1) + n], w[LANES * (U + 2) + n]
        u10, u11, u12 = w[LANES * (U + 3) + n], w[LANES * (U + 4) + n], w[LANES * (U + 5) + n]
        u20, u21, u22 = w[LANES * (U + 6) + n], w[LANES * (U + 7) + n], w[LANES * (U + 8) + n]
        e0, e1, e2 = u00 * m00 + u01 * m10 + u02 * m20, u00 * m01 + u01 * m11 + u02 * m21, u00 * m02 + u01 * m12 + u02 * m22  # fmt: skip  # noqa: E501
        k[LANES * row + n], k[LANES * (row + 1) + n], k[LANES * (row + 2) + n] = e0 * u00 + e1 * u01 + e2 * u02, e0 * u10 + e1 * u11 + e2 * u12, e0 * u20 + e1 * u21 + e2 * u22  # fmt: skip  # noqa: E501
        e0, e1, e2 = u10 * m00 + u11 * m10 + u12 * m20, u10 * m01 + u11 * m11 + u12 * m21, u10 * m02 + u11 * m12 + u12 * m22  # fmt: skip  # noqa: E501
        k[LANES * (row + 3) + n], k[LANES * (row + 4) + n], k[LANES * (row + 5) + n] = e0 * u00 + e1 * u01 + e2 * u02, e0 * u10 + e1 * u11 + e2 * u12, e0 * u20 + e1 * u21 + e2 * u22  # fmt: skip  # noqa: E501
        e0, e1, e2 = u20 * m00 + u21 * m10 + u22 * m20, u20 * m01 + u21 * m11 + u22 * m21, u20 * m02 + u21 * m12 + u22 * m22  # fmt: skip  # noqa: E501
        k[LANES * (row + 6) + n], k[LANES * (row + 7) + n], k[LANES * (row + 8) + n] = e0 * u00 + e1 * u01 + e2 * u02, e0 * u10 + e1 * u11 + e2 * u12, e0 * u20 + e1 * u21 + e2 * u22  # fmt: skip  # noqa: E501


@kernel
def _scatter_lane(
    c: CellArrays, t: int, n: int, w: FloatArray, k: FloatArray, forces: FloatArray, values: FloatArray,
    rises: FloatArray,
) -> None:  # fmt: skip
    row = 0
    for a in range(4):
        for b in range(a, 4):
            place = c.places[t, a, b]
            for i in range(3):
                for j in range(3):
                    values[place, i, j] += k[LANES * row + n]
                    row += 1
    volume, bulky = w[LANES * VOLUME + n], rises.shape[0] > 0
    for b in range(4):
        node, g0, g1, g2 = c.cells[t, b], c.slopes[t, b, 0], c.slopes[t, b, 1], c.slopes[t, b, 2]
        for i in range(3):
            q = 3 * i
            forces[node, i] -= volume * (
                w[LANES * (P + q) + n] * g0 + w[LANES * (P + q + 1) + n] * g1 + w[LANES * (P + q + 2) + n] * g2
            )
            if bulky:
                rise = (
                    0.25
                    * volume
                    * (
                        w[LANES * (COF + q) + n] * g0
                        + w[LANES * (COF + q + 1) + n] * g1
                        + w[LANES * (COF + q + 2) + n] * g2
                    )
                )
                for a in range(4):
                    rises[c.places[t, a, b], i] += rise
