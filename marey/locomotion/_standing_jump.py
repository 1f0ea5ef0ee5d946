"""A jump with both feet from standing, and back to standing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.locomotion._blend import BLEND_WEIGHTS
from marey.locomotion._transition_clip import (
    JumpClip,
    PoseFrame,
    blend_frames,
    compute_effectors,
    place_frame,
    solve_ground_shift,
)
from marey.locomotion._transition_feet import FootholdSchedule, schedule_footholds
from marey.skeleton import Skeleton

MAX_BLEND_S: Final = 0.5  # [s] a crouch or a rise that takes longer is seen as it was captured
GROUND_FRACTION: Final = 0.8  # [-] of the time on the ground that a blend may take
ANKLES: Final = (0, 2)


@dataclass(frozen=True, slots=True, eq=False)
class StandingJumpPlan:
    """Stand, crouch, fly, land, stand: a function of the time since its start.

    The jump is put where the middle of its ankles falls on that of the standing ankles; after the landing the
    standing body is put on the jump's ankles in the same way.
    """

    skeleton: Skeleton
    stand: PoseFrame  # relative to its carriage
    jump: JumpClip
    heading_rad: float
    start: FloatArray  # (2,) [m] carriage before
    anchor: FloatArray  # (2,) [m] where the jump's frame stands
    end_position: FloatArray  # (2,) [m] carriage after
    blends_s: tuple[float, float]  # durations of both blends
    weight: str = "cubic"

    @property
    def duration_s(self) -> float:
        """How long the whole jump lasts."""
        return self.jump.duration_s

    @property
    def end_phase(self) -> float:
        """Phase of standing."""
        return 0.0

    @property
    def times_s(self) -> tuple[float, float, float]:
        """Both feet leave, both feet land, the end."""
        return self.jump.events[3] * self.duration_s, self.jump.events[4] * self.duration_s, self.duration_s

    def state(self, time_s: float) -> str:
        """Name of the state: blend-in, jump or blend-out."""
        if time_s < self.blends_s[0]:
            return "blend-in"
        return "jump" if time_s < self.duration_s - self.blends_s[1] else "blend-out"

    def frame(self, time_s: float) -> PoseFrame:
        """Raw pose at a time since the start [s]."""
        jump = place_frame(self.jump.frame(time_s / self.duration_s), self.anchor, self.heading_rad)
        state = self.state(time_s)
        if state == "blend-in":
            weight = BLEND_WEIGHTS[self.weight](time_s / self.blends_s[0])
            return blend_frames(place_frame(self.stand, self.start, self.heading_rad), jump, weight)
        if state == "blend-out":
            weight = BLEND_WEIGHTS[self.weight](min((self.duration_s - time_s) / self.blends_s[1], 1.0))
            return blend_frames(place_frame(self.stand, self.end_position, self.heading_rad), jump, weight)
        return jump

    def gait_phase(self, time_s: float) -> float:
        """Phase of standing, at any time."""
        return 0.0 * time_s

    def carriage(self, time_s: float) -> FloatArray:
        """Where the character is on the ground ``(x, z)`` [m]; it moves while it flies."""
        leaves, lands, _ = self.times_s
        u = min(max((time_s - leaves) / (lands - leaves), 0.0), 1.0)
        return (1.0 - u) * self.start + u * self.end_position


def plan_standing_jump(
    skeleton: Skeleton, stand: PoseFrame, jump: JumpClip, position: FloatArray, heading_rad: float
) -> StandingJumpPlan:
    """Put a two-foot jump on a body that stands at ``position`` ``(x, z)`` [m]."""
    start = np.array(position, dtype=np.float64)
    held = _ankle_midpoint(skeleton, place_frame(stand, start, heading_rad))
    anchor = solve_ground_shift(held, _ankle_midpoint(skeleton, jump.frame(0.0)), heading_rad)
    landed = place_frame(jump.frame(jump.events[5]), anchor, heading_rad)
    end = solve_ground_shift(_ankle_midpoint(skeleton, landed), _ankle_midpoint(skeleton, stand), heading_rad)
    ground = (jump.events[2] * jump.duration_s, (1.0 - jump.events[5]) * jump.duration_s)
    blends = tuple(min(GROUND_FRACTION * span, MAX_BLEND_S) for span in ground)
    return StandingJumpPlan(skeleton, stand, jump, heading_rad, start, anchor, end, (blends[0], blends[1]))


def schedule_standing_footholds(plan: StandingJumpPlan) -> FootholdSchedule:
    """Foot plants of a two-foot jump: both feet leave and land alike."""
    heel_off, toe_off, strike, toe_strike = plan.jump.events[2:6] * plan.duration_s
    ankle = [(-np.inf, heel_off), (strike, np.inf)]
    toe = [(-np.inf, toe_off), (toe_strike, np.inf)]
    return schedule_footholds(plan.skeleton, plan.frame, {0: ankle, 1: toe, 2: ankle, 3: toe})


def _ankle_midpoint(skeleton: Skeleton, frame: PoseFrame) -> FloatArray:
    return compute_effectors(skeleton, frame)[list(ANKLES)].mean(axis=0)
