r"""A ground that pushes and rubs smoothly, compiled: forces on nodes and their derivatives.

With the height :math:`d = (x - q)\cdot n` and the sliding velocity :math:`u_T`,

.. math:: N = \begin{cases}-kd & d \le -\epsilon\\ k(\epsilon - d)^2/4\epsilon & |d| < \epsilon\\ 0 & \text{else}
          \end{cases},\qquad t = -\mu N\,\frac{u_T}{\sqrt{\|u_T\|^2 + v_s^2}},

the rounded forms of [Engell2012]_ §20.5, Eqs 95-99, so that a gradient exists ([Engell2012]_ §25.3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marey.base import FloatArray, kernel


class SmoothContactPlane(NamedTuple):
    """A plane under one body."""

    point: FloatArray  # (3,) [m]
    normal: FloatArray  # (3,) unit, away from the ground
    stiffness: FloatArray  # (V,) [N/m]
    friction: float
    rounding: float  # [m] of the push
    smoothing: float  # [m/s] of friction


@kernel
def _normal_force(d: float, k: float, rounding: float) -> tuple[float, float]:
    """Push of the ground at a height [N], and its slope [N/m]."""
    if d <= -rounding:
        return -k * d, -k
    return k * (rounding - d) ** 2 / (4.0 * rounding), -k * (rounding - d) / (2.0 * rounding)


@kernel
def add_ground_forces(ground: SmoothContactPlane, x: FloatArray, v: FloatArray, out: FloatArray) -> None:
    """Add what the ground does to nodes ``(V, 3)`` [N]."""
    n = ground.normal
    for j in range(len(ground.stiffness)):
        d, un = 0.0, 0.0
        for i in range(3):
            d += n[i] * (x[j, i] - ground.point[i])
            un += n[i] * v[j, i]
        if d >= ground.rounding:
            continue
        push, _ = _normal_force(d, ground.stiffness[j], ground.rounding)
        square = ground.smoothing**2
        for i in range(3):
            square += (v[j, i] - un * n[i]) ** 2
        rub = ground.friction * push / np.sqrt(square)
        for i in range(3):
            out[j, i] += push * n[i] - rub * (v[j, i] - un * n[i])


@kernel
def differentiate_ground_forces(
    ground: SmoothContactPlane, x: FloatArray, v: FloatArray, exact: bool
) -> tuple[FloatArray, FloatArray]:
    """Derivatives of each node's force by its position and velocity ``(V, 3, 3)``.

    Without ``exact`` they are symmetric and hold back only.
    """
    num, n = len(ground.stiffness), ground.normal
    by_x, by_v, u = np.zeros((num, 3, 3)), np.zeros((num, 3, 3)), np.empty(3)
    for j in range(num):
        d, un = 0.0, 0.0
        for i in range(3):
            d += n[i] * (x[j, i] - ground.point[i])
            un += n[i] * v[j, i]
        if d >= ground.rounding:
            continue
        push, slope = _normal_force(d, ground.stiffness[j], ground.rounding)
        square = ground.smoothing**2
        for i in range(3):
            u[i] = v[j, i] - un * n[i]
            square += u[i] * u[i]
        speed = np.sqrt(square)
        turn = 1.0 if exact else 0.0
        for a in range(3):
            for b in range(3):
                across = (1.0 if a == b else 0.0) - n[a] * n[b] - turn * u[a] * u[b] / square
                by_v[j, a, b] = -ground.friction * push / speed * across
                by_x[j, a, b] = slope * (n[a] - turn * ground.friction * u[a] / speed) * n[b]
    return by_x, by_v
