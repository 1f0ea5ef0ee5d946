"""Is the frame rate of a clip right? Gravity and the body's own pendulums tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.motion._motion import Motion
from marey.motion._time_body import GRAVITY, BodyTracks, find_body
from marey.motion._time_cues import CUES, measure_cues, slow_fall

CUE_NAMES: Final = tuple(CUES)
MAX_HALVINGS: Final = 3  # a clip played more than eight times too fast is something else
MIN_RATE_HZ: Final = 20.0  # nobody captures at less, so a header below twice this is not doubted


@dataclass(frozen=True, slots=True)
class CueWeight:
    """What one cue says: ``slope * log(value / middle)``, with the value kept between ``low`` and ``high``."""

    slope: float
    middle: float
    low: float
    high: float


# Fitted by benchmarks/fit_time_base.py on 339 captured clips of 40 subjects, 43 of them with a header twice too fast:
# a logistic regression on log cues whose signs are held to physics. With the subject of the clip left out of the fit,
# all 43 score above FLAG_ABOVE and 5 of the other 296 do; two of these five are clips of one subject of untested rate.
# Cues, thresholds and FLAG_ABOVE were chosen with these same clips in view, so expect somewhat worse on others.
BIAS: Final = 0.127
FLAG_ABOVE: Final = -0.5
WEIGHTS: Final[Mapping[str, CueWeight]] = {
    "free fall": CueWeight(7.53, 1.96, 0.877, 4.27),
    "drop on feet": CueWeight(0.42, 0.544, 0.03, 1.92),
    "balance": CueWeight(1.28, 0.53, 0.112, 2.54),
    "pendulum": CueWeight(2.20, 1.87, 0.737, 5.26),
    "swing": CueWeight(-4.95, 0.87, 0.441, 1.43),
    "step time": CueWeight(-1.46, 1.32, 0.59, 2.44),
    "hand tempo": CueWeight(2.28, 3.64, 1.78, 7.38),
}
_SENTENCES: Final[Mapping[str, Callable[[float, float, float], str]]] = {  # of value, leg [m], unit of time [s]
    "free fall": lambda value, _leg, _unit: f"in flight it falls at {value * GRAVITY:.1f} m/s² (gravity: 9.8)",
    "drop on feet": lambda value, _leg, _unit: f"with a foot on the ground it sinks at up to {value:.2g} g",
    "balance": lambda value, leg, _unit: f"its weight acts up to {value * leg:.2f} m beside its feet",
    "pendulum": lambda value, _leg, _unit: f"on one foot it moves {value:.1f} times as hard as gravity tips it",
    "swing": lambda value, _leg, unit: f"a foot swings in {value * unit:.2f} s",
    "step time": lambda value, _leg, unit: f"it makes {60.0 / (value * unit):.0f} steps a minute",
    "hand tempo": lambda value, _leg, unit: f"the hands turn about {value / unit / np.pi:.1f} times a second",
}


@dataclass(frozen=True, slots=True)
class TimeBase:
    """What a clip says about its own frame rate."""

    rate_hz: float  # as the file has it
    suggested_rate_hz: float  # the same, unless the clip is suspect
    log_odds: float  # that it runs at double speed, from all cues; zero where nothing could be tested
    evidence: tuple[str, ...]  # one sentence a cue, the weightiest first

    @property
    def is_suspect(self) -> bool:
        """The clip seems to run too fast or too slowly."""
        return self.suggested_rate_hz != self.rate_hz

    @property
    def warning(self) -> str | None:
        """One sentence with the suggested rate, or ``None``."""
        if not self.is_suspect:
            return None
        reasons = "; ".join(self.evidence[: 3 if self.suggested_rate_hz < self.rate_hz else 1])
        wrong, better = "high" if self.suggested_rate_hz < self.rate_hz else "low", f"{self.suggested_rate_hz:g}"
        return (
            f"the frame rate {self.rate_hz:g} Hz seems too {wrong}: {reasons}. "
            f"It was probably captured at {better} Hz: load it with rate_hz={better}"
        )


def check_time_base(motion: Motion) -> TimeBase:
    r"""Test whether a clip is played at the wrong speed, as when its header says 120 Hz and it was captured at 60.

    Several cues that need no knowledge of the behaviour are weighed against one another as log odds: the free fall of
    the centre of mass in flight (:math:`9.81\,k^2` if time runs :math:`k` times too fast); what feet that can push but
    not pull allow (sinking, balance of the zero-moment point, the inverted pendulum on one foot); and the natural
    times of limbs (swing of a foot, step rate, turning of the hands). While the odds say too fast, the rate is halved.
    That a clip is played too slowly is told from flights at a quarter of gravity alone, since people may move slowly.
    A clip without legs, shorter than 30 frames, or not of human size is not tested.

    Args:
        motion: any clip.
    """
    body = find_body(motion)
    if body is None:
        return TimeBase(motion.rate_hz, motion.rate_hz, 0.0, ("nothing to test the frame rate with",))
    cues = measure_cues(body)
    log_odds = score_cues(cues)
    if log_odds > FLAG_ABOVE and motion.rate_hz >= 2.0 * MIN_RATE_HZ:
        return TimeBase(motion.rate_hz, _halve_rate(motion), log_odds, _describe_evidence(cues, body))
    fall = slow_fall(body)
    if fall is not None:
        reason = _SENTENCES["free fall"](fall, 0.0, 0.0)
        return TimeBase(motion.rate_hz, 2.0 * motion.rate_hz, log_odds, (reason, *_describe_evidence(cues, body)))
    return TimeBase(motion.rate_hz, motion.rate_hz, log_odds, _describe_evidence(cues, body))


def _halve_rate(motion: Motion) -> float:
    """Half the rate, and half of that again for as long as the clip still seems too fast."""
    rate_hz = 0.5 * motion.rate_hz
    for _ in range(MAX_HALVINGS - 1):
        body = find_body(replace(motion, rate_hz=rate_hz))
        if rate_hz < 2.0 * MIN_RATE_HZ or body is None or score_cues(measure_cues(body)) <= FLAG_ABOVE:
            break
        rate_hz *= 0.5
    return rate_hz


def _describe_evidence(cues: Mapping[str, float], body: BodyTracks) -> tuple[str, ...]:
    unit_s = float(np.sqrt(body.leg_m / GRAVITY))
    ordered = sorted(cues, key=lambda name: -cue_score(WEIGHTS[name], cues[name]))
    return tuple(_SENTENCES[name](cues[name], body.leg_m, unit_s) for name in ordered)


def score_cues(cues: Mapping[str, float], bias: float = BIAS, weights: Mapping[str, CueWeight] = WEIGHTS) -> float:
    """Log odds that the clip runs at double speed; a cue that is absent adds nothing."""
    return bias + sum(cue_score(weights[name], value) for name, value in cues.items())


def cue_score(weight: CueWeight, value: float) -> float:
    """What one cue adds to the log odds."""
    return weight.slope * float(np.log(min(max(value, weight.low), weight.high) / weight.middle))
