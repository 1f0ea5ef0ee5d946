"""A character with fewer coordinates than its body: joints fused, limbs mirrored or left at zero ([Fang2003]_ F31)."""

from __future__ import annotations

from typing import Any

import numpy as np

from marey.base import FloatArray, InputError
from marey.numerics import NonlinearProgramme
from marey.spacetime.full.layout import FullLayout
from marey.spacetime.style import check_coordinate_map


class SimplifiedProgramme:
    r"""A programme of the full space in fewer curves, :math:`q = S q_s`: chain rule on both sides.

    Forces are those of the whole body, so what holds here holds for it.
    """

    def __init__(self, inner: NonlinearProgramme, layout: FullLayout, S: FloatArray) -> None:
        from scipy import sparse

        tools: Any = sparse  # scipy has no stubs
        # The part of S that moves angles; columns that only slide the root are left out
        matrix = check_coordinate_map(S, layout.figure.tree.num_dofs)
        angles = matrix[layout.figure.angles]
        crowded = np.flatnonzero((angles != 0.0).sum(axis=1) > 1)
        if crowded.size:
            raise InputError(
                f"'{layout.figure.names[crowded[0]]}' follows two simplified coordinates", "Let it follow one"
            )
        kept = angles[:, (angles != 0.0).any(axis=0)]
        if not kept.shape[1]:
            raise InputError("S moves no angle", "Give it at least one column that does")
        # Unknowns of flights and impacts stay as they are
        rest = layout.num_unknowns - layout.num_curve_unknowns
        blocks = [tools.kron(tools.eye_array(layout.num_points), tools.csr_array(kept)), tools.eye_array(rest)]
        self._inner = inner
        self._T: Any = tools.csr_array(tools.block_diag(blocks[: 2 if rest else 1]))
        # Each whole unknown keeps its ends, and follows one simplified one only
        entries = self._T.tocoo()
        self.lower, self.upper = np.full(self._T.shape[1], -np.inf), np.full(self._T.shape[1], np.inf)
        ends = np.stack([inner.lower[entries.row] / entries.data, inner.upper[entries.row] / entries.data])
        ends = np.sort(ends, axis=0)
        np.maximum.at(self.lower, entries.col, ends[0])
        np.minimum.at(self.upper, entries.col, ends[1])
        if np.any(self.lower > self.upper):
            raise InputError("coordinates that move as one have limits that exclude one another", "Fuse others")
        self.row_lower, self.row_upper, self.is_linear = inner.row_lower, inner.row_upper, inner.is_linear

    def expand(self, y: FloatArray) -> FloatArray:
        """Unknowns of the whole body."""
        return np.asarray(self._T @ y)

    def reduce(self, x: FloatArray) -> FloatArray:
        """Nearest unknowns of the simplified body."""
        weights = np.asarray(self._T.multiply(self._T).sum(axis=0)).ravel()
        return np.asarray(self._T.T @ x) / weights

    def values(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Objective and rows."""
        return self._inner.values(self.expand(x))

    def derivatives(self, x: FloatArray) -> tuple[FloatArray, Any, Any]:
        """Gradient, Hessian, Jacobian."""
        gradient, hessian, jacobian = self._inner.derivatives(self.expand(x))
        T = self._T
        return np.asarray(T.T @ gradient), (T.T @ hessian @ T).tocsc(), (jacobian @ T).tocsc()

    def row_name(self, index: int) -> str:
        """What a row asks for."""
        return self._inner.row_name(index)
