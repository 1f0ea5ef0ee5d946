r"""From forces at the points of splines to forces at the nodes of a body, by name. [Engell2012]_ §20.4.

The thesis asks that the force of a point be the average over its region, :math:`b = A F`, with the least F:
``pinv`` :math:`A^T (A A^T)^{-1} b`, by ``pcg`` or ``gradient`` steps, or ``transpose`` :math:`A^T b`. Regions of
different size then push the body as a whole. ``conservative`` keeps force and torque, ``virtual_work`` too, on the
nodes of one cell. As ``pinv`` gives a region of n nodes n times the force, its stiffness k is k n of the others.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import ConvergenceError, FloatArray, InputError
from marey.muscle._embedding import SparseMatrix

TRANSFERS: Final = ("conservative", "virtual_work", "transpose", "pinv", "gradient", "pcg")
RANK_TOL: Final = 1e-10  # [-] eigenvalues below this part of the largest belong to points that share a region
GRADIENT_STEPS: Final = 200
SOLVE_TOL: Final = 1e-11  # [-] of the right-hand side


def compute_gram(A: SparseMatrix) -> FloatArray:
    """The small matrix A A^T ``(N, N)``."""
    return np.asarray((A @ A.T).toarray())


def invert_by_rank(gram: FloatArray) -> FloatArray:
    """Inverse of A A^T where it has one: points with the same region count as one."""
    values, vectors = np.linalg.eigh(gram)
    keep = values > RANK_TOL * values[-1]
    return (vectors[:, keep] / values[keep]) @ vectors[:, keep].T


def iterate_gradient(gram: FloatArray, steps: int = GRADIENT_STEPS) -> FloatArray:
    r"""The matrix of Eq. 91 after some steps of :math:`\lambda \leftarrow \lambda + b - A A^T \lambda`.

    Raises:
        InputError: :math:`A A^T` has an eigenvalue of 2 or more, where the steps grow; the thesis does not say so.
    """
    largest = float(np.linalg.eigvalsh(gram)[-1])
    if largest >= 2.0:
        raise InputError(f"the largest eigenvalue of A A^T is {largest:.3g}: gradient steps grow", "Use 'pinv'")
    mix, error = np.zeros_like(gram), np.eye(len(gram)) - gram
    for _ in range(steps):
        mix = np.eye(len(gram)) + error @ mix
    return mix


def solve_gram_pcg(gram: FloatArray, b: FloatArray) -> FloatArray:
    """Solve A A^T y = b ``(N, D)`` by conjugate gradients with the diagonal as preconditioner.

    Raises:
        ConvergenceError: the residual stays above ``SOLVE_TOL``: b is no average over regions that share nodes.
    """
    diagonal = np.diag(gram)[:, None]
    y, r = np.zeros_like(b), b.copy()
    z = r / diagonal
    p, rz = z.copy(), np.sum(r * z, axis=0)
    goal = SOLVE_TOL * np.linalg.norm(b)
    for _ in range(10 * len(gram) + 20):
        if np.linalg.norm(r) <= goal:
            return y
        q = gram @ p
        bend = np.sum(p * q, axis=0)
        step = np.divide(rz, bend, out=np.zeros_like(rz), where=bend > 0.0)
        y, r = y + step * p, r - step * q
        z, last = r / diagonal, rz
        rz = np.sum(r * z, axis=0)
        p = z + np.divide(rz, last, out=np.zeros_like(rz), where=last > 0.0) * p
    raise ConvergenceError("conjugate gradients did not settle: points share a region. Use 'pinv'", report=y)


def make_mixing_matrix(method: str, A: SparseMatrix) -> FloatArray:
    """How forces of points are mixed before the transpose spreads them ``(N, N)``; empty where they are not."""
    if method not in ("pinv", "gradient", "pcg"):
        return np.zeros((0, 0))
    gram = compute_gram(A)
    if method == "pinv":
        return invert_by_rank(gram)
    if method == "gradient":
        return iterate_gradient(gram)
    feasible = gram @ invert_by_rank(gram)
    return feasible @ solve_gram_pcg(gram, feasible)


def compute_effective_counts(A: SparseMatrix) -> FloatArray:
    r"""Effective number of nodes of each region, :math:`\nu_i = M_i^2/\sum m^2` ``(N,)``."""
    return 1.0 / np.asarray(A.multiply(A).sum(axis=1)).ravel()
