"""A path on the ground, measured by arc length."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen

SPLINE_SAMPLES = 32  # per segment: the chord error of a 1 m turn stays below 0.2 mm


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Path:
    """A polyline or a smooth curve through way-points, walked at unit speed.

    ``kind="spline"`` is the centripetal Catmull-Rom curve, which passes through every way-point and has
    no loops between them ([Yuksel2011]_).
    """

    points: FloatArray  # (N, 2) [m] way-points (x, z), N >= 2, neighbours apart
    kind: str = "polyline"
    _samples: FloatArray = field(init=False)  # (S, 2) [m]
    _lengths: FloatArray = field(init=False)  # (S,) [m] arc length at each sample

    def __post_init__(self) -> None:
        points = frozen(self.points, None, 2, name="path points")
        if len(points) < 2:
            raise InputError(f"a path of {len(points)} points", "It needs at least two")
        if (np.linalg.norm(np.diff(points, axis=0), axis=1) < 1e-6).any():
            raise InputError("two neighbouring path points are the same", "Remove one of them")
        if self.kind not in ("polyline", "spline"):
            raise InputError(f"path kind '{self.kind}'", "It is 'polyline' or 'spline'")
        # Arc lengths are those of the samples
        samples = _catmull_rom(points) if self.kind == "spline" else points
        steps = np.linalg.norm(np.diff(samples, axis=0), axis=1)
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "_samples", frozen(samples, None, 2, name="samples"))
        object.__setattr__(self, "_lengths", frozen(np.concatenate([[0.0], np.cumsum(steps)]), None, name="lengths"))

    @property
    def length_m(self) -> float:
        """Arc length from the first way-point to the last [m]."""
        return float(self._lengths[-1])

    def point_at(self, distance_m: ArrayLike) -> FloatArray:
        """Return points ``(..., 2)`` [m] at arc lengths ``(...)``, held at the ends."""
        s = np.asarray(distance_m, dtype=np.float64)
        x = np.interp(s, self._lengths, self._samples[:, 0])
        return np.stack([x, np.interp(s, self._lengths, self._samples[:, 1])], axis=-1)

    def heading_at(self, distance_m: ArrayLike) -> FloatArray:
        """Direction of travel ``(...)`` [rad] at arc lengths: 0 is +Z, positive towards +X."""
        s = np.clip(np.asarray(distance_m, dtype=np.float64), 0.0, self.length_m)
        segment = np.clip(np.searchsorted(self._lengths, s, side="right") - 1, 0, len(self._lengths) - 2)
        step = np.diff(self._samples, axis=0)[segment]
        return np.arctan2(step[..., 0], step[..., 1])

    def nearest(self, point: ArrayLike) -> tuple[float, float]:
        """Arc length [m] of the point of the path nearest to ``point`` (x, z), and its distance [m]."""
        p = np.asarray(point, dtype=np.float64)
        # Foot of the perpendicular on every segment, held at its ends
        a, d = self._samples[:-1], np.diff(self._samples, axis=0)
        u = np.clip(np.einsum("ij,ij->i", p - a, d) / np.einsum("ij,ij->i", d, d), 0.0, 1.0)
        gaps = np.linalg.norm(p - (a + u[:, None] * d), axis=1)
        best = int(np.argmin(gaps))
        along = self._lengths[best] + u[best] * (self._lengths[best + 1] - self._lengths[best])
        return float(along), float(gaps[best])

    def sample(self, spacing_m: float) -> FloatArray:
        """Return points ``(M, 2)`` at most ``spacing_m`` apart along the path, both ends included."""
        if not spacing_m > 0.0:
            raise InputError(f"spacing_m is {spacing_m}", "It must be positive")
        count = int(np.ceil(self.length_m / spacing_m)) + 1
        return self.point_at(np.linspace(0.0, self.length_m, max(count, 2)))

    def __repr__(self) -> str:
        return f"Path({self.kind}, {len(self.points)} points, {self.length_m:.2f} m)"


def _catmull_rom(points: FloatArray) -> FloatArray:
    """Samples ``(S, 2)`` of the centripetal curve through way-points."""
    # One point beyond each end, mirrored; centripetal knots are square roots of distances apart
    first, last = 2.0 * points[0] - points[1], 2.0 * points[-1] - points[-2]
    p = np.concatenate([first[None], points, last[None]])
    knots = np.concatenate([[0.0], np.cumsum(np.sqrt(np.linalg.norm(np.diff(p, axis=0), axis=1)))])
    curves = [_evaluate_span(p[i : i + 4], knots[i : i + 4]) for i in range(len(points) - 1)]
    return np.concatenate([*curves, points[-1:]])


def _evaluate_span(p: FloatArray, t: FloatArray) -> FloatArray:
    """One span by the pyramid of Barry and Goldman, without its last point."""
    u: FloatArray = np.linspace(float(t[1]), float(t[2]), SPLINE_SAMPLES, endpoint=False)[:, None]

    def mix(a: FloatArray, b: FloatArray, low: float, high: float) -> FloatArray:
        return (high - u) / (high - low) * a + (u - low) / (high - low) * b

    # Three lines, two parabolas, one cubic
    a1, a2, a3 = (mix(p[i], p[i + 1], t[i], t[i + 1]) for i in range(3))
    return mix(mix(a1, a2, t[0], t[2]), mix(a2, a3, t[1], t[3]), t[1], t[2])
