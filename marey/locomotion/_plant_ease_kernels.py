"""Compiled easing: corrections that reach their target at a known time, whatever happens on the way."""

from __future__ import annotations

from marey.base import FloatArray, kernel
from marey.lie._rotation_kernels import Vector


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
