"""The thesis's own profile: a quadratic in closed form, with the mean of both frequencies."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray

FOUND, TOO_CLOSE = 0, 1
MAX_STRIKES_TRIED = 50


def solve_quadratic_profile(s1: float, s2: float, distance: float, duration: float) -> tuple[float, float, float]:
    r"""Return ``a, b, c`` of :math:`S(t) = at^2 + bt + c` with both speeds and the distance given."""
    a = 3.0 * ((s1 + s2) * duration - 2.0 * distance) / duration**3
    return a, (s2 - s1) / duration - a * duration, s1


def search_linear_frequency_profile(
    speeds: tuple[float, float], hertz: tuple[float, float], distance: float, phase: float, *, is_signed: bool
) -> tuple[FloatArray, float, float, int]:
    r"""Search of [Glardon2005]_ §IV.1.3.2: from the rounded heel strike towards smaller changes of acceleration.

    .. math:: t_2 = \frac{2(\varphi_2 - \varphi_1)}{F_1 + F_2},\qquad \Delta a = |2 a t_2|

    The search stops when :math:`\Delta a` stops falling or the speed would fall below zero.

    Returns:
        Powers of ``t / t2``, ``t2``, the final phase, and 0 or the code of the failure.
    """
    s1, s2 = speeds
    if distance <= 0.0 or s1 + s2 <= 0.0 or sum(hertz) <= 0.0:
        return np.zeros(5), 1.0, phase, TOO_CLOSE
    # The heel strike that an even change of speed would come nearest to
    strike = max(1.0, np.floor(phase + sum(hertz) / (s1 + s2) * distance + 0.5))
    best = _evaluate_strike(speeds, hertz, distance, phase, strike)
    for _ in range(MAX_STRIKES_TRIED):
        # A rising acceleration asks for an earlier strike, a falling one for a later.
        onward = strike - np.sign(best[0])
        if onward < 1.0 or onward == strike:
            break
        trial = _evaluate_strike(speeds, hertz, distance, phase, onward)
        falls = trial[0] < best[0] if is_signed else abs(trial[0]) < abs(best[0])
        if not falls or _quadratic_minimum(trial[1]) < 0.0:
            break
        strike, best = onward, trial
    code = FOUND if _quadratic_minimum(best[1]) >= -1e-12 else 2
    return best[1], best[2], float(strike), code


def _evaluate_strike(
    speeds: tuple[float, float], hertz: tuple[float, float], distance: float, phase: float, strike: float
) -> tuple[float, FloatArray, float]:
    """Signed change of acceleration, powers and duration for one heel strike."""
    duration = 2.0 * (strike - phase) / sum(hertz)
    a, b, c = solve_quadratic_profile(*speeds, distance, duration)
    return 2.0 * a * duration, np.array([c, b * duration, a * duration**2, 0.0, 0.0]), duration


def _quadratic_minimum(powers: FloatArray) -> float:
    """Lowest value of a quadratic on [0, 1]."""
    low = min(powers[0], powers[0] + powers[1] + powers[2])
    if powers[2] > 0.0 and 0.0 < -powers[1] < 2.0 * powers[2]:
        low = min(low, powers[0] - powers[1] ** 2 / (4.0 * powers[2]))
    return float(low)
