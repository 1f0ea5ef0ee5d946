r"""Hill curves: the force of a muscle over its length and its speed.

.. math:: F = F_0\,\big(a\,f_L(\tilde l)\,f_V(\tilde v) + f_P(\tilde l) + b\,\tilde v\big),\quad
          \tilde l = l / l_{opt},\quad \tilde v = \dot l / (l_{opt}\,v_{max})

Shortening is negative, tension is never. Curves of [DeGroote2016]_ with the constants of OpenSim, and those of MuJoCo.
They are the law of ``ActivationSpline(law="hill")``.
"""

from __future__ import annotations

from math import asinh, exp

from marey.base import kernel

MUJOCO = 1  # number of this set of curves in HILL_CURVES; the other is that of De Groote

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
