r"""Easing into and out of a foot plant ([Glardon2005]_ Eq. 2.6, 2.7).

The thesis eases a correction of an effector by the cubic step :math:`\Gamma(x) = 2x^3 - 3x^2 + 1` of the time that has
passed (Eq. 2.6), and starts a second ease of the same form when the raw motion changes on the way (Eq. 2.7, whose
printed factors are swapped). The kernels below plan the cubic anew in every step from where the correction is and how
fast it changes, and arrive at a known time: at rest that is Eq. 2.6, after an interruption it is Eq. 2.7 with matched
velocity.
"""

from __future__ import annotations

from marey.base import FloatArray, kernel
from marey.lie.kernels import Vector


@kernel
def ease_cubic(x: float, v: float, target: float, remaining: float, dt: float) -> tuple[float, float]:
    r"""One step on the cubic from ``(x, v)`` to ``(target, 0)`` in ``remaining`` seconds; returns value and slope.

    .. math:: x(u) = x^* + \Gamma(u)\,(x_0 - x^*) + (u - 2u^2 + u^3)\,T\,v_0, \qquad
              \Gamma(u) = 1 - 3u^2 + 2u^3, \qquad u = \Delta t / T

    Planned anew in every step it stays on the same curve as long as target and arrival stay. Started at rest,
    :math:`v_0 = 0`, it is the cubic step of [Glardon2005]_ Eq. 2.6. After an interruption at :math:`t'`,
    :math:`x_0 = E(t') - E_0'(t')` and :math:`x^* = C' - E_0'(t_1')`, it is the repaired Eq. 2.7 with matched velocity.
    """
    # An arrival within this step ends the ease, at rest.
    if remaining <= dt or remaining < 1e-9:
        return target, 0.0
    u = dt / remaining
    away = x - target
    # Gamma(u) (x0 - x*) + (u - 2 u^2 + u^3) T v0
    value = (1.0 + u * u * (2.0 * u - 3.0)) * away + u * (1.0 + u * (u - 2.0)) * remaining * v
    # Its derivative by time, so that the next step goes on where this one ends
    slope = 6.0 * u * (u - 1.0) / remaining * away + (1.0 + u * (3.0 * u - 4.0)) * v
    return target + value, slope


@kernel
def ease_vector(value: FloatArray, rate: FloatArray, target: Vector, remaining: float, dt: float) -> Vector:
    """Ease three numbers and their rates in place; returns the new ones."""
    for c in range(3):
        value[c], rate[c] = ease_cubic(value[c], rate[c], target[c], remaining, dt)
    return value[0], value[1], value[2]


@kernel
def track_vector(value: FloatArray, rate: FloatArray, new: Vector, dt: float, fastest: float) -> None:
    """Write three numbers, and their rates since the last step, held to ``fastest``."""
    for c in range(3):
        if dt > 1e-9:
            rate[c] = min(fastest, max(-fastest, (new[c] - value[c]) / dt))
        value[c] = new[c]
