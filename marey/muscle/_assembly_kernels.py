"""Compiled passes over all cells: forces, stiffness blocks, volumes of nodes."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, kernel
from marey.muscle._assembly import CellArrays
from marey.muscle._materials_kernels import COROTATIONAL, compute_principal_stiffness, decompose_deformation


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
def write_cofactors(f: FloatArray, k: FloatArray) -> None:
    """Write the cofactors of F (3, 3): the derivative of its determinant."""
    for i in range(3):
        i1, i2 = (i + 1) % 3, (i + 2) % 3
        for j in range(3):
            j1, j2 = (j + 1) % 3, (j + 2) % 3
            k[i, j] = f[i1, j1] * f[i2, j2] - f[i1, j2] * f[i2, j1]


@kernel
def compute_node_pressures(c: CellArrays, x: FloatArray, out: FloatArray) -> tuple[int, float]:
    r"""Pressure :math:`\kappa_n (J_n - 1)` of each node (V,) [Pa], J the volume around it over that at rest.

    Returns how many cells are inverted and the smallest J of a cell.
    """
    f = np.empty((3, 3))
    out[:] = 0.0
    inverted, least = 0, np.inf
    for t in range(c.cells.shape[0]):
        ratio = deformation_gradient(c, x, t, f)
        inverted += ratio <= 0.0
        least = min(least, ratio)
        for a in range(4):
            out[c.cells[t, a]] += 0.25 * c.volumes[t] * ratio
    for n in range(out.shape[0]):
        if c.node_volumes[n] > 0.0:
            out[n] = c.node_bulk[n] * (out[n] / c.node_volumes[n] - 1.0)
    return inverted, least


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


@kernel
def compute_cell_energy(c: CellArrays, x: FloatArray, pressures: FloatArray) -> float:
    """Energy of neo-Hookean cells and of nodes [J]; ``pressures`` are those of :func:`node_pressures` at x."""
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
