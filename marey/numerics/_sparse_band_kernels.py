"""Normal matrices of banded rows, added up in the layout LAPACK factors."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray, kernel


@kernel
def add_rows(
    band: FloatArray,
    weights: FloatArray,
    groups: IntArray,
    rows: IntArray,
    values: FloatArray,
    scratch: FloatArray,
) -> None:
    r"""Add :math:`\sum_i w_i a_i a_i^T` to a banded matrix, one dense product for each group of rows.

    Args:
        band: lower half ``(n, bandwidth + 1)``, ``band[j, i - j]`` is entry (i, j).
        weights: w ``(m,)``; rows of weight zero are skipped.
        groups: first row in ``rows``, count, first column, number of columns, place in ``values``, ``(G, 5)``.
        rows: row numbers, group by group ``(m,)``.
        values: dense blocks (count, columns), one after the other.
        scratch: room for two blocks and a product ``(3, S)``.
    """
    for g in range(groups.shape[0]):
        first, count, column, length, place = groups[g]
        used = 0
        for r in range(count):
            weight = weights[rows[first + r]]
            if weight > 0.0:
                for a in range(length):
                    value = values[place + r * length + a]
                    scratch[0, used * length + a] = value
                    scratch[1, used * length + a] = weight * value
                used += 1
        if used == 0:
            continue
        plain = scratch[0, : used * length].reshape(used, length)
        scaled = scratch[1, : used * length].reshape(used, length)
        product = scratch[2, : length * length].reshape(length, length)
        np.dot(plain.T, scaled, product)
        for a in range(length):
            target = band[column + a]
            for b in range(a, length):
                target[b - a] += product[a, b]


@kernel
def add_border(
    border: FloatArray,
    corner: FloatArray,
    weights: FloatArray,
    places: IntArray,
    values: FloatArray,
    starts: IntArray,
    lengths: IntArray,
    tails: IntArray,
    tail_columns: IntArray,
    tail_values: FloatArray,
) -> None:
    """Add what the same rows give to the border ``(k, n)`` and the lower half of its corner ``(k, k)``.

    Args:
        border: columns of the border.
        corner: border against border.
        weights: of the rows ``(m,)``.
        places: where the dense stretch of each row begins in values ``(m,)``.
        values: as in :func:`add_rows`.
        starts: first banded column of each row ``(m,)``.
        lengths: of the stretches ``(m,)``.
        tails: where the border entries of each row begin ``(m + 1,)``.
        tail_columns: border columns.
        tail_values: their values.
    """
    for i in range(weights.size):
        if weights[i] > 0.0:
            for a in range(tails[i], tails[i + 1]):
                scaled = weights[i] * tail_values[a]
                column = border[tail_columns[a]]
                for b in range(lengths[i]):
                    column[starts[i] + b] += scaled * values[places[i] + b]
                for b in range(tails[i], a + 1):
                    corner[tail_columns[a], tail_columns[b]] += scaled * tail_values[b]
