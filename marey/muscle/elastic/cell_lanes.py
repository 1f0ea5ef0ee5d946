"""Material laws of tetrahedra, eight cells at a time: decomposition, stress, stiffness, blocks of the matrix.

The kernels do ``LANES`` cells side by side, without branches, so that the processor does them together: every loop
over ``n`` does the same for each lane, and what stands between two loops lies in the rows of one flat table. The
constants below say where a quantity of the table begins; entry k of it, of lane n, is ``w[BEGIN + LANES * k + n]``.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

from marey.base import FloatArray, inline_kernel, kernel
from marey.muscle.elastic.mesh import IndexArray

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


@inline_kernel
def load_row(w: FloatArray, begin: int, i: int, n: int) -> tuple[float, float, float]:
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
def load_lanes(c: CellArrays, x: FloatArray, pressures: FloatArray, first: int, many: int, w: FloatArray) -> None:
    """Write deformation gradients, slopes, moduli, volumes and pressures of cells from ``first`` on."""
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
def decompose_lanes(w: FloatArray) -> None:
    """Rotations U and V and stretches S of F; the smallest stretch is negative in a cell that is inside out."""
    # F^T F, and V = 1.
    for n in range(LANES):
        f00, f01, f02 = load_row(w, F, 0, n)
        f10, f11, f12 = load_row(w, F, 1, n)
        f20, f21, f22 = load_row(w, F, 2, n)
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
        # One rotation of F^T F and of V in each plane
        for n in range(LANES):
            a00, a11, a22 = load_row(w, W, 0, n)
            a01, a02, a12 = load_row(w, W, 1, n)
            v00, v01, v02 = load_row(w, V, 0, n)
            v10, v11, v12 = load_row(w, V, 1, n)
            v20, v21, v22 = load_row(w, V, 2, n)
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
        f00, f01, f02 = load_row(w, F, 0, n)
        f10, f11, f12 = load_row(w, F, 1, n)
        f20, f21, f22 = load_row(w, F, 2, n)
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
def evaluate_corotational(w: FloatArray, floor: float) -> None:
    """Stiffness in the frames, twists not below ``floor``, and the stress :math:`2 mu F + c R`."""
    for n in range(LANES):
        mu, lam = w[MU + n], w[LAM + n]
        s0, s1, s2 = load_row(w, S, 0, n)
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
                u0, u1, u2 = load_row(w, U, i, n)
                v0, v1, v2 = load_row(w, V, j, n)
                k = LANES * (3 * i + j) + n
                w[P + k] = 2.0 * w[MU + n] * w[F + k] + w[H + n] * (u0 * v0 + u1 * v1 + u2 * v2)


@kernel
def evaluate_neo_hookean(w: FloatArray, floor: float) -> None:
    """Stiffness in the frames, shears and twists not below ``floor``, and the stress :math:`mu F + p cof F`."""
    for n in range(LANES):
        mu = w[MU + n]
        bulk = w[LAM + n] + mu
        s0, s1, s2 = load_row(w, S, 0, n)
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
def clamp_eigenvalues(table: FloatArray, first: int, w: FloatArray, v: FloatArray) -> None:
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
            t, c, s = _jacobi_rotation(w[p, p], w[q, q], apq)
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
def write_blocks(w: FloatArray, k: FloatArray) -> None:
    """Ten blocks of a cell: (0,0) (0,1) (0,2) (0,3) (1,1) (1,2) (1,3) (2,2) (2,3) (3,3)."""
    # Slopes in the frame of V.
    for a in range(3):
        for j in range(3):
            for n in range(LANES):
                g0, g1, g2 = load_row(w, G, a, n)
                v0, v1, v2 = _load_column(w, V, j, n)
                w[H + LANES * (3 * a + j) + n] = g0 * v0 + g1 * v1 + g2 * v2
    # Blocks of corners 1 to 3.
    for a, b, number in ((0, 0, 4), (0, 1, 5), (0, 2, 6), (1, 1, 7), (1, 2, 8), (2, 2, 9)):
        # In the frames first, then turned by U on both sides.
        begin = BLOCK * number
        for n in range(LANES):
            volume = w[VOLUME + n]
            a0, a1, a2 = load_row(w, H, a, n)
            a0, a1, a2 = volume * a0, volume * a1, volume * a2
            b0, b1, b2 = load_row(w, H, b, n)
            # Straight and crossed parts of shear and twist, of the plane normal to each axis.
            h0, h1, h2 = load_row(w, SHEAR, 0, n)
            t0, t1, t2 = load_row(w, TWIST, 0, n)
            p0, p1, p2 = 0.5 * (h0 + t0), 0.5 * (h1 + t1), 0.5 * (h2 + t2)
            q0, q1, q2 = 0.5 * (h0 - t0), 0.5 * (h1 - t1), 0.5 * (h2 - t2)
            d0, d1, d2 = load_row(w, A, 0, n)
            a12, a02, a01 = load_row(w, A, 1, n)
            m00 = d0 * a0 * b0 + p2 * a1 * b1 + p1 * a2 * b2
            m11 = d1 * a1 * b1 + p0 * a2 * b2 + p2 * a0 * b0
            m22 = d2 * a2 * b2 + p1 * a0 * b0 + p0 * a1 * b1
            m01, m10 = a01 * a0 * b1 + q2 * a1 * b0, a01 * a1 * b0 + q2 * a0 * b1
            m02, m20 = a02 * a0 * b2 + q1 * a2 * b0, a02 * a2 * b0 + q1 * a0 * b2
            m12, m21 = a12 * a1 * b2 + q0 * a2 * b1, a12 * a2 * b1 + q0 * a1 * b2
            for i in range(3):
                u0, u1, u2 = load_row(w, U, i, n)
                e0 = u0 * m00 + u1 * m10 + u2 * m20
                e1 = u0 * m01 + u1 * m11 + u2 * m21
                e2 = u0 * m02 + u1 * m12 + u2 * m22
                for j in range(3):
                    r0, r1, r2 = load_row(w, U, j, n)
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
