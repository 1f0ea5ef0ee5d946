"""Ways on the ground: smooth curves by arc length, with the speed and the turning that a body may have on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen

MAX_LATERAL_MPS2: Final = 1.5  # [m/s²] how hard a curve may push, [Glardon2005]_ leaves steering to others
MAX_TURN_RATE_RADPS: Final = 1.5  # [rad/s]
FAST_CURVES: Final = (MAX_LATERAL_MPS2, MAX_TURN_RATE_RADPS)
COMFORTABLE_CURVES: Final = (0.5, 0.8)  # [m/s²], [rad/s]: as much as a walk that does not lean can take without tipping
HANDLE: Final = 0.4  # of the distance: the arms of the Bézier curve
SPACING_M: Final = 0.02


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GroundPath:
    """A curve that is walked: points close together, each with its direction and curvature."""

    points: FloatArray  # (M, 2) [m] (x, z), at most a few centimetres apart
    lengths: FloatArray = field(init=False)  # (M,) [m] arc length
    headings: FloatArray = field(init=False)  # (M,) [rad] continuous
    curvatures: FloatArray = field(init=False)  # (M,) [1/m] positive turns left

    def __post_init__(self) -> None:
        points = frozen(self.points, None, 2, name="way points")
        steps = np.linalg.norm(np.diff(points, axis=0), axis=1)
        if len(points) < 3 or (steps < 1e-9).any():
            raise InputError("a way of fewer than three points, or with two alike", "Give points that lie apart")
        lengths = np.concatenate([[0.0], np.cumsum(steps)])
        tangent = np.gradient(points, lengths, axis=0, edge_order=2)
        headings = np.unwrap(np.arctan2(tangent[:, 0], tangent[:, 1]))
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "lengths", frozen(lengths, None, name="lengths"))
        object.__setattr__(self, "headings", frozen(headings, None, name="headings"))
        object.__setattr__(self, "curvatures", frozen(np.gradient(headings, lengths), None, name="curvatures"))

    @property
    def length_m(self) -> float:
        """Arc length from end to end [m]."""
        return float(self.lengths[-1])

    def point_at(self, along_m: ArrayLike) -> FloatArray:
        """Points ``(..., 2)`` [m] at arc lengths; straight on beyond both ends."""
        s = np.asarray(along_m, dtype=np.float64)
        inside = np.stack([np.interp(s, self.lengths, self.points[:, i]) for i in range(2)], axis=-1)
        over = np.where(s < 0.0, s, np.maximum(s - self.length_m, 0.0))
        angle = self.heading_at(s)
        return inside + over[..., None] * np.stack([np.sin(angle), np.cos(angle)], axis=-1)

    def heading_at(self, along_m: ArrayLike) -> FloatArray:
        """Direction ``(...)`` [rad] at arc lengths, held at the ends."""
        return np.interp(np.asarray(along_m, dtype=np.float64), self.lengths, self.headings)

    def curvature_at(self, along_m: ArrayLike) -> FloatArray:
        """Curvature ``(...)`` [1/m] at arc lengths, zero beyond the ends."""
        return np.interp(np.asarray(along_m, dtype=np.float64), self.lengths, self.curvatures, left=0.0, right=0.0)

    def until(self, along_m: float) -> GroundPath:
        """The way up to an arc length, inside it."""
        inside = self.lengths < along_m - 1e-6
        inside[:2] = True
        return GroundPath(
            np.concatenate([self.points[inside], self.point_at(max(along_m, float(self.lengths[1]) + 1e-3))[None]])
        )

    def nearest(self, point: ArrayLike, near_m: float | None = None, *, reach_m: float = 2.0) -> float:
        """Arc length of the nearest point [m], within ``reach_m`` of ``near_m`` if given; may lie beyond an end."""
        p = np.asarray(point, dtype=np.float64)
        gaps = np.linalg.norm(self.points - p, axis=1)
        if near_m is not None:
            gaps = np.where(np.abs(self.lengths - near_m) <= reach_m, gaps, np.inf)
        best = int(np.argmin(gaps))
        angle = float(self.headings[best])
        return float(self.lengths[best] + (p - self.points[best]) @ np.array([np.sin(angle), np.cos(angle)]))

    def __repr__(self) -> str:
        return f"Way({len(self.points)} points, {self.length_m:.2f} m)"


def straight_path(start: ArrayLike, heading_rad: float, length_m: float) -> GroundPath:
    """A straight line from a point."""
    s = np.linspace(0.0, length_m, max(3, int(np.ceil(length_m / SPACING_M)) + 1))
    return GroundPath(np.asarray(start, dtype=np.float64) + s[:, None] * heading_vector(heading_rad))


def heading_vector(heading_rad: float) -> FloatArray:
    """Unit vector ``(2,)`` (x, z) of a heading."""
    return np.array([np.sin(heading_rad), np.cos(heading_rad)])


def evaluate_bezier(controls: FloatArray, count: int) -> FloatArray:
    """Points ``(count, 2)`` of a Bézier curve, by de Casteljau's corner cutting."""
    u = np.linspace(0.0, 1.0, count)[:, None, None]
    level = np.broadcast_to(controls, (count, *controls.shape))
    while level.shape[1] > 1:
        level = (1.0 - u) * level[:, :-1] + u * level[:, 1:]
    return level[:, 0]


def resample_evenly(points: FloatArray, spacing_m: float = SPACING_M) -> FloatArray:
    """The same line in points evenly apart; points that repeat are dropped."""
    steps = np.linalg.norm(np.diff(points, axis=0), axis=1)
    kept = np.concatenate([[True], steps > 1e-9])
    points, lengths = points[kept], np.concatenate([[0.0], np.cumsum(steps[steps > 1e-9])])
    length = float(lengths[-1])
    s: FloatArray = np.linspace(0.0, length, max(3, int(np.ceil(length / spacing_m)) + 1))
    return np.stack([np.interp(s, lengths, points[:, i]) for i in range(2)], axis=-1)


def curvature_speed_limit(
    way: GroundPath, speed_mps: float, *, lateral: float = MAX_LATERAL_MPS2, turn: float = MAX_TURN_RATE_RADPS
) -> FloatArray:
    r"""Highest speed ``(M,)`` [m/s] at the points of a way.

    .. math:: s \le \sqrt{a_{lat}/|\kappa|},\qquad s|\kappa| \le \omega_{max}
    """
    bend = np.maximum(np.abs(way.curvatures), 1e-9)
    return np.minimum(speed_mps, np.minimum(np.sqrt(lateral / bend), turn / bend))


def limit_acceleration(
    way: GroundPath, limit: FloatArray, *, acceleration: float, first: float | None = None, last: float | None = None
) -> FloatArray:
    r"""Highest speed ``(M,)`` below a limit whose change keeps :math:`|s\,ds/dx| \le a`, with given ends."""
    squares = np.square(np.minimum(limit, 1e3))
    if first is not None:
        squares[0] = min(first**2, 1e6)
    if last is not None:
        squares[-1] = min(last**2, squares[-1])
    gain = 2.0 * acceleration * np.diff(way.lengths)
    for i in range(1, len(squares)):
        squares[i] = min(squares[i], squares[i - 1] + gain[i - 1])
    for i in range(len(squares) - 2, -1, -1):
        squares[i] = min(squares[i], squares[i + 1] + gain[i])
    return np.sqrt(squares)
