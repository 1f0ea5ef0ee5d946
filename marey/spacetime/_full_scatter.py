"""From jets at instants to sparse matrices: the pattern is found once, then only values move."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.spacetime._full_jets import StateJet
from marey.spacetime._full_layout import FullLayout
from marey.spacetime._full_rows import RowFamily
from marey.spacetime._full_state import BodyState
from marey.spacetime._objectives import RIDGE, QuadraticTerm
from marey.spacetime._objectives_terms import ResidualTerm
from marey.spacetime._timeline import Instants

EvaluatedRows = list[tuple[StateJet, FloatArray | None]]


def chain_blocks(jet: StateJet, basis: FloatArray) -> FloatArray:
    r"""Entries ``(n, m, 4, D)``: :math:`Y_q\phi + Y_{\dot q}\dot\phi + Y_{\ddot q}\ddot\phi`, basis ``(3, n, 4)``."""
    return np.einsum("pna,pnmd->nmad", basis, jet.partials, optimize=True)


class JacobianScatter:
    """Jacobian of all rows; entries that are zero by structure are left out, and rows without any."""

    def __init__(self, layout: FullLayout, instants: Instants, families: list[RowFamily]) -> None:
        self._layout = layout
        self._basis = [instants.basis[:, family.instants] for family in families]
        rows, columns, start = list[IntArray](), list[IntArray](), 0
        for family in families:
            numbers = start + np.arange(family.lower.size).reshape(family.lower.shape)
            start += family.lower.size
            near = layout.columns_at(instants.first[family.instants])[:, None]
            shape = (*numbers.shape, *near.shape[2:])
            rows.append(np.broadcast_to(numbers[:, :, None, None], shape).ravel())
            columns.append(np.broadcast_to(near, shape).ravel())
            if family.columns is not None:
                rows.append(np.broadcast_to(numbers[:, :, None], family.columns.shape).ravel())
                columns.append(family.columns.ravel())
        self._rows, self._columns = np.concatenate(rows), np.concatenate(columns)
        self._num_rows = start
        self.is_kept: BoolArray = np.ones(start, dtype=bool)

    @property
    def num_entries(self) -> int:
        """Entries before any is left out."""
        return self._rows.size

    def entries(self, jets: EvaluatedRows) -> FloatArray:
        """Values of all entries, in the order they were laid out."""
        found: list[FloatArray] = []
        for (jet, extra), basis in zip(jets, self._basis, strict=True):
            found.append(chain_blocks(jet, basis).ravel())
            if extra is not None:
                found.append(np.ascontiguousarray(extra).ravel())
        return np.concatenate(found)

    def keep(self, used: BoolArray, scales: FloatArray) -> None:
        """Fix the pattern to the entries in use, and scale columns."""
        self._used = np.flatnonzero(used)
        rows, columns = self._rows[self._used], self._columns[self._used]
        self.is_kept = np.bincount(rows, minlength=self._num_rows) > 0
        renumbered = np.cumsum(self.is_kept) - 1
        self._factors = scales[columns]
        count = int(self.is_kept.sum())
        keys = columns * count + renumbered[rows]
        unique, self._places = np.unique(keys, return_inverse=True)
        self._indices = (unique % count).astype(np.int32)
        per_column = np.bincount(unique // count, minlength=scales.size)
        self._pointers = np.concatenate([[0], np.cumsum(per_column)]).astype(np.int32)
        self._shape = (count, scales.size)

    def matrix(self, jets: EvaluatedRows) -> Any:
        """Jacobian ``(m, n)`` by scaled unknowns."""
        from scipy.sparse import csc_array

        values = self.entries(jets)[self._used] * self._factors
        data = np.bincount(self._places, weights=values, minlength=self._indices.size)
        return csc_array((data, self._indices, self._pointers), shape=self._shape)


class HessianScatter:
    """Gradient and Hessian of the objective: a constant part, and Gauss-Newton blocks of the residuals."""

    def __init__(
        self,
        layout: FullLayout,
        instants: Instants,
        quadratics: list[QuadraticTerm],
        residuals: list[ResidualTerm],
        scales: FloatArray,
    ) -> None:
        from scipy.sparse import coo_array, csc_array

        self._layout, self._instants, self._scales = layout, instants, scales
        self._quadratics, self._residuals = quadratics, residuals
        size, curves = layout.num_unknowns, layout.num_curve_unknowns
        total = cast(Any, coo_array(sum(2.0 * term.matrix for term in quadratics)))
        diagonal = np.arange(size)
        rows = [np.asarray(total.row, dtype=np.int64), diagonal]
        columns = [np.asarray(total.col, dtype=np.int64), diagonal]
        ridge = np.full(size, 2.0 * RIDGE)
        self._constant = np.concatenate([np.asarray(total.data), ridge])
        for term in residuals:
            near = layout.columns_at(instants.first[term.parts[0]]).reshape(len(term.weights), -1)
            shape = (*near.shape, near.shape[1])
            rows.append(np.broadcast_to(near[:, :, None], shape).ravel())
            columns.append(np.broadcast_to(near[:, None, :], shape).ravel())
        all_rows, all_columns = np.concatenate(rows), np.concatenate(columns)
        unique, self._places = np.unique(all_columns * size + all_rows, return_inverse=True)
        self._factors = scales[all_rows] * scales[all_columns]
        pointers = np.concatenate([[0], np.cumsum(np.bincount(unique // size, minlength=size))])
        self._empty: Any = csc_array(
            (np.zeros(unique.size), (unique % size).astype(np.int32), pointers.astype(np.int32))
        )
        self._curves = curves

    def evaluate(self, real: FloatArray, state: BodyState) -> tuple[FloatArray, Any]:
        """Gradient ``(n,)`` and Hessian by scaled unknowns, at unscaled ones."""
        from scipy.sparse import csc_array

        points = real[: self._curves]
        gradient = np.zeros(self._layout.num_unknowns)
        gradient[: self._curves] = 2.0 * RIDGE * points
        for term in self._quadratics:
            gradient[: self._curves] += term.gradient(points)
        entries = [self._constant, *(self._add_residuals(term, state, gradient) for term in self._residuals)]
        values = np.concatenate(entries) * self._factors
        data = np.bincount(self._places, weights=values, minlength=self._empty.nnz)
        hessian = csc_array((data, self._empty.indices, self._empty.indptr), shape=self._empty.shape)
        return gradient * self._scales, hessian

    def _add_residuals(self, term: ResidualTerm, state: BodyState, gradient: FloatArray) -> FloatArray:
        jets = term.evaluate(state)
        slopes = sum(chain_blocks(jet, self._instants.basis[:, at]) for jet, at in zip(jets, term.parts, strict=True))
        slopes = np.asarray(slopes).reshape(len(term.weights), jets[0].value.shape[1], -1)
        values = np.sum([jet.value for jet in jets], axis=0)
        near = self._layout.columns_at(self._instants.first[term.parts[0]]).reshape(len(term.weights), -1)
        pull = 2.0 * np.einsum("n,nm,nmc->nc", term.weights, values, slopes)
        np.add.at(gradient, near, pull)
        weighted = 2.0 * term.weights[:, None, None] * slopes
        return (weighted.transpose(0, 2, 1) @ slopes).ravel()
