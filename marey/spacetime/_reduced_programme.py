"""A motion in reduced space as a sparse nonlinear programme."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.spacetime._reduced_frame import Frame
from marey.spacetime._reduced_objective import ReducedObjective, Terms
from marey.spacetime._reduced_physics import Scene
from marey.spacetime._reduced_rows import RowGroup

if TYPE_CHECKING:
    from scipy.sparse import csc_array


class ReducedProgramme:
    """Objective, rows and derivatives for the solver; implements :class:`marey.numerics.Programme`."""

    def __init__(self, scene: Scene, groups: list[RowGroup], objective: ReducedObjective) -> None:
        self.scene, self.objective = scene, objective
        self.groups = [group for group in groups if group.count]
        self.variables = scene.variables
        self.lower, self.upper = self.variables.bounds
        self.starts = np.concatenate([[0], np.cumsum([group.count for group in self.groups])]).astype(np.int64)
        self.row_lower = np.concatenate([group.lower for group in self.groups])
        self.row_upper = np.concatenate([group.upper for group in self.groups])
        self.is_linear: BoolArray = np.repeat(
            [group.is_linear for group in self.groups], [group.count for group in self.groups]
        )
        self._places = _with_sink(self.variables.number)[scene.nodes.coefficients]
        self._scales = np.append(self.variables.scales, 0.0)[scene.nodes.coefficients]
        self._prepare_rows()
        self._prepare_hessian()

    @property
    def num_rows(self) -> int:
        """How many constraints there are."""
        return int(self.starts[-1])

    def frame(self, x: FloatArray, *, derivatives: bool = False) -> Frame:
        """Poses and forces at a point of the search."""
        full = self.variables.unpack(x)[: self.scene.layout.num_coefficients]
        return self.scene.maker.derivatives(full) if derivatives else self.scene.maker.values(full)

    def terms(self, x: FloatArray) -> Terms:
        """Parts of the objective."""
        return self.objective.terms(self.frame(x))

    def values(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Objective and rows ``(m,)``."""
        frame = self.frame(x)
        rows = self._constant_rows @ self.variables.unpack(x)
        for group, start in zip(self.groups, self.starts, strict=False):
            np.add.at(rows, start + group.owner, group.evaluate(frame)[0])
        return self.objective.terms(frame).total, rows

    def derivatives(self, x: FloatArray) -> tuple[FloatArray, csc_array, csc_array]:
        """Gradient, Gauss-Newton Hessian and Jacobian of the rows."""
        from marey.spacetime._reduced_kernels import spread_gradient, spread_hessian, spread_rows

        frame = self.frame(x, derivatives=True)
        n = len(self.lower)
        blocks = np.concatenate([group.evaluate(frame)[1] for group in self.groups])
        data = self._constant_data.copy()
        basis = self.scene.nodes.basis
        spread_rows(self._entries, self._positions, np.ascontiguousarray(blocks), basis, self._entry_scales, data)
        local_g, local_H = self.objective.blocks(frame)
        g, H = np.zeros(n), np.zeros((n, n))
        spread_gradient(local_g, basis, self._places, self._scales, g)
        spread_hessian(local_H, basis, self._places, self._scales, H)
        return g, self._sparse(H[self._hessian_where], self._hessian, n), self._sparse(data, self._jacobian, n)

    def row_name(self, i: int) -> str:
        """What a row says, in words."""
        group = int(np.searchsorted(self.starts, i, side="right")) - 1
        return self.groups[group].name(i - int(self.starts[group]))

    def _sparse(self, data: FloatArray, pattern: tuple[IntArray, IntArray, int], n: int) -> csc_array:
        from scipy.sparse import csc_array

        indices, indptr, rows = pattern
        return csc_array((data, indices, indptr), shape=(rows, n))

    def _prepare_rows(self) -> None:
        """Pattern of the Jacobian, and where every entry goes."""
        from scipy.sparse import csc_array, csr_array

        entries, rows, first = list[FloatArray](), list[FloatArray](), 0
        constant = ([], [], [])
        for group, start in zip(self.groups, self.starts, strict=False):
            b, s = np.nonzero(group.mask)
            quad = np.repeat(np.stack([first + b, group.nodes[b], s], axis=1), 4, axis=0)
            entries.append(np.column_stack([quad, np.tile(np.arange(4), len(b))]))
            rows.append(np.repeat(start + group.owner[b], 4))
            first += len(group.nodes)
            for row, column, value in group.globals:
                constant[0].append(int(start) + row)
                constant[1].append(column)
                constant[2].append(value)
        shape = (self.num_rows, len(self.variables.values))
        self._constant_rows = csr_array((constant[2], (constant[0], constant[1])), shape=shape)
        table, owner = np.concatenate(entries), np.concatenate(rows)
        columns = self._places[table[:, 1], table[:, 2], table[:, 3]]
        free = columns >= 0
        table, owner, columns = table[free], owner[free], columns[free]
        fixed = self._constant_rows.tocoo()
        number = self.variables.number[fixed.col]
        keep = number >= 0
        all_rows = np.concatenate([owner, fixed.row[keep]])
        all_columns = np.concatenate([columns, number[keep]])
        keys = all_columns.astype(np.int64) * self.num_rows + all_rows
        unique, where = np.unique(keys, return_inverse=True)
        n = len(self.lower)
        indptr = np.searchsorted(unique, np.arange(n + 1) * self.num_rows)
        self._jacobian = ((unique % self.num_rows).astype(np.int32), indptr.astype(np.int32), self.num_rows)
        self._entries = np.ascontiguousarray(table)
        self._positions = np.ascontiguousarray(where[: len(table)])
        self._entry_scales = self._scales[table[:, 1], table[:, 2], table[:, 3]]
        self._constant_data = np.zeros(len(unique))
        scales = self.variables.scales[fixed.col[keep]]
        np.add.at(self._constant_data, where[len(table) :], fixed.data[keep] * scales)
        assert csc_array is not None

    def _prepare_hessian(self) -> None:
        """Pattern of the Hessian: variables that meet at a node."""
        n = len(self.lower)
        meet = np.zeros((n, n), dtype=bool)
        for node in range(self.scene.nodes.count):
            own = np.unique(self._places[node])
            own = own[own >= 0]
            meet[own[:, None], own] = True
        meet[np.arange(n), np.arange(n)] = True
        columns, rows = np.nonzero(meet.T)
        indptr = np.searchsorted(columns, np.arange(n + 1))
        self._hessian = (rows.astype(np.int32), indptr.astype(np.int32), n)
        self._hessian_where = (rows, columns)


def _with_sink(number: IntArray) -> IntArray:
    """Numbers with a last one for empty slots."""
    return np.append(number, -1)
