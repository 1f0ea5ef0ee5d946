"""Activation splines: curves in a soft body along which it contracts. [Engell2012]_ §20."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, UnknownNameError, frozen
from marey.numerics import evaluate_clamped_spline

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
