"""The Hill law of a muscle on whole arrays, and its activation dynamics, from the curves that the product compiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, UnknownNameError, frozen
from marey.muscle.muscles.spline import (
    HILL_CURVES,
    groote_length,
    groote_passive,
    groote_speed,
    mujoco_length,
    mujoco_passive,
    mujoco_speed,
)

RISE_S, FALL_S = 0.01, 0.04  # [s] time constants of activation and deactivation


def activation_rate(u: float, a: float, rise_s: float, fall_s: float) -> float:
    r"""How fast activation follows excitation: :math:`\dot a = (u - a)/\tau`, slower to fall than to rise [1/s]."""
    scale = 0.5 + 1.5 * a
    return (u - a) / (rise_s * scale if u > a else fall_s / scale)


@dataclass(frozen=True, slots=True)
class HillCurves:
    """One set of curves by name: ``"de-groote"`` ([DeGroote2016]_) or ``"mujoco"``."""

    name: str = "de-groote"
    damping: float = 0.0  # [-] viscous part

    def __post_init__(self) -> None:
        if self.name not in HILL_CURVES:
            raise UnknownNameError("curves", self.name, "Hill muscles", HILL_CURVES)

    def length(self, x: ArrayLike) -> FloatArray:
        """Active force over length, both over their optimum."""
        return _evaluate_curve(x, groote_length if self.name == "de-groote" else mujoco_length)

    def speed(self, v: ArrayLike) -> FloatArray:
        """Force over speed [-1 is full shortening]."""
        return _evaluate_curve(v, groote_speed if self.name == "de-groote" else mujoco_speed)

    def passive(self, x: ArrayLike) -> FloatArray:
        """Passive force over length."""
        return _evaluate_curve(x, groote_passive if self.name == "de-groote" else mujoco_passive)

    def tension(self, activation: ArrayLike, x: ArrayLike, v: ArrayLike = 0.0) -> FloatArray:
        """Tension over the greatest isometric force; never negative."""
        a = frozen(activation, name="activation")
        if a.size and (a.min() < 0.0 or a.max() > 1.0):
            raise InputError(f"activations run from {a.min():g} to {a.max():g}", "They lie from 0 to 1")
        speed = np.asarray(v, dtype=np.float64)
        active = a * self.length(x) * self.speed(speed)
        return np.maximum(0.0, active + self.passive(x) + self.damping * speed)


def follow_excitation(excitation: ArrayLike, dt: float, *, start: float = 0.0) -> FloatArray:
    r"""Activations ``(F, ...)`` that follow excitations: :math:`\dot a = (u - a)/\tau(u, a)`, exact for a held tau.

    Args:
        excitation: u from 0 to 1 ``(F, ...)``, one row for each step.
        dt: length of a step [s].
        start: activation before the first.
    """
    if not (np.isfinite(dt) and dt > 0.0):
        raise InputError(f"a step of {dt} s", "It must be above zero")
    u = frozen(excitation, name="excitation")
    if u.size and (u.min() < 0.0 or u.max() > 1.0):
        raise InputError(f"excitations run from {u.min():g} to {u.max():g}", "They lie from 0 to 1")
    out = np.empty_like(u)
    a = np.full(u.shape[1:], float(start))
    for i, wanted in enumerate(u):
        gap = wanted - a
        rate = np.vectorize(activation_rate, otypes=[np.float64])(wanted, a, RISE_S, FALL_S)
        speed = np.divide(rate, gap, out=np.zeros_like(gap), where=gap != 0.0)
        a = wanted - gap * np.exp(-dt * speed)
        out[i] = a
    return out


def _evaluate_curve(values: ArrayLike, curve: Callable[[float], float]) -> FloatArray:
    return np.asarray(np.vectorize(curve, otypes=[np.float64])(frozen(values, name="values")))
