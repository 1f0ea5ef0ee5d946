"""From splines and a body to compiled arrays: the regions of points, and stiffness and damping of segments.

A region is the nodes that a point of a spline moves ([Engell2012]_ §20.4, Fig. 29). Distances run inside the body,
along the edges of its cells, so that the spline of one limb does not pull another. A force at a point is distributed
over the nodes of its region so that force and torque are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, InputError, IntArray, UnknownNameError, frozen
from marey.muscle.muscles.spline import HILL_CURVES, ActivationSpline, Embedding, SparseMatrix
from marey.muscle.muscles.transfer import (
    HillSegments,
    MuscleArrays,
    invert_by_rank,
    iterate_gradient,
    solve_gram_pcg,
    update_points,
)

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


def find_regions(
    splines: Sequence[ActivationSpline],
    bound: Sequence[Embedding],
    rest: FloatArray,
    graph: SparseMatrix,
    *,
    overlap: bool = True,
) -> Regions:
    """Regions of the points of splines; an empty one takes the nodes of its cell, a thin one its neighbours too.

    Args:
        splines: what has regions.
        bound: the samples of each, bound to the body.
        rest: nodes of the body ``(V, 3)`` [m].
        graph: lengths of its edges ``(V, V)`` [m], of :func:`make_edge_graph`.
        overlap: each spline has regions of its own; else a node goes to the nearest of all that take nearest nodes.
    """
    kinds = [_parse_region(spline, len(rest)) for spline in splines]
    # Distances of nodes from the points of each spline (N, V); infinite outside its regions.
    reached: list[FloatArray] = []
    for spline, at, (kind, radius, colour) in zip(splines, bound, kinds, strict=True):
        d = np.full((len(at.nodes), len(rest)), np.inf)
        if kind != "cell":
            p = at(rest)
            d = compute_node_distances(p, at, rest, graph, metric=spline.metric, limit=radius)
        reached.append(np.where(colour > 0.0, d, np.inf))
    least = [
        d.min(axis=0) if k[0] == "voronoi" else np.full(d.shape[1], np.inf) for d, k in zip(reached, kinds, strict=True)
    ]
    owners = np.argmin(np.array(least), axis=0)
    sets: list[IntArray] = []
    paint: list[FloatArray] = []
    for i, (at, d, (kind, _, colour)) in enumerate(zip(bound, reached, kinds, strict=True)):
        if kind == "voronoi":
            # Nodes whose nearest point is each; the first of equals.
            mine = d if overlap else np.where(owners == i, d, np.inf)
            owner = np.where(np.isfinite(mine).any(axis=0), np.argmin(mine, axis=0), -1)
            members = [np.flatnonzero(owner == k) for k in range(len(d))]
        else:
            members = list(at.nodes) if kind == "cell" else [np.flatnonzero(np.isfinite(row)) for row in d]
        for k, nodes in enumerate(members):
            region = nodes if len(nodes) else at.nodes[k]
            if is_thin(rest[region]):
                around = np.concatenate([graph.indices[graph.indptr[j] : graph.indptr[j + 1]] for j in region])
                region = np.unique(np.concatenate([region, around])).astype(np.int64)
            sets.append(region)
            paint.append(np.where(colour[region] > 0.0, colour[region], 1.0))
    starts = np.concatenate([[0], np.cumsum([len(s) for s in sets])]).astype(np.int64)
    return Regions(starts, np.concatenate(sets).astype(np.int64), np.concatenate(paint))


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


def is_thin(x: FloatArray) -> bool:
    """Whether points are one point or a line, so that no torque can be given to them."""
    r = x - x.mean(axis=0)
    moments = np.linalg.eigvalsh(np.eye(3) * np.sum(r * r) - r.T @ r)
    return bool(moments[0] <= MIN_INERTIA_RATIO * moments[2])


MAX_LEVER = 3.0  # [-] in spreads of a region: a point farther off its centre turns with it, else weights grow past ten
MIN_LEVER = 1e-8  # [-] of a region's size: rounding


@dataclass(frozen=True, slots=True, eq=False)
class HostBody:
    """The body that splines are compiled for."""

    nodes: FloatArray
    cells: NDArray[np.integer]
    masses: FloatArray
    density_kg_m3: float
    young_pa: float
    transfer: str
    overlap: bool
    force_scale: float


def distribute_forces(host: HostBody, bound: Embedding, regions: Regions) -> dict[str, NDArray[Any]]:
    r"""Loads of all points, one after another, as :class:`MuscleArrays` holds them.

    ``conservative`` is the least load over a region that keeps force and all first moments, torque among them:

    .. math:: \lambda_j = w_j\,\Big(1 + \sum_k \frac{q_k\,(e_k\cdot r_j)}{\sigma_k^2}\Big)

    with the point's way q from the centre, and the principal axes e_k and spreads sigma_k of the region. It is the
    solution of least :math:`\sum \|F_j\|^2/m_j`. Along axes where the way is longer than ``MAX_LEVER`` spreads the
    point turns with the region instead; where a region is a line that would have to turn, the cell carries the point.
    ``virtual_work`` loads the nodes of the cell by their weights, all others those of the region by their masses.
    """
    A, points, rest = regions.matrix(host.masses), bound(host.nodes), host.nodes
    rows: list[tuple[NDArray[Any], ...]] = []
    for i, point in enumerate(points):
        # A load by given weights alone.
        nodes, weights = bound.nodes[i], bound.weights[i]
        if host.transfer != "virtual_work":
            nodes, weights = regions.of(i), A.data[A.indptr[i] : A.indptr[i + 1]]
        shares, arms, offset = np.zeros(len(nodes)), np.zeros((len(nodes), 3)), np.zeros(3)
        if host.transfer == "conservative":
            shares = weights
            centre = shares @ rest[nodes]
            arms = rest[nodes] - centre
            squares, axes = np.linalg.eigh((shares[:, None] * arms).T @ arms)
            way = axes.T @ (point - centre)
            size = float(np.sqrt(max(squares.sum(), 0.0)))
            # Axes along which the region reaches the point by its own stretch; the rest of the way turns.
            near = (squares > (MIN_LEVER * size) ** 2) & (way**2 <= MAX_LEVER**2 * squares)
            slope = np.divide(way, squares, out=np.zeros(3), where=near)
            offset = axes @ np.where(near | (np.abs(way) <= MIN_LEVER * size), 0.0, way)
            weights = shares * (1.0 + arms @ (axes @ slope))
            if offset.any() and is_thin(rest[nodes]):
                nodes, weights, offset = bound.nodes[i], bound.weights[i], np.zeros(3)
                shares, arms = np.zeros(len(nodes)), np.zeros((len(nodes), 3))
        rows.append((nodes.astype(np.int64), weights, shares, arms, offset[None], np.array([int(offset.any())])))
    names = ("nodes", "weights", "shares", "rest_arms", "offsets", "turns")
    loads = {name: np.concatenate(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    return {"starts": np.concatenate([[0], np.cumsum([len(row[0]) for row in rows])]).astype(np.int64), **loads}


def compile_splines(host: HostBody, splines: Sequence[ActivationSpline]) -> tuple[MuscleArrays, Embedding, list[int]]:
    """Arrays for the kernels, where the samples lie, and how many each spline has."""
    # About one sample for each usual edge between neighbouring nodes.
    size = float(np.median(np.ptp(host.nodes[host.cells], axis=1).max(axis=1)))
    samples = [s.sample(s.samples or max(2, 1 + round(s.length / size))) for s in splines]
    bound = [Embedding.from_points(p, host.nodes, host.cells) for p in samples]
    parts = ("cells", "nodes", "weights", "outside")
    cells, nodes, weights, outside = (np.concatenate([getattr(b, name) for b in bound]) for name in parts)
    whole = Embedding(cells, nodes, weights, outside, bound[0].num_nodes)
    graph = make_edge_graph(host.nodes, host.cells)
    regions = find_regions(splines, bound, host.nodes, graph, overlap=host.overlap)
    loads = distribute_forces(host, whole, regions)
    # Masses that the points move; a node that several points of one spline share counts once for it.
    counts = [len(p) for p in samples]
    moved = regions.paint * host.masses[regions.nodes]
    region_masses = np.add.reduceat(moved, regions.starts[:-1])
    rows: list[tuple[NDArray[Any], ...]] = []
    first = 0
    for spline, p in zip(splines, samples, strict=True):
        last = first + len(p)
        mine = slice(regions.starts[first], regions.starts[last])
        shared = np.bincount(regions.nodes[mine], minlength=len(host.masses))[regions.nodes[mine]]
        shares = np.add.reduceat(moved[mine] / shared, regions.starts[first:last] - mine.start)
        rest = np.linalg.norm(np.diff(p, axis=0), axis=1)
        ones = np.ones(len(rest))
        # Stiffness r E A / l of segments: r times that of the part of the body around them. [Engell2012]_ §21
        inner = shares[1:-1] if len(shares) > 2 else shares
        area = float(np.median(inner)) / (host.density_kg_m3 * float(rest.mean()))
        own = np.full(len(rest), spline.stiffness) if spline.stiffness else spline.ratio * host.young_pa * area / rest
        k = host.force_scale * own
        # Damping that is critical, at a ratio of one, for the reduced mass of what hangs on both ends.
        m = region_masses[first:last]
        c = 2.0 * spline.damping_ratio * np.sqrt(k * (m[1:] * m[:-1] / (m[1:] + m[:-1])))
        force = host.force_scale * spline.force_n * ones if spline.force_n else k * (1.0 - spline.alpha_min) * rest
        numbers = first + np.arange(len(p))
        rows.append(
            (
                np.stack([numbers[:-1], numbers[1:]], axis=1),
                rest,
                k,
                c,
                np.full(len(rest), int(spline.law == "hill")),
                force,
                spline.optimal_length * rest,
                spline.speed_per_s * ones,
                spline.alpha_min * ones,
                np.full(len(rest), HILL_CURVES.index(spline.curves)),
            )
        )
        first = last
    pairs, rest, k, c, laws, *hill = (np.concatenate(column) for column in zip(*rows, strict=True))
    count = len(whole.nodes)
    # How forces of points are mixed before the transpose spreads them; empty where they are not
    A = regions.matrix(host.masses)
    if host.transfer not in ("pinv", "gradient", "pcg"):
        mixing = np.zeros((0, 0))
    else:
        gram = np.asarray((A @ A.T).toarray())
        if host.transfer == "pinv":
            mixing = invert_by_rank(gram)
        elif host.transfer == "gradient":
            mixing = iterate_gradient(gram)
        else:
            feasible = gram @ invert_by_rank(gram)
            mixing = feasible @ solve_gram_pcg(gram, feasible)
    arrays = MuscleArrays(
        **loads,
        cells_carry=np.array([int(host.transfer not in ("conservative", "virtual_work"))]),
        cell_starts=whole.starts,
        cell_nodes=whole.nodes.ravel(),
        cell_weights=whole.weights.ravel(),
        segments=pairs,
        rest=rest,
        stiffness=k,
        damping=c,
        laws=laws,
        hill=HillSegments(*hill),
        mix=mixing,
        points=np.zeros((count, 3)),
        velocities=np.zeros((count, 3)),
        levers=np.zeros((count, 3)),
        frames=np.tile(np.eye(3), (count, 1, 1)),
        arms=np.zeros((len(loads["nodes"]), 3)),
        inverses=np.zeros((count, 3, 3)),
        directions=np.zeros((len(rest), 3)),
        buffer=np.zeros((2, count, 3)),
    )
    update_points(arrays, np.array(host.nodes))  # writable, as in a step: a kernel is compiled for each kind
    return arrays, whole, counts
