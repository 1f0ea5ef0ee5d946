"""How a force at a point is spread over nodes so that force and torque are kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray, IntArray
from marey.muscle._regions import is_thin

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
