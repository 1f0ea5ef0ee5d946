"""An order of variables in which a normal matrix is a narrow band with a small border."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from marey.base import BoolArray, IntArray

BORDER_DEGREE = 2.0  # [-] times the median: a variable that meets so many others is a global one
MAX_BORDER = 64  # variables
BORDER_COST = 8.0  # [-] of a banded solve, against the same count of flops in a factorisation
MAX_PADDING = 1.3  # [-] of the shortest row of a group; zeros beyond cost more than a product saves
MAX_GROUP = 64  # rows

_sparse: Any = sparse  # scipy has no stubs
_csgraph: Any = csgraph


def band_order(hessian: Any, jacobian: Any) -> tuple[IntArray, int]:
    """Order of the variables ``(n,)`` and how many of the last ones form the border.

    The variables are kept in the order given or sorted by reverse Cuthill-McKee, whichever has the narrower band;
    those that meet most others (a common velocity, a duration) go to the border if that pays.

    Args:
        hessian: pattern ``(n, n)``.
        jacobian: pattern ``(m, n)``, one row for each term of the normal matrix.
    """
    graph = _meetings(hessian, jacobian)
    degrees = np.diff(graph.indptr)
    wide = degrees > BORDER_DEGREE * max(float(np.median(degrees)), 1.0) if degrees.size else degrees > 0
    choices = [np.zeros(degrees.size, dtype=np.bool_)]
    if 0 < np.count_nonzero(wide) <= MAX_BORDER:
        choices.append(wide)
    orders = [_ordered(graph, border) for border in choices]
    best = min(orders, key=lambda choice: choice[2])
    return best[0], best[1]


def _meetings(hessian: Any, jacobian: Any) -> Any:
    """Which variables share a term, as a symmetric graph."""
    rows = _sparse.csr_array(jacobian, copy=True)
    rows.data = np.ones(rows.data.size, dtype=np.float32)
    terms = _sparse.csr_array(hessian, copy=True)
    terms.data = np.ones(terms.data.size, dtype=np.float32)
    return _sparse.csr_array(rows.T @ rows + terms)


def _ordered(graph: Any, border: BoolArray) -> tuple[IntArray, int, float]:
    """Order, border size and cost with the given border."""
    inner = np.flatnonzero(~border)
    part = _sparse.csr_array(graph[inner][:, inner])
    natural = np.arange(inner.size)
    sorted_ = np.asarray(_csgraph.reverse_cuthill_mckee(part, symmetric_mode=True), dtype=np.int64)
    order = min((natural, sorted_), key=lambda candidate: _bandwidth(part, candidate))
    width, num_border = _bandwidth(part, order), int(border.sum())
    cost = inner.size * float(width) * (width + BORDER_COST * num_border)
    return np.concatenate([inner[order], np.flatnonzero(border)]), num_border, cost


def _bandwidth(graph: Any, order: IntArray) -> int:
    places = np.empty(order.size, dtype=np.int64)
    places[order] = np.arange(order.size)
    entries = graph.tocoo()
    return int(np.abs(places[entries.coords[0]] - places[entries.coords[1]]).max(initial=0))


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
