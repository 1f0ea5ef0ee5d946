"""Regions that move as if they were rigid: the coarse half of a two-level preconditioner."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.muscle._assembly import BlockMatrix
from marey.muscle._assembly_scipy import compute_graph_distances, load_sparse
from marey.muscle._mesh import IndexArray
from marey.muscle._solver import FREE, BoneArrays, CoarseSpace

NODES_PER_REGION: Final = 60
MAX_REGIONS: Final = 36  # the matrix of regions is dense: six rows each


def make_coarse_space(nodes: FloatArray, blocks: BlockMatrix, carriers: IndexArray, bones: BoneArrays) -> CoarseSpace:
    """Cut the free nodes (V, 3) into regions, along the edges of the matrix; each bone is one more."""
    labels = _partition_nodes(nodes, blocks, carriers)
    regions, size = int(labels.max(initial=-1)) + 1, len(bones.moves)
    carried = carriers >= 0
    labels[carried] = regions + carriers[carried]
    rates = len(bones.screws)
    raw, whole = np.zeros((6 * (regions + size), 6 * (regions + size))), 6 * regions + rates
    row = np.zeros((regions + size, 3, 6))
    return CoarseSpace(
        labels, regions, np.zeros_like(nodes), raw, np.zeros((whole, whole)), np.zeros((2, whole)), row,
        np.zeros(regions + size, dtype=np.int32),
    )  # fmt: skip


def _partition_nodes(nodes: FloatArray, blocks: BlockMatrix, carriers: IndexArray) -> IndexArray:
    """Region of each free node (V,), -1 elsewhere: seeds farthest from one another, then the nearest seed."""
    starts, columns, _ = blocks
    rows = np.repeat(np.arange(len(nodes)), np.diff(starts))
    free = (carriers[rows] == FREE) & (carriers[columns] == FREE)
    lengths = np.linalg.norm(nodes[rows[free]] - nodes[columns[free]], axis=1)
    shape = (len(nodes), len(nodes))
    graph = load_sparse().csr_array((lengths + 1e-12, (rows[free], columns[free])), shape=shape)
    inside = carriers == FREE
    count = min(MAX_REGIONS, -(-int(inside.sum()) // NODES_PER_REGION))
    labels = np.full(len(nodes), -1, dtype=np.int32)
    nearest = np.where(inside, np.inf, -1.0)
    for number in range(count):
        seed = int(np.argmax(nearest))
        found = compute_graph_distances(graph, seed)
        closer = inside & (found < nearest)
        labels[closer] = number
        nearest[closer] = found[closer]
        nearest[seed] = 0.0
    return labels
