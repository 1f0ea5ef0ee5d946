r"""The gains with which a segment of an activation spline settles within a frame.

From rest a critically damped spring keeps the part :math:`(1 + n)\,e^{-n}` of its deviation after the time
:math:`n\tau`. The thesis prints :math:`k = 1/\tau^2`, :math:`c = 2/\tau` (Eq. 80), which holds for a unit mass; with
the reduced mass :math:`\mu = (1/m_a + 1/m_b)^{-1}` of what hangs on both ends it is :math:`k = \mu/\tau^2`,
:math:`c = 2\mu/\tau`. [Engell2012]_ §20.3.
"""

from __future__ import annotations

from math import exp

from marey.base import InputError


def solve_settling_time(remaining: float) -> float:
    r"""How many time constants a critically damped spring needs until this part of its deviation is left.

    Solves :math:`(1 + n)\,e^{-n} = \varepsilon` by halving: 6.638 for 0.01.
    """
    if not 0.0 < remaining < 1.0:
        raise InputError(f"the remaining part is {remaining}", "It lies between 0 and 1")
    low, high = 0.0, 1.0
    while (1.0 + high) * exp(-high) > remaining:
        high *= 2.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if (1.0 + middle) * exp(-middle) > remaining else (low, middle)
    return 0.5 * (low + high)


def compute_critical_gains(
    mass_a_kg: float, mass_b_kg: float, dt: float = 1.0 / 60.0, *, remaining: float = 0.01
) -> tuple[float, float]:
    """Stiffness [N/m] and damping [N s/m] of a segment between two masses that settles within a frame.

    Args:
        mass_a_kg: mass that one end moves.
        mass_b_kg: mass that the other end moves.
        dt: length of a frame [s].
        remaining: part of the deviation that is left after it.
    """
    if not (mass_a_kg > 0.0 and mass_b_kg > 0.0 and dt > 0.0):
        raise InputError(f"masses {mass_a_kg}, {mass_b_kg} and a frame of {dt} s", "All must be above zero")
    mu, tau = mass_a_kg * mass_b_kg / (mass_a_kg + mass_b_kg), dt / solve_settling_time(remaining)
    return mu / tau**2, 2.0 * mu / tau
