r"""Scalar functions of an angle that stay accurate from zero to π and beyond.

All of them are Stumpff functions :math:`c_k(\theta) = \sum_j (-1)^j \theta^{2j} / (2j+k)!`, or quotients of them:
:math:`c_1` is the cardinal sine, :math:`c_2 = (1-\cos\theta)/\theta^2`, :math:`c_3 = (\theta-\sin\theta)/\theta^3`.
"""

from __future__ import annotations

from math import factorial

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray

SERIES_LIMIT = float(np.pi)  # [rad] every rotation vector of a logarithm is inside, so logs never cross the switch
NUM_TERMS = 15  # at π the first term left out is below 1e-20 of the sum


def sinc(theta: ArrayLike) -> FloatArray:
    r"""Return :math:`\sin\theta/\theta`, to an ulp or two at every angle, π included.

    ``np.sinc`` multiplies by π first, which costs all digits near the zero at π.
    """
    angle = np.asarray(theta, dtype=np.float64)
    is_zero = angle == 0.0
    return (np.sin(angle) + is_zero) / (angle + is_zero)


def one_minus_cos_over_square(theta: ArrayLike) -> FloatArray:
    r"""Return :math:`(1-\cos\theta)/\theta^2 = \frac12\,\mathrm{sinc}^2\frac\theta2`, to a few ulp up to π."""
    return 0.5 * sinc(0.5 * np.asarray(theta, dtype=np.float64)) ** 2


def stumpff(order: int, theta: ArrayLike) -> FloatArray:
    r"""Return the Stumpff function :math:`c_k(\theta)`, :math:`k \ge 1`, to a few ulp.

    Orders one and two have forms without a branch. From three on, the alternating series is summed up to π,
    where its terms still fall (no cancellation), and beyond π the recurrence
    :math:`c_{k} = (1/(k-2)! - c_{k-2})/\theta^2` has nothing to cancel either; both agree to a few ulp there.
    """
    if order <= 2:
        return sinc(theta) if order == 1 else one_minus_cos_over_square(theta)
    angle = np.abs(np.asarray(theta, dtype=np.float64))
    inside = np.minimum(angle, SERIES_LIMIT)
    series = _series(order, inside * inside)
    if not np.any(angle > SERIES_LIMIT):
        return series
    outside = np.maximum(angle, SERIES_LIMIT)
    recurrence = (1.0 / factorial(order - 2) - stumpff(order - 2, outside)) / outside**2
    return np.where(angle > SERIES_LIMIT, recurrence, series)


def half_cotangent_remainder(theta: ArrayLike) -> FloatArray:
    r"""Return :math:`(1 - \frac\theta2\cot\frac\theta2)/\theta^2`, to a few ulp below 2π.

    With :math:`h = \theta/2`, :math:`\sin h - h\cos h = h^3 (c_2(h) - c_3(h))`, which does not cancel, so the value
    is :math:`(c_2(h)-c_3(h)) / (4\,\mathrm{sinc}\,h)`. It is singular at 2π only.
    """
    half = 0.5 * np.asarray(theta, dtype=np.float64)
    return (one_minus_cos_over_square(half) - stumpff(3, half)) / (4.0 * sinc(half))


def _series(order: int, square: FloatArray) -> FloatArray:
    total = np.full_like(square, 1.0 / factorial(2 * NUM_TERMS - 2 + order))
    for j in range(NUM_TERMS - 2, -1, -1):
        total = 1.0 / factorial(2 * j + order) - square * total
    return total
