"""How a body stands over its foot, and how the feet pass each other: what two motions are lined up by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from marey.base import FloatArray
from marey.locomotion._transition_clip import GaitClip, PoseFrame, compute_effectors
from marey.skeleton import Skeleton

STRIKE, TOE_STRIKE, HEEL_OFF, TOE_OFF = range(4)
MAX_FALSE_POSITION_STEPS: Final = 8
NEAR_M: Final = 1e-3
PASSING_POINTS: Final = 9
LONGEST_S: Final = 0.5  # [s] the engine foresees no stance farther than this


class PhasedMotion(Protocol):
    """A gait or a jump: poses by phase."""

    def frame(self, phase: float) -> PoseFrame:
        """Pose at a phase."""
        ...


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


def make_gait_stance(skeleton: Skeleton, gait: GaitClip, events: FloatArray, ankle: int) -> HeldStance:
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
