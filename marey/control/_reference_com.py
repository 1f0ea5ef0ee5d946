"""Centres of mass that feet can bear: a clip's sway, made fit for the soles that it stands on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.control._features_support import convex_hull, hull_distances
from marey.dynamics import GRAVITY
from marey.motion import runs

MARGIN_M: Final = 0.015  # [m] pressure is planned no nearer than this to the edge of the soles
LEAST_HEIGHT_M: Final = 0.2  # [m] of a centre of mass that is still balanced
LEVEL: Final = [0, 2]  # the axes of the ground


@dataclass(frozen=True, slots=True, eq=False)
class Sway:
    r"""How the centre of mass is carried: :math:`\ddot c = \omega^2 (c - p)`, the inverted pendulum."""

    com: FloatArray  # (F, 3) [m]
    velocity: FloatArray  # (F, 3) [m/s]
    pressure: FloatArray  # (F, 2) [m] where the ground pushes, (x, z)
    frequency: float  # [1/s] omega

    def capture(self, i: int) -> FloatArray:
        r"""Capture point ``(2,)`` [m] of a frame, :math:`c + \dot c/\omega`: where a stop would need support."""
        return (self.com[i] + self.velocity[i] / self.frequency)[LEVEL]


def bearable_sway(com: FloatArray, corners: FloatArray, down: BoolArray, dt: float) -> Sway:
    r"""Nearest path of the centre of mass whose pressure stays within the soles.

    The pressure of the clip, :math:`p = c - \ddot c/\omega^2`, is moved into the hull of the soles that are down; then
    :math:`c - \ddot c/\omega^2 = p` is solved for the path between ends that stay as they are. Without feet on the
    ground the path of the clip is kept.

    Args:
        com: of the clip ``(F, 3)`` [m].
        corners: of the soles ``(F, 2, 4, 3)`` [m].
        down: feet on the ground ``(F, 2)``.
        dt: time between frames [s].
    """
    height = max(float(np.mean(com[:, 1])), LEAST_HEIGHT_M)
    frequency = float(np.sqrt(GRAVITY / height))
    level = com[:, LEVEL]
    second = np.zeros_like(level)
    second[1:-1] = np.diff(level, n=2, axis=0) / dt**2
    pressure = level - second / frequency**2
    for i in np.flatnonzero(down.any(axis=1)):
        pressure[i] = nearest_inside(convex_hull(corners[i][down[i]][..., LEVEL].reshape(-1, 2)), pressure[i], MARGIN_M)
    path = np.array(com)
    path[:, LEVEL] = _pendulum_path(pressure, level, frequency * dt)
    return Sway(path, _rates(path, dt), pressure, frequency)


def nearest_inside(hull: FloatArray, place: FloatArray, margin_m: float = 0.0) -> FloatArray:
    """Place ``(2,)`` or the nearest to it that is a margin inside a hull ``(h, 2)``; of a narrow hull, its middle."""
    if len(hull) < 3:
        return _nearest_on_line(hull, place)
    inside = hull_distances(hull, place)[1]
    widest = float(hull_distances(hull, hull.mean(axis=0))[1].min())
    margin = min(margin_m, 0.9 * widest)
    if (inside >= margin).all():
        return place
    middle = hull.mean(axis=0)
    shrink = 1.0 - margin / max(widest, 1e-9)
    smaller = middle + shrink * (hull - middle)
    ends = np.roll(smaller, -1, axis=0) - smaller
    along = np.einsum("hi,hi->h", place - smaller, ends) / np.maximum(np.einsum("hi,hi->h", ends, ends), 1e-12)
    candidates = smaller + np.clip(along, 0.0, 1.0)[:, None] * ends
    if (hull_distances(smaller, place)[1] >= 0.0).all():
        return place
    return candidates[np.argmin(np.linalg.norm(candidates - place, axis=1))]


def _nearest_on_line(hull: FloatArray, place: FloatArray) -> FloatArray:
    if len(hull) < 2:
        return place if not len(hull) else hull[0]
    way = hull[1] - hull[0]
    along = float(np.clip((place - hull[0]) @ way / max(float(way @ way), 1e-12), 0.0, 1.0))
    return hull[0] + along * way


def _pendulum_path(pressure: FloatArray, level: FloatArray, step: float) -> FloatArray:
    """Solve the pendulum for its path ``(F, 2)``; ``step`` is the frequency times the time between frames."""
    from scipy.linalg import solve_banded  # pyright: ignore[reportUnknownVariableType]  # scipy is untyped here

    count, k = len(pressure), 1.0 / step**2
    bands = np.zeros((3, count))
    bands[0, 2:], bands[1, 1:-1], bands[2, :-2] = -k, 1.0 + 2.0 * k, -k
    bands[1, [0, -1]] = 1.0
    known = np.array(pressure)
    known[[0, -1]] = level[[0, -1]]
    return np.asarray(solve_banded((1, 1), bands, known), dtype=np.float64)


def _rates(path: FloatArray, dt: float) -> FloatArray:
    steps = np.diff(path, axis=0) / dt
    return np.concatenate([steps, steps[-1:]])


def time_to_landing(down: BoolArray) -> FloatArray:
    """Frames until each foot lands ``(F, 2)``; zero while it is down or never lands."""
    left = np.zeros(down.shape)
    for side in range(2):
        for start, stop in runs(~down[:, side]):
            if stop < len(down):
                left[start:stop, side] = np.arange(stop - start, 0, -1)
    return left
