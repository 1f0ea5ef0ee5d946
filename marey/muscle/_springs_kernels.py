"""Compiled springs: energy, forces, stiffness, and the explicit step of the thesis."""

from __future__ import annotations

from math import sqrt

from marey.base import FloatArray, kernel
from marey.muscle._mesh import IndexArray

MIN_LENGTH_RATIO = 1e-9  # of the length at rest; a shorter spring has no direction and pushes nowhere


@kernel
def compute_lattice_energy(springs: IndexArray, stiffness: FloatArray, lengths: FloatArray, x: FloatArray) -> float:
    r"""Energy :math:`\sum \frac{k}{2} (l - l_0)^2` [J]."""
    energy = 0.0
    for s in range(springs.shape[0]):
        a, b = springs[s, 0], springs[s, 1]
        d0, d1, d2 = x[b, 0] - x[a, 0], x[b, 1] - x[a, 1], x[b, 2] - x[a, 2]
        energy += 0.5 * stiffness[s] * (sqrt(d0 * d0 + d1 * d1 + d2 * d2) - lengths[s]) ** 2
    return energy


@kernel
def add_lattice_forces(
    springs: IndexArray, stiffness: FloatArray, lengths: FloatArray, x: FloatArray, out: FloatArray
) -> None:
    """Add the forces (V, 3) [N]."""
    for s in range(springs.shape[0]):
        a, b = springs[s, 0], springs[s, 1]
        d0, d1, d2 = x[b, 0] - x[a, 0], x[b, 1] - x[a, 1], x[b, 2] - x[a, 2]
        length = sqrt(d0 * d0 + d1 * d1 + d2 * d2)
        if length > MIN_LENGTH_RATIO * lengths[s]:
            pull = stiffness[s] * (1.0 - lengths[s] / length)
            out[a, 0] += pull * d0
            out[a, 1] += pull * d1
            out[a, 2] += pull * d2
            out[b, 0] -= pull * d0
            out[b, 1] -= pull * d1
            out[b, 2] -= pull * d2


@kernel
def add_lattice_stiffness(
    springs: IndexArray, stiffness: FloatArray, lengths: FloatArray, places: IndexArray, exact: bool, x: FloatArray,
    values: FloatArray,
) -> None:  # fmt: skip
    r"""Add blocks :math:`k\,ee^T + k(1 - l_0/l)(I - ee^T)`; unless exact, a pushing spring has no second term."""
    for s in range(springs.shape[0]):
        a, b = springs[s, 0], springs[s, 1]
        d0, d1, d2 = x[b, 0] - x[a, 0], x[b, 1] - x[a, 1], x[b, 2] - x[a, 2]
        length = sqrt(d0 * d0 + d1 * d1 + d2 * d2)
        if length <= MIN_LENGTH_RATIO * lengths[s]:
            continue
        across = stiffness[s] * (1.0 - lengths[s] / length)
        if not exact:
            across = max(across, 0.0)
        along = (stiffness[s] - across) / (length * length)
        d = (d0, d1, d2)
        for i in range(3):
            for j in range(3):
                entry = along * d[i] * d[j] + (across if i == j else 0.0)
                values[places[s, 0, 0], i, j] += entry
                values[places[s, 1, 1], i, j] += entry
                values[places[s, 0, 1], i, j] -= entry
                values[places[s, 1, 0], i, j] -= entry


@kernel
def spring_drag(springs: IndexArray, drag: FloatArray, x: FloatArray, v: FloatArray, out: FloatArray) -> None:
    r"""Add :math:`-c\,ee^T(v_a - v_b)` (V, 3) [N]; ``drag`` (S,) [N s/m]."""
    for s in range(springs.shape[0]):
        a, b = springs[s, 0], springs[s, 1]
        d0, d1, d2 = x[b, 0] - x[a, 0], x[b, 1] - x[a, 1], x[b, 2] - x[a, 2]
        square = d0 * d0 + d1 * d1 + d2 * d2
        if square > 0.0:
            closing = d0 * (v[b, 0] - v[a, 0]) + d1 * (v[b, 1] - v[a, 1]) + d2 * (v[b, 2] - v[a, 2])
            pull = drag[s] * closing / square
            out[a, 0] += pull * d0
            out[a, 1] += pull * d1
            out[a, 2] += pull * d2
            out[b, 0] -= pull * d0
            out[b, 1] -= pull * d1
            out[b, 2] -= pull * d2
