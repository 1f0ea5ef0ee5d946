"""A guess at what a clip shows, by plain rules on measured features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from marey.motion import Motion

BEHAVIOURS: Final = ("walk", "run", "jump", "turn", "stand", "pick-up", "acrobatic", "other")


@dataclass(frozen=True, slots=True)
class Features:
    """What the rules look at."""

    mean_speed_mps: float
    heading_change_rad: float
    flight_s: float
    root_low_m: float
    root_high_m: float


def measure_features(motion: Motion) -> Features:
    """Measure what :func:`guess_behaviour` needs."""
    from marey.motion import mean_speed

    heights = motion.root_positions[:, 1]
    return Features(mean_speed(motion), 0.0, 0.0, float(heights.min()), float(heights.max()))


def guess_behaviour(features: Features) -> str:
    """Return one of :data:`BEHAVIOURS`."""
    return "walk" if features.mean_speed_mps > 0.3 else "stand"
