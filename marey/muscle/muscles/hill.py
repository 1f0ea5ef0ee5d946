r"""Hill curves and activation dynamics: the force of a muscle over its length and its speed.

.. math:: F = F_0\,\big(a\,f_L(\tilde l)\,f_V(\tilde v) + f_P(\tilde l) + b\,\tilde v\big),\quad
          \tilde l = l / l_{opt},\quad \tilde v = \dot l / (l_{opt}\,v_{max})

Shortening is negative, tension is never. Curves of [DeGroote2016]_ with the constants of OpenSim, and those of MuJoCo.
They are the law of ``ActivationSpline(law="hill")``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import asinh, exp, sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, UnknownNameError, frozen, kernel
from marey.muscle.muscles.spline import HILL_CURVES

if TYPE_CHECKING:
    from collections.abc import Callable


DE_GROOTE, MUJOCO = 0, 1  # numbers of the curve sets

_BUMPS = (
    (0.8150671134243542, 1.055033428970575, 0.162384573599574, 0.063303448465465),
    (0.433004984392647, 0.716775413397760, -0.029947116970696, 0.200356847296188),
    (0.1, 1.0, 0.353553390593274, 0.0),
)
_D1, _D2, _D3, _D4 = -0.3211346127989808, -8.149, -0.374, 0.8825327733249912
_KP, _E0, _LOW = 4.0, 0.6, 0.2  # [-] shape of the passive curve, strain at unit force, length where it starts
_START = exp(_KP * (_LOW - 1.0) / _E0)

_LMIN, _LMAX, _FPMAX, _FVMAX = 0.5, 1.6, 1.3, 1.2
_LEFT, _RIGHT = 0.5 * (_LMIN + 1.0), 0.5 * (1.0 + _LMAX)  # middle points: 0.75, 1.3


@kernel
def groote_length(x: float) -> float:
    """Active force over length, of [DeGroote2016]_: three bumps."""
    value = 0.0
    for b1, b2, b3, b4 in _BUMPS:
        value += b1 * exp(-0.5 * ((x - b2) / (b3 + b4 * x)) ** 2)
    return value


@kernel
def groote_speed(v: float) -> float:
    """Force over speed, of [DeGroote2016]_, held at zero below full shortening speed."""
    return max(0.0, _D1 * asinh(_D2 * v + _D3) + _D4)


@kernel
def groote_passive(x: float) -> float:
    """Passive force over length, of [DeGroote2016]_, held at zero below a fifth of the optimum."""
    return max(0.0, (exp(_KP * (x - 1.0) / _E0) - _START) / (exp(_KP) - _START))


@kernel
def mujoco_length(x: float) -> float:
    """Active force over length, of MuJoCo: a bump of four parabolas."""
    if x <= _LMIN or x >= _LMAX:
        return 0.0
    if x <= _LEFT:
        return 0.5 * ((x - _LMIN) / (_LEFT - _LMIN)) ** 2
    if x <= 1.0:
        return 1.0 - 0.5 * ((1.0 - x) / (1.0 - _LEFT)) ** 2
    if x <= _RIGHT:
        return 1.0 - 0.5 * ((x - 1.0) / (_RIGHT - 1.0)) ** 2
    return 0.5 * ((_LMAX - x) / (_LMAX - _RIGHT)) ** 2


@kernel
def mujoco_speed(v: float) -> float:
    """Force over speed, of MuJoCo: two parabolas."""
    rise = _FVMAX - 1.0
    if v <= -1.0:
        return 0.0
    if v <= 0.0:
        return (v + 1.0) ** 2
    return _FVMAX - (rise - v) ** 2 / rise if v <= rise else _FVMAX


@kernel
def mujoco_passive(x: float) -> float:
    """Passive force over length, of MuJoCo: a cubic, then a line."""
    if x <= 1.0:
        return 0.0
    half = _RIGHT - 1.0
    if x <= _RIGHT:
        return 0.5 * _FPMAX * ((x - 1.0) / half) ** 2
    return _FPMAX * (0.5 + (x - _RIGHT) / half)


@kernel
def compute_hill_force(curves: int, a: float, x: float, v: float, b: float) -> float:
    """Tension of a fibre over its maximal isometric force; never below zero."""
    if curves == MUJOCO:
        return max(0.0, a * mujoco_length(x) * mujoco_speed(v) + mujoco_passive(x) + b * v)
    return max(0.0, a * groote_length(x) * groote_speed(v) + groote_passive(x) + b * v)


@kernel
def compute_hill_slopes(curves: int, a: float, x: float, v: float, b: float) -> tuple[float, float, float]:
    """Tension, and its derivatives by length and by speed from central differences."""
    e, by_length, by_speed = 1e-5, 0.0, 0.0
    for side in (-1.0, 1.0):  # a loop, so that the curves are compiled in once
        for kind in range(2):
            step = side * e
            force = compute_hill_force(curves, a, x + step if kind == 0 else x, v + step if kind == 1 else v, b)
            if kind == 0:
                by_length += 0.5 * force / step
            else:
                by_speed += 0.5 * force / step
    return compute_hill_force(curves, a, x, v, b), by_length, by_speed


@kernel
def activation_rate(u: float, a: float, rise_s: float, fall_s: float) -> float:
    r"""How fast activation follows excitation: :math:`\dot a = (u - a)/\tau`, slower to fall than to rise [1/s]."""
    scale = 0.5 + 1.5 * a
    return (u - a) / (rise_s * scale if u > a else fall_s / scale)


@kernel
def vector_length(x: float, y: float, z: float) -> float:
    """Euclidean length."""
    return sqrt(x * x + y * y + z * z)


RISE_S, FALL_S = 0.01, 0.04  # [s] time constants of activation and deactivation


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
