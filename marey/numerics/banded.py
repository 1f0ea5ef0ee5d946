"""Normal matrices H + A'DA that are a narrow band with a small border: ordered, assembled, factored and solved.

The rows are added up in the layout that LAPACK factors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse
from scipy.sparse import csgraph

from marey.base import FloatArray, IntArray, kernel

REACH_QUANTILES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98)  # of the distances between variables that meet: reaches tried
MAX_BORDER = 64  # variables
BORDER_COST = 8.0  # [-] of a banded solve, against the same count of flops in a factorisation
MAX_PADDING = 1.3  # [-] of the shortest row of a group; zeros beyond cost more than a product saves
MAX_GROUP = 64  # rows

EVEN_SPANS = 1.6  # [-] of the median span of a term: where none is longer, the order given is kept

MAX_LIFTS = 12  # times the diagonal is raised before a factorisation is given up; it grows tenfold
FIRST_LIFT = 1e-12  # [-] of the largest diagonal entry

_sparse: Any = sparse  # scipy has no stubs
_csgraph: Any = csgraph
_linalg: Any = linalg
_lapack: Any = linalg.lapack


def band_order(hessian: Any, jacobian: Any) -> tuple[IntArray, int]:
    """Order of the variables ``(n,)`` and how many of the last ones form the border.

    The variables are kept in the order given or sorted by reverse Cuthill-McKee. Those that meet others far away (a
    common velocity, a duration) are set amid the ones they meet, or go to the border, whichever costs least.

    Args:
        hessian: pattern ``(n, n)``.
        jacobian: pattern ``(m, n)``, one row for each term of the normal matrix.
    """
    # Where every term meets variables at most about as far apart as most do, the order given is a narrow band already
    spans = np.concatenate([_measure_spans(jacobian), _measure_spans(hessian)])
    is_narrow = spans.size and 2 * spans.max() <= int(hessian.shape[0])
    if is_narrow and spans.max() <= EVEN_SPANS * float(np.median(spans)):
        return np.arange(int(hessian.shape[0]), dtype=np.int64), 0
    # Which variables share a term, as a symmetric graph
    rows = _sparse.csr_array(jacobian, copy=True)
    rows.data = np.ones(rows.data.size, dtype=np.float32)
    terms = _sparse.csr_array(hessian, copy=True)
    terms.data = np.ones(terms.data.size, dtype=np.float32)
    graph = _sparse.csr_array(rows.T @ rows + terms)
    size = int(graph.shape[0])
    neighbours = np.asarray(graph.indices, dtype=np.int64)

    natural = np.arange(size, dtype=np.int64)
    sorted_ = np.asarray(_csgraph.reverse_cuthill_mckee(graph, symmetric_mode=True), dtype=np.int64)
    choices = [_OrderChoice(graph, order, 0) for order in (natural, sorted_)]
    lengths = choices[0].lengths
    for reach in np.unique(np.quantile(lengths, REACH_QUANTILES).astype(np.int64)) if graph.nnz else ():
        # Few variables without which none meets another beyond the reach, by greedy covering
        ones, others = np.repeat(natural, np.diff(graph.indptr))[lengths > reach], neighbours[lengths > reach]
        found: list[int] = []
        while ones.size and len(found) <= MAX_BORDER:
            found.append(int(np.argmax(np.bincount(ones, minlength=size))))
            kept = (ones != found[-1]) & (others != found[-1])
            ones, others = ones[kept], others[kept]
        far = np.sort(np.asarray(found, dtype=np.int64))
        if not 0 < far.size <= MAX_BORDER:
            continue
        # Far variables in the border
        near = np.delete(natural, far)
        choices.append(_OrderChoice(graph, np.concatenate([near, far]), far.size))
        # Each far variable half way between the first and the last variable it meets
        places = np.full(size, -1.0)
        places[near] = np.arange(near.size)
        for variable in far:
            met = places[graph.indices[graph.indptr[variable] : graph.indptr[variable + 1]]]
            met = met[met >= 0.0]
            places[variable] = 0.5 * (met.min() + met.max()) if met.size else 0.0
        choices.append(_OrderChoice(graph, np.argsort(places, kind="stable"), 0))
    best = min(choices, key=lambda choice: choice.cost)
    return best.order, best.num_border


def _measure_spans(matrix: Any) -> IntArray:
    """How far apart the first and the last column of each row that has any are."""
    rows = _sparse.csr_array(matrix)
    rows.sort_indices()
    used = np.flatnonzero(np.diff(rows.indptr))
    return np.asarray(rows.indices[rows.indptr[used + 1] - 1] - rows.indices[rows.indptr[used]], dtype=np.int64)


class _OrderChoice:
    """An order, and what a factorisation in it costs."""

    def __init__(self, graph: Any, order: IntArray, num_border: int) -> None:
        self.order, self.num_border = order, num_border
        places = np.empty(order.size, dtype=np.int64)
        places[order] = np.arange(order.size)
        columns = np.repeat(places, np.diff(graph.indptr))
        rows = places[graph.indices]
        self.lengths = np.abs(rows - columns)  # (nnz,) how far apart two variables that meet are
        size = order.size - num_border
        width = int(self.lengths[(rows < size) & (columns < size)].max(initial=0))
        self.cost = size * float(width) * (width + BORDER_COST * num_border)


def group_rows(first: IntArray, last: IntArray) -> tuple[IntArray, IntArray]:
    """Rows whose stretches of columns nearly coincide, to be multiplied together.

    Returns groups ``(G, 5)``: first row in the list, count, first column, number of columns, place of the block; and
    the list of rows, group by group. Rows without columns are in none.

    Args:
        first: first column of each row ``(m,)``.
        last: last column of each row ``(m,)``, below the first where there is none.
    """
    rows = np.lexsort((last, first))
    rows = rows[last[rows] >= first[rows]]
    groups: list[list[int]] = []
    shortest = place = 0
    for position, row in enumerate(rows.tolist()):
        low, high = int(first[row]), int(last[row])
        length = high - low + 1
        if groups:
            group = groups[-1]
            union = max(group[2] + group[3], high + 1) - group[2]
            shortest = min(shortest, length)
            if union <= MAX_PADDING * shortest and group[1] < MAX_GROUP:
                group[1], group[3] = group[1] + 1, union
                continue
        groups.append([position, 1, low, length, 0])
        shortest = length
    for group in groups:
        group[4], place = place, place + group[1] * group[3]
    return np.asarray(groups, dtype=np.int64).reshape(-1, 5), rows


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
        # Rows of the group that have a weight, plain and weighted
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
        # One product A' (W A) for the group, its lower half added to the band
        plain = scratch[0, : used * length].reshape(used, length)
        scaled = scratch[1, : used * length].reshape(used, length)
        product = scratch[2, : length * length].reshape(length, length)
        np.dot(plain.T, scaled, product)
        for a in range(length):
            target = band[column + a]
            for b in range(a, length):
                target[b - a] += product[a, b]


class RowLayout(NamedTuple):
    """Where the entries of each row of J lie: a dense stretch of the band, and a list of border columns."""

    places: IntArray  # (m,) where the dense stretch of each row begins in the values
    starts: IntArray  # (m,) first banded column
    lengths: IntArray  # (m,) of the stretch; 0 for a row without banded columns
    tails: IntArray  # (m + 1,) where the border entries of each row begin
    tail_columns: IntArray  # border columns


@kernel
def add_border(
    border: FloatArray,
    corner: FloatArray,
    weights: FloatArray,
    layout: RowLayout,
    values: FloatArray,
    tail_values: FloatArray,
) -> None:
    """Add what the same rows give to the border ``(k, n)`` and the lower half of its corner ``(k, k)``.

    Args:
        border: columns of the border.
        corner: border against border.
        weights: of the rows ``(m,)``.
        layout: where the entries of the rows lie.
        values: as in :func:`add_rows`.
        tail_values: values of the border entries.
    """
    places, starts, lengths, tails, tail_columns = layout
    for i in range(weights.size):
        if weights[i] > 0.0:
            for a in range(tails[i], tails[i + 1]):
                scaled = weights[i] * tail_values[a]
                # Border against band: one entry of the border times the dense stretch of the row
                column = border[tail_columns[a]]
                for b in range(lengths[i]):
                    column[starts[i] + b] += scaled * values[places[i] + b]
                # Border against border, lower half
                for b in range(tails[i], a + 1):
                    corner[tail_columns[a], tail_columns[b]] += scaled * tail_values[b]


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

        # First and last banded column of each row of J (csc: the column of an entry follows from its place)
        rows, m = np.asarray(jacobian.indices, dtype=np.int64), int(jacobian.shape[0])
        columns = self.places[np.repeat(np.arange(int(jacobian.shape[1])), np.diff(jacobian.indptr))]
        inner = columns < self.size
        first, last = np.full(m, order.size, dtype=np.int64), np.full(m, -1, dtype=np.int64)
        np.minimum.at(first, rows[inner], columns[inner])
        np.maximum.at(last, rows[inner], columns[inner])

        # Rows that share their columns have one dense block
        self._groups, self._rows = group_rows(first, last)
        places, starts, lengths = (np.zeros(m, dtype=np.int64) for _ in range(3))
        largest = 1
        for row, count, column, length, place in self._groups:
            members = self._rows[row : row + count]
            places[members] = place + length * np.arange(count)
            starts[members], lengths[members] = column, length
            largest = max(largest, length * max(count, length))
        self._values, self._scratch = np.zeros(int(lengths.sum())), np.zeros((3, largest))
        self._inner_entries = np.flatnonzero(inner)
        self._inner_places = places[rows[inner]] + columns[inner] - starts[rows[inner]]

        # The other entries of a row belong to the border
        outer = np.flatnonzero(~inner)
        self._tail_entries = outer[np.lexsort((columns[outer], rows[outer]))]
        self._tail_values = np.zeros(outer.size)
        tails = np.searchsorted(rows[self._tail_entries], np.arange(m + 1))
        self._layout = RowLayout(places, starts, lengths, tails, columns[self._tail_entries] - self.size)

        # Where the entries of H go: band, border, corner
        i = self.places[np.asarray(hessian.indices, dtype=np.int64)]
        j = self.places[np.repeat(np.arange(int(hessian.shape[1])), np.diff(hessian.indptr))]
        lower, size = i >= j, self.size
        in_band, in_border, in_corner = lower & (i < size), (i >= size) & (j < size), lower & (j >= size)
        # Half-bandwidth plus one
        self.width = max(int(lengths.max(initial=1)), int((i - j)[in_band].max(initial=0)) + 1)
        self._hessian_places: list[tuple[IntArray, IntArray]] = [
            (j[in_band] * self.width + (i - j)[in_band], np.flatnonzero(in_band)),
            ((i[in_border] - size) * size + j[in_border], np.flatnonzero(in_border)),
            ((i[in_corner] - size) * num_border + j[in_corner] - size, np.flatnonzero(in_corner)),
        ]
        shapes = ((size, self.width), (num_border, size), (num_border, num_border))
        self.band_base, self.border_base, self.corner_base = (np.zeros(shape) for shape in shapes)
        self.band, self.border, self.corner = (np.zeros(shape) for shape in shapes)

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
        np.copyto(self.band, self.band_base)
        np.copyto(self.border, self.border_base)
        np.copyto(self.corner, self.corner_base)
        add_rows(self.band, weights, self._groups, self._rows, self._values, self._scratch)
        if self._tail_entries.size:
            add_border(self.border, self.corner, weights, self._layout, self._values, self._tail_values)
        sorted_ = diagonal[self.order]
        self.band[:, 0] += sorted_[: self.size]

        # Cholesky factor of the band, its diagonal raised tenfold each time it is not positive definite
        lift = FIRST_LIFT * float(self.band[:, 0].max(initial=0.0))
        for _ in range(MAX_LIFTS):
            self.factored, failed = _lapack.dpbtrf(self.band.T, lower=1)
            if failed == 0:
                break
            self.band[:, 0] += lift
            lift *= 10.0
        else:
            raise np.linalg.LinAlgError("the normal matrix is not positive definite")

        # Schur complement of the band in the corner
        if self.border.size:
            self.corner[np.diag_indices(self.corner.shape[0])] += sorted_[self.size :]
            self.reach = self._solve_band(self.border.T)
            corner = np.tril(self.corner) + np.tril(self.corner, -1).T - self.border @ self.reach
            self.corner_factor = _linalg.lu_factor(corner, check_finite=False)

    def solve(self, right: FloatArray) -> FloatArray:
        """Solution ``(n,)`` for one right-hand side."""
        sorted_ = right[self.order]
        inner = self._solve_band(sorted_[: self.size])
        if self.border.size:
            outer = _linalg.lu_solve(self.corner_factor, sorted_[self.size :] - self.border @ inner, check_finite=False)
            inner = np.concatenate([inner - self.reach @ outer, outer])
        return inner[self.places]

    def _solve_band(self, right: FloatArray) -> FloatArray:
        return _lapack.dpbtrs(self.factored, right, lower=1)[0] if self.size else right
