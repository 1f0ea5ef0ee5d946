"""Principal components of rows of numbers: the kernel of hierarchical models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen
from marey.models._geodesic import check_name
from marey.models._spectrum import check_choice, choose_count

ROUTES = ("svd", "gram")
SCALINGS = ("covariance", "correlation")
DROPPED = 1e-12  # [-] of the largest variance; [Glardon2005]_ App. B never divides by what lies below


@dataclass(frozen=True, slots=True, eq=False)
class Components:
    r"""A mean row and orthonormal directions: :math:`\theta \approx \theta_0 + \alpha E^T`, [Glardon2005]_ §II.1.2."""

    mean: FloatArray  # (p,)
    directions: FloatArray  # (p, k) orthonormal in the scaled columns
    scales: FloatArray  # (p,) each column was multiplied by this
    variances: FloatArray  # (k,) of the scores, divided by the number of rows
    shares: FloatArray  # (k,) of the whole variance

    def scores(self, rows: ArrayLike) -> FloatArray:
        """Scores ``(..., k)`` of rows ``(..., p)``."""
        return (np.asarray(rows, dtype=np.float64) - self.mean) * self.scales @ self.directions

    def rows(self, scores: ArrayLike) -> FloatArray:
        """Rows ``(..., p)`` of scores ``(..., k)``."""
        return self.mean + np.asarray(scores, dtype=np.float64) @ self.lifting

    @property
    def lifting(self) -> FloatArray:
        """Change of a row ``(k, p)`` per unit of each score."""
        return self.directions.T / self.scales

    @property
    def count(self) -> int:
        """How many components were kept."""
        return self.directions.shape[1]


def principal_components(
    table: ArrayLike,
    *,
    n_components: int | None = None,
    explained: float = 0.95,
    route: str = "svd",
    scaling: str = "covariance",
    weights: ArrayLike | None = None,
) -> Components:
    """Principal components of rows ``(n, p)``, where ``n`` is usually far smaller than ``p``.

    Args:
        table: one row a motion unit. A single row gives its own mean and no component.
        n_components: how many to keep; as many as ``explained`` needs by default.
        explained: share of the variance to keep.
        route: ``"svd"`` of the table, or eigenvectors of its ``"gram"`` matrix lifted back: algorithms 1 and 2 of
            [Glardon2005]_ App. B.
        scaling: ``"covariance"`` takes columns as they are, ``"correlation"`` divides each by its deviation.
        weights: ``(p,)`` positive weight of each column; lower those that are noisy.
    """
    check_choice(n_components, explained)
    check_name("route", route, ROUTES)
    check_name("scaling", scaling, SCALINGS)
    rows = frozen(table, None, None, name="table")
    if len(rows) == 0:
        raise InputError("principal components of no rows", "Give at least one")
    mean = rows.mean(axis=0)
    scales = _scales(rows, scaling, weights)
    variances, directions = (_decompose_by_svd if route == "svd" else _decompose_by_gram)((rows - mean) * scales)
    kept = variances > DROPPED * max(float(variances.max(initial=0.0)), np.finfo(float).tiny / DROPPED)
    variances, directions = variances[kept], directions[:, kept]
    shares = variances / variances.sum() if variances.size else variances
    count = choose_count(shares, n_components, explained)
    return Components(mean, _fix_signs(directions[:, :count]), scales, variances[:count], shares[:count])


def _decompose_by_svd(centred: FloatArray) -> tuple[FloatArray, FloatArray]:
    _, s, vt = np.linalg.svd(centred, full_matrices=False)
    return s**2 / len(centred), vt.T


def _decompose_by_gram(centred: FloatArray) -> tuple[FloatArray, FloatArray]:
    values, vectors = np.linalg.eigh(centred @ centred.T)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    is_alive = values > DROPPED * values.max(initial=0.0)
    lifted = centred.T @ vectors[:, is_alive] / np.sqrt(values[is_alive])
    return values[is_alive] / len(centred), lifted


def _scales(rows: FloatArray, scaling: str, weights: ArrayLike | None) -> FloatArray:
    scales = np.ones(rows.shape[1]) if weights is None else frozen(weights, rows.shape[1], name="weights")
    if np.any(scales <= 0.0):
        raise InputError("a weight is zero or negative", "Give positive weights; a small one for a noisy column")
    if scaling == "covariance":
        return scales
    deviations = rows.std(axis=0)
    return scales / np.where(deviations > 0.0, deviations, 1.0)


def _fix_signs(directions: FloatArray) -> FloatArray:
    """Fix signs: the entry of largest size is positive."""
    largest = np.argmax(np.abs(directions), axis=0)
    return directions * np.where(directions[largest, np.arange(directions.shape[1])] < 0.0, -1.0, 1.0)


def joint_shares(direction: ArrayLike, num_joints: int) -> FloatArray:
    """Share of each joint ``(J,)`` in a direction over frames, joints and axes ``(F * J * 3,)``.

    A joint that makes more than half of a first component is a glitch or a wrap rather than a style.
    """
    parts = frozen(direction, name="direction")
    if parts.size % (3 * num_joints):
        raise InputError(f"a direction of {parts.size} numbers for {num_joints} joints", "Give frames x joints x 3")
    squares = (parts.reshape(-1, num_joints, 3) ** 2).sum(axis=(0, 2))
    return squares / max(float(squares.sum()), 1e-300)
