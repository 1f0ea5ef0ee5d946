"""Weights and durations of blends: what keeps gravity what it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, UnknownNameError, frozen

TIME_RULES: Final = ("sqrt", "linear")
MAX_EXTRAPOLATION: Final = 0.25  # [-] how far outside 0 to 1 a weight may lie when extrapolation is asked for
SUM_TOL: Final = 1e-9


def check_blend_weights(weights: ArrayLike, count: int, *, extrapolate: bool = False) -> FloatArray:
    """Weights ``(k,)`` that sum to one, within 0 to 1, or within -0.25 to 1.25 if ``extrapolate``.

    Outside 0 to 1 the theorems of [Safonova2006]_ ch. 5 are void: the centre of mass may leave the polygon and
    friction may be needed that the sources did not need ([Safonova2006]_ §6.1).

    Raises:
        InputError: another number of weights, another sum, or a weight outside.
    """
    w = frozen(weights, None, name="weights")
    if len(w) != count:
        raise InputError(f"{len(w)} weights for {count} motions", "Give one for each")
    if abs(float(w.sum()) - 1.0) > SUM_TOL:
        raise InputError(f"the weights sum to {float(w.sum()):.6g}", "They must sum to one")
    margin = MAX_EXTRAPOLATION if extrapolate else 0.0
    low, high = float(w.min()), float(w.max())
    if low < -margin - SUM_TOL or high > 1.0 + margin + SUM_TOL:
        fix = (
            f"Keep within {-margin:g} to {1.0 + margin:g}"
            if extrapolate
            else "Pass extrapolate=True to go a little beyond"
        )
        raise InputError(f"weights from {low:g} to {high:g} extrapolate", fix)
    return w


def blend_duration(durations: Sequence[float] | FloatArray, weights: ArrayLike, rule: str = "sqrt") -> float:
    r"""Duration [s] of a blend of phases that last ``durations``.

    .. math:: T^2 = \sum_i w_i T_i^2 \quad\text{("sqrt")}, \qquad T = \sum_i w_i T_i \quad\text{("linear")}

    [Safonova2006]_ (5.7). With "sqrt" a blend of flights falls at gravity; with "linear", the naive rule, gravity is
    multiplied by :math:`\sum_i w_i T_i^2 / T^2 \ge 1` (5.8).

    Raises:
        InputError: a duration is not positive, or an extrapolated blend would last no time.
        UnknownNameError: no such rule.
    """
    if rule not in TIME_RULES:
        raise UnknownNameError("time rule", rule, "blending", TIME_RULES)
    T, w = frozen(durations, None, name="durations"), frozen(weights, None, name="weights")
    if len(T) != len(w) or not len(T) or T.min() <= 0.0:
        raise InputError(f"durations {T.tolist()} with weights {w.tolist()}", "Give one positive duration per weight")
    square = float(w @ T**2) if rule == "sqrt" else float(w @ T)
    if square <= 0.0:
        raise InputError("the extrapolated phase would last no time", "Bring the weights nearer to 0 to 1")
    return float(np.sqrt(square)) if rule == "sqrt" else square


def blend_velocity(velocities: FloatArray, durations: FloatArray, weights: FloatArray, duration_s: float) -> FloatArray:
    r"""Velocity of a blend from those of its sources ``(k, ..., 3)``: :math:`V = \sum_i w_i V_i\,T_i/T`."""
    return np.tensordot(weights * durations / duration_s, velocities, axes=1)
