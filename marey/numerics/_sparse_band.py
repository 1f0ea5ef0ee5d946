"""Normal matrices H + A'DA that are a narrow band with a small border: assembled, factored and solved many times."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg, sparse

from marey.base import FloatArray, IntArray
from marey.numerics._sparse_order import band_order, group_rows

_lapack: Any = linalg.lapack  # scipy has no stubs
_linalg: Any = linalg
_sparse: Any = sparse

MAX_LIFTS = 12  # times the diagonal is raised before a factorisation is given up; it grows tenfold
FIRST_LIFT = 1e-12  # [-] of the largest diagonal entry


class BandSystem:
    r"""Solves :math:`(H + J^T D J + \mathrm{diag}(e))\,x = b` for one pattern of H and J and many values.

    In time-major order a row of a spline programme touches a few neighbouring coefficients, so that the matrix is a
    band and LAPACK factors it in :math:`O(n w^2)`. Variables that meet most others are kept in a dense border.
    """

    def __init__(self, hessian: Any, jacobian: Any) -> None:
        order, num_border = band_order(hessian, jacobian)
        self.order, self.size = order, order.size - num_border
        self.places = np.empty(order.size, dtype=np.int64)
        self.places[order] = np.arange(order.size)
        self._lay_rows(jacobian)
        self._lay_hessian(hessian)
        self.band_base, self.border_base, self.corner_base = self._empty()
        self.band, self.border, self.corner = self._empty()

    @property
    def bandwidth(self) -> int:
        """Half-bandwidth of the banded part."""
        return self.width - 1

    def set_hessian(self, data: FloatArray) -> None:
        """Take new values of H, in the order of its pattern."""
        for target, (positions, entries) in zip(
            (self.band_base, self.border_base, self.corner_base), self._hessian_places, strict=True
        ):
            flat = target.reshape(-1)
            flat[:] = 0.0
            flat[positions] = data[entries]

    def set_jacobian(self, data: FloatArray) -> None:
        """Take new values of J, in the order of its pattern."""
        self._values[self._inner_places] = data[self._inner_entries]
        self._tail_values[:] = data[self._tail_entries]

    def factor(self, weights: FloatArray, diagonal: FloatArray) -> None:
        """Factor H + J' diag(weights) J + diag(diagonal); the diagonal is raised if rounding made it indefinite."""
        size = self.size
        np.copyto(self.band, self.band_base)
        np.copyto(self.border, self.border_base)
        np.copyto(self.corner, self.corner_base)
        self._add_rows(weights)
        sorted_ = diagonal[self.order]
        self.band[:, 0] += sorted_[:size]
        self.factored = self._band_factor()
        if self.border.size:
            self.corner[np.diag_indices(self.corner.shape[0])] += sorted_[size:]
            self.reach = self._band_solve(self.border.T)
            corner = np.tril(self.corner) + np.tril(self.corner, -1).T - self.border @ self.reach
            self.corner_factor = _linalg.lu_factor(corner, check_finite=False)

    def solve(self, right: FloatArray) -> FloatArray:
        """Solution ``(n,)`` for one right-hand side."""
        sorted_ = right[self.order]
        inner = self._band_solve(sorted_[: self.size])
        if self.border.size:
            outer = _linalg.lu_solve(self.corner_factor, sorted_[self.size :] - self.border @ inner, check_finite=False)
            inner = np.concatenate([inner - self.reach @ outer, outer])
        return inner[self.places]

    def _band_factor(self) -> FloatArray:
        lift = FIRST_LIFT * float(self.band[:, 0].max(initial=0.0))
        for _ in range(MAX_LIFTS):
            factored, failed = _lapack.dpbtrf(self.band.T, lower=1)
            if failed == 0:
                return factored
            self.band[:, 0] += lift
            lift *= 10.0
        raise np.linalg.LinAlgError("the normal matrix is not positive definite")

    def _band_solve(self, right: FloatArray) -> FloatArray:
        if not self.size:
            return right
        return _lapack.dpbtrs(self.factored, right, lower=1)[0]

    def _empty(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        k = self.order.size - self.size
        return np.zeros((self.size, self.width)), np.zeros((k, self.size)), np.zeros((k, k))

    def _add_rows(self, weights: FloatArray) -> None:
        from marey.numerics._sparse_band_kernels import add_border, add_rows

        add_rows(self.band, weights, self._groups, self._rows, self._values, self._scratch)
        if self._tail_entries.size:
            add_border(
                self.border, self.corner, weights, self._places, self._values, self._starts, self._lengths,
                self._tails, self._tail_columns, self._tail_values,
            )  # fmt: skip

    def _lay_rows(self, jacobian: Any) -> None:
        """Give rows that share their columns one dense block, and each row a list of border columns."""
        rows, columns = _coordinates(jacobian)
        places, m = self.places[columns], int(jacobian.shape[0])
        inner = places < self.size
        first = np.full(m, self.order.size, dtype=np.int64)
        last = np.full(m, -1, dtype=np.int64)
        np.minimum.at(first, rows[inner], places[inner])
        np.maximum.at(last, rows[inner], places[inner])
        self._groups, self._rows = group_rows(first, last)
        self._blocks(m)
        self._inner_entries = np.flatnonzero(inner)
        self._inner_places = self._places[rows[inner]] + places[inner] - self._starts[rows[inner]]
        tails = np.flatnonzero(~inner)
        self._tail_entries = tails[np.lexsort((places[tails], rows[tails]))]
        self._tail_columns = places[self._tail_entries] - self.size
        self._tails = np.searchsorted(rows[self._tail_entries], np.arange(m + 1))
        self._tail_values = np.zeros(tails.size)

    def _blocks(self, m: int) -> None:
        """Where the dense stretch of each row lies; rows without banded columns have none."""
        self._places, self._starts, self._lengths = (np.zeros(m, dtype=np.int64) for _ in range(3))
        largest = 1
        for first, count, column, length, place in self._groups:
            members = self._rows[first : first + count]
            self._places[members] = place + length * np.arange(count)
            self._starts[members], self._lengths[members] = column, length
            largest = max(largest, length * max(count, length))
        self.width = int(self._lengths.max(initial=1))
        self._values = np.zeros(int(self._lengths.sum()))
        self._scratch = np.zeros((3, largest))

    def _lay_hessian(self, hessian: Any) -> None:
        rows, columns = _coordinates(hessian)
        i, j = self.places[rows], self.places[columns]
        lower, size, k = i >= j, self.size, self.order.size - self.size
        in_band, in_border, in_corner = lower & (i < size), (i >= size) & (j < size), lower & (j >= size)
        self.width = max(self.width, int((i - j)[in_band].max(initial=0)) + 1)
        self._hessian_places: list[tuple[IntArray, IntArray]] = [
            (j[in_band] * self.width + (i - j)[in_band], np.flatnonzero(in_band)),
            ((i[in_border] - size) * size + j[in_border], np.flatnonzero(in_border)),
            ((i[in_corner] - size) * k + j[in_corner] - size, np.flatnonzero(in_corner)),
        ]


def _coordinates(matrix: Any) -> tuple[IntArray, IntArray]:
    """Row and column of each stored entry of a csc matrix."""
    columns = np.repeat(np.arange(int(matrix.shape[1])), np.diff(matrix.indptr))
    return np.asarray(matrix.indices, dtype=np.int64), columns
