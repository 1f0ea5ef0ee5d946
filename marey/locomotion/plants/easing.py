"""Easing into and out of a foot plant ([Glardon2005]_ Eq. 2.6, 2.7).

The compiled functions plan the cubic anew in every step and arrive at a known time; the closed form gives the same
curve as a function of time.
"""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, InputError, kernel
from marey.lie.kernels import Vector


@kernel
def ease_cubic(x: float, v: float, target: float, remaining: float, dt: float) -> tuple[float, float]:
    r"""One step on the cubic from ``(x, v)`` to ``(target, 0)`` in ``remaining`` seconds; returns value and slope.

    .. math:: x(u) = x^* + (1 - 3u^2 + 2u^3)(x_0 - x^*) + (u - 2u^2 + u^3)\,T\,v_0, \qquad u = \Delta t / T

    Planned anew in every step it stays on the same curve as long as target and arrival stay. Started at rest it is the
    cubic step of [Glardon2005]_ Eq. 2.6; after an interruption it is the repaired Eq. 2.7 with matched velocity.
    """
    if remaining <= dt or remaining < 1e-9:
        return target, 0.0
    u = dt / remaining
    away = x - target
    value = (1.0 + u * u * (2.0 * u - 3.0)) * away + u * (1.0 + u * (u - 2.0)) * remaining * v
    slope = 6.0 * u * (u - 1.0) / remaining * away + (1.0 + u * (3.0 * u - 4.0)) * v
    return target + value, slope


@kernel
def ease_vector(row: FloatArray, at: int, target: Vector, remaining: float, dt: float) -> Vector:
    """Ease three numbers of a row, their rates behind them; returns the new ones."""
    row[at], row[at + 3] = ease_cubic(row[at], row[at + 3], target[0], remaining, dt)
    row[at + 1], row[at + 4] = ease_cubic(row[at + 1], row[at + 4], target[1], remaining, dt)
    row[at + 2], row[at + 5] = ease_cubic(row[at + 2], row[at + 5], target[2], remaining, dt)
    return row[at], row[at + 1], row[at + 2]


@kernel
def track_vector(row: FloatArray, at: int, value: Vector, dt: float, fastest: float) -> None:
    """Put three numbers into a row, and behind them their rates since the last step, held to ``fastest``."""
    for c in range(3):
        if dt > 1e-9:
            row[at + 3 + c] = min(fastest, max(-fastest, (value[c] - row[at + c]) / dt))
        row[at + c] = value[c]


SHORTEST_S = 0.03  # [s] a plant is reached no sooner after an interruption ([Glardon2005]_, our default)


def cubic_step(x: float) -> float:
    r"""Return :math:`\Gamma(x) = 2x^3 - 3x^2 + 1` between 0 and 1; one before, zero after.

    Eq. 2.6 of [Glardon2005]_ is lost in print; this is the one cubic with :math:`\Gamma(0) = 1`, :math:`\Gamma(1) = 0`
    and level ends.
    """
    x = min(1.0, max(0.0, x))
    return (2.0 * x - 3.0) * x * x + 1.0


def eased_effector(
    t: float,
    raw: FloatArray,
    goal: FloatArray,
    span: tuple[float, float],
    ends: tuple[FloatArray, FloatArray],
    ease_s: float,
) -> FloatArray:
    r"""Where an effector is while it eases into, stays at, and eases out of a plant ([Glardon2005]_ §III.2.4.1).

    .. math:: E = E_0 + \big(1 - \Gamma(\tfrac{t - t_1 + \sigma}{\sigma})\big)(C - E_0(t_1)), \quad
        E = C, \quad E = E_0 + \Gamma(\tfrac{t - t_2}{\sigma})(C - E_0(t_2))

    Args:
        t: time [s].
        raw: raw position now ``(3,)`` [m].
        goal: where the plant is ``(3,)`` [m].
        span: start and end of the plant [s].
        ends: raw positions ``(3,)`` [m] at its start and end.
        ease_s: how long easing in and out takes.
    """
    if not ease_s > 0.0 or not span[0] <= span[1]:
        raise InputError(f"a plant from {span[0]} to {span[1]} s eased in {ease_s} s", "Times must be in order")
    if span[0] <= t <= span[1]:
        return np.array(goal, dtype=np.float64)
    if t < span[0]:
        return raw + (1.0 - cubic_step((t - span[0] + ease_s) / ease_s)) * (goal - ends[0])
    return raw + cubic_step((t - span[1]) / ease_s) * (goal - ends[1])


def interrupted_ease(
    t: float, raw: FloatArray, change: tuple[float, FloatArray, FloatArray], start: tuple[float, FloatArray, FloatArray]
) -> FloatArray:
    r"""Where an effector is that was easing in when the raw motion changed.

    .. math:: E(t) = E_0'(t) + \Gamma(u)\,(E(t') - E_0'(t')) + (1 - \Gamma(u))\,(C' - E_0'(t_1')), \quad
        u = \frac{t - t'}{t_1' - t'}

    Eq. 2.7 of [Glardon2005]_ has its two factors swapped and a wrong sign in print, and meets neither end. A plant that
    would start sooner than 0.03 s after the change starts then.

    Args:
        t: time [s].
        raw: position now ``(3,)`` [m] in the new motion.
        change: time of the change, position of the effector ``(3,)`` then, and of the new raw motion ``(3,)`` then.
        start: start of the new plant, its goal ``(3,)``, and where the new raw motion ``(3,)`` is on arrival.
    """
    arrival = max(start[0], change[0] + SHORTEST_S)
    if t >= arrival:
        return np.array(start[1], dtype=np.float64)
    fade = cubic_step((t - change[0]) / (arrival - change[0]))
    return raw + fade * (change[1] - change[2]) + (1.0 - fade) * (start[1] - start[2])
