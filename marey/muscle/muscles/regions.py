"""The nodes that a point of a spline moves: its region. [Engell2012]_ §20.4, Fig. 29.

Distances run inside the body, along the edges of its cells, so that the spline of one limb does not pull another. A
force at a point is distributed over the nodes of its region so that force and torque are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, InputError, IntArray, UnknownNameError, frozen
from marey.muscle.muscles.embedding import Embedding, SparseMatrix
from marey.muscle.muscles.spline import ActivationSpline

REGION_KINDS: Final = ("voronoi", "cell", "radius")
MIN_INERTIA_RATIO: Final = 1e-6  # [-] smallest to largest moment of inertia: below, a region is a line and cannot turn


@dataclass(frozen=True, slots=True, eq=False)
class Regions:
    """Regions of points, one after another: entries ``starts[i]:starts[i + 1]`` belong to point i."""

    starts: IntArray  # (N + 1,)
    nodes: IntArray  # (nnz,)
    paint: FloatArray  # (nnz,) in (0, 1]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def of(self, i: int) -> IntArray:
        """Nodes of the region of one point."""
        return self.nodes[self.starts[i] : self.starts[i + 1]]

    def matrix(self, masses: FloatArray) -> SparseMatrix:
        r"""The averages :math:`A_{ij} = m_j/M_i` ``(N, V)`` of Eq. 84; rows sum to one."""
        from scipy import sparse

        values = self.paint * masses[self.nodes]
        totals = np.add.reduceat(values, self.starts[:-1])
        values = values / np.repeat(totals, np.diff(self.starts))
        matrix = sparse.csr_array((values, self.nodes, self.starts), shape=(len(self), len(masses)))
        return cast(SparseMatrix, matrix)

    @classmethod
    def join(cls, sets: list[IntArray], paint: list[FloatArray]) -> Regions:
        """Regions of lists of nodes and their paint."""
        starts = np.concatenate([[0], np.cumsum([len(s) for s in sets])]).astype(np.int64)
        return cls(starts, np.concatenate(sets).astype(np.int64), np.concatenate(paint))


def make_edge_graph(nodes: FloatArray, cells: NDArray[np.integer]) -> SparseMatrix:
    """Lengths of the edges between nodes that share a cell ``(V, V)`` [m]."""
    from scipy import sparse

    a, b = np.triu_indices(cells.shape[1], k=1)
    pairs = np.unique(np.sort(np.stack([cells[:, a].ravel(), cells[:, b].ravel()], axis=1), axis=1), axis=0)
    lengths = np.linalg.norm(nodes[pairs[:, 0]] - nodes[pairs[:, 1]], axis=1)
    rows, columns = np.concatenate([pairs.T, pairs.T[::-1]], axis=1)
    return sparse.csr_array((np.tile(np.maximum(lengths, 1e-300), 2), (rows, columns)), shape=(len(nodes), len(nodes)))


def compute_node_distances(
    points: FloatArray, embedding: Embedding, nodes: FloatArray, graph: SparseMatrix, *, metric: str, limit: float
) -> FloatArray:
    """How far every node is from every point ``(N, V)`` [m], inside the body or straight; infinite beyond the limit."""
    if metric == "euclidean":
        straight = np.linalg.norm(points[:, None] - nodes[None], axis=2)
        return np.where(straight <= limit, straight, np.inf)
    from scipy import sparse
    from scipy.sparse.csgraph import dijkstra

    count = len(embedding.nodes)
    reach = np.linalg.norm(nodes[embedding.nodes] - points[:, None], axis=2)
    near = np.maximum(reach, 1e-300).ravel(), embedding.nodes.ravel(), embedding.starts
    starts = sparse.csr_array(near, shape=(count, len(nodes)))
    whole = sparse.block_array([[graph, None], [starts, sparse.csr_array((count, count))]], format="csr")
    found = dijkstra(whole, directed=True, indices=len(nodes) + np.arange(count), limit=limit)
    return found[:, : len(nodes)]


@dataclass(frozen=True, slots=True, eq=False)
class HostGeometry:
    """A body as regions see it."""

    nodes: FloatArray  # (V, 3) [m] at rest
    graph: SparseMatrix  # (V, V) [m] lengths of edges


def find_regions(
    splines: Sequence[ActivationSpline], bound: Sequence[Embedding], flesh: HostGeometry, *, overlap: bool = True
) -> Regions:
    """Regions of the points of splines; an empty one takes the nodes of its cell, a thin one its neighbours too.

    Args:
        splines: what has regions.
        bound: the samples of each, bound to the body.
        flesh: the body at rest.
        overlap: each spline has regions of its own; else a node goes to the nearest of all that take nearest nodes.
    """
    reached = [_distances_from_spline(spline, at, flesh) for spline, at in zip(splines, bound, strict=True)]
    kinds = [_parse_region(spline, len(flesh.nodes)) for spline in splines]
    least = [
        d.min(axis=0) if k[0] == "voronoi" else np.full(d.shape[1], np.inf) for d, k in zip(reached, kinds, strict=True)
    ]
    owners = np.argmin(np.array(least), axis=0)
    sets: list[IntArray] = []
    paint: list[FloatArray] = []
    for i, (at, d, (kind, _, colour)) in enumerate(zip(bound, reached, kinds, strict=True)):
        mine = d if overlap or kind != "voronoi" else np.where(owners == i, d, np.inf)
        whole = [
            _widen_thin_region(s if len(s) else at.nodes[k], flesh)
            for k, s in enumerate(_region_members(kind, at, mine))
        ]
        sets += whole
        paint += [np.where(colour[s] > 0.0, colour[s], 1.0) for s in whole]
    return Regions.join(sets, paint)


def _distances_from_spline(spline: ActivationSpline, at: Embedding, flesh: HostGeometry) -> FloatArray:
    """How far nodes are from a spline's points ``(N, V)``; infinite where they are none of its business."""
    kind, radius, paint = _parse_region(spline, len(flesh.nodes))
    if kind == "cell":
        return np.full((len(at.nodes), len(flesh.nodes)), np.inf)
    d = compute_node_distances(at(flesh.nodes), at, flesh.nodes, flesh.graph, metric=spline.metric, limit=radius)
    return np.where(paint > 0.0, d, np.inf)


def _region_members(kind: str, at: Embedding, d: FloatArray) -> list[IntArray]:
    if kind == "cell":
        return list(at.nodes)
    return _nearest_nodes(d) if kind == "voronoi" else [np.flatnonzero(np.isfinite(row)) for row in d]


def _parse_region(spline: ActivationSpline, count: int) -> tuple[str, float, FloatArray]:
    """Name, radius [m] and paint ``(V,)`` of a spline's regions."""
    limit, paint = spline.max_radius or np.inf, np.ones(count)
    region = spline.region
    if isinstance(region, str):
        if region not in ("voronoi", "cell"):
            raise UnknownNameError("region", region, "activation splines", REGION_KINDS)
        return region, limit, paint
    if isinstance(region, tuple) and len(region) == 2 and region[0] == "radius":
        radius = float(cast(float, region[1]))
        if not radius > 0.0:
            raise InputError(f"the region's radius is {radius} m", "It must be above zero")
        return "radius", min(limit, radius), paint
    paint = frozen(cast(FloatArray, region), count, name="region")
    if paint.min() < 0.0 or paint.max() <= 0.0:
        raise InputError("painted weights are negative or all zero", "Paint at least one node, from 0 to 1")
    return "voronoi", limit, paint


def _nearest_nodes(d: FloatArray) -> list[IntArray]:
    """Nodes whose nearest point is each; the first of equals."""
    owner = np.where(np.isfinite(d).any(axis=0), np.argmin(d, axis=0), -1)
    return [np.flatnonzero(owner == i) for i in range(len(d))]


def _widen_thin_region(region: IntArray, flesh: HostGeometry) -> IntArray:
    """The region, with the neighbours of its nodes where it is a point or a line."""
    graph = flesh.graph
    if not is_thin(flesh.nodes[region]):
        return region
    around = np.concatenate([graph.indices[graph.indptr[j] : graph.indptr[j + 1]] for j in region])
    return np.unique(np.concatenate([region, around])).astype(np.int64)


def is_thin(x: FloatArray) -> bool:
    """Whether points are one point or a line, so that no torque can be given to them."""
    r = x - x.mean(axis=0)
    moments = np.linalg.eigvalsh(np.eye(3) * np.sum(r * r) - r.T @ r)
    return bool(moments[0] <= MIN_INERTIA_RATIO * moments[2])


MAX_LEVER = 3.0  # [-] in spreads of a region: a point farther off its centre turns with it, else weights grow past ten
MIN_LEVER = 1e-8  # [-] of a region's size: rounding


@dataclass(frozen=True, slots=True, eq=False)
class ForceDistribution:
    """Loads of points, one after another, or of one point."""

    starts: IntArray  # (N + 1,)
    nodes: IntArray  # (nnz,)
    weights: FloatArray  # (nnz,) sum to one for each point
    shares: FloatArray  # (nnz,) of the region's mass
    arms: FloatArray  # (nnz, 3) [m] from its centre
    offsets: FloatArray  # (N, 3) [m] part of the way to the point that turns with the region
    turns: IntArray  # (N,)

    @classmethod
    def join(cls, loads: list[ForceDistribution]) -> ForceDistribution:
        """Loads of several points as one."""
        starts = np.concatenate([[0], np.cumsum([len(load.nodes) for load in loads])]).astype(np.int64)
        names = ("nodes", "weights", "shares", "arms", "offsets", "turns")
        return cls(starts, *(np.concatenate([getattr(load, name) for load in loads]) for name in names))


def distribute_by_weights(nodes: IntArray, weights: FloatArray) -> ForceDistribution:
    """A load by given weights alone."""
    ends, count = np.array([0, len(nodes)]), len(nodes)
    turns, nothing = np.zeros(1, dtype=np.int64), np.zeros((1, 3))
    return ForceDistribution(
        ends, nodes.astype(np.int64), weights, np.zeros(count), np.zeros((count, 3)), nothing, turns
    )


def distribute_by_region(
    nodes: IntArray, shares: FloatArray, point: FloatArray, rest: FloatArray
) -> ForceDistribution | None:
    r"""The least load over a region that keeps force and all first moments, torque among them.

    .. math:: \lambda_j = w_j\,\Big(1 + \sum_k \frac{q_k\,(e_k\cdot r_j)}{\sigma_k^2}\Big)

    with the point's way q from the centre, and the principal axes e_k and spreads sigma_k of the region. It is the
    solution of least :math:`\sum \|F_j\|^2/m_j`. Along axes where the way is longer than ``MAX_LEVER`` spreads the
    point
    turns with the region instead.

    Returns:
        The load, or None where a region is a line that would have to turn.
    """
    centre = shares @ rest[nodes]
    arms = rest[nodes] - centre
    squares, axes = np.linalg.eigh((shares[:, None] * arms).T @ arms)
    way = axes.T @ (point - centre)
    size = float(np.sqrt(max(squares.sum(), 0.0)))
    near = (squares > (MIN_LEVER * size) ** 2) & (way**2 <= MAX_LEVER**2 * squares)
    slope = np.divide(way, squares, out=np.zeros(3), where=near)
    offset = axes @ np.where(near | (np.abs(way) <= MIN_LEVER * size), 0.0, way)
    turns = int(offset.any())
    if turns and is_thin(rest[nodes]):
        return None
    weights = shares * (1.0 + arms @ (axes @ slope))
    ends = np.array([0, len(nodes)])
    return ForceDistribution(ends, nodes, weights, shares, arms, offset[None], np.array([turns]))
