"""An order of variables in which a normal matrix is a narrow band with a small border."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from marey.base import IntArray

REACH_QUANTILES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98)  # of the distances between variables that meet: reaches tried
MAX_BORDER = 64  # variables
BORDER_COST = 8.0  # [-] of a banded solve, against the same count of flops in a factorisation
MAX_PADDING = 1.3  # [-] of the shortest row of a group; zeros beyond cost more than a product saves
MAX_GROUP = 64  # rows

_scipy_sparse: Any = sparse  # scipy has no stubs
_csgraph: Any = csgraph


def band_order(hessian: Any, jacobian: Any) -> tuple[IntArray, int]:
    """Order of the variables ``(n,)`` and how many of the last ones form the border.

    The variables are kept in the order given or sorted by reverse Cuthill-McKee. Those that meet others far away (a
    common velocity, a duration) are set amid the ones they meet, or go to the border, whichever costs least.

    Args:
        hessian: pattern ``(n, n)``.
        jacobian: pattern ``(m, n)``, one row for each term of the normal matrix.
    """
    graph = _build_coupling_graph(hessian, jacobian)
    sorted_ = np.asarray(_csgraph.reverse_cuthill_mckee(graph, symmetric_mode=True), dtype=np.int64)
    natural = np.arange(int(graph.shape[0]), dtype=np.int64)
    choices = [_OrderChoice(graph, order, 0) for order in (natural, sorted_)]
    for reach in np.unique(np.quantile(choices[0].lengths, REACH_QUANTILES).astype(np.int64)) if graph.nnz else ():
        far = _find_border_variables(graph, choices[0].lengths, int(reach))
        if 0 < far.size <= MAX_BORDER:
            near = np.delete(natural, far)
            choices.append(_OrderChoice(graph, np.concatenate([near, far]), far.size))
            choices.append(_OrderChoice(graph, _order_with_border(graph, near, far), 0))
    best = min(choices, key=lambda choice: choice.cost)
    return best.order, best.num_border


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


def _find_border_variables(graph: Any, lengths: IntArray, reach: int) -> IntArray:
    """Few variables without which none meets another beyond the reach, by greedy covering."""
    size, long = int(graph.shape[0]), lengths > reach
    rows = np.repeat(np.arange(size, dtype=np.int64), np.diff(graph.indptr))[long]
    columns = np.asarray(graph.indices, dtype=np.int64)[long]
    found: list[int] = []
    while rows.size and len(found) <= MAX_BORDER:
        found.append(int(np.argmax(np.bincount(rows, minlength=size))))
        kept = (rows != found[-1]) & (columns != found[-1])
        rows, columns = rows[kept], columns[kept]
    return np.sort(np.asarray(found, dtype=np.int64))


def _order_with_border(graph: Any, near: IntArray, far: IntArray) -> IntArray:
    """Order with each far variable half way between the first and the last variable it meets."""
    places = np.full(graph.shape[0], -1.0)
    places[near] = np.arange(near.size)
    for variable in far:
        met = places[graph.indices[graph.indptr[variable] : graph.indptr[variable + 1]]]
        met = met[met >= 0.0]
        places[variable] = 0.5 * (met.min() + met.max()) if met.size else 0.0
    return np.argsort(places, kind="stable")


def _build_coupling_graph(hessian: Any, jacobian: Any) -> Any:
    """Which variables share a term, as a symmetric graph."""
    rows = _scipy_sparse.csr_array(jacobian, copy=True)
    rows.data = np.ones(rows.data.size, dtype=np.float32)
    terms = _scipy_sparse.csr_array(hessian, copy=True)
    terms.data = np.ones(terms.data.size, dtype=np.float32)
    return _scipy_sparse.csr_array(rows.T @ rows + terms)


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
