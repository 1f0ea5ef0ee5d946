"""How the scores of a gait follow its speed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen

POWER = 0.4  # [-] exponent below the slowest captured speed; [Glardon2005]_ §II.2.3.1
FEW = 8  # units; fewer are fitted by medians, which one outlier cannot bend


@dataclass(frozen=True, slots=True, eq=False)
class SpeedLaw:
    r"""Scores of one gait of one person by speed.

    .. math:: A(s) = \alpha_0 + b' s^m \ (0 \le s < s_w), \qquad A(s) = a s + b \ (s \ge s_w),
              \qquad b' = (a s_w + b - \alpha_0)\,s_w^{-m}

    [Glardon2005]_ §II.2.3.1, where the printed b' refers to itself. The slope is infinite at rest: evaluate, never
    differentiate there.
    """

    standing: FloatArray  # (k,) scores at rest
    slope: FloatArray  # (k,) per unit of speed
    offset: FloatArray  # (k,)
    slowest: float  # speed of the slowest unit
    power: float = POWER

    def __call__(self, speed: ArrayLike) -> FloatArray:
        """Scores ``(..., k)`` at speeds ``(...)``; below zero counts as zero."""
        s = np.maximum(frozen(speed, name="speed"), 0.0)[..., None]
        line = self.slope * s + self.offset
        if self.slowest <= 0.0:
            return line
        joint = self.slope * self.slowest + self.offset
        curve = self.standing + (joint - self.standing) * (s / self.slowest) ** self.power
        return np.where(s < self.slowest, curve, line)


def fit_speed_law(
    scores: ArrayLike, speeds: ArrayLike, standing: ArrayLike | None = None, *, power: float = POWER
) -> SpeedLaw:
    """Fit a line above the slowest unit and a root curve below it.

    Args:
        scores: ``(n, k)`` of the moving units.
        speeds: ``(n,)``, positive; if all are equal the line is level.
        standing: ``(k,)`` scores of the body at rest; the line goes on to rest if not given.
        power: exponent of the curve below the slowest unit.
    """
    y = frozen(scores, None, None, name="scores")
    s = frozen(speeds, len(y), name="speeds")
    if len(y) == 0 or np.any(s <= 0.0):
        raise InputError("a speed law of no unit, or of units at rest", "Give moving units; rest is `standing`")
    slope, offset = (_least_squares if len(y) >= FEW else _medians)(s, y)
    slowest = float(s.min())
    rest = slope * slowest + offset if standing is None else frozen(standing, y.shape[1], name="standing")
    return SpeedLaw(rest, slope, offset, slowest, power)


def _least_squares(s: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    centred = s - s.mean()
    spread = float(centred @ centred)
    slope = np.asarray(centred @ y / spread if spread > 0.0 else np.zeros(y.shape[1]), dtype=np.float64)
    return slope, y.mean(axis=0) - slope * s.mean()


def _medians(s: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Median of the slopes between all pairs, and of what they leave (Theil and Sen)."""
    i, j = np.triu_indices(len(s), k=1)
    differ = s[i] != s[j]
    if not differ.any():
        return np.zeros_like(y[0]), np.asarray(np.median(y, axis=0), dtype=np.float64)
    i, j = i[differ], j[differ]
    slope = np.asarray(np.median((y[i] - y[j]) / (s[i] - s[j])[:, None], axis=0), dtype=np.float64)
    return slope, np.asarray(np.median(y - slope * s[:, None], axis=0), dtype=np.float64)
