"""From splines and a body to compiled arrays: samples, regions, stiffness and damping of segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, IntArray
from marey.muscle.muscles.embedding import Embedding, is_flat, is_simplex
from marey.muscle.muscles.regions import (
    ForceDistribution,
    HostGeometry,
    Regions,
    distribute_by_region,
    distribute_by_weights,
    find_regions,
    make_edge_graph,
)
from marey.muscle.muscles.spline import HILL_CURVES, ActivationSpline
from marey.muscle.muscles.transfer import MuscleArrays, make_mixing_matrix, update_points

HILL_DAMPING = 0.1  # [-] viscous part of a Hill-type segment


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


@dataclass(frozen=True, slots=True, eq=False)
class SegmentProperties:
    """What the segments of all splines are like."""

    pairs: IntArray  # (S, 2)
    rest: FloatArray
    stiffness: FloatArray
    damping: FloatArray
    laws: IntArray
    hill: FloatArray  # (S, 6)


def compute_lumped_masses(nodes: FloatArray, cells: NDArray[np.integer], density_kg_m3: float) -> FloatArray:
    """An equal part of each cell's mass for each of its nodes ``(V,)`` [kg]; squares are as thick as wide."""
    corners = nodes[cells]
    if is_simplex(nodes, cells):
        edges = corners[:, 1:] - corners[:, :1]
        sizes = np.abs(np.linalg.det(edges)) / 6.0 if cells.shape[1] == 4 else _triangle_areas(edges)
    else:
        spans = np.ptp(corners, axis=1)
        sizes = spans[:, 0] ** 2 * spans[:, 1] if is_flat(nodes) else np.prod(spans, axis=1)
    parts = np.repeat(density_kg_m3 * sizes / cells.shape[1], cells.shape[1])
    return np.bincount(cells.ravel(), weights=parts, minlength=len(nodes)).astype(np.float64)


def _triangle_areas(edges: FloatArray) -> FloatArray:
    return 0.5 * np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=1)  # [m^2], one metre thick


def compile_splines(host: HostBody, splines: Sequence[ActivationSpline]) -> tuple[MuscleArrays, Embedding, list[int]]:
    """Arrays for the kernels, where the samples lie, and how many each spline has."""
    # About one sample for each usual edge between neighbouring nodes.
    size = float(np.median(np.ptp(host.nodes[host.cells], axis=1).max(axis=1)))
    samples = [s.sample(s.samples or max(2, 1 + round(s.length / size))) for s in splines]
    bound = [Embedding.from_points(p, host.nodes, host.cells) for p in samples]
    flesh = HostGeometry(host.nodes, make_edge_graph(host.nodes, host.cells))
    regions = find_regions(splines, bound, flesh, overlap=host.overlap)
    counts = [len(p) for p in samples]
    whole = _join_embeddings(bound)
    s = _segment_properties(host, splines, samples, regions)
    load = _force_distribution(host, whole, regions)
    count = len(whole.nodes)
    arrays = MuscleArrays(
        starts=load.starts,
        nodes=load.nodes,
        weights=load.weights,
        shares=load.shares,
        cells_carry=np.array([int(host.transfer not in ("conservative", "virtual_work"))]),
        turns=load.turns,
        cell_starts=whole.starts,
        cell_nodes=whole.nodes.ravel(),
        cell_weights=whole.weights.ravel(),
        segments=s.pairs,
        rest=s.rest,
        stiffness=s.stiffness,
        damping=s.damping,
        laws=s.laws,
        hill=s.hill,
        mix=make_mixing_matrix(host.transfer, regions.matrix(host.masses)),
        rest_arms=load.arms,
        offsets=load.offsets,
        points=np.zeros((count, 3)),
        velocities=np.zeros((count, 3)),
        levers=np.zeros((count, 3)),
        frames=np.tile(np.eye(3), (count, 1, 1)),
        arms=np.zeros((len(load.nodes), 3)),
        inverses=np.zeros((count, 3, 3)),
        directions=np.zeros((len(s.rest), 3)),
        buffer=np.zeros((2, count, 3)),
    )
    update_points(arrays, np.array(host.nodes))  # writable, as in a step: a kernel is compiled for each kind
    return arrays, whole, counts


def _join_embeddings(bound: list[Embedding]) -> Embedding:
    parts = ("cells", "nodes", "weights", "outside")
    cells, nodes, weights, outside = (np.concatenate([getattr(b, name) for b in bound]) for name in parts)
    return Embedding(cells, nodes, weights, outside, bound[0].num_nodes)


def _segment_properties(
    host: HostBody, splines: Sequence[ActivationSpline], samples: list[FloatArray], regions: Regions
) -> SegmentProperties:
    moved = regions.paint * host.masses[regions.nodes]
    region_masses = np.add.reduceat(moved, regions.starts[:-1])
    rows: list[tuple[IntArray, FloatArray, FloatArray, FloatArray, IntArray, FloatArray]] = []
    first = 0
    for spline, p in zip(splines, samples, strict=True):
        own = region_masses[first : first + len(p)]
        mine = slice(regions.starts[first], regions.starts[first + len(p)])
        shared = np.bincount(regions.nodes[mine], minlength=len(host.masses))[regions.nodes[mine]]
        shares = np.add.reduceat(moved[mine] / shared, regions.starts[first : first + len(p)] - mine.start)
        numbers = first + np.arange(len(p))
        rest = np.linalg.norm(np.diff(p, axis=0), axis=1)
        k = np.full(len(rest), spline.stiffness) if spline.stiffness else _host_stiffness(host, spline, rest, shares)
        k = host.force_scale * k
        reduced = own[1:] * own[:-1] / (own[1:] + own[:-1])
        c = 2.0 * spline.damping_ratio * np.sqrt(k * reduced)
        law = np.full(len(rest), int(spline.law == "hill"))
        top = (
            np.full(len(rest), host.force_scale * spline.force_n)
            if spline.force_n
            else k * (1.0 - spline.alpha_min) * rest
        )
        ones = np.ones(len(rest))
        rows.append(
            (
                np.stack([numbers[:-1], numbers[1:]], axis=1),
                rest,
                k,
                c,
                law,
                np.stack(
                    [
                        top,
                        spline.optimal_length * rest,
                        spline.speed_per_s * ones,
                        HILL_DAMPING * ones,
                        HILL_CURVES.index(spline.curves) * ones,
                        spline.alpha_min * ones,
                    ],
                    axis=1,
                ),
            )
        )
        first += len(p)
    pairs, rest, k, c, laws, hill = (np.concatenate(column) for column in zip(*rows, strict=True))
    return SegmentProperties(pairs, rest, k, c, laws, hill)


def _host_stiffness(host: HostBody, spline: ActivationSpline, rest: FloatArray, masses: FloatArray) -> FloatArray:
    r"""Stiffness :math:`r E A / l` of segments: r times that of the part of the body around them. [Engell2012]_ §21."""
    inner = masses[1:-1] if len(masses) > 2 else masses
    area = float(np.median(inner)) / (host.density_kg_m3 * float(rest.mean()))
    return spline.ratio * host.young_pa * area / rest


def _force_distribution(host: HostBody, bound: Embedding, regions: Regions) -> ForceDistribution:
    """How each point's force goes to nodes, by the name of the transfer."""
    cells = [(bound.nodes[i], bound.weights[i]) for i in range(len(bound.nodes))]
    if host.transfer == "virtual_work":
        return ForceDistribution.join([distribute_by_weights(*cell) for cell in cells])
    A = regions.matrix(host.masses)
    shares = [(regions.of(i), A.data[A.indptr[i] : A.indptr[i + 1]]) for i in range(len(regions))]
    if host.transfer != "conservative":
        return ForceDistribution.join([distribute_by_weights(*share) for share in shares])
    points = bound(host.nodes)
    return ForceDistribution.join(
        [
            distribute_by_region(*share, points[i], host.nodes) or distribute_by_weights(*cells[i])
            for i, share in enumerate(shares)
        ]
    )
