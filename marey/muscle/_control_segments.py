"""Splines and dampers of a soft body as springs with constant weights, so that their forces have exact derivatives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from marey.base import FloatArray, InputError, IntArray

if TYPE_CHECKING:
    from marey.muscle._control_segments_kernels import WeightedSegments
    from marey.muscle._muscles import Muscles

NodeSelection = Literal["cell", "region"]


def make_spline_segments(muscles: Muscles, spread: NodeSelection | None = None) -> WeightedSegments:
    r"""Segments of splines between points :math:`p = Wx`; the nodes feel :math:`W^Tf`, which keeps all momentum.

    [Engell2012]_ §20.2, Eqs 77-79. "cell" weighs the nodes of the cell around a point, "region" those of its whole
    region as the conservative transfer of the muscles does, which is the default for such muscles. Where a region is
    too thin to carry its point by itself, the cell does.
    """
    from marey.muscle._control_segments_kernels import WeightedSegments

    arrays = muscles.arrays
    if np.any(arrays.laws != 0):
        raise InputError("a spline has the law 'hill'", "Control works with splines of the law 'spring'")
    if spread not in (None, "cell", "region"):
        raise InputError(f"spread is '{spread}'", "Say 'cell' or 'region'")
    kind = spread or ("region" if muscles.transfer == "conservative" else "cell")
    if kind == "region" and muscles.transfer != "conservative":
        raise InputError(f"the muscles have the transfer '{muscles.transfer}'", "Regions need 'conservative' ones")
    W: Any = muscles.embedding.matrix() if kind == "cell" else _region_weights(muscles)
    pairs = np.asarray(arrays.segments, dtype=np.int64)
    lags = (W[pairs[:, 0]] - W[pairs[:, 1]]).tocsr()
    lags.eliminate_zeros()
    starts, nodes = lags.indptr.astype(np.int64), lags.indices.astype(np.int64)
    return WeightedSegments(
        starts, nodes, lags.data, arrays.rest.copy(), arrays.stiffness.copy(), arrays.damping.copy()
    )


def _region_weights(muscles: Muscles) -> Any:
    """Weights ``(N, V)`` by which regions carry their points."""
    from marey.muscle._control_scipy import sparse_arrays

    arrays = muscles.arrays
    W = np.asarray(muscles.embedding.matrix().toarray(), dtype=np.float64)
    for i in np.flatnonzero(arrays.turns == 0):
        part = slice(arrays.starts[i], arrays.starts[i + 1])
        W[i] = np.bincount(arrays.nodes[part], arrays.weights[part], minlength=W.shape[1])
    return sparse_arrays.csr_array(W)


def make_edge_dampers(nodes: FloatArray, cells: IntArray, strengths: FloatArray) -> WeightedSegments:
    """Dampers along the edges of cells: their share of ``strengths`` ``(T,)`` [N s m] over the length squared."""
    corners = np.array([(a, b) for a in range(cells.shape[1]) for b in range(a)])
    pairs = np.sort(cells[:, corners].reshape(-1, 2), axis=1)
    edges, owner = np.unique(pairs, axis=0, return_inverse=True)
    share = np.bincount(owner.ravel(), weights=np.repeat(strengths / len(corners), len(corners)))
    lengths = np.linalg.norm(nodes[edges[:, 0]] - nodes[edges[:, 1]], axis=1)
    return make_pair_dampers(edges.astype(np.int64), lengths, share / lengths**2)


def make_pair_dampers(pairs: IntArray, lengths: FloatArray, damping: FloatArray) -> WeightedSegments:
    """Dampers ``(S,)`` [N s/m] between pairs of nodes ``(S, 2)`` at distances [m]."""
    from marey.muscle._control_segments_kernels import WeightedSegments

    starts, signs = np.arange(0, 2 * len(pairs) + 1, 2), np.tile([1.0, -1.0], len(pairs))
    return WeightedSegments(starts, pairs.ravel(), signs, lengths, np.zeros(len(pairs)), damping)


def join_segments(parts: list[WeightedSegments]) -> WeightedSegments:
    """Several sets of segments as one."""
    from marey.muscle._control_segments_kernels import WeightedSegments

    if not parts:
        none = np.zeros(0)
        return WeightedSegments(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64), none, none, none, none)
    counts = np.concatenate([np.diff(part.starts) for part in parts])
    starts = np.concatenate([[0], np.cumsum(counts)])
    rest = (np.concatenate([getattr(part, name) for part in parts]) for name in WeightedSegments._fields[1:])
    return WeightedSegments(starts, *rest)
