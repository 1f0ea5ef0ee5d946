"""Finding joints of two angles: the two axes about which all rotations of a track turn."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray

GAUSS_NEWTON_STEPS = 25
LARGEST_COSINE = 0.9  # axes nearer to one another than this do not tell two angles apart


def fit_universal_axes(matrices: FloatArray) -> tuple[FloatArray, FloatArray, float] | None:
    r"""Axes ``a`` (parent's frame) and ``b`` (joint's frame) for which :math:`a^T R_t\,b` changes least with time.

    A joint is universal, :math:`R = e^{\alpha a} M e^{\beta b}`, exactly if :math:`a^T R\,b` is constant. The variance
    is a quadratic form of :math:`a \otimes b` in the covariance of the nine entries; we descend by Gauss-Newton from
    pairs that are perpendicular in the mean pose.

    Args:
        matrices: rotations ``(F, 3, 3)``.

    Returns:
        a, b and the mean of :math:`a^T R\,b`, or ``None`` if the best axes are nearly one.
    """
    entries = matrices.reshape(-1, 9)
    mean = entries.mean(axis=0)
    centred = entries - mean
    moments = centred.T @ centred / len(entries)
    a, b = _starting_axes(mean.reshape(3, 3))
    for _ in range(GAUSS_NEWTON_STEPS):
        a, b = _gauss_newton_step(moments, a, b)
    products = np.einsum("si,sj->sij", a, b).reshape(-1, 9)
    variances = np.einsum("si,ij,sj->s", products, moments, products)
    cosines = products @ mean
    variances[np.abs(cosines) > LARGEST_COSINE] = np.inf
    best = int(np.argmin(variances))
    return None if not np.isfinite(variances[best]) else (a[best], b[best], float(cosines[best]))


def _starting_axes(mean: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Pairs ``(S, 3)`` of axes that are perpendicular in the mean pose, all around."""
    grid = np.array([(x, y, z) for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1) if (x, y, z) > (0, 0, 0)])
    b = np.repeat(grid / np.linalg.norm(grid, axis=1)[:, None], 4, axis=0)
    first, second = _tangent_vectors(b @ mean.T)
    angles = np.tile(np.arange(4) * np.pi / 4.0, len(grid))[:, None]
    return np.cos(angles) * first + np.sin(angles) * second, b


def _tangent_vectors(unit: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Two unit vectors across each vector ``(S, 3)``."""
    helper = np.eye(3)[np.argmin(np.abs(unit), axis=1)]
    first = np.cross(unit, helper)
    first /= np.linalg.norm(first, axis=1)[:, None]
    second = np.cross(unit, first)
    return first, second / np.maximum(np.linalg.norm(second, axis=1)[:, None], 1e-12)


def _gauss_newton_step(moments: FloatArray, a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    a1, a2 = _tangent_vectors(a)
    b1, b2 = _tangent_vectors(b)
    pairs = ((a1, b), (a2, b), (a, b1), (a, b2), (a, b))
    rows = np.stack([np.einsum("si,sj->sij", x, y).reshape(-1, 9) for x, y in pairs], axis=1)
    gram = np.einsum("spi,ij,sqj->spq", rows, moments, rows)
    damped = gram[:, :4, :4] + (1e-9 * np.trace(gram, axis1=1, axis2=2) + 1e-300)[:, None, None] * np.eye(4)
    move: FloatArray = -np.asarray(np.linalg.solve(damped, gram[:, :4, 4:]), dtype=np.float64)[..., 0]
    move *= np.minimum(1.0, 0.5 / np.maximum(np.abs(move).max(axis=1), 1e-300))[:, None]
    a = a + move[:, :1] * a1 + move[:, 1:2] * a2
    b = b + move[:, 2:3] * b1 + move[:, 3:] * b2
    return a / np.linalg.norm(a, axis=1)[:, None], b / np.linalg.norm(b, axis=1)[:, None]
