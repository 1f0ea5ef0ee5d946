r"""Compiled forces and stiffness of many cells at once: eight cells side by side, so that the processor does them together.

The mathematics is that of ``_materials_kernels``, written without branches: every loop over ``l`` does the same for each of
:data:`LANES` cells, and all that is between loops lies in the rows of one table (ROWS, LANES). Only the upper half of the
matrix is summed, then mirrored.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from marey.base import FloatArray, kernel, part
from marey.muscle._assembly import CellArrays
from marey.muscle._materials_kernels import COROTATIONAL, clamp_stretches
from marey.muscle._mesh import IndexArray

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
def lane_stiffness(
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
        _load(c, x, pressures, first, many, w)
        _squares(w)
        for _ in range(SWEEPS):
            _sweep(w)
        _sort(w)
        _frames(w)
        _cofactors(w)
        if material == COROTATIONAL:
            _corotational(w)
        else:
            _neo_hookean(w)
        for lane in range(many):
            clamp_stretches(w, LANES * A + lane, LANES, scratch[0], scratch[1])
        _turned(w)
        _blocks(w, k)
        for lane in range(many):
            _scatter(c, first + lane, lane, w, k, forces, values, rises)
    for m in range(mirrors.shape[0]):
        up, down = mirrors[m, 0], mirrors[m, 1]
        for i in range(3):
            for j in range(3):
                values[down, i, j] = values[up, j, i]


@kernel
def lane_energy(c: CellArrays, x: FloatArray, pressures: FloatArray) -> float:
    """Energy of co-rotational cells [J]."""
    w, energy = np.zeros(ROWS * LANES), 0.0
    for first in range(0, c.cells.shape[0], LANES):
        many = min(LANES, c.cells.shape[0] - first)
        _load(c, x, pressures, first, many, w)
        _squares(w)
        for _ in range(SWEEPS):
            _sweep(w)
        _sort(w)
        _frames(w)
        for l in range(many):
            mu, lam = w[LANES * MU + l], w[LANES * LAM + l]
            a, b, d = w[LANES * S + l] - 1.0, w[LANES * (S + 1) + l] - 1.0, w[LANES * (S + 2) + l] - 1.0
            energy += w[LANES * VOLUME + l] * (mu * (a * a + b * b + d * d) + 0.5 * lam * (a + b + d) ** 2)
    return energy


@kernel
def _load(c: CellArrays, x: FloatArray, pressures: FloatArray, first: int, many: int, w: FloatArray) -> None:
    for l in range(many):
        t = first + l
        n0, n1, n2, n3 = c.cells[t, 0], c.cells[t, 1], c.cells[t, 2], c.cells[t, 3]
        for i in range(3):
            e1, e2, e3 = x[n1, i] - x[n0, i], x[n2, i] - x[n0, i], x[n3, i] - x[n0, i]
            for j in range(3):
                w[LANES * (F + 3 * i + j) + l] = (
                    e1 * c.slopes[t, 1, j] + e2 * c.slopes[t, 2, j] + e3 * c.slopes[t, 3, j]
                )
                w[LANES * (G + 3 * i + j) + l] = c.slopes[t, 1 + i, j]
        w[LANES * MU + l], w[LANES * LAM + l], w[LANES * VOLUME + l] = c.mu[t], c.lam[t], c.volumes[t]
        w[LANES * PRESSURE + l] = 0.25 * (pressures[n0] + pressures[n1] + pressures[n2] + pressures[n3])


@kernel
def _squares(w: FloatArray) -> None:
    """F^T F (00, 11, 22, 01, 02, 12), and V = 1."""
    for l in range(LANES):
        f00, f01, f02 = w[LANES * F + l], w[LANES * (F + 1) + l], w[LANES * (F + 2) + l]
        f10, f11, f12 = w[LANES * (F + 3) + l], w[LANES * (F + 4) + l], w[LANES * (F + 5) + l]
        f20, f21, f22 = w[LANES * (F + 6) + l], w[LANES * (F + 7) + l], w[LANES * (F + 8) + l]
        w[LANES * W + l] = f00 * f00 + f10 * f10 + f20 * f20
        w[LANES * (W + 1) + l] = f01 * f01 + f11 * f11 + f21 * f21
        w[LANES * (W + 2) + l] = f02 * f02 + f12 * f12 + f22 * f22
        w[LANES * (W + 3) + l] = f00 * f01 + f10 * f11 + f20 * f21
        w[LANES * (W + 4) + l] = f00 * f02 + f10 * f12 + f20 * f22
        w[LANES * (W + 5) + l] = f01 * f02 + f11 * f12 + f21 * f22
        w[LANES * V + l], w[LANES * (V + 1) + l], w[LANES * (V + 2) + l] = 1.0, 0.0, 0.0
        w[LANES * (V + 3) + l], w[LANES * (V + 4) + l], w[LANES * (V + 5) + l] = 0.0, 1.0, 0.0
        w[LANES * (V + 6) + l], w[LANES * (V + 7) + l], w[LANES * (V + 8) + l] = 0.0, 0.0, 1.0


@part
def _jacobi(app: float, aqq: float, apq: float) -> tuple[float, float, float]:
    """Tangent, cosine and sine of the rotation that clears a_pq."""
    d = aqq - app
    t = 2.0 * apq / (abs(d) + sqrt(d * d + 4.0 * apq * apq) + TINY)
    t = t if d >= 0.0 else -t
    c = 1.0 / sqrt(t * t + 1.0)
    return t, c, t * c


@kernel
def _sweep(w: FloatArray) -> None:
    """One rotation in each plane."""
    for l in range(LANES):
        a00, a11, a22 = w[LANES * W + l], w[LANES * (W + 1) + l], w[LANES * (W + 2) + l]
        a01, a02, a12 = w[LANES * (W + 3) + l], w[LANES * (W + 4) + l], w[LANES * (W + 5) + l]
        v00, v01, v02 = w[LANES * V + l], w[LANES * (V + 1) + l], w[LANES * (V + 2) + l]
        v10, v11, v12 = w[LANES * (V + 3) + l], w[LANES * (V + 4) + l], w[LANES * (V + 5) + l]
        v20, v21, v22 = w[LANES * (V + 6) + l], w[LANES * (V + 7) + l], w[LANES * (V + 8) + l]
        t, c, s = _jacobi(a00, a11, a01)
        a00, a11, a02, a12 = a00 - t * a01, a11 + t * a01, c * a02 - s * a12, s * a02 + c * a12
        v00, v01 = c * v00 - s * v01, s * v00 + c * v01
        v10, v11 = c * v10 - s * v11, s * v10 + c * v11
        v20, v21 = c * v20 - s * v21, s * v20 + c * v21
        t, c, s = _jacobi(a00, a22, a02)
        a00, a22, a01, a12 = a00 - t * a02, a22 + t * a02, -s * a12, c * a12
        v00, v02 = c * v00 - s * v02, s * v00 + c * v02
        v10, v12 = c * v10 - s * v12, s * v10 + c * v12
        v20, v22 = c * v20 - s * v22, s * v20 + c * v22
        t, c, s = _jacobi(a11, a22, a12)
        a11, a22, a01, a02 = a11 - t * a12, a22 + t * a12, c * a01, s * a01
        v01, v02 = c * v01 - s * v02, s * v01 + c * v02
        v11, v12 = c * v11 - s * v12, s * v11 + c * v12
        v21, v22 = c * v21 - s * v22, s * v21 + c * v22
        w[LANES * W + l], w[LANES * (W + 1) + l], w[LANES * (W + 2) + l] = a00, a11, a22
        w[LANES * (W + 3) + l], w[LANES * (W + 4) + l], w[LANES * (W + 5) + l] = a01, a02, 0.0
        w[LANES * V + l], w[LANES * (V + 1) + l], w[LANES * (V + 2) + l] = v00, v01, v02
        w[LANES * (V + 3) + l], w[LANES * (V + 4) + l], w[LANES * (V + 5) + l] = v10, v11, v12
        w[LANES * (V + 6) + l], w[LANES * (V + 7) + l], w[LANES * (V + 8) + l] = v20, v21, v22


@kernel
def _sort(w: FloatArray) -> None:
    """Largest first; each swap turns one sign, so that V stays a rotation."""
    for p, q in ((0, 1), (1, 2), (0, 1)):
        for l in range(LANES):
            swap = w[LANES * (W + q) + l] > w[LANES * (W + p) + l]
            a, b = w[LANES * (W + p) + l], w[LANES * (W + q) + l]
            w[LANES * (W + p) + l], w[LANES * (W + q) + l] = (b if swap else a), (a if swap else b)
            a, b = w[LANES * (V + p) + l], w[LANES * (V + q) + l]
            w[LANES * (V + p) + l], w[LANES * (V + q) + l] = (b if swap else a), (-a if swap else b)
            a, b = w[LANES * (V + 3 + p) + l], w[LANES * (V + 3 + q) + l]
            w[LANES * (V + 3 + p) + l], w[LANES * (V + 3 + q) + l] = (b if swap else a), (-a if swap else b)
            a, b = w[LANES * (V + 6 + p) + l], w[LANES * (V + 6 + q) + l]
            w[LANES * (V + 6 + p) + l], w[LANES * (V + 6 + q) + l] = (b if swap else a), (-a if swap else b)


@kernel
def _frames(w: FloatArray) -> None:
    """U and s of F V = U s: the first two columns made orthonormal, the last their cross product."""
    for l in range(LANES):
        f00, f01, f02 = w[LANES * F + l], w[LANES * (F + 1) + l], w[LANES * (F + 2) + l]
        f10, f11, f12 = w[LANES * (F + 3) + l], w[LANES * (F + 4) + l], w[LANES * (F + 5) + l]
        f20, f21, f22 = w[LANES * (F + 6) + l], w[LANES * (F + 7) + l], w[LANES * (F + 8) + l]
        x, y, z = w[LANES * V + l], w[LANES * (V + 3) + l], w[LANES * (V + 6) + l]
        b0, b1, b2 = f00 * x + f01 * y + f02 * z, f10 * x + f11 * y + f12 * z, f20 * x + f21 * y + f22 * z
        size = sqrt(b0 * b0 + b1 * b1 + b2 * b2)
        inverse = 1.0 / (size + TINY)
        u00, u10, u20 = b0 * inverse, b1 * inverse, b2 * inverse
        x, y, z = w[LANES * (V + 1) + l], w[LANES * (V + 4) + l], w[LANES * (V + 7) + l]
        b0, b1, b2 = f00 * x + f01 * y + f02 * z, f10 * x + f11 * y + f12 * z, f20 * x + f21 * y + f22 * z
        d = b0 * u00 + b1 * u10 + b2 * u20
        c0, c1, c2 = b0 - d * u00, b1 - d * u10, b2 - d * u20
        inverse = 1.0 / (sqrt(c0 * c0 + c1 * c1 + c2 * c2) + TINY)
        u01, u11, u21 = c0 * inverse, c1 * inverse, c2 * inverse
        w[LANES * S + l], w[LANES * (S + 1) + l] = size, b0 * u01 + b1 * u11 + b2 * u21
        u02, u12, u22 = u10 * u21 - u20 * u11, u20 * u01 - u00 * u21, u00 * u11 - u10 * u01
        x, y, z = w[LANES * (V + 2) + l], w[LANES * (V + 5) + l], w[LANES * (V + 8) + l]
        b0, b1, b2 = f00 * x + f01 * y + f02 * z, f10 * x + f11 * y + f12 * z, f20 * x + f21 * y + f22 * z
        w[LANES * (S + 2) + l] = b0 * u02 + b1 * u12 + b2 * u22
        w[LANES * U + l], w[LANES * (U + 1) + l], w[LANES * (U + 2) + l] = u00, u01, u02
        w[LANES * (U + 3) + l], w[LANES * (U + 4) + l], w[LANES * (U + 5) + l] = u10, u11, u12
        w[LANES * (U + 6) + l], w[LANES * (U + 7) + l], w[LANES * (U + 8) + l] = u20, u21, u22


@kernel
def _cofactors(w: FloatArray) -> None:
    for i in range(3):
        for j in range(3):
            a, b = F + 3 * ((i + 1) % 3), F + 3 * ((i + 2) % 3)
            p, q = (j + 1) % 3, (j + 2) % 3
            for l in range(LANES):
                w[LANES * (COF + 3 * i + j) + l] = (
                    w[LANES * (a + p) + l] * w[LANES * (b + q) + l] - w[LANES * (a + q) + l] * w[LANES * (b + p) + l]
                )


@kernel
def _corotational(w: FloatArray) -> None:
    """Stiffness in the frames, and the stress 2 mu F + c R."""
    for l in range(LANES):
        mu, lam = w[LANES * MU + l], w[LANES * LAM + l]
        s0, s1, s2 = w[LANES * S + l], w[LANES * (S + 1) + l], w[LANES * (S + 2) + l]
        c = lam * (s0 + s1 + s2 - 3.0) - 2.0 * mu
        for i in range(3):
            w[LANES * (A + i) + l] = 2.0 * mu + lam
            w[LANES * (A + 3 + i) + l] = lam
            w[LANES * (SHEAR + i) + l] = 2.0 * mu
        g0, g1, g2 = s1 + s2, s0 + s2, s0 + s1
        t0 = 2.0 * mu + 2.0 * c / (g0 if g0 > 1e-6 else 1e-6)
        t1 = 2.0 * mu + 2.0 * c / (g1 if g1 > 1e-6 else 1e-6)
        t2 = 2.0 * mu + 2.0 * c / (g2 if g2 > 1e-6 else 1e-6)
        w[LANES * TWIST + l] = t0 if t0 > 0.0 else 0.0
        w[LANES * (TWIST + 1) + l] = t1 if t1 > 0.0 else 0.0
        w[LANES * (TWIST + 2) + l] = t2 if t2 > 0.0 else 0.0
        w[LANES * H + l] = c
    for i in range(3):
        for j in range(3):
            for l in range(LANES):
                turn = (
                    w[LANES * (U + 3 * i) + l] * w[LANES * (V + 3 * j) + l]
                    + w[LANES * (U + 3 * i + 1) + l] * w[LANES * (V + 3 * j + 1) + l]
                    + w[LANES * (U + 3 * i + 2) + l] * w[LANES * (V + 3 * j + 2) + l]
                )
                w[LANES * (P + 3 * i + j) + l] = (
                    2.0 * w[LANES * MU + l] * w[LANES * (F + 3 * i + j) + l] + w[LANES * H + l] * turn
                )


@kernel
def _neo_hookean(w: FloatArray) -> None:
    """Stiffness in the frames, and the stress mu F + p cof F."""
    for l in range(LANES):
        mu = w[LANES * MU + l]
        bulk = w[LANES * LAM + l] + mu
        s0, s1, s2 = w[LANES * S + l], w[LANES * (S + 1) + l], w[LANES * (S + 2) + l]
        c0, c1, c2 = s1 * s2, s0 * s2, s0 * s1
        p = bulk * (s0 * c0 - 1.0) - mu + w[LANES * PRESSURE + l]
        w[LANES * A + l], w[LANES * (A + 1) + l], w[LANES * (A + 2) + l] = (
            mu + bulk * c0 * c0,
            mu + bulk * c1 * c1,
            mu + bulk * c2 * c2,
        )
        w[LANES * (A + 3) + l] = bulk * c1 * c2 + p * s0
        w[LANES * (A + 4) + l] = bulk * c0 * c2 + p * s1
        w[LANES * (A + 5) + l] = bulk * c0 * c1 + p * s2
        a0, a1, a2 = mu - p * s0, mu - p * s1, mu - p * s2
        b0, b1, b2 = mu + p * s0, mu + p * s1, mu + p * s2
        w[LANES * SHEAR + l], w[LANES * TWIST + l] = (a0 if a0 > 0.0 else 0.0), (b0 if b0 > 0.0 else 0.0)
        w[LANES * (SHEAR + 1) + l], w[LANES * (TWIST + 1) + l] = (a1 if a1 > 0.0 else 0.0), (b1 if b1 > 0.0 else 0.0)
        w[LANES * (SHEAR + 2) + l], w[LANES * (TWIST + 2) + l] = (a2 if a2 > 0.0 else 0.0), (b2 if b2 > 0.0 else 0.0)
        for i in range(9):
            w[LANES * (P + i) + l] = mu * w[LANES * (F + i) + l] + p * w[LANES * (COF + i) + l]


@kernel
def _turned(w: FloatArray) -> None:
    """Slopes in the frame of V."""
    for a in range(3):
        for j in range(3):
            for l in range(LANES):
                w[LANES * (H + 3 * a + j) + l] = (
                    w[LANES * (G + 3 * a) + l] * w[LANES * (V + j) + l] + w[LANES * (G + 3 * a + 1) + l] * w[LANES * (V + 3 + j) + l]
                    + w[LANES * (G + 3 * a + 2) + l] * w[LANES * (V + 6 + j) + l]
                )  # fmt: skip


@kernel
def _blocks(w: FloatArray, k: FloatArray) -> None:
    """Ten blocks of a cell: (0,0) (0,1) (0,2) (0,3) (1,1) (1,2) (1,3) (2,2) (2,3) (3,3)."""
    for a, b, row in ((0, 0, 36), (0, 1, 45), (0, 2, 54), (1, 1, 63), (1, 2, 72), (2, 2, 81)):
        _block(w, H + 3 * a, H + 3 * b, row, k)
    for i in range(3):
        for j in range(3):
            e, f = 3 * i + j, 3 * j + i
            for l in range(LANES):
                c1 = k[LANES * (36 + e) + l] + k[LANES * (45 + f) + l] + k[LANES * (54 + f) + l]
                c2 = k[LANES * (45 + e) + l] + k[LANES * (63 + e) + l] + k[LANES * (72 + f) + l]
                c3 = k[LANES * (54 + e) + l] + k[LANES * (72 + e) + l] + k[LANES * (81 + e) + l]
                k[LANES * (9 + e) + l], k[LANES * (18 + e) + l], k[LANES * (27 + e) + l] = -c1, -c2, -c3
                k[LANES * e + l] = c1 + c2 + c3


@kernel
def _block(w: FloatArray, ga: int, gb: int, row: int, k: FloatArray) -> None:
    """One block: in the frames, then turned by U on both sides."""
    for l in range(LANES):
        volume = w[LANES * VOLUME + l]
        a0, a1, a2 = volume * w[LANES * ga + l], volume * w[LANES * (ga + 1) + l], volume * w[LANES * (ga + 2) + l]
        b0, b1, b2 = w[LANES * gb + l], w[LANES * (gb + 1) + l], w[LANES * (gb + 2) + l]
        p0, p1, p2 = 0.5 * (w[LANES * SHEAR + l] + w[LANES * TWIST + l]), 0.5 * (w[LANES * (SHEAR + 1) + l] + w[LANES * (TWIST + 1) + l]), 0.5 * (w[LANES * (SHEAR + 2) + l] + w[LANES * (TWIST + 2) + l])  # fmt: skip  # noqa: E501
        q0, q1, q2 = 0.5 * (w[LANES * SHEAR + l] - w[LANES * TWIST + l]), 0.5 * (w[LANES * (SHEAR + 1) + l] - w[LANES * (TWIST + 1) + l]), 0.5 * (w[LANES * (SHEAR + 2) + l] - w[LANES * (TWIST + 2) + l])  # fmt: skip  # noqa: E501
        m00 = w[LANES * A + l] * a0 * b0 + p2 * a1 * b1 + p1 * a2 * b2
        m11 = w[LANES * (A + 1) + l] * a1 * b1 + p0 * a2 * b2 + p2 * a0 * b0
        m22 = w[LANES * (A + 2) + l] * a2 * b2 + p1 * a0 * b0 + p0 * a1 * b1
        m01, m10 = w[LANES * (A + 5) + l] * a0 * b1 + q2 * a1 * b0, w[LANES * (A + 5) + l] * a1 * b0 + q2 * a0 * b1
        m02, m20 = w[LANES * (A + 4) + l] * a0 * b2 + q1 * a2 * b0, w[LANES * (A + 4) + l] * a2 * b0 + q1 * a0 * b2
        m12, m21 = w[LANES * (A + 3) + l] * a1 * b2 + q0 * a2 * b1, w[LANES * (A + 3) + l] * a2 * b1 + q0 * a1 * b2
        u00, u01, u02 = w[LANES * U + l], w[LANES * (U + 1) + l], w[LANES * (U + 2) + l]
        u10, u11, u12 = w[LANES * (U + 3) + l], w[LANES * (U + 4) + l], w[LANES * (U + 5) + l]
        u20, u21, u22 = w[LANES * (U + 6) + l], w[LANES * (U + 7) + l], w[LANES * (U + 8) + l]
        e0, e1, e2 = u00 * m00 + u01 * m10 + u02 * m20, u00 * m01 + u01 * m11 + u02 * m21, u00 * m02 + u01 * m12 + u02 * m22  # fmt: skip  # noqa: E501
        k[LANES * row + l], k[LANES * (row + 1) + l], k[LANES * (row + 2) + l] = e0 * u00 + e1 * u01 + e2 * u02, e0 * u10 + e1 * u11 + e2 * u12, e0 * u20 + e1 * u21 + e2 * u22  # fmt: skip  # noqa: E501
        e0, e1, e2 = u10 * m00 + u11 * m10 + u12 * m20, u10 * m01 + u11 * m11 + u12 * m21, u10 * m02 + u11 * m12 + u12 * m22  # fmt: skip  # noqa: E501
        k[LANES * (row + 3) + l], k[LANES * (row + 4) + l], k[LANES * (row + 5) + l] = e0 * u00 + e1 * u01 + e2 * u02, e0 * u10 + e1 * u11 + e2 * u12, e0 * u20 + e1 * u21 + e2 * u22  # fmt: skip  # noqa: E501
        e0, e1, e2 = u20 * m00 + u21 * m10 + u22 * m20, u20 * m01 + u21 * m11 + u22 * m21, u20 * m02 + u21 * m12 + u22 * m22  # fmt: skip  # noqa: E501
        k[LANES * (row + 6) + l], k[LANES * (row + 7) + l], k[LANES * (row + 8) + l] = e0 * u00 + e1 * u01 + e2 * u02, e0 * u10 + e1 * u11 + e2 * u12, e0 * u20 + e1 * u21 + e2 * u22  # fmt: skip  # noqa: E501


@kernel
def _scatter(
    c: CellArrays, t: int, l: int, w: FloatArray, k: FloatArray, forces: FloatArray, values: FloatArray,
    rises: FloatArray,
) -> None:  # fmt: skip
    row = 0
    for a in range(4):
        for b in range(a, 4):
            place = c.places[t, a, b]
            for i in range(3):
                for j in range(3):
                    values[place, i, j] += k[LANES * row + l]
                    row += 1
    volume, bulky = w[LANES * VOLUME + l], rises.shape[0] > 0
    for b in range(4):
        n, g0, g1, g2 = c.cells[t, b], c.slopes[t, b, 0], c.slopes[t, b, 1], c.slopes[t, b, 2]
        for i in range(3):
            q = 3 * i
            forces[n, i] -= volume * (
                w[LANES * (P + q) + l] * g0 + w[LANES * (P + q + 1) + l] * g1 + w[LANES * (P + q + 2) + l] * g2
            )
            if bulky:
                rise = (
                    0.25
                    * volume
                    * (
                        w[LANES * (COF + q) + l] * g0
                        + w[LANES * (COF + q + 1) + l] * g1
                        + w[LANES * (COF + q + 2) + l] * g2
                    )
                )
                for a in range(4):
                    rises[c.places[t, a, b], i] += rise
