"""Weights of particles: likelihood in log space, effective number, systematic resampling."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray


def normalise_log_weights(log_weights: FloatArray) -> FloatArray:
    r"""Subtract :math:`\log\sum_i e^{l_i}`, with the largest taken out first, so that nothing over- or underflows."""
    shifted = log_weights - log_weights.max()
    return shifted - np.log(np.exp(shifted).sum())


def exponentiate_log_weights(log_weights: FloatArray) -> FloatArray:
    """Weights ``(N,)`` that sum to one."""
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()


def compute_effective_size(weights: FloatArray) -> float:
    r"""How many particles really count, :math:`1/\sum_i w_i^2`: between 1 and N."""
    return float(1.0 / np.sum(weights**2))


def resample_systematic(weights: FloatArray, rng: np.random.Generator) -> IntArray:
    r"""Choose N particles with one draw: the i-th is where the cumulated weight passes :math:`(i + u)/N`.

    Particle i is chosen :math:`\lfloor N w_i \rfloor` or :math:`\lceil N w_i \rceil` times.
    """
    count = len(weights)
    comb = (np.arange(count) + rng.random()) / count
    return np.minimum(np.searchsorted(np.cumsum(weights), comb, side="right"), count - 1).astype(np.int64)


def compute_reprojection_energies(
    projected: FloatArray, pixels: FloatArray, trust: FloatArray, robust_px: float
) -> tuple[FloatArray, FloatArray]:
    r"""Energy ``(N,)`` [px²] and root mean square distance ``(N,)`` [px] of projected points ``(N, K, 2)``.

    .. math:: E = \sum_k c_k\,\rho(\|\pi(p_k) - z_k\|), \qquad \rho(r) = \frac{r^2}{1 + r^2/s^2}

    ρ is that of Geman and McClure: a stray detection costs at most :math:`s^2`. Without any trust both are zero.
    """
    squares = np.sum((projected - pixels) ** 2, axis=-1)
    robust = squares / (1.0 + squares / robust_px**2)
    total = float(trust.sum())
    return robust @ trust, np.sqrt(squares @ trust / total) if total > 0.0 else np.zeros(len(projected))
