"""Easing into and out of a foot plant as functions of time ([Glardon2005]_ Eq. 2.6, 2.7).

The product plans the same curve anew in every step: ``marey.locomotion.plants.easing.ease_cubic``.
"""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, InputError

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
