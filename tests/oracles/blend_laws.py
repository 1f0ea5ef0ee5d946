"""Closed forms that blends obey: gravity, accelerations, pressure and jumps of velocity ([Safonova2006]_ ch. 5)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, frozen
from marey.blending import blend_duration


def gravity_factor(durations: Sequence[float] | FloatArray, weights: ArrayLike, rule: str = "linear") -> float:
    r"""By how much a blend of flights falls faster than its sources.

    .. math:: s = \frac{\sum_i w_i T_i^2}{T^2} \ge 1, \qquad \max_w s = \frac{(1+\rho)^2}{4\rho},\ \rho = T_2/T_1

    [Safonova2006]_ (5.8); the largest value, at :math:`w_1 = \rho/(1+\rho)`, is ours.
    """
    T, w = frozen(durations, None, name="durations"), frozen(weights, None, name="weights")
    return float(w @ T**2) / blend_duration(T, w, rule) ** 2


def blend_acceleration(
    accelerations: FloatArray, durations: FloatArray, weights: FloatArray, duration_s: float
) -> FloatArray:
    r"""Acceleration of a blend from those of its sources ``(k, ..., 3)``: :math:`A = \sum_i w_i A_i\,(T_i/T)^2`."""
    return np.tensordot(weights * (durations / duration_s) ** 2, accelerations, axes=1)


def blend_pressure(
    pressures: FloatArray, forces: FloatArray, centres: FloatArray, durations: FloatArray, weights: FloatArray
) -> FloatArray:
    r"""Centre of pressure ``(2,)`` (x, z) [m] of a blend of two motions.

    .. math:: p = \alpha_1 p_1 + \alpha_2 p_2 + \frac{w_1 w_2}{F_n}
              \big(\Delta F_n\,\Delta c - \Delta c_y\,\Delta F\big)_{xz}, \qquad
              \alpha_i = w_i\Big(\frac{T_i}{T}\Big)^2\frac{F_{n,i}}{F_n}

    with :math:`\Delta c = c_2 - c_1`, :math:`\Delta F = (T_1/T)^2 F_1 - (T_2/T)^2 F_2`. The mean stays in a common
    convex polygon; the cross term vanishes where centres or forces agree. Open in [Safonova2006]_ §5.6, solved here.

    Args:
        pressures: of the sources ``(2, 2)`` (x, z) [m].
        forces: from the ground ``(2, 3)`` [N].
        centres: centres of mass above the floor ``(2, 3)`` [m].
        durations: ``(2,)`` [s].
        weights: ``(2,)``.
    """
    T = np.sqrt(float(weights @ durations**2))
    scaled = (durations / T)[:, None] ** 2 * forces
    total = float(weights @ scaled[:, 1])
    share = weights * scaled[:, 1] / total
    dF, dc = scaled[0] - scaled[1], centres[1] - centres[0]
    cross = dF[1] * dc - dc[1] * dF
    return share @ pressures + weights[0] * weights[1] / total * cross[[0, 2]]


def velocity_jump(
    velocities: FloatArray,
    before_s: FloatArray,
    after_s: FloatArray,
    weights: FloatArray,
    turns: FloatArray | None = None,
) -> FloatArray:
    r"""Jump ``(3,)`` [m/s] of a blend's velocity at the border of two phases.

    .. math:: \Delta V = \sum_i w_i \Big[R(\psi - \psi_i)\frac{T_i'}{T'} - \frac{T_i}{T}\Big] V_i

    Zero if and only if the phases of all sources have the same ratio of durations and nobody is turned
    ([Safonova2006]_ §5.4; the closed form is ours).

    Args:
        velocities: of the sources at the border ``(k, 3)`` [m/s].
        before_s: durations of their phases before it ``(k,)`` [s].
        after_s: after it.
        weights: ``(k,)``.
        turns: by how much each is realigned ``(k,)`` [rad]; not at all by default.
    """
    before, after = (np.sqrt(float(weights @ T**2)) for T in (before_s, after_s))
    turned = velocities
    if turns is not None:
        c, s = np.cos(turns), np.sin(turns)
        x, y, z = velocities.T
        turned = np.stack([c * x + s * z, y, c * z - s * x], axis=1)
    return (weights * after_s / after) @ turned - (weights * before_s / before) @ velocities
