"""Compiled loops over flat batches of quaternions; a batch shorter than the other is repeated."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, kernel
from marey.lie import _formulas

_polished = kernel(_formulas.polished)
_product = kernel(_formulas.product)
_rotated = kernel(_formulas.rotated)
_matrix_entries = kernel(_formulas.matrix_entries)


@kernel
def multiply(p: FloatArray, q: FloatArray) -> FloatArray:
    """Unit products of ``(P, 4)`` and ``(Q, 4)``; one of P and Q divides the other."""
    size = max(p.shape[0], q.shape[0])
    out = np.empty((size, 4))
    i = j = 0
    for k in range(size):
        w, x, y, z = _product(p[i, 0], p[i, 1], p[i, 2], p[i, 3], q[j, 0], q[j, 1], q[j, 2], q[j, 3])
        out[k, 0], out[k, 1], out[k, 2], out[k, 3] = _polished(w, x, y, z)
        i = i + 1 if i + 1 < p.shape[0] else 0
        j = j + 1 if j + 1 < q.shape[0] else 0
    return out


@kernel
def rotate(q: FloatArray, points: FloatArray) -> FloatArray:
    """Turned points of ``(Q, 4)`` and ``(P, 3)``; one of Q and P divides the other."""
    size = max(q.shape[0], points.shape[0])
    out = np.empty((size, 3))
    i = j = 0
    for k in range(size):
        a, b, c = points[j, 0], points[j, 1], points[j, 2]
        out[k, 0], out[k, 1], out[k, 2] = _rotated(q[i, 0], q[i, 1], q[i, 2], q[i, 3], a, b, c)
        i = i + 1 if i + 1 < q.shape[0] else 0
        j = j + 1 if j + 1 < points.shape[0] else 0
    return out


@kernel
def matrices(q: FloatArray) -> FloatArray:
    """Rotation matrices ``(N, 9)``, row by row, of ``(N, 4)``."""
    out = np.empty((q.shape[0], 9))
    for k in range(q.shape[0]):
        entries = _matrix_entries(q[k, 0], q[k, 1], q[k, 2], q[k, 3])
        for c in range(9):
            out[k, c] = entries[c]
    return out
