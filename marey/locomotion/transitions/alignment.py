"""Alignment in time of two motions by their foot events and stances, and the weights of their blend.

Two motions are aligned by how the body stands over its foot, and by how the feet pass each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import expm1, isfinite, log1p
from typing import Final

import numpy as np

from marey.base import EPS, FloatArray, InputError, UnknownNameError
from marey.locomotion.transitions.clips import ConstantGait, JumpClip, compute_effectors
from marey.skeleton import Skeleton

SAME_RATE: Final = 1e-9  # [-] relative difference of two rates under which both are one
ALIGNMENT_RATES: Final = ("repaired", "glardon")
NO_BEND: Final = (1.0, 1.0)
MAX_BEND: Final = 4.0  # [-] a motion is never made slower or faster than this within its window
NUM_PIECES: Final = 32
PROGRESS_TABLE: Final[FloatArray] = np.linspace(0.0, 1.0, NUM_PIECES + 1)


BLEND_WEIGHTS: Final[Mapping[str, Callable[[float], float]]] = {
    "linear": lambda p: p,
    "cubic": lambda p: p * p * (3.0 - 2.0 * p),
    "quintic": lambda p: p * p * p * (10.0 + p * (6.0 * p - 15.0)),
}
"""Weight of the second motion at progress p; ``linear`` is Glardon's, the others are smooth."""


@dataclass(frozen=True, slots=True)
class Alignment:
    r"""Two motions played through one pair of windows together, first at the pace of one, at last of the other.

    .. math:: \dot p = (1-p)\frac{F_a}{a'(p)} + p\,\frac{F_b}{b'(p)}

    :math:`a(p)` and :math:`b(p)` are the phases of both. Straight, as in [Glardon2005]_ §III.3.3, they give
    :math:`p(t) = \frac{\alpha}{\beta-\alpha}(e^{(\beta-\alpha)t} - 1)` with the rates at both ends. Bent, they bring
    together an event that the motions have at different places of their windows:

    .. math:: a(p) = a_1 + (a_2 - a_1)\frac{k p}{1 + (k-1)p}

    The thesis mixes the two frequencies for the first motion alone, Eq. 3.5-3.7, which leaves the second one with the
    wrong speed at the end (``rate="glardon"``); mixing the rates of ``p`` does not.

    ``a`` and ``b`` are windows of phase (start, stop), ``a_hz`` and ``b_hz`` the frequencies F of both motions.
    """

    a: tuple[float, float]
    b: tuple[float, float]
    a_hz: float  # [Hz]
    b_hz: float  # [Hz]
    rate: str = "repaired"
    bends: tuple[float, float] = (1.0, 1.0)  # k of both motions

    def __post_init__(self) -> None:
        spans = (self.a[1] - self.a[0], self.b[1] - self.b[0], self.a_hz, self.b_hz, *self.bends)
        if not all(isfinite(span) for span in spans) or min(spans) <= 0.0:
            raise InputError(f"windows {self.a}, {self.b} at {self.a_hz}, {self.b_hz} Hz cannot be lined up")
        if self.rate not in ALIGNMENT_RATES:
            raise UnknownNameError("blend rate", self.rate, "Alignment", ALIGNMENT_RATES)

    @property
    def duration_s(self) -> float:
        """How long the blend lasts."""
        return self.time_of(1.0)

    def progress(self, time_s: float) -> float:
        """How far the blend is after ``time_s`` since its start, 0 to 1."""
        if self.bends != NO_BEND:
            # Hermite's cubic between the rows of the table, so that the rate has no steps
            times, rates = _tabulate_progress(self)
            if time_s >= times[-1]:
                return 1.0
            i = int(np.searchsorted(times, max(time_s, 0.0), side="right")) - 1
            h = float(times[i + 1] - times[i])
            u, rise = (max(time_s, 0.0) - float(times[i])) / h, 1.0 / NUM_PIECES
            start, stop = h * float(rates[i]), h * float(rates[i + 1])
            bend = u * (start + u * (3.0 * rise - 2.0 * start - stop + u * (start + stop - 2.0 * rise)))
            return float(PROGRESS_TABLE[i]) + bend
        alpha, beta = self._rate(0.0), self._rate(1.0)
        slope = beta - alpha
        grown = time_s if abs(slope) < SAME_RATE * alpha else expm1(min(slope * time_s, 700.0)) / slope
        return min(max(alpha * grown, 0.0), 1.0)

    def time_of(self, p: float) -> float:
        """When the progress ``p`` is reached [s]; the inverse of :meth:`progress`."""
        if self.bends != NO_BEND:
            return float(np.interp(p, PROGRESS_TABLE, _tabulate_progress(self)[0]))
        alpha, beta = self._rate(0.0), self._rate(1.0)
        slope = beta - alpha
        return p / alpha if abs(slope) < SAME_RATE * alpha else log1p(slope * p / alpha) / slope

    def phases(self, p: float) -> tuple[float, float]:
        """Phases of both motions at the progress ``p``."""
        a, b = _bend_progress(p, self.bends[0]), _bend_progress(p, self.bends[1])
        return self.a[0] + a * (self.a[1] - self.a[0]), self.b[0] + b * (self.b[1] - self.b[0])

    def places(self, phase_a: float, phase_b: float) -> tuple[float, float]:
        """Progress at which each motion has a phase; outside 0 to 1 where the phase is outside its window."""
        a = (phase_a - self.a[0]) / (self.a[1] - self.a[0])
        b = (phase_b - self.b[0]) / (self.b[1] - self.b[0])
        return _bend_progress(a, 1.0 / self.bends[0]), _bend_progress(b, 1.0 / self.bends[1])

    def progress_of_shared_event(self, phase_a: float, phase_b: float) -> float:
        r"""Progress at which both motions have the same event, when they have it at different places of the window.

        .. math:: p = (1-p)\,p_a + p\,p_b \quad\Rightarrow\quad p = \frac{p_a}{1 + p_a - p_b}
        """
        p_a, p_b = self.places(phase_a, phase_b)
        below = 1.0 + p_a - p_b
        return min(max(p_a / below, 0.0), 1.0) if below > EPS else 1.0

    def bend_to_meet(self, p_a: float, p_b: float, part: float = 1.0) -> Alignment:
        """Bend both motions so that what they have at the places ``p_a`` and ``p_b`` falls together half-way.

        ``part`` below 1 brings the event nearer, not together: a strong bend makes both motions hurry.
        """
        if not (min(p_a, p_b) > 0.0 and max(p_a, p_b) < 1.0):
            return self
        p = 0.5 * (p_a + p_b)
        places = (p + part * (p_a - p), p + part * (p_b - p))
        bends = tuple(min(max(m * (1.0 - p) / (p * (1.0 - m)), 1.0 / MAX_BEND), MAX_BEND) for m in places)
        return replace(self, bends=(bends[0], bends[1]))

    def _rate(self, p: float) -> float:
        """Rate of the progress [1/s] at a progress."""
        (k_a, k_b), span_a, span_b = self.bends, self.a[1] - self.a[0], self.b[1] - self.b[0]
        first = self.a_hz * (1.0 + (k_a - 1.0) * p) ** 2 / (k_a * span_a)
        if self.rate == "glardon":
            return (1.0 - p) * first + p * self.b_hz / span_a
        return (1.0 - p) * first + p * self.b_hz * (1.0 + (k_b - 1.0) * p) ** 2 / (k_b * span_b)


def _bend_progress(p: float, k: float) -> float:
    """Curve from 0 to 1 whose inverse is that of ``1 / k``; straight on outside."""
    if p < 0.0:
        return k * p
    if p > 1.0:
        return 1.0 + (p - 1.0) / k
    return k * p / (1.0 + (k - 1.0) * p)


@lru_cache(maxsize=64)
def _tabulate_progress(alignment: Alignment) -> tuple[FloatArray, FloatArray]:
    """Times [s] and rates [1/s] at the progresses of ``PROGRESS_TABLE``: Simpson's rule on 1 / rate."""
    fine = np.linspace(0.0, 1.0, 2 * NUM_PIECES + 1)
    slow = np.array([1.0 / alignment._rate(float(p)) for p in fine])  # pyright: ignore[reportPrivateUsage]  # same file
    pieces = (slow[:-2:2] + 4.0 * slow[1::2] + slow[2::2]) / (6.0 * NUM_PIECES)
    return np.concatenate([[0.0], np.cumsum(pieces)]), 1.0 / slow[::2]


STRIKE, TOE_STRIKE, HEEL_OFF, TOE_OFF = range(4)
MAX_FALSE_POSITION_STEPS: Final = 8
NEAR_M: Final = 1e-3
PASSING_POINTS: Final = 9
LONGEST_S: Final = 0.5  # [s] the engine foresees no stance farther than this


PhasedMotion = ConstantGait | JumpClip
"""A gait or a jump: poses by phase."""


@dataclass(frozen=True, slots=True, eq=False)
class HeldStance:
    """A motion while it stands on one foot, which is held where it is at the phase ``held``."""

    skeleton: Skeleton
    motion: PhasedMotion
    ankle: int  # an effector
    held: float
    foot: FloatArray  # (3,) [m] the held ankle, relative to the motion's frame at that phase
    stride_m: float  # way of the carriage in a cycle; 0 for a jump, which really moves

    def over(self, phase: float) -> float:
        """How far the root is ahead of the held ankle [m]; frames look along +Z."""
        ahead = self.motion.frame(phase).root[2] + self.stride_m * (phase - self.held)
        return float(ahead - self.foot[2])


def make_stance(skeleton: Skeleton, motion: PhasedMotion, ankle: int, held: float, stride_m: float = 0.0) -> HeldStance:
    """Stance of a motion whose foot is held where it is at a phase."""
    foot = compute_effectors(skeleton, motion.frame(held))[ankle]
    return HeldStance(skeleton, motion, ankle, held, foot, stride_m)


def make_gait_stance(skeleton: Skeleton, gait: ConstantGait, events: FloatArray, ankle: int) -> HeldStance:
    """Stance of a gait; its foot is held where it is in the middle of lying flat, ``events`` ``(4,)``."""
    flat = max(0.5 * float(events[TOE_STRIKE] + events[HEEL_OFF]) - float(events[STRIKE]), 0.0)
    held = float(events[STRIKE]) + min(flat, LONGEST_S * gait.frequency_hz)
    return make_stance(skeleton, gait, ankle, held, gait.speed / gait.frequency_hz)


def find_matching_phase(first: HeldStance, at: float, second: HeldStance, window: tuple[float, float]) -> float:
    """Phase of the second motion, within a window, at which its body is as far over the foot as that of the first.

    A jump often comes down with the foot under the body, where a walk has it far ahead at the heel strike: the walk is
    entered a little later then, or its body would have to hurry. The nearest end where no phase is alike.
    """
    goal = first.over(at)
    low, high = window
    # No phase of the window may be alike: then its nearer end
    below, above = (second.over(phase) - goal for phase in window)
    if below >= 0.0 or above <= 0.0:
        return low if below >= 0.0 else high
    phase = low
    for _ in range(MAX_FALSE_POSITION_STEPS):  # false position: the body moves over its foot almost evenly
        phase = low - below * (high - low) / (above - below)
        miss = second.over(phase) - goal
        if abs(miss) < NEAR_M:
            break
        if miss < 0.0:
            low, below = phase, miss
        else:
            high, above = phase, miss
    return phase


def find_foot_passing(
    skeleton: Skeleton, motion: PhasedMotion, window: tuple[float, float], swinging: int, standing: int
) -> float:
    """Place in a window, 0 to 1, at which the swinging ankle passes the standing one; 0 or 1 where it does not.

    Two motions whose legs swing together can be mixed; legs at different places of their swing meet in the ground.
    """
    places = np.linspace(0.0, 1.0, PASSING_POINTS)
    feet = [compute_effectors(skeleton, motion.frame(window[0] + p * (window[1] - window[0]))) for p in places]
    ahead = np.array([foot[swinging, 2] - foot[standing, 2] for foot in feet])
    if ahead[0] >= 0.0 or ahead.max() <= 0.0:
        return 0.0 if ahead[0] >= 0.0 else 1.0
    i = int(np.argmax(ahead > 0.0))
    return float(places[i - 1] - ahead[i - 1] * (places[i] - places[i - 1]) / (ahead[i] - ahead[i - 1]))
