"""Cox-de Boor recurrences over many times at once."""

from __future__ import annotations

import numpy as np

from marey.base import EPS, FloatArray, InputError, IntArray

EDGE_TOL = 64 * EPS  # [-] of the larger of span and times; a time computed as the end may miss it by rounding


def clip_to_domain(t: FloatArray, start: float, stop: float) -> FloatArray:
    """Times [s] within a curve, those that miss its ends by rounding put on them.

    Raises:
        InputError: a time is outside the curve, or NaN.
    """
    slack = EDGE_TOL * max(stop - start, abs(start), abs(stop))
    bad = ~((t >= start - slack) & (t <= stop + slack))
    if np.any(bad):
        raise InputError(f"time {t[bad][0]:g} is outside the curve", f"It goes from {start:g} to {stop:g}")
    return np.clip(t, start, stop)


def uniform_knots(start: float, stop: float, num_spans: int, degree: int, is_clamped: bool) -> FloatArray:
    """Knots ``(num_spans + 2 * degree + 1,)``: equal spans from start to stop, ends repeated or continued."""
    index = np.arange(-degree, num_spans + degree + 1)
    if is_clamped:
        index = np.clip(index, 0, num_spans)
    share = index / num_spans
    return start * (1.0 - share) + stop * share


def local_basis(knots: FloatArray, degree: int, spans: IntArray, t: FloatArray) -> FloatArray:
    r"""Values ``(m, degree + 1)`` of the basis functions that live on each span (Cox-de Boor).

    .. math:: \phi_{k,p} = \frac{t-\tau_k}{\tau_{k+p}-\tau_k}\phi_{k,p-1}
        + \frac{\tau_{k+p+1}-t}{\tau_{k+p+1}-\tau_{k+1}}\phi_{k+1,p-1}
    """
    left = spans + degree  # knots[left] <= t <= knots[left + 1]
    basis = np.zeros((t.size, degree + 1))
    basis[:, 0] = 1.0
    for p in range(1, degree + 1):
        carried = np.zeros(t.size)
        for r in range(p):
            high, low = knots[left + r + 1], knots[left + r + 1 - p]
            share = basis[:, r] / (high - low)
            basis[:, r] = carried + (high - t) * share
            carried = (t - low) * share
        basis[:, p] = carried
    return basis


def blossom(
    knots: FloatArray, coefficients: FloatArray, degree: int, pieces: IntArray, arguments: FloatArray
) -> FloatArray:
    r"""Polar form :math:`f(u_1, \dots, u_p)` of the polynomial on each piece, ``(n, *S)``.

    De Boor's algorithm with a different argument at each level; with equal arguments it is the value of the curve, with
    consecutive knots of a finer spline it is that spline's coefficient.

    Args:
        knots: of the curve.
        coefficients: ``(K, *S)``.
        degree: p.
        pieces: span index ``(n,)``.
        arguments: ``(n, p)``.
    """
    left = pieces + degree
    points = coefficients[pieces[:, None] + np.arange(degree + 1)]  # (n, p + 1, *S)
    trailing = (-1,) + (1,) * (coefficients.ndim - 1)
    for level in range(1, degree + 1):
        for r in range(degree, level - 1, -1):
            low, high = knots[left + r - degree], knots[left + r + 1 - level]
            share = ((arguments[:, level - 1] - low) / (high - low)).reshape(trailing)
            points[:, r] = (1.0 - share) * points[:, r - 1] + share * points[:, r]
    return points[:, degree]


def difference_weights(knots: FloatArray, degree: int) -> FloatArray:
    r"""Factors :math:`p / (\tau_{k+p+1} - \tau_{k+1})` of the coefficients' differences in the derivative."""
    return degree / (knots[degree + 1 : -1] - knots[1 : -degree - 1])
