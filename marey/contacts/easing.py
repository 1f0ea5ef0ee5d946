"""Corrections over a whole clip: exact where they are known, smooth and fading elsewhere."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray

PIN_WEIGHT: Final = 1e9  # [-] a known value is met to this many digits
STRIKE: Final = 0.01  # [-] stiffness where a foot strikes the ground
LEAVE: Final = 0.1  # [-] likewise where it leaves


def spread_corrections(
    values: FloatArray,
    weights: FloatArray,
    rate_hz: float,
    ease_s: float,
    *,
    rest: float = 1.0,
    stiffness: FloatArray | None = None,
) -> FloatArray:
    r"""Smoothest curve ``(F, k)`` through weighted values, drawn to zero where nothing is known.

    .. math:: \min_c \sum_t w_t\,|c_t - v_t|^2 + \rho\,|c_t|^2 + \tau^4 s_t\,|\ddot c_t|^2

    A spline in tension: between values the correction leaves and arrives with the speed it has there, and fades as
    :math:`e^{-t/\sqrt2\tau}` times an oscillation. One banded solve for the whole clip.

    Args:
        values: ``(F, k)``; rows of zero weight are not looked at.
        weights: ``(F,)``.
        rate_hz: frames per second.
        ease_s: the time :math:`\tau`.
        rest: the weight :math:`\rho` that draws to zero.
        stiffness: :math:`s_t` ``(F,)``, one where not given; the curve may bend sharply where it is small.
    """
    from scipy.linalg import solveh_banded

    frames = len(values)
    known = np.where((weights > 0.0)[:, None], values, 0.0)
    if frames < 3:
        return known
    # Second differences (1, -2, 1) of weight k, squared: the upper three diagonals of a banded matrix
    k = (ease_s * rate_hz) ** 4 * (np.ones(frames) if stiffness is None else stiffness)[1:-1]
    band = np.zeros((3, frames))
    band[2] = weights + rest
    band[2, :-2] += k
    band[2, 1:-1] += 4.0 * k
    band[2, 2:] += k
    band[1, 1:-1] -= 2.0 * k
    band[1, 2:] -= 2.0 * k
    band[0, 2:] = k
    return solveh_banded(band, weights[:, None] * known, check_finite=False)


def pin_corrections(
    values: FloatArray, is_known: BoolArray, rate_hz: float, ease_s: float, *, strike: bool = False
) -> FloatArray:
    """Corrections ``(F, k)`` that have their values exactly where they are known, and fade elsewhere.

    With ``strike`` the speed may jump where values begin, as that of a foot does when it strikes the ground, and change
    quickly where they end.
    """
    stiff = max((ease_s * rate_hz) ** 4, 1.0)
    soft = np.ones(len(values))
    if strike:
        soft[1:][is_known[1:] & ~is_known[:-1]] = STRIKE
        soft[:-1][is_known[:-1] & ~is_known[1:]] = LEAVE
    weights = np.where(is_known, PIN_WEIGHT * stiff, 0.0)
    curve = spread_corrections(values, weights, rate_hz, ease_s, stiffness=soft)
    return np.where(is_known[:, None], values, curve)


def spread_cone(values: FloatArray, step: float) -> FloatArray:
    r"""Least curve ``(F,)`` over ``values`` that changes by at most ``step`` a frame: :math:`\max_s v_s - k|t-s|`."""
    ramp = step * np.arange(len(values))
    return np.maximum(
        np.maximum.accumulate(values + ramp) - ramp,
        (np.maximum.accumulate((values - ramp)[::-1])[::-1] + ramp),
    )


def limit_slope(values: FloatArray, step: float) -> FloatArray:
    """Curve ``(F,)`` nearest to ``values`` at its worst frame among those that change by at most ``step`` a frame.

    The middle of the least such curve above and the greatest below, the extensions of McShane and Whitney.
    """
    return 0.5 * (spread_cone(values, step) - spread_cone(-values, step))
