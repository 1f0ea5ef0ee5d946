r"""The material laws of soft bodies one cell at a time: forces and exact stiffness, with branches, as in a textbook.

The product does eight cells at once without branches (``marey.muscle.elastic.models``); this is what it must agree
with. The energies depend on the singular values of :math:`F = U \Sigma V^T` alone, so that both stiffnesses have the
same shape in the frame of U and V: a 3x3 matrix A for stretches and, for each plane, one value for shear and one for
twist.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from marey.base import FloatArray, kernel
from marey.muscle.elastic.cell_lanes import CellArrays
from marey.muscle.elastic.models import COROTATIONAL, deformation_gradient

JACOBI_SWEEPS = 8  # four suffice for a double
MIN_STRETCH = 1e-9  # [-] below, a direction of U comes from the other two


@kernel
def decompose_deformation(f: FloatArray, s: FloatArray, u: FloatArray, v: FloatArray, w: FloatArray) -> None:
    r"""Write :math:`F = U\,\mathrm{diag}(s)\,V^T` with rotations U, V; the smallest s is negative if F is inverted.

    Jacobi rotations of :math:`F^T F` (in ``w``); all arrays (3, 3), ``s`` (3,).
    """
    for i in range(3):
        for j in range(3):
            w[i, j] = f[0, i] * f[0, j] + f[1, i] * f[1, j] + f[2, i] * f[2, j]
            v[i, j] = 1.0 if i == j else 0.0
    for _ in range(JACOBI_SWEEPS):
        off = w[0, 1] * w[0, 1] + w[0, 2] * w[0, 2] + w[1, 2] * w[1, 2]
        if off <= 1e-32 * (w[0, 0] * w[0, 0] + w[1, 1] * w[1, 1] + w[2, 2] * w[2, 2]):
            break
        _rotate_jacobi(w, v, 0, 1, 2)
        _rotate_jacobi(w, v, 0, 2, 1)
        _rotate_jacobi(w, v, 1, 2, 0)
    _sort_columns(w, v)
    _complete_left_frame(f, s, u, v)


@kernel
def _rotate_jacobi(w: FloatArray, v: FloatArray, p: int, q: int, r: int) -> None:
    apq = w[p, q]
    if apq == 0.0:
        return
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


@kernel
def _sort_columns(w: FloatArray, v: FloatArray) -> None:
    """Largest first; each swap turns one sign, so V stays a rotation."""
    for p, q in ((0, 1), (1, 2), (0, 1)):
        if w[q, q] > w[p, p]:
            w[p, p], w[q, q] = w[q, q], w[p, p]
            for i in range(3):
                v[i, p], v[i, q] = v[i, q], -v[i, p]


@kernel
def _complete_left_frame(f: FloatArray, s: FloatArray, u: FloatArray, v: FloatArray) -> None:
    """U of F V = U s, made orthonormal column by column; the last is the cross product of the first two."""
    for j in range(2):
        for i in range(3):
            u[i, j] = f[i, 0] * v[0, j] + f[i, 1] * v[1, j] + f[i, 2] * v[2, j]
    n0 = sqrt(u[0, 0] ** 2 + u[1, 0] ** 2 + u[2, 0] ** 2)
    if n0 < MIN_STRETCH:
        u[0, 0], u[1, 0], u[2, 0] = 1.0, 0.0, 0.0
    else:
        u[0, 0], u[1, 0], u[2, 0] = u[0, 0] / n0, u[1, 0] / n0, u[2, 0] / n0
    d = u[0, 0] * u[0, 1] + u[1, 0] * u[1, 1] + u[2, 0] * u[2, 1]
    for i in range(3):
        u[i, 1] -= d * u[i, 0]
    n1 = sqrt(u[0, 1] ** 2 + u[1, 1] ** 2 + u[2, 1] ** 2)
    if n1 < MIN_STRETCH:
        _write_any_normal(u)
    else:
        u[0, 1], u[1, 1], u[2, 1] = u[0, 1] / n1, u[1, 1] / n1, u[2, 1] / n1
    u[0, 2] = u[1, 0] * u[2, 1] - u[2, 0] * u[1, 1]
    u[1, 2] = u[2, 0] * u[0, 1] - u[0, 0] * u[2, 1]
    u[2, 2] = u[0, 0] * u[1, 1] - u[1, 0] * u[0, 1]
    for j in range(3):
        s[j] = 0.0
        for i in range(3):
            s[j] += u[i, j] * (f[i, 0] * v[0, j] + f[i, 1] * v[1, j] + f[i, 2] * v[2, j])


@kernel
def _write_any_normal(u: FloatArray) -> None:
    x, y, z = u[0, 0], u[1, 0], u[2, 0]
    if abs(x) < 0.7:
        n = sqrt(y * y + z * z)
        u[0, 1], u[1, 1], u[2, 1] = 0.0, z / n, -y / n
    else:
        n = sqrt(x * x + z * z)
        u[0, 1], u[1, 1], u[2, 1] = -z / n, 0.0, x / n


@kernel
def compute_principal_stiffness(
    material: int, mu: float, lam: float, pressure: float, s: FloatArray, a: FloatArray, shear: FloatArray,
    twist: FloatArray,
) -> None:  # fmt: skip
    r"""Second derivative of the energy in the frame of U and V.

    Co-rotational :math:`\mu\|\Sigma - I\|^2 + \frac\lambda2 \mathrm{tr}^2(\Sigma - I)`; neo-Hookean
    :math:`\frac\mu2(\|\Sigma\|^2 - 3) - \mu(J-1) + \frac{\lambda+\mu}2(J-1)^2 + p\,(J-1)`, ``pressure`` p of the nodes.

    ``a`` (3, 3) is written for stretches, ``shear`` and ``twist`` (3,) for the plane normal to each axis.
    """
    if material == COROTATIONAL:
        c = lam * (s[0] + s[1] + s[2] - 3.0) - 2.0 * mu
        for k in range(3):
            i, j = (k + 1) % 3, (k + 2) % 3
            gap = max(s[i] + s[j], 1e-6)
            a[k, k] = 2.0 * mu + lam
            a[i, j] = a[j, i] = lam
            shear[k] = 2.0 * mu
            twist[k] = 2.0 * mu + 2.0 * c / gap
    else:
        jacobian = s[0] * s[1] * s[2]
        bulk = lam + mu
        p = bulk * (jacobian - 1.0) - mu + pressure
        for k in range(3):
            i, j = (k + 1) % 3, (k + 2) % 3
            a[k, k] = mu + bulk * (s[i] * s[j]) ** 2
            a[i, j] = a[j, i] = bulk * s[j] * s[k] * s[i] * s[k] + p * s[k]
            shear[k] = mu - p * s[k]
            twist[k] = mu + p * s[k]


@kernel
def write_cofactors(f: FloatArray, k: FloatArray) -> None:
    """Write the cofactors of F (3, 3): the derivative of its determinant."""
    for i in range(3):
        i1, i2 = (i + 1) % 3, (i + 2) % 3
        for j in range(3):
            j1, j2 = (j + 1) % 3, (j + 2) % 3
            k[i, j] = f[i1, j1] * f[i2, j2] - f[i1, j2] * f[i2, j1]


@kernel
def _piola_stress(
    material: int, c: CellArrays, t: int, jacobian: float, pressure: float, f: FloatArray, cof: FloatArray,
    u: FloatArray, s: FloatArray, v: FloatArray, p: FloatArray,
) -> None:  # fmt: skip
    """Write the first Piola stress (3, 3); the co-rotational one needs the frames."""
    mu, lam = c.mu[t], c.lam[t]
    if material == COROTATIONAL:
        twice = lam * (s[0] + s[1] + s[2] - 3.0) - 2.0 * mu
        for i in range(3):
            for j in range(3):
                r = u[i, 0] * v[j, 0] + u[i, 1] * v[j, 1] + u[i, 2] * v[j, 2]
                p[i, j] = 2.0 * mu * f[i, j] + twice * r
    else:
        push = (lam + mu) * (jacobian - 1.0) - mu + pressure
        for i in range(3):
            for j in range(3):
                p[i, j] = mu * f[i, j] + push * cof[i, j]


@kernel
def _mean_pressure(c: CellArrays, t: int, pressures: FloatArray) -> float:
    n0, n1, n2, n3 = c.cells[t, 0], c.cells[t, 1], c.cells[t, 2], c.cells[t, 3]
    return 0.25 * float(pressures[n0] + pressures[n1] + pressures[n2] + pressures[n3])


@kernel
def add_cell_forces(material: int, c: CellArrays, x: FloatArray, pressures: FloatArray, out: FloatArray) -> None:
    """Add the elastic forces (V, 3) [N]."""
    m = np.empty((6, 3, 3))
    f, cof, u, v, w, p = m[0], m[1], m[2], m[3], m[4], m[5]
    s = np.empty(3)
    for t in range(c.cells.shape[0]):
        jacobian = deformation_gradient(c, x, t, f)
        write_cofactors(f, cof)
        if material == COROTATIONAL:
            decompose_deformation(f, s, u, v, w)
        _piola_stress(material, c, t, jacobian, _mean_pressure(c, t, pressures), f, cof, u, s, v, p)
        _add_stress_forces(c, t, p, out)


@kernel
def _add_stress_forces(c: CellArrays, t: int, p: FloatArray, out: FloatArray) -> None:
    for a in range(4):
        n = c.cells[t, a]
        for i in range(3):
            dot = p[i, 0] * c.slopes[t, a, 0] + p[i, 1] * c.slopes[t, a, 1] + p[i, 2] * c.slopes[t, a, 2]
            out[n, i] -= c.volumes[t] * dot


@kernel
def add_exact_stiffness(
    material: int, c: CellArrays, x: FloatArray, pressures: FloatArray, forces: FloatArray, values: FloatArray,
    rises: FloatArray,
) -> None:  # fmt: skip
    r"""Add forces (V, 3), exact stiffness blocks :math:`-\partial f/\partial x`, and the rises of node volumes.

    ``rises`` (nnz, 3) or none: derivative of the volume around node n by node j [m^2], at block (n, j).
    """
    m = np.empty((8, 3, 3))
    f, cof, u, v, w, p, a3, b3 = m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7]
    s, shear, twist = np.empty(3), np.empty(3), np.empty(3)
    local, turned = np.empty((4, 4, 3, 3)), np.empty((4, 3))
    for t in range(c.cells.shape[0]):
        jacobian = deformation_gradient(c, x, t, f)
        write_cofactors(f, cof)
        decompose_deformation(f, s, u, v, w)
        pressure = _mean_pressure(c, t, pressures)
        _piola_stress(material, c, t, jacobian, pressure, f, cof, u, s, v, p)
        _add_stress_forces(c, t, p, forces)
        compute_principal_stiffness(material, c.mu[t], c.lam[t], pressure, s, a3, shear, twist)
        _rotate_gradients(c, t, v, turned)
        _cell_blocks(c.volumes[t], a3, shear, twist, u, turned, b3, w, local)
        _scatter_blocks(c, t, local, cof, values, rises)


@kernel
def _rotate_gradients(c: CellArrays, t: int, v: FloatArray, out: FloatArray) -> None:
    for a in range(4):
        for j in range(3):
            out[a, j] = c.slopes[t, a, 0] * v[0, j] + c.slopes[t, a, 1] * v[1, j] + c.slopes[t, a, 2] * v[2, j]


@kernel
def _cell_blocks(
    volume: float, a3: FloatArray, shear: FloatArray, twist: FloatArray, u: FloatArray, g: FloatArray, b3: FloatArray,
    e3: FloatArray, out: FloatArray,
) -> None:  # fmt: skip
    """Write the blocks (4, 4, 3, 3) of a cell from its stiffness in the frames; ``g`` are slopes in the frame of V."""
    for a in range(1, 4):
        for b in range(a, 4):
            for i in range(3):
                j, k = (i + 1) % 3, (i + 2) % 3
                straight_k, straight_j = 0.5 * (shear[k] + twist[k]), 0.5 * (shear[j] + twist[j])
                b3[i, i] = volume * (
                    a3[i, i] * g[a, i] * g[b, i] + straight_k * g[a, j] * g[b, j] + straight_j * g[a, k] * g[b, k]
                )
                cross = 0.5 * (shear[k] - twist[k])
                b3[i, j] = volume * (a3[i, j] * g[a, i] * g[b, j] + cross * g[a, j] * g[b, i])
                b3[j, i] = volume * (a3[j, i] * g[a, j] * g[b, i] + cross * g[a, i] * g[b, j])
            for i in range(3):
                for j in range(3):
                    e3[i, j] = u[i, 0] * b3[0, j] + u[i, 1] * b3[1, j] + u[i, 2] * b3[2, j]
            for i in range(3):
                for j in range(3):
                    entry = e3[i, 0] * u[j, 0] + e3[i, 1] * u[j, 1] + e3[i, 2] * u[j, 2]
                    out[a, b, i, j] = entry
                    out[b, a, j, i] = entry
    for i in range(3):
        for j in range(3):
            total = 0.0
            for a in range(1, 4):
                column = out[1, a, i, j] + out[2, a, i, j] + out[3, a, i, j]
                out[0, a, i, j] = -column
                out[a, 0, j, i] = -column
                total += column
            out[0, 0, i, j] = total


@kernel
def _scatter_blocks(
    c: CellArrays, t: int, local: FloatArray, cof: FloatArray, values: FloatArray, rises: FloatArray
) -> None:
    quarter = 0.25 * c.volumes[t]
    for b in range(4):
        r0, r1, r2 = 0.0, 0.0, 0.0
        for j in range(3):
            r0 += quarter * cof[0, j] * c.slopes[t, b, j]
            r1 += quarter * cof[1, j] * c.slopes[t, b, j]
            r2 += quarter * cof[2, j] * c.slopes[t, b, j]
        for a in range(4):
            place = c.places[t, a, b]
            for i in range(3):
                for j in range(3):
                    values[place, i, j] += local[a, b, i, j]
            if rises.shape[0] > 0:
                rises[place, 0] += r0
                rises[place, 1] += r1
                rises[place, 2] += r2
