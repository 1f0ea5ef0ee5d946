"""A motion in reduced space as a sparse nonlinear programme."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.spacetime._reduced_frame import NodeState
from marey.spacetime._reduced_objective import ObjectiveTerms, ReducedObjective
from marey.spacetime._reduced_pattern import build_hessian_pattern, build_row_pattern, collect_globals
from marey.spacetime._reduced_physics import RowContext
from marey.spacetime._reduced_rows import RowGroup

if TYPE_CHECKING:
    from scipy.sparse import csc_array


class ReducedProgramme:
    """Objective, rows and derivatives for the solver; implements :class:`marey.numerics.NonlinearProgramme`."""

    def __init__(self, scene: RowContext, groups: list[RowGroup], objective: ReducedObjective) -> None:
        self.scene, self.objective, self.variables = scene, objective, scene.variables
        self.groups = [group for group in groups if group.count]
        self.lower, self.upper = self.variables.bounds
        counts = np.array([group.count for group in self.groups], dtype=np.int64)
        self.starts: IntArray = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
        self.row_lower = np.concatenate([group.lower for group in self.groups])
        self.row_upper = np.concatenate([group.upper for group in self.groups])
        self.is_linear: BoolArray = np.repeat(np.array([group.is_linear for group in self.groups]), counts)
        coefficients = scene.nodes.coefficients
        self._places: IntArray = np.append(self.variables.number, -1)[coefficients]
        self._scales: FloatArray = np.append(self.variables.scales, 0.0)[coefficients]
        self._globals = collect_globals(self.groups, self.starts)
        self._rows = build_row_pattern(
            self.groups, self.starts, self._places, self._scales, self.variables, self._globals
        )
        self._hessian, self._hessian_columns = build_hessian_pattern(self._places, len(self.lower))

    @property
    def num_rows(self) -> int:
        """How many constraints there are."""
        return int(self.starts[-1])

    def frame(self, x: FloatArray, *, derivatives: bool = False) -> NodeState:
        """Poses and forces at a point of the search."""
        full = self.variables.unpack(x)[: self.scene.layout.num_coefficients]
        return self.scene.maker.derivatives(full) if derivatives else self.scene.maker.values(full)

    def terms(self, x: FloatArray) -> ObjectiveTerms:
        """Parts of the objective."""
        return self.objective.terms(self.frame(x))

    def values(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Objective and rows ``(m,)``."""
        frame = self.frame(x)
        rows = self._globals.values(self.variables.unpack(x), self.num_rows)
        for group, start in zip(self.groups, self.starts[:-1], strict=True):
            np.add.at(rows, start + group.owner, group.evaluate(frame)[0])
        return self.objective.terms(frame).total, rows

    def derivatives(self, x: FloatArray) -> tuple[FloatArray, csc_array, csc_array]:
        """Gradient, Gauss-Newton Hessian and Jacobian of the rows."""
        from marey.spacetime._reduced_kernels import scatter_gradient, scatter_hessian, scatter_rows

        frame = self.frame(x, derivatives=True)
        n, basis, rows = len(self.lower), self.scene.nodes.basis, self._rows
        blocks = np.concatenate([group.evaluate(frame)[1] for group in self.groups])
        data = rows.constant.copy()
        scatter_rows(rows.entries, rows.positions, blocks, basis, rows.scales, data)
        local_g, local_H = self.objective.blocks(frame)
        g, H = np.zeros(n), np.zeros((n, n))
        scatter_gradient(local_g, basis, self._places, self._scales, g)
        scatter_hessian(local_H, basis, self._places, self._scales, H)
        hessian = self._hessian.matrix(H[self._hessian.indices, self._hessian_columns])
        return g, hessian, rows.pattern.matrix(data)

    def row_name(self, index: int) -> str:
        """What a row says, in words."""
        group = int(np.searchsorted(self.starts, index, side="right")) - 1
        return self.groups[group].name(index - int(self.starts[group]))
