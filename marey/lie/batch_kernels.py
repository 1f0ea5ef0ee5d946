"""Compiled loops over flat batches of quaternions, with broadcasting by counting instead of copying.

``quaternions`` loads this module for large batches only, so it stays apart from ``kernels``.
"""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, kernel
from marey.lie import quaternions as _quaternions

_renormalise = kernel(_quaternions.renormalise)
_product = kernel(_quaternions.product)
_rotate_xyz = kernel(_quaternions.rotate_xyz)
_matrix_entries = kernel(_quaternions.matrix_entries)


@kernel
def _next_row(row: int, held: int, hold: int, rows: int) -> tuple[int, int]:
    """Row to use after this one: the same until it was held ``hold`` times, then the following, then the first."""
    if held + 1 < hold:
        return row, held + 1
    return (row + 1 if row + 1 < rows else 0), 0


@kernel
def multiply(p: FloatArray, p_hold: int, q: FloatArray, q_hold: int, size: int) -> FloatArray:
    """Products ``(size, 4)`` of ``(P, 4)`` and ``(Q, 4)``, polished; each row is held, and the rows repeat."""
    out = np.empty((size, 4))
    # Rows of both, and how often each was used
    i = i_held = j = j_held = 0
    for k in range(size):
        w, x, y, z = _product(p[i, 0], p[i, 1], p[i, 2], p[i, 3], q[j, 0], q[j, 1], q[j, 2], q[j, 3])
        out[k, 0], out[k, 1], out[k, 2], out[k, 3] = _renormalise(w, x, y, z)
        i, i_held = _next_row(i, i_held, p_hold, p.shape[0])
        j, j_held = _next_row(j, j_held, q_hold, q.shape[0])
    return out


@kernel
def rotate(q: FloatArray, q_hold: int, points: FloatArray, points_hold: int, size: int) -> FloatArray:
    """Turned points ``(size, 3)`` of ``(Q, 4)`` and ``(P, 3)``; each row is held, and the rows repeat."""
    out = np.empty((size, 3))
    i = i_held = j = j_held = 0
    for k in range(size):
        a, b, c = points[j, 0], points[j, 1], points[j, 2]
        out[k, 0], out[k, 1], out[k, 2] = _rotate_xyz(q[i, 0], q[i, 1], q[i, 2], q[i, 3], a, b, c)
        i, i_held = _next_row(i, i_held, q_hold, q.shape[0])
        j, j_held = _next_row(j, j_held, points_hold, points.shape[0])
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
