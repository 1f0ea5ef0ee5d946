"""Means of rotations: the intrinsic mean, the geodesic median, and a mean that masks outliers and reports them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from marey.base import BoolArray, ConvergenceError, InputError, frozen
from marey.lie.quaternions import half_cotangent_remainder, norm
from marey.lie.so3 import SO3, geodesic_distance

MEAN_STEP_TOL = 1e-12  # [rad] a decade above the rounding of a mean of logarithms
STEEP_GRADIENT = 0.25  # [-] of the identity; a Newton step is then at most four plain ones long
HALVING_START = 20  # [iterations] a mean that has not settled by then swings to and fro; shorter steps stop it


def frechet_mean(
    rotations: SO3, *, weights: ArrayLike | None = None, start: SO3 | None = None, max_iterations: int = 100
) -> SO3:
    r"""Intrinsic mean of rotations over the first batch axis.

    .. math:: \mu_{k+1} = \mu_k \exp\Big(\sum_{i=1}^m w_i \log(\mu_k^{-1} x_i)\Big), \qquad \sum_i w_i = 1

    Body-frame iteration of [Tournier2011]_ §8.1.1, after [Pennec2006]_. The mean is unique when the samples fit in an
    open ball of radius π/2; :func:`robust_mean` checks, and masks what lies outside. The source starts at the identity;
    we start at the chordal mean, the largest eigenvector of :math:`\sum_i w_i q_i q_i^T`, divide the steps by the slope
    of the sum at the start (a chord Newton method, about half as many steps) and halve them after 20 iterations
    without an end.

    Args:
        rotations: samples, batch ``(m, ...)``; the mean has batch ``(...)``.
        weights: ``(m,)`` or any shape that broadcasts against the batch from the left, not negative; equal by default.
        start: batch ``(...)`` to begin at; the chordal mean by default.
        max_iterations: about 5 suffice for the joints of a walk.

    Raises:
        ConvergenceError: the step is still above ``MEAN_STEP_TOL`` [rad]; the samples are probably spread over more
            than half of the group.
    """
    if not rotations.shape or len(rotations) == 0:
        raise InputError(f"a mean of no rotations (batch {rotations.shape})", "Give at least one sample")
    # Weights over the whole batch that sum to one along the first axis
    given = np.ones(len(rotations)) if weights is None else frozen(weights, name="weights")
    padded = given.reshape(given.shape + (1,) * (len(rotations.shape) - given.ndim))
    try:
        full = np.broadcast_to(padded, rotations.shape)
    except ValueError:
        raise InputError(f"weights have shape {given.shape}, the samples {rotations.shape}") from None
    total = full.sum(axis=0)
    if np.any(full < 0.0) or np.any(total <= 0.0):
        raise InputError("weights are negative or sum to zero", "Give numbers that are not negative, one positive")
    share = full / total
    mean = start
    if mean is None:
        # The chordal mean: the largest eigenvector of \sum_i w_i q_i q_i^T
        weighted = share[..., None] * rotations.wxyz
        moments = np.moveaxis(weighted, 0, -1) @ np.moveaxis(rotations.wxyz, 0, -2)
        mean = SO3(np.linalg.eigh(moments)[1][..., -1])
    logs = (mean.inverse() @ rotations).log()
    # How fast the sum of logarithms falls with a step, \sum_i w_i J_l^{-1}(v_i); a flat one is not inverted
    theta = norm(logs)
    weight = share * half_cotangent_remainder(theta)
    slope = np.moveaxis(weight[..., None] * logs, 0, -1) @ np.moveaxis(logs, 0, -2)
    slope = slope + (1.0 - np.sum(weight * theta**2, axis=0))[..., None, None] * np.eye(3)
    is_steep = np.linalg.eigvalsh(slope)[..., :1, None] > STEEP_GRADIENT
    unslope = np.linalg.inv(np.where(is_steep, slope, np.eye(3)))
    step = np.zeros((*mean.shape, 3))
    for iteration in range(max_iterations):
        # \sum_i w_i log(mu^-1 x_i), divided by the slope at the start
        gradient = np.einsum("m...,m...i->...i", share, logs)
        step = np.einsum("...ij,...j->...i", unslope, gradient)
        mean = mean @ SO3.exp(step if iteration < HALVING_START else 0.5 * gradient)
        if norm(step).max(initial=0.0) < MEAN_STEP_TOL:
            return mean
        logs = (mean.inverse() @ rotations).log()
    raise ConvergenceError(f"Fréchet mean did not settle in {max_iterations} iterations", report=step)


FAR_RAD = np.pi - 0.2  # [rad] a sample beyond this has a logarithm of arbitrary sign; [Tournier2011]_ §7.3
MEDIAN_STEP_TOL = 1e-6  # [rad] a start needs no more
MAX_MEDIAN_STEPS = 200
MAX_MASKINGS = 10  # rounds until no sample changes sides; two or three in practice


def geodesic_median(rotations: SO3) -> SO3:
    r"""Point of least summed distance to rotations, over the first batch axis: a mean that a few flips do not move.

    .. math:: \mu \leftarrow \mu \exp\Big(\frac{\sum_i d_i^{-1} \log(\mu^{-1} x_i)}{\sum_i d_i^{-1}}\Big)

    Weiszfeld's iteration on the group, from the sample nearest to the chordal mean.
    """
    moments = np.moveaxis(rotations.wxyz, 0, -1) @ np.moveaxis(rotations.wxyz, 0, -2)
    chordal = SO3(np.linalg.eigh(moments)[1][..., -1])
    nearest = np.argmin(geodesic_distance(chordal, rotations), axis=0)
    median = SO3(np.take_along_axis(rotations.wxyz, nearest[None, ..., None], axis=0)[0])
    for _ in range(MAX_MEDIAN_STEPS):
        logs = (median.inverse() @ rotations).log()
        share = 1.0 / np.maximum(norm(logs), 1e-3)
        step = np.einsum("m...,m...i->...i", share, logs) / share.sum(axis=0)[..., None]
        median = median @ SO3.exp(step)
        if norm(step).max(initial=0.0) < MEDIAN_STEP_TOL:
            break
    return median


@dataclass(frozen=True, slots=True, eq=False)
class RobustMean:
    """A mean of rotations, and the samples that took no part in it."""

    mean: SO3  # batch (...)
    is_far: BoolArray  # (m, ...) samples further than ``FAR_RAD`` from the mean, which does not count them


def robust_mean(rotations: SO3) -> RobustMean:
    """Intrinsic mean over the first batch axis that leaves out samples beyond π - 0.2 rad and reports them.

    [Tournier2011]_ §7.3 needs samples inside a ball; wrists and thumbs of captured clips flip out of it. Where the
    plain mean has such samples, or none exists, the iteration begins at the geodesic median and masks them, until no
    sample changes sides.

    Raises:
        ConvergenceError: no mean exists even so: the samples are spread all around.
    """
    try:
        mean = frechet_mean(rotations)
        is_far = np.asarray(geodesic_distance(mean, rotations) > FAR_RAD)
        if not is_far.any():
            return RobustMean(mean, is_far)
    except ConvergenceError:
        pass
    mean = geodesic_median(rotations)
    is_far = np.zeros(rotations.shape, dtype=np.bool_)
    for _ in range(MAX_MASKINGS):
        outside = np.asarray(geodesic_distance(mean, rotations) > FAR_RAD)
        mean = frechet_mean(rotations, weights=(~outside).astype(np.float64), start=mean)
        if (outside == is_far).all():
            break
        is_far = outside
    return RobustMean(mean, is_far)
