"""The intrinsic mean of rotations."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from marey.base import ConvergenceError, FloatArray, InputError, frozen
from marey.lie._so3 import SO3

MEAN_STEP_TOL = 1e-12  # [rad] a decade above the rounding of a mean of logarithms
HALVING_START = 20  # [iterations] a mean that has not settled by then swings to and fro; shorter steps stop it


def frechet_mean(rotations: SO3, *, weights: ArrayLike | None = None, max_iterations: int = 100) -> SO3:
    r"""Intrinsic mean of rotations over the first batch axis.

    .. math:: \mu_{k+1} = \mu_k \exp\Big(\sum_{i=1}^m w_i \log(\mu_k^{-1} x_i)\Big), \qquad \sum_i w_i = 1

    Body-frame iteration of [Tournier2011]_ §8.1.1, after [Pennec2006]_. The mean is unique when the samples fit in an
    open ball of radius π/2; we do not check this. The source starts at the identity; we start at the chordal mean, the
    largest eigenvector of :math:`\sum_i w_i q_i q_i^T`, and halve the step after 20 iterations without an end.

    Args:
        rotations: samples, batch ``(m, ...)``; the mean has batch ``(...)``.
        weights: ``(m,)`` or any shape that broadcasts against the batch from the left, not negative; equal by default.
        max_iterations: about 5 suffice for the joints of a walk.

    Raises:
        ConvergenceError: the step is still above ``MEAN_STEP_TOL`` [rad]; the samples are probably spread over more
            than half of the group.
    """
    if not rotations.shape or len(rotations) == 0:
        raise InputError(f"a mean of no rotations (batch {rotations.shape})", "Give at least one sample")
    share = _shares(rotations, weights)
    mean = _chordal_mean(rotations, share)
    step = np.zeros((*mean.shape, 3))
    for iteration in range(max_iterations):
        step = np.sum(share[..., None] * (mean.inverse() @ rotations).log(), axis=0)
        mean = mean @ SO3.exp(step if iteration < HALVING_START else 0.5 * step)
        if np.linalg.norm(step, axis=-1).max(initial=0.0) < MEAN_STEP_TOL:
            return mean
    raise ConvergenceError(f"Fréchet mean did not settle in {max_iterations} iterations", report=step)


def _shares(rotations: SO3, weights: ArrayLike | None) -> FloatArray:
    """Weights over the whole batch that sum to one along the first axis."""
    if weights is None:
        return np.full(rotations.shape, 1.0 / len(rotations))
    given = frozen(weights, name="weights")
    padded = given.reshape(given.shape + (1,) * (len(rotations.shape) - given.ndim))
    try:
        full = np.broadcast_to(padded, rotations.shape)
    except ValueError:
        raise InputError(f"weights have shape {given.shape}, the samples {rotations.shape}") from None
    total = full.sum(axis=0)
    if np.any(full < 0.0) or np.any(total <= 0.0):
        raise InputError("weights are negative or sum to zero", "Give numbers that are not negative, one positive")
    return full / total


def _chordal_mean(rotations: SO3, share: FloatArray) -> SO3:
    moments = np.einsum("m...,m...i,m...j->...ij", share, rotations.wxyz, rotations.wxyz)
    return SO3(np.linalg.eigh(moments)[1][..., -1])
