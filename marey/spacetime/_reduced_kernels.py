"""Compiled assembly: from blocks by node to sparse rows and the Hessian of all variables."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray, kernel


@kernel
def scatter_rows(
    entries: IntArray, positions: IntArray, blocks: FloatArray, basis: FloatArray, scales: FloatArray, data: FloatArray
) -> None:
    """Add ``blocks[row, :, slot] . basis[node, slot, :, k] * scale`` to the sparse values ``data``.

    Args:
        entries: row of ``blocks``, node, slot and k of each entry ``(E, 4)``.
        positions: where each entry goes in ``data`` ``(E,)``.
        blocks: derivatives of rows by local unknowns, rates and accelerations ``(B, 3, S)``.
        basis: ``(N, S, 3, 4)``.
        scales: of the variable of each entry ``(E,)``.
        data: values of the sparse matrix, added to.
    """
    for e in range(len(entries)):
        r, n, s, k = entries[e, 0], entries[e, 1], entries[e, 2], entries[e, 3]
        value = 0.0
        for d in range(3):
            value += blocks[r, d, s] * basis[n, s, d, k]
        data[positions[e]] += scales[e] * value


@kernel
def scatter_hessian(local: FloatArray, basis: FloatArray, places: IntArray, scales: FloatArray, H: FloatArray) -> None:
    """Add local Hessians ``(N, 3 S, 3 S)``, ordered (derivative, slot), to the dense ``H (n, n)``.

    ``places (N, S, 4)`` are numbers of variables, -1 for what is fixed or empty; ``scales (N, S, 4)`` their scales.
    """
    count, slots = places.shape[0], places.shape[1]
    half = np.empty((4, 3))
    for n in range(count):
        for s in range(slots):
            if places[n, s, 0] < 0 and places[n, s, 1] < 0 and places[n, s, 2] < 0 and places[n, s, 3] < 0:
                continue
            for t in range(slots):
                for k in range(4):
                    for e in range(3):
                        value = 0.0
                        for d in range(3):
                            value += basis[n, s, d, k] * local[n, d * slots + s, e * slots + t]
                        half[k, e] = value * scales[n, s, k]
                for k in range(4):
                    i = places[n, s, k]
                    if i < 0:
                        continue
                    for m in range(4):
                        j = places[n, t, m]
                        if j >= 0:
                            value = 0.0
                            for e in range(3):
                                value += half[k, e] * basis[n, t, e, m]
                            H[i, j] += value * scales[n, t, m]


@kernel
def scatter_gradient(local: FloatArray, basis: FloatArray, places: IntArray, scales: FloatArray, g: FloatArray) -> None:
    """Add local gradients ``(N, 3, S)`` to ``g (n,)``."""
    count, slots = places.shape[0], places.shape[1]
    for n in range(count):
        for s in range(slots):
            for k in range(4):
                i = places[n, s, k]
                if i >= 0:
                    value = 0.0
                    for d in range(3):
                        value += local[n, d, s] * basis[n, s, d, k]
                    g[i] += value * scales[n, s, k]
