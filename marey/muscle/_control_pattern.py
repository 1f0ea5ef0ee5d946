"""Where the blocks of a body and its segments add into the one matrix of a step; found once."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from marey.base import FloatArray, IntArray

if TYPE_CHECKING:
    from marey.muscle._body_elastic import ElasticModel
    from marey.muscle._control_segments_kernels import WeightedSegments


class StepPattern:
    """Matrix of node blocks ``(3V, 3V)`` that holds the material, the volumes of nodes and the segments."""

    def __init__(self, elastic: ElasticModel, segments: WeightedSegments, num_nodes: int) -> None:
        self.elastic, self.segments = elastic, segments
        starts, columns = (np.asarray(a, dtype=np.int64) for a in elastic.blocks[:2])
        own = np.repeat(np.arange(len(starts) - 1), np.diff(starts)) * num_nodes + columns
        self._has_rises = bool(np.any(elastic.rise_stiffness))
        rises = _pair_keys(starts, columns, num_nodes) if self._has_rises else np.zeros(0, dtype=np.int64)
        lags = _pair_keys(segments.starts, segments.nodes, num_nodes)
        diagonal = np.arange(num_nodes) * (num_nodes + 1)
        keys = np.unique(np.concatenate([own, rises, lags, diagonal]))
        self.rows, self.columns = np.divmod(keys, num_nodes)  # of each block
        self._own, self._rises = np.searchsorted(keys, own), np.searchsorted(keys, rises)
        self._lags, self._diagonal = np.searchsorted(keys, lags), np.searchsorted(keys, diagonal)
        self._starts = starts
        self.values: FloatArray = np.zeros((len(keys), 3, 3))

    def assemble(self, x: FloatArray, blocks: FloatArray, nodes: FloatArray, *, exact: bool) -> FloatArray:
        """Blocks ``(B, 3, 3)``: material at ``x``, minus blocks of segments ``(S, 3, 3)``, plus blocks of nodes."""
        from marey.muscle._control_segments_kernels import add_segment_blocks, add_volume_blocks

        self.elastic.assemble(np.ascontiguousarray(x), exact=exact)
        values = self.values
        values[:] = 0.0
        values[self._own] = self.elastic.blocks.values
        if self._has_rises:
            add_volume_blocks(self._starts, self.elastic.rises, self.elastic.rise_stiffness, self._rises, values)
        add_segment_blocks(self.segments, blocks, self._lags, values)
        values[self._diagonal] += nodes
        return values


def _pair_keys(starts: IntArray, members: IntArray, num_nodes: int) -> IntArray:
    """Numbers ``row * V + column`` of all ordered pairs of members of each group, group by group."""
    parts = [members[a:b] for a, b in pairwise(starts)]
    keys = [(part[:, None] * num_nodes + part[None, :]).ravel() for part in parts]
    return np.concatenate([np.zeros(0, dtype=np.int64), *keys])


class FreeNodeMatrix:
    """The part of a pattern between free nodes, ready to be factored: dense where it is small."""

    DENSE = 700  # [unknowns] up to here dense factors were faster

    def __init__(self, pattern: StepPattern, free: IntArray, num_nodes: int) -> None:
        place = np.full(num_nodes, -1, dtype=np.int64)
        place[free] = np.arange(free.size)
        self._kept = np.flatnonzero((place[pattern.rows] >= 0) & (place[pattern.columns] >= 0))
        self.size = 3 * free.size
        i, j = np.meshgrid(np.arange(3), np.arange(3), indexing="ij")
        rows = (3 * place[pattern.rows[self._kept]])[:, None, None] + i
        columns = (3 * place[pattern.columns[self._kept]])[:, None, None] + j
        self._flat = (rows * self.size + columns).ravel()
        self._order = np.lexsort((rows.ravel(), columns.ravel()))
        self._indices = rows.ravel()[self._order].astype(np.int32)
        counts = np.bincount(columns.ravel(), minlength=self.size)
        self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)

    def dense(self, values: FloatArray) -> FloatArray:
        """Matrix ``(size, size)``."""
        found = np.zeros(self.size * self.size)
        found[self._flat] = values[self._kept].ravel()
        return found.reshape(self.size, self.size)

    def sparse(self, values: FloatArray) -> Any:
        """Matrix ``(size, size)``, sparse by columns."""
        from marey.muscle._control_scipy import sparse_arrays

        data = values[self._kept].ravel()[self._order]
        return sparse_arrays.csc_array((data, self._indices, self._starts), shape=(self.size, self.size))

    def best(self, values: FloatArray) -> Any:
        """Dense where it is small, else sparse."""
        return self.dense(values) if self.size <= self.DENSE else self.sparse(values)
