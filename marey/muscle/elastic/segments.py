"""Springs between weighted sums of nodes, with exact derivatives: lattices, splines under control, dampers.

They are assembled into a matrix of 3x3 blocks, as all elastic materials are. The weights are constant. Compiled
functions add forces, derivatives and the blocks of the matrix of a step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, cast

import numpy as np

from marey.base import FloatArray, InputError, IntArray, kernel
from marey.muscle.elastic.mesh import IndexArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from marey.muscle.muscles.forces import Muscles


class BlockMatrix(NamedTuple):
    """A symmetric matrix of 3x3 blocks, row by row; every row holds its diagonal."""

    starts: IndexArray  # (V + 1,)
    columns: IndexArray  # (nnz,) ascending in each row
    values: FloatArray  # (nnz, 3, 3)

    @staticmethod
    def from_groups(count: int, groups: IndexArray) -> BlockMatrix:
        """A matrix of zeros that joins all nodes of each group (N, k), and each node to itself."""
        width = groups.shape[1]
        rows = np.repeat(groups, width, axis=1).ravel().astype(np.int64)
        columns = np.tile(groups, (1, width)).ravel().astype(np.int64)
        own = np.arange(count, dtype=np.int64)
        keys = np.unique(np.concatenate([rows * count + columns, own * count + own]))
        starts = np.searchsorted(keys, np.arange(count + 1, dtype=np.int64) * count)
        return BlockMatrix(starts.astype(np.int32), (keys % count).astype(np.int32), np.zeros((len(keys), 3, 3)))

    def find_positions(self, groups: IndexArray) -> IndexArray:
        """Where each pair of a group (N, k, k) lies in the values."""
        count = len(self.starts) - 1
        keys = np.repeat(np.arange(count, dtype=np.int64), np.diff(self.starts)) * count + self.columns
        wanted = groups[:, :, None].astype(np.int64) * count + groups[:, None, :]
        return np.searchsorted(keys, wanted).astype(np.int32)


def to_sparse_tangent(blocks: BlockMatrix, rises: FloatArray, weights: FloatArray) -> csr_array[np.float64]:
    r"""The matrix :math:`A + G^T\,\mathrm{diag}(w)\,G` (3V, 3V): blocks, and the volumes of nodes as a product.

    ``rises`` G (nnz, 3) may be empty; ``weights`` w are (V,).
    """
    from scipy import sparse

    starts, columns, values = blocks
    count = len(starts) - 1
    matrix = sparse.bsr_array((values.copy(), columns, starts), shape=(3 * count, 3 * count)).tocsr()
    if not len(rises):
        return matrix
    wide = 3 * columns[:, None].astype(np.int64) + np.arange(3)
    G = sparse.csr_array((rises.ravel(), wide.ravel(), 3 * starts.astype(np.int64)), shape=(count, 3 * count))
    return cast("csr_array[np.float64]", matrix + G.T @ sparse.diags_array(weights) @ G)


MIN_LENGTH_M = 1e-12  # [m] a shorter segment has no direction and no force


class WeightedSegments(NamedTuple):
    """Damped springs; the vector of segment s is the sum of weights times nodes."""

    starts: IntArray  # (S + 1,) entries of nodes and weights of each segment
    nodes: IntArray  # (nnz,)
    weights: FloatArray  # (nnz,) of the first end less those of the second; they sum to nothing
    rest: FloatArray  # (S,) [m]
    stiffness: FloatArray  # (S,) [N/m]
    damping: FloatArray  # (S,) [N s/m]


@kernel
def _segment_vector(segments: WeightedSegments, s: int, x: FloatArray, out: FloatArray) -> None:
    out[:] = 0.0
    for e in range(segments.starts[s], segments.starts[s + 1]):
        j, w = segments.nodes[e], segments.weights[e]
        for i in range(3):
            out[i] += w * x[j, i]


@kernel
def add_segment_forces(
    segments: WeightedSegments, x: FloatArray, v: FloatArray, alpha: FloatArray, out: FloatArray
) -> None:
    """Add the forces on nodes ``(V, 3)`` [N] of segments that contract to ``alpha`` times their rest lengths."""
    e, u = np.empty(3), np.empty(3)
    for s in range(len(segments.rest)):
        _segment_vector(segments, s, x, e)
        _segment_vector(segments, s, v, u)
        length = np.sqrt(e[0] * e[0] + e[1] * e[1] + e[2] * e[2])
        if length < MIN_LENGTH_M:
            continue
        rate = (e[0] * u[0] + e[1] * u[1] + e[2] * u[2]) / length
        tension = segments.stiffness[s] * (length - alpha[s] * segments.rest[s]) + segments.damping[s] * rate
        for n in range(segments.starts[s], segments.starts[s + 1]):
            pull = -tension * segments.weights[n] / length
            for i in range(3):
                out[segments.nodes[n], i] += pull * e[i]


@kernel
def differentiate_segments(
    segments: WeightedSegments, x: FloatArray, v: FloatArray, alpha: FloatArray, exact: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Derivatives of a segment's force by its vector, by its rate ``(S, 3, 3)`` and by alpha ``(S, 3)``.

    Without ``exact`` the first leaves out what could push: slack segments and the turn of dampers.
    """
    num = len(segments.rest)
    by_x, by_v, by_alpha = np.zeros((num, 3, 3)), np.zeros((num, 3, 3)), np.zeros((num, 3))
    h, u = np.empty(3), np.empty(3)
    for s in range(num):
        _segment_vector(segments, s, x, h)
        _segment_vector(segments, s, v, u)
        length = np.sqrt(h[0] * h[0] + h[1] * h[1] + h[2] * h[2])
        if length < MIN_LENGTH_M:
            continue
        # Blocks of [Engell2012]_ §27, H = (I - h h^T)/l: -h (k h^T + c u^T H) - T H by the vector, -c h h^T by its rate
        k, c = segments.stiffness[s], segments.damping[s]
        h /= length
        rate = h[0] * u[0] + h[1] * u[1] + h[2] * u[2]
        tension = k * (length - alpha[s] * segments.rest[s]) + c * rate
        turn = c if exact else 0.0
        if not exact:
            tension = max(tension, 0.0)
        for i in range(3):
            by_alpha[s, i] = k * segments.rest[s] * h[i]
            for j in range(3):
                side = ((1.0 if i == j else 0.0) - h[i] * h[j]) / length
                by_v[s, i, j] = -c * h[i] * h[j]
                by_x[s, i, j] = -h[i] * (k * h[j] + turn * (u[j] - rate * h[j]) / length) - tension * side
    return by_x, by_v, by_alpha


@kernel
def multiply_segment_blocks(
    segments: WeightedSegments, blocks: FloatArray, u: FloatArray, transposed: bool
) -> FloatArray:
    """Changes of forces ``(V, 3, n)`` for changes of nodes ``(V, 3, n)``, by blocks of segments or their transposes."""
    out = np.zeros_like(u)
    num = u.shape[2]
    d, f = np.empty((3, num)), np.empty((3, num))
    for s in range(len(segments.rest)):
        d[:] = 0.0
        f[:] = 0.0
        first, last = segments.starts[s], segments.starts[s + 1]
        for e in range(first, last):
            for i in range(3):
                for n in range(num):
                    d[i, n] += segments.weights[e] * u[segments.nodes[e], i, n]
        for i in range(3):
            for j in range(3):
                b = blocks[s, j, i] if transposed else blocks[s, i, j]
                for n in range(num):
                    f[i, n] += b * d[j, n]
        for e in range(first, last):
            for i in range(3):
                for n in range(num):
                    out[segments.nodes[e], i, n] += segments.weights[e] * f[i, n]
    return out


@kernel
def sum_segment_columns(
    segments: WeightedSegments, pulls: FloatArray, owners: FloatArray, num_nodes: int
) -> FloatArray:
    """Derivative of the nodes' forces by controls ``(V, 3, s)``: pulls of segments times the matrix of alpha."""
    out = np.zeros((num_nodes, 3, owners.shape[1]))
    for s in range(owners.shape[0]):
        for c in range(owners.shape[1]):
            share = owners[s, c]
            if share != 0.0:
                for e in range(segments.starts[s], segments.starts[s + 1]):
                    for i in range(3):
                        out[segments.nodes[e], i, c] += share * segments.weights[e] * pulls[s, i]
    return out


@kernel
def add_segment_blocks(segments: WeightedSegments, blocks: FloatArray, places: IntArray, values: FloatArray) -> None:
    """Subtract the blocks of segments from a matrix of node blocks; places are those of all pairs of each segment."""
    p = 0
    for s in range(len(segments.rest)):
        for a in range(segments.starts[s], segments.starts[s + 1]):
            for b in range(segments.starts[s], segments.starts[s + 1]):
                w = segments.weights[a] * segments.weights[b]
                for i in range(3):
                    for j in range(3):
                        values[places[p], i, j] -= w * blocks[s, i, j]
                p += 1


@kernel
def add_volume_blocks(
    starts: IntArray, rises: FloatArray, stiffness: FloatArray, places: IntArray, values: FloatArray
) -> None:
    """Add the rank-one blocks of nodes' volumes: ``stiffness`` times the outer product of ``rises`` of each node."""
    p = 0
    for n in range(len(starts) - 1):
        for a in range(starts[n], starts[n + 1]):
            for b in range(starts[n], starts[n + 1]):
                for i in range(3):
                    for j in range(3):
                        values[places[p], i, j] += stiffness[n] * rises[a, i] * rises[b, j]
                p += 1


@kernel
def project_border_blocks(
    values: FloatArray, rows: IntArray, columns: IntArray, free: IntArray, carried: IntArray, J: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Blocks between free nodes and angles, angles and free nodes, angles and angles.

    ``free`` and ``carried`` ``(V,)`` are places of nodes among their like, or -1; J ``(C, 3, H)`` is the derivative of
    carried points.
    """
    num, hinges = free.max() + 1, J.shape[2]
    right, below = np.zeros((3 * num, hinges)), np.zeros((hinges, 3 * num))
    corner = np.zeros((hinges, hinges))
    for b in range(len(values)):
        r, c = rows[b], columns[b]
        # Values times J on the right, J^T times values on the left, or both.
        if carried[c] >= 0 and free[r] >= 0:
            for i in range(3):
                for j in range(3):
                    for h in range(hinges):
                        right[3 * free[r] + i, h] += values[b, i, j] * J[carried[c], j, h]
        elif carried[r] >= 0 and free[c] >= 0:
            for i in range(3):
                for j in range(3):
                    for h in range(hinges):
                        below[h, 3 * free[c] + j] += J[carried[r], i, h] * values[b, i, j]
        elif carried[r] >= 0 and carried[c] >= 0:
            for i in range(3):
                for j in range(3):
                    for g in range(hinges):
                        share = J[carried[r], i, g] * values[b, i, j]
                        for h in range(hinges):
                            corner[g, h] += share * J[carried[c], j, h]
    return right, below, corner


NodeSelection = Literal["cell", "region"]


def make_spline_segments(muscles: Muscles, spread: NodeSelection | None = None) -> WeightedSegments:
    r"""Segments of splines between points :math:`p = Wx`; the nodes feel :math:`W^Tf`, which keeps all momentum.

    [Engell2012]_ §20.2, Eqs 77-79. "cell" weighs the nodes of the cell around a point, "region" those of its whole
    region as the conservative transfer of the muscles does, which is the default for such muscles. Where a region is
    too thin to carry its point by itself, the cell does.
    """
    from scipy.sparse import csr_array

    arrays = muscles.arrays
    if np.any(arrays.laws != 0):
        raise InputError("a spline has the law 'hill'", "Control works with splines of the law 'spring'")
    if spread not in (None, "cell", "region"):
        raise InputError(f"spread is '{spread}'", "Say 'cell' or 'region'")
    kind = spread or ("region" if muscles.transfer == "conservative" else "cell")
    if kind == "region" and muscles.transfer != "conservative":
        raise InputError(f"the muscles have the transfer '{muscles.transfer}'", "Regions need 'conservative' ones")
    # Weights (N, V) by which cells, or regions, carry their points.
    weights = muscles.embedding.matrix()
    if kind == "region":
        whole = weights.toarray()
        for i in np.flatnonzero(arrays.turns == 0):
            part = slice(arrays.starts[i], arrays.starts[i + 1])
            whole[i] = np.bincount(arrays.nodes[part], arrays.weights[part], minlength=whole.shape[1])
        weights = csr_array(whole)
    pairs = np.asarray(arrays.segments, dtype=np.int64)
    lags = (weights[pairs[:, 0]] - weights[pairs[:, 1]]).tocsr()
    lags.eliminate_zeros()
    starts, nodes = lags.indptr.astype(np.int64), lags.indices.astype(np.int64)
    return WeightedSegments(
        starts, nodes, lags.data, arrays.rest.copy(), arrays.stiffness.copy(), arrays.damping.copy()
    )


def make_edge_dampers(nodes: FloatArray, cells: IntArray, strengths: FloatArray) -> WeightedSegments:
    """Dampers along the edges of cells: their share of ``strengths`` ``(T,)`` [N s m] over the length squared."""
    corners = np.array([(a, b) for a in range(cells.shape[1]) for b in range(a)])
    pairs = np.sort(cells[:, corners].reshape(-1, 2), axis=1)
    edges, owner = np.unique(pairs, axis=0, return_inverse=True)
    share = np.bincount(owner.ravel(), weights=np.repeat(strengths / len(corners), len(corners)))
    lengths = np.linalg.norm(nodes[edges[:, 0]] - nodes[edges[:, 1]], axis=1)
    return make_pair_segments(edges.astype(np.int64), lengths, np.zeros(len(edges)), share / lengths**2)


def make_pair_segments(
    pairs: IntArray, lengths: FloatArray, stiffness: FloatArray, damping: FloatArray
) -> WeightedSegments:
    """Damped springs ``(S,)`` [N/m], [N s/m] between pairs of nodes ``(S, 2)`` with rest lengths [m]."""
    starts, signs = np.arange(0, 2 * len(pairs) + 1, 2), np.tile([1.0, -1.0], len(pairs))
    return WeightedSegments(starts, pairs.ravel(), signs, lengths, stiffness, damping)


def join_segments(parts: list[WeightedSegments]) -> WeightedSegments:
    """Several sets of segments as one."""
    if not parts:
        none = np.zeros(0)
        return WeightedSegments(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64), none, none, none, none)
    counts = np.concatenate([np.diff(part.starts) for part in parts])
    starts = np.concatenate([[0], np.cumsum(counts)])
    rest = (np.concatenate([getattr(part, name) for part in parts]) for name in WeightedSegments._fields[1:])
    return WeightedSegments(starts, *rest)
