"""The intrinsic mean of rotations."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from marey.base import ConvergenceError, FloatArray, InputError, frozen
from marey.lie._coefficients import half_cotangent_remainder
from marey.lie._quaternions import norm
from marey.lie._so3 import SO3

MEAN_STEP_TOL = 1e-12  # [rad] a decade above the rounding of a mean of logarithms
STEEP_GRADIENT = 0.25  # [-] of the identity; a Newton step is then at most four plain ones long
HALVING_START = 20  # [iterations] a mean that has not settled by then swings to and fro; shorter steps stop it


def frechet_mean(rotations: SO3, *, weights: ArrayLike | None = None, max_iterations: int = 100) -> SO3:
    r"""Intrinsic mean of rotations over the first batch axis.

    .. math:: \mu_{k+1} = \mu_k \exp\Big(\sum_{i=1}^m w_i \log(\mu_k^{-1} x_i)\Big), \qquad \sum_i w_i = 1

    Body-frame iteration of [Tournier2011]_ §8.1.1, after [Pennec2006]_. The mean is unique when the samples fit in an
    open ball of radius π/2; we do not check this. The source starts at the identity; we start at the chordal mean, the
    largest eigenvector of :math:`\sum_i w_i q_i q_i^T`, divide the steps by the slope of the sum at the start (a chord
    Newton method, about half as many steps) and halve them after 20 iterations without an end.

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
    share = _normalise_weights(rotations, weights)
    mean = _chordal_mean(rotations, share)
    logs = (mean.inverse() @ rotations).log()
    unslope = _inverse_gradient(logs, share)
    step = np.zeros((*mean.shape, 3))
    for iteration in range(max_iterations):
        gradient = np.einsum("m...,m...i->...i", share, logs)
        step = np.einsum("...ij,...j->...i", unslope, gradient)
        mean = mean @ SO3.exp(step if iteration < HALVING_START else 0.5 * gradient)
        if norm(step).max(initial=0.0) < MEAN_STEP_TOL:
            return mean
        logs = (mean.inverse() @ rotations).log()
    raise ConvergenceError(f"Fréchet mean did not settle in {max_iterations} iterations", report=step)


def _inverse_gradient(logs: FloatArray, share: FloatArray) -> FloatArray:
    r"""Inverse ``(..., 3, 3)`` of how fast the sum of logarithms falls with a step, :math:`\sum_i w_i J_l^{-1}(v_i)`.

    Its skew part, half the sum itself, is nearly zero at the start and left out. The rest lies between zero and the
    identity; where samples are spread so far that it is small, a Newton step could leap too far, and the plain one is
    taken.
    """
    theta = norm(logs)
    weight = share * half_cotangent_remainder(theta)
    slope = np.moveaxis(weight[..., None] * logs, 0, -1) @ np.moveaxis(logs, 0, -2)
    slope = slope + (1.0 - np.sum(weight * theta**2, axis=0))[..., None, None] * np.eye(3)
    is_steep = np.linalg.eigvalsh(slope)[..., :1, None] > STEEP_GRADIENT
    return np.linalg.inv(np.where(is_steep, slope, np.eye(3)))


def _normalise_weights(rotations: SO3, weights: ArrayLike | None) -> FloatArray:
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
    weighted = share[..., None] * rotations.wxyz
    moments = np.moveaxis(weighted, 0, -1) @ np.moveaxis(rotations.wxyz, 0, -2)
    return SO3(np.linalg.eigh(moments)[1][..., -1])
