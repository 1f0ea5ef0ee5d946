r"""Splines of a body as matrices, and what their transfer adds to the momentum: what the kernels must agree with.

With the transfer T and the embedding W of points, :math:`F = T f(W x, W v, \alpha)`; the operators that turn with the
body are held still. [Engell2012]_ §25.4; blocks of springs are those of §27.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from marey.base import FloatArray
from marey.muscle import Muscles
from marey.muscle.muscles.spline import SparseMatrix


def measure_momentum_defect(
    muscles: Muscles, point_forces: FloatArray, x: FloatArray | None = None
) -> tuple[float, float]:
    r"""Net force and torque that the transfer adds, over :math:`\sum\|f\|` and :math:`\sum\|p\|\|f\|`."""
    at = muscles.rest_nodes if x is None else x
    nodal, p = muscles.spread(point_forces, at), muscles.acting_points(at)
    force = np.linalg.norm(nodal.sum(axis=0) - point_forces.sum(axis=0))
    torque = np.linalg.norm(np.cross(at, nodal).sum(axis=0) - np.cross(p, point_forces).sum(axis=0))
    sizes = np.linalg.norm(point_forces, axis=1)
    arm = float(np.max(np.linalg.norm(at - at.mean(axis=0), axis=1)))
    return float(force / sizes.sum()), float(torque / (arm * sizes.sum()))


def _segment_directions(muscles: Muscles, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Unit directions ``(S, 3)`` and lengths ``(S,)`` [m] of segments."""
    p = muscles.points(x)
    pairs = muscles.arrays.segments
    d = p[pairs[:, 1]] - p[pairs[:, 0]]
    lengths = np.maximum(np.linalg.norm(d, axis=1), 1e-9 * muscles.arrays.rest)
    return d / lengths[:, None], lengths


def make_transfer_matrix(muscles: Muscles, x: FloatArray) -> SparseMatrix:
    """The transfer as a matrix ``(3V, 3N)``: of unit forces at points."""
    if muscles.transfer == "virtual_work":
        return sparse.kron(muscles.embedding.matrix().T, sparse.eye_array(3), format="csr")
    count = len(muscles.arrays.points)
    columns = np.zeros((3 * len(x), 3 * count))
    for i in range(3 * count):
        unit = np.zeros((count, 3))
        unit[i // 3, i % 3] = 1.0
        columns[:, i] = muscles.spread(unit, x).ravel()
    return sparse.csr_array(columns)


def _point_matrix(muscles: Muscles, blocks: FloatArray) -> SparseMatrix:
    """Blocks of segments ``(S, 3, 3)`` as the matrix of a network of springs ``(3N, 3N)``."""
    pairs, count = muscles.arrays.segments, len(muscles.arrays.points)
    rows = np.concatenate([pairs[:, 0], pairs[:, 1], pairs[:, 0], pairs[:, 1]])
    columns = np.concatenate([pairs[:, 0], pairs[:, 1], pairs[:, 1], pairs[:, 0]])
    values = np.concatenate([blocks, blocks, -blocks, -blocks])
    order = np.argsort(rows, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))])
    return sparse.csr_array(sparse.bsr_array((values[order], columns[order], starts), shape=(3 * count, 3 * count)))


def compute_spring_energy(muscles: Muscles, x: FloatArray, alpha: ArrayLike) -> float:
    r"""Energy of the springs :math:`\sum \tfrac12 k (l - \alpha l_0)^2` [J], of which virtual work is the slope."""
    _, lengths = _segment_directions(muscles, x)
    return float(0.5 * np.sum(muscles.arrays.stiffness * (lengths - muscles.alphas(alpha) * muscles.arrays.rest) ** 2))


def make_stiffness_matrix(muscles: Muscles, x: FloatArray, alpha: ArrayLike) -> SparseMatrix:
    """Minus the derivative of the forces by positions ``(3V, 3V)`` [N/m]; exact for virtual work."""
    e, lengths = _segment_directions(muscles, x)
    k, rest = muscles.arrays.stiffness, muscles.arrays.rest
    outer = e[:, :, None] * e[:, None, :]
    # k ee^T + k (1 - alpha l0/l)(1 - ee^T) of each segment
    across = k * (1.0 - muscles.alphas(alpha) * rest / lengths)
    blocks = (k - across)[:, None, None] * outer + across[:, None, None] * np.eye(3)
    W = sparse.kron(muscles.embedding.matrix(), sparse.eye_array(3), format="csr")
    return sparse.csr_array(make_transfer_matrix(muscles, x) @ _point_matrix(muscles, blocks) @ W)


def make_damping_matrix(muscles: Muscles, x: FloatArray) -> SparseMatrix:
    """Minus the derivative of the forces by velocities ``(3V, 3V)`` [N s/m]."""
    e, _ = _segment_directions(muscles, x)
    blocks = muscles.arrays.damping[:, None, None] * e[:, :, None] * e[:, None, :]
    T = make_transfer_matrix(muscles, x)
    return sparse.csr_array(T @ _point_matrix(muscles, blocks) @ T.T)


def differentiate_by_alpha(muscles: Muscles, x: FloatArray) -> SparseMatrix:
    r"""Derivative of the forces by each contraction ``(3V, S)`` [N]: :math:`+k l_0 e` at the far point of a segment."""
    e, _ = _segment_directions(muscles, x)
    pull = (muscles.arrays.stiffness * muscles.arrays.rest)[:, None] * e
    pairs, count = muscles.arrays.segments, len(e)
    rows = np.concatenate([(3 * pairs[:, [1]] + np.arange(3)).ravel(), (3 * pairs[:, [0]] + np.arange(3)).ravel()])
    columns = np.tile(np.repeat(np.arange(count), 3), 2)
    values = np.concatenate([pull.ravel(), -pull.ravel()])
    G = sparse.csr_array((values, (rows, columns)), shape=(3 * len(muscles.arrays.points), count))
    return sparse.csr_array(make_transfer_matrix(muscles, x) @ G)
