"""Compiled conjugate gradients over blocks of three, with a volume term of nodes and held nodes."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, kernel
from marey.muscle._mesh import IndexArray

FREE, HELD = -1, -2  # who carries a node: itself, nobody; bones are 0 and above


@kernel
def multiply(
    starts: IndexArray, columns: IndexArray, values: FloatArray, rises: FloatArray, weights: FloatArray, v: FloatArray,
    out: FloatArray,
) -> None:  # fmt: skip
    r"""Write :math:`(A + G^T\,\mathrm{diag}(w)\,G)\,v`; G are the rises of node volumes, w (V,) their weights."""
    out[:] = 0.0
    for n in range(v.shape[0]):
        y0, y1, y2, rise = 0.0, 0.0, 0.0, 0.0
        for k in range(starts[n], starts[n + 1]):
            j = columns[k]
            v0, v1, v2 = v[j, 0], v[j, 1], v[j, 2]
            y0 += values[k, 0, 0] * v0 + values[k, 0, 1] * v1 + values[k, 0, 2] * v2
            y1 += values[k, 1, 0] * v0 + values[k, 1, 1] * v1 + values[k, 1, 2] * v2
            y2 += values[k, 2, 0] * v0 + values[k, 2, 1] * v1 + values[k, 2, 2] * v2
            rise += rises[k, 0] * v0 + rises[k, 1] * v1 + rises[k, 2] * v2
        out[n, 0] += y0
        out[n, 1] += y1
        out[n, 2] += y2
        if weights[n] != 0.0:
            rise *= weights[n]
            for k in range(starts[n], starts[n + 1]):
                j = columns[k]
                out[j, 0] += rises[k, 0] * rise
                out[j, 1] += rises[k, 1] * rise
                out[j, 2] += rises[k, 2] * rise


@kernel
def invert_diagonal(
    starts: IndexArray, columns: IndexArray, values: FloatArray, rises: FloatArray, weights: FloatArray,
    diagonal: IndexArray, out: FloatArray,
) -> None:  # fmt: skip
    """Write the inverses (V, 3, 3) of the diagonal blocks, volume term included."""
    count = diagonal.shape[0]
    for n in range(count):
        out[n] = values[diagonal[n]]
    for n in range(count):
        if weights[n] != 0.0:
            for k in range(starts[n], starts[n + 1]):
                for i in range(3):
                    for j in range(3):
                        out[columns[k], i, j] += weights[n] * rises[k, i] * rises[k, j]
    for n in range(count):
        invert_in_place(out[n])


@kernel
def invert_in_place(b: FloatArray) -> None:
    """The inverse of a symmetric 3x3 block."""
    c00 = b[1, 1] * b[2, 2] - b[1, 2] * b[1, 2]
    c01 = b[0, 2] * b[1, 2] - b[0, 1] * b[2, 2]
    c02 = b[0, 1] * b[1, 2] - b[0, 2] * b[1, 1]
    c11 = b[0, 0] * b[2, 2] - b[0, 2] * b[0, 2]
    c12 = b[0, 1] * b[0, 2] - b[0, 0] * b[1, 2]
    c22 = b[0, 0] * b[1, 1] - b[0, 1] * b[0, 1]
    scale = 1.0 / (b[0, 0] * c00 + b[0, 1] * c01 + b[0, 2] * c02)
    b[0, 0], b[1, 1], b[2, 2] = c00 * scale, c11 * scale, c22 * scale
    b[0, 1] = b[1, 0] = c01 * scale
    b[0, 2] = b[2, 0] = c02 * scale
    b[1, 2] = b[2, 1] = c12 * scale


@kernel
def _hold(carriers: IndexArray, v: FloatArray) -> None:
    for n in range(v.shape[0]):
        if carriers[n] == HELD:
            v[n, 0] = v[n, 1] = v[n, 2] = 0.0


@kernel
def _precondition(inverse: FloatArray, r: FloatArray, z: FloatArray) -> None:
    for n in range(r.shape[0]):
        for i in range(3):
            z[n, i] = inverse[n, i, 0] * r[n, 0] + inverse[n, i, 1] * r[n, 1] + inverse[n, i, 2] * r[n, 2]


@kernel
def _dot(a: FloatArray, b: FloatArray) -> float:
    total = 0.0
    for n in range(a.shape[0]):
        total += a[n, 0] * b[n, 0] + a[n, 1] * b[n, 1] + a[n, 2] * b[n, 2]
    return total


@kernel
def conjugate_gradients(
    starts: IndexArray, columns: IndexArray, values: FloatArray, rises: FloatArray, weights: FloatArray,
    inverse: FloatArray, carriers: IndexArray, rhs: FloatArray, v: FloatArray, scratch: FloatArray,
    tolerance: float, most: int,
) -> tuple[int, float]:  # fmt: skip
    """Solve for v (V, 3) in place, from what it holds; iterations and the residual over that of v = 0.

    ``scratch`` is (4, V, 3). Norms are those of the preconditioner.
    """
    r, z, p, q = scratch[0], scratch[1], scratch[2], scratch[3]
    r[:] = rhs
    _hold(carriers, r)
    _precondition(inverse, r, z)
    goal = _dot(r, z)
    if goal == 0.0:
        v[:] = 0.0
        return 0, 0.0
    multiply(starts, columns, values, rises, weights, v, q)
    for n in range(r.shape[0]):
        for i in range(3):
            r[n, i] -= q[n, i]
    _hold(carriers, r)
    _precondition(inverse, r, z)
    p[:] = z
    rz = _dot(r, z)
    count = 0
    while count < most and rz > tolerance * tolerance * goal:
        multiply(starts, columns, values, rises, weights, p, q)
        _hold(carriers, q)
        step = rz / _dot(p, q)
        for n in range(r.shape[0]):
            for i in range(3):
                v[n, i] += step * p[n, i]
                r[n, i] -= step * q[n, i]
        _precondition(inverse, r, z)
        new = _dot(r, z)
        for n in range(r.shape[0]):
            for i in range(3):
                p[n, i] = z[n, i] + new / rz * p[n, i]
        rz = new
        count += 1
    return count, np.sqrt(rz / goal)
