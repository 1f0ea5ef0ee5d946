"""Where the derivatives of rows and objective go in sparse matrices; worked out once for a programme."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from marey.base import FloatArray, IntArray
from marey.spacetime._reduced_rows import RowGroup
from marey.spacetime._reduced_variables import ReducedVariables

if TYPE_CHECKING:
    from scipy.sparse import csc_array


@dataclass(frozen=True, slots=True, eq=False)
class SparsePattern:
    """A sparse matrix without its values."""

    indices: IntArray  # (E,) row of each entry, column by column
    starts: IntArray  # (n + 1,) first entry of each column
    num_rows: int

    def matrix(self, data: FloatArray) -> csc_array:
        """The matrix with these values."""
        from scipy.sparse import csc_array

        return csc_array((data, self.indices, self.starts), shape=(self.num_rows, len(self.starts) - 1))


@dataclass(frozen=True, slots=True, eq=False)
class GlobalEntries:
    """Constant entries: rows times global unknowns."""

    rows: IntArray  # (G,)
    columns: IntArray  # (G,) numbers among all coefficients and globals
    factors: FloatArray  # (G,)

    def values(self, full: FloatArray, num_rows: int) -> FloatArray:
        """What they add to the rows ``(m,)``."""
        out = np.zeros(num_rows)
        np.add.at(out, self.rows, self.factors * full[self.columns])
        return out


@dataclass(frozen=True, slots=True, eq=False)
class RowPattern:
    """Pattern of the Jacobian, where each piece of each row goes, and what is constant in it."""

    pattern: SparsePattern
    entries: IntArray  # (E, 4) piece, node, slot, k
    positions: IntArray  # (E,) where in the data
    scales: FloatArray  # (E,)
    constant: FloatArray  # values of the data that never change


def collect_globals(groups: list[RowGroup], starts: IntArray) -> GlobalEntries:
    """Constant entries of all groups."""
    found = [
        (int(start) + row, column, factor)
        for group, start in zip(groups, starts[:-1], strict=True)
        for row, column, factor in group.globals
    ]
    return GlobalEntries(
        np.array([row for row, _, _ in found], dtype=np.int64),
        np.array([column for _, column, _ in found], dtype=np.int64),
        np.array([factor for _, _, factor in found], dtype=np.float64),
    )


def build_row_pattern(
    groups: list[RowGroup],
    starts: IntArray,
    places: IntArray,
    scales: FloatArray,
    variables: ReducedVariables,
    extra: GlobalEntries,
) -> RowPattern:
    """Pattern of the Jacobian of all rows.

    Args:
        groups: the rows.
        starts: first row of each group, and their number.
        places: variable of each node, slot and k ``(N, S, 4)``; -1 for none.
        scales: their scales.
        variables: of the search.
        extra: constant entries.
    """
    entries, owner = _collect_pieces(groups, starts)
    columns = places[entries[:, 1], entries[:, 2], entries[:, 3]]
    free = columns >= 0
    entries, owner, columns = entries[free], owner[free], columns[free]
    number = variables.number[extra.columns]
    keep = number >= 0
    num_rows, count = int(starts[-1]), len(variables.order)
    keys = np.concatenate([columns, number[keep]]) * num_rows + np.concatenate([owner, extra.rows[keep]])
    unique, where = np.unique(keys, return_inverse=True)
    pattern = SparsePattern(unique % num_rows, np.searchsorted(unique, np.arange(count + 1) * num_rows), num_rows)
    constant = np.zeros(len(unique))
    np.add.at(constant, where[len(entries) :], (extra.factors * variables.scales[extra.columns])[keep])
    own = scales[entries[:, 1], entries[:, 2], entries[:, 3]]
    return RowPattern(pattern, np.ascontiguousarray(entries), where[: len(entries)].copy(), own, constant)


def build_hessian_pattern(places: IntArray, count: int) -> tuple[SparsePattern, IntArray]:
    """Variables that meet at a node; also the column of each entry."""
    meet = np.zeros((count, count), dtype=bool)
    for own in places:
        used = np.unique(own)
        used = used[used >= 0]
        meet[used[:, None], used] = True
    meet[np.arange(count), np.arange(count)] = True
    columns, rows = np.nonzero(meet.T)
    return SparsePattern(rows, np.searchsorted(columns, np.arange(count + 1)), count), columns


def _collect_pieces(groups: list[RowGroup], starts: IntArray) -> tuple[IntArray, IntArray]:
    """Entries (piece, node, slot, k) of all groups, and the row of each."""
    entries: list[IntArray] = []
    rows: list[IntArray] = []
    first = 0
    for group, start in zip(groups, starts[:-1], strict=True):
        piece, slot = np.nonzero(group.mask)
        quad = np.repeat(np.stack([first + piece, group.nodes[piece], slot], axis=1), 4, axis=0)
        entries.append(np.column_stack([quad, np.tile(np.arange(4), len(piece))]))
        rows.append(np.repeat(start + group.owner[piece], 4))
        first += len(group.nodes)
    return np.concatenate(entries), np.concatenate(rows)
