r"""Activation splines: curves in a soft body along which it contracts. [Engell2012]_ §20.

Their Hill law, ``ActivationSpline(law="hill")``, is the force of a muscle over its length and its speed:

.. math:: F = F_0\,\big(a\,f_L(\tilde l)\,f_V(\tilde v) + f_P(\tilde l) + b\,\tilde v\big),\quad
          \tilde l = l / l_{opt},\quad \tilde v = \dot l / (l_{opt}\,v_{max})

Shortening is negative, tension is never. Curves of [DeGroote2016]_ with the constants of OpenSim, and those of MuJoCo.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import asinh, exp
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, UnknownNameError, frozen, kernel
from marey.numerics import evaluate_clamped_spline

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


Region = str | tuple[str, float] | ArrayLike
CURVES: Final = ("b-spline", "catmull-rom", "polyline")
SAMPLINGS: Final = ("uniform", "arc-length", "curvature")
METRICS: Final = ("geodesic", "euclidean")
LAWS: Final = ("spring", "hill")
HILL_CURVES: Final = ("de-groote", "mujoco")
_NUM_DENSE_SAMPLES: Final = 400  # values of the curve from which lengths are measured
ALPHA_MIN: Final = 0.6  # [-] contraction at full activation: muscle fibres shorten by about 40 %
STIFFNESS_RATIO: Final = 2.0  # [-] active to passive stiffness throughout [Engell2012]_ §21


@dataclass(frozen=True, slots=True, eq=False)
class ActivationSpline:
    r"""A curve :math:`p(s) = \sum_k N_k(s)\,g_k` that contracts by damped springs along it. [Engell2012]_ §20.

    Stiffness is that of one segment between two samples. Without it the spline is ``ratio`` times as stiff as the
    part of the body that it moves. Region is what a point moves: ``"voronoi"``, ``"cell"``, ``("radius", r)`` or
    painted weights of the body's nodes ``(V,)``.
    """

    points: FloatArray  # (K, 3) [m] control points
    stiffness: float | None = None  # [N/m]
    name: str = ""
    samples: int | None = None  # None: about one for each cell
    sampling: Literal["uniform", "arc-length", "curvature"] | str = "uniform"
    curve: str = "b-spline"
    region: Region = "voronoi"
    metric: str = "geodesic"  # how far nodes are: inside the body, or straight
    max_radius: float | None = None  # [m] nodes farther than this stay free
    alpha_min: float = ALPHA_MIN  # far below 0: a soft spring under a force, so that antagonists can be stretched
    ratio: float = STIFFNESS_RATIO
    damping_ratio: float = 1.0  # [-] of critical
    law: str = "spring"
    force_n: float | None = None  # [N] greatest force of the Hill law; None: as the spring at alpha_min
    optimal_length: float = 1.0  # [-] of the rest length, where the Hill law pulls most
    speed_per_s: float = 10.0  # [1/s] highest shortening speed in optimal lengths
    curves: str = "de-groote"

    def __post_init__(self) -> None:
        points = frozen(self.points, None, 3, name="points")
        object.__setattr__(self, "points", points)
        if len(points) < 2 or float(np.linalg.norm(np.ptp(points, axis=0))) == 0.0:
            raise InputError(f"{len(points)} control points in one place", "A spline needs at least two that differ")
        for kind, value, known in (
            ("curve", self.curve, CURVES),
            ("sampling", self.sampling, SAMPLINGS),
            ("metric", self.metric, METRICS),
            ("law", self.law, LAWS),
            ("curves", self.curves, HILL_CURVES),
        ):
            if value not in known:
                raise UnknownNameError(kind, str(value), "activation splines", known)
        positive = ("stiffness", "max_radius", "ratio", "force_n", "optimal_length", "speed_per_s")
        for name in positive:
            number = getattr(self, name)
            if number is not None and not (np.isfinite(number) and number > 0.0):
                raise InputError(f"{name} of spline '{self.name}' is {number}", "It must be above zero")
        if not (np.isfinite(self.alpha_min) and self.alpha_min < 1.0):
            raise InputError(f"alpha_min of spline '{self.name}' is {self.alpha_min}", "It lies below 1")
        if not (np.isfinite(self.damping_ratio) and self.damping_ratio >= 0.0):
            raise InputError(f"damping_ratio of spline '{self.name}' is {self.damping_ratio}", "It cannot be negative")
        if self.samples is not None and self.samples < 2:
            raise InputError(f"{self.samples} samples of spline '{self.name}'", "At least two make a segment")

    def __call__(self, s: ArrayLike) -> FloatArray:
        """Points of the curve ``(..., 3)`` at parameters from 0 to 1."""
        u = np.clip(frozen(s, name="s"), 0.0, 1.0)
        if self.curve == "b-spline":
            return evaluate_clamped_spline(self.points, u)
        points, spans = self.points, len(self.points) - 1
        if self.curve == "polyline":
            knots = np.linspace(0.0, 1.0, len(points))
            return np.stack([np.interp(u, knots, points[:, c]) for c in range(3)], axis=-1)
        # Catmull-Rom: the cubic through all points, with the slope of the neighbours at each.
        ends = np.vstack([2.0 * points[0] - points[1], points, 2.0 * points[-1] - points[-2]])
        k = np.minimum((u * spans).astype(np.int64), spans - 1)
        t = (u * spans - k)[..., None]
        a, b, c, d = ends[k], ends[k + 1], ends[k + 2], ends[k + 3]
        return b + 0.5 * t * (c - a + t * (2.0 * a - 5.0 * b + 4.0 * c - d + t * (3.0 * (b - c) + d - a)))

    @property
    def length(self) -> float:
        """Length of the curve [m]."""
        return float(_arc_lengths(self)[1][-1])

    def sample(self, count: int) -> FloatArray:
        """Points ``(count, 3)`` along the curve: Eq. 75, or equally long pieces, or closer ones where it bends."""
        if count < 2:
            raise InputError(f"{count} samples of a spline", "At least two make a segment")
        fractions = np.linspace(0.0, 1.0, count)
        if self.sampling == "uniform":
            return self(fractions)
        # Parameters at fractions of the arc length, or of arc length and turning angle together.
        s, arc, p = _arc_lengths(self)
        measure = arc / arc[-1]
        if self.sampling == "curvature":
            steps = np.diff(p, axis=0)
            unit = steps / np.maximum(np.linalg.norm(steps, axis=1, keepdims=True), 1e-300)
            turn = np.arccos(np.clip(np.sum(unit[1:] * unit[:-1], axis=1), -1.0, 1.0))
            angle = np.concatenate([[0.0, 0.0], np.cumsum(turn)])
            measure = (measure + angle / np.pi) / (1.0 + angle[-1] / np.pi)
        return self(np.interp(fractions, measure, s))


def _arc_lengths(spline: ActivationSpline) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Dense parameters, the arc length up to each [m], and the points."""
    s = np.linspace(0.0, 1.0, _NUM_DENSE_SAMPLES)
    p = spline(s)
    steps = np.linalg.norm(np.diff(p, axis=0), axis=1)
    return s, np.concatenate([[0.0], np.cumsum(steps)]), p
