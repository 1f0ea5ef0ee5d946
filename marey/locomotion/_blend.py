"""Blending of two motions whose foot events are lined up in time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import expm1, log1p
from typing import Final

import numpy as np

from marey.base import EPS, InputError, UnknownNameError

SAME_RATE: Final = 1e-9  # [-] relative difference of two rates under which both are one


def _linear(p: float) -> float:
    return p


def _cubic(p: float) -> float:
    return p * p * (3.0 - 2.0 * p)


def _quintic(p: float) -> float:
    return p * p * p * (10.0 + p * (6.0 * p - 15.0))


WEIGHTS: Final[Mapping[str, Callable[[float], float]]] = {"linear": _linear, "cubic": _cubic, "quintic": _quintic}
"""How much of the second motion is seen at the progress p; ``linear`` is Glardon's, the others leave no kink."""


@dataclass(frozen=True, slots=True)
class Alignment:
    r"""Two motions played through one pair of windows together, first at the pace of one, at last of the other.

    .. math:: \dot p = (1-p)\frac{F_a}{a_2 - a_1} + p\,\frac{F_b}{b_2 - b_1}, \qquad
              p(t) = \frac{\alpha}{\beta-\alpha}\big(e^{(\beta-\alpha)t} - 1\big)

    [Glardon2005]_ §III.3.3 mixes the two frequencies for the first motion alone, Eq. 3.5-3.7, which leaves the second
    one with the wrong speed at the end (``rate="glardon"``); mixing the rates of ``p`` does not.

    ``a`` and ``b`` are windows of phase (start, stop), ``a_hz`` and ``b_hz`` the frequencies F of both motions.
    """

    a: tuple[float, float]
    b: tuple[float, float]
    a_hz: float  # [Hz]
    b_hz: float  # [Hz]
    rate: str = "repaired"

    def __post_init__(self) -> None:
        spans = (self.a[1] - self.a[0], self.b[1] - self.b[0], self.a_hz, self.b_hz)
        if not all(np.isfinite(spans)) or min(spans) <= 0.0:
            raise InputError(f"windows {self.a}, {self.b} at {self.a_hz}, {self.b_hz} Hz cannot be lined up")
        if self.rate not in ("repaired", "glardon"):
            raise UnknownNameError("blend rate", self.rate, "Alignment", ("repaired", "glardon"))

    @property
    def rates(self) -> tuple[float, float]:
        """Rates of the progress [1/s] at its start and at its end, alpha and beta."""
        span_a, span_b = self.a[1] - self.a[0], self.b[1] - self.b[0]
        return self.a_hz / span_a, self.b_hz / (span_a if self.rate == "glardon" else span_b)

    @property
    def duration_s(self) -> float:
        """How long the blend lasts."""
        return self.time_of(1.0)

    def progress(self, time_s: float) -> float:
        """How far the blend is after ``time_s`` since its start, 0 to 1."""
        alpha, beta = self.rates
        slope = beta - alpha
        grown = time_s if abs(slope) < SAME_RATE * alpha else expm1(min(slope * time_s, 700.0)) / slope
        return min(max(alpha * grown, 0.0), 1.0)

    def time_of(self, p: float) -> float:
        """When the progress ``p`` is reached [s]; the inverse of :meth:`progress`."""
        alpha, beta = self.rates
        slope = beta - alpha
        return p / alpha if abs(slope) < SAME_RATE * alpha else log1p(slope * p / alpha) / slope

    def phases(self, p: float) -> tuple[float, float]:
        """Phases of both motions at the progress ``p``."""
        return self.a[0] + p * (self.a[1] - self.a[0]), self.b[0] + p * (self.b[1] - self.b[0])

    def shared(self, phase_a: float, phase_b: float) -> float:
        r"""Progress at which both motions have the same event, when they have it at different places of the window.

        .. math:: p = (1-p)\,p_a + p\,p_b \quad\Rightarrow\quad p = \frac{p_a}{1 + p_a - p_b}
        """
        p_a = (phase_a - self.a[0]) / (self.a[1] - self.a[0])
        p_b = (phase_b - self.b[0]) / (self.b[1] - self.b[0])
        below = 1.0 + p_a - p_b
        return min(max(p_a / below, 0.0), 1.0) if below > EPS else 1.0
