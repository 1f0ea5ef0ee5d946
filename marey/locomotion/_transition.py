"""A leap from a gait and back into it, planned whole at the heel strike as a function of time."""

from __future__ import annotations

from dataclasses import dataclass

from marey.base import FloatArray
from marey.locomotion._blend import BLEND_WEIGHTS, Alignment
from marey.locomotion._steer import heading_vector
from marey.locomotion._transition_clip import (
    GaitClip,
    JumpClip,
    PoseFrame,
    blend_frames,
    place_frame,
)
from marey.skeleton import Skeleton


@dataclass(frozen=True, slots=True, eq=False)
class LeapPlan:
    r"""Blend in over the take-off foot's stance, fly, blend out over the landing foot's ([Glardon2005]_ §III.3.3).

    Everything is a function of the time since the heel strike, so that a frame of the future costs what a frame
    of the present costs, and any partition of time gives the same motion.

    Both motions share the supporting foot: at the heel strike the jump is put where its ankle falls on the
    gait's, and at the landing the gait is put where its ankle falls on the jump's. While blending, the gait's
    carriage moves with the gait's phase, a stride per cycle, so that its stance foot stays where it is.
    """

    skeleton: Skeleton
    gait: GaitClip
    jump: JumpClip
    side: int  # RIGHT or LEFT: the take-off foot
    heading_rad: float
    into: Alignment
    out: Alignment
    start: FloatArray  # (2,) [m] the gait's carriage at the heel strike
    anchor: FloatArray  # (2,) [m] where the jump's frame stands
    landing: FloatArray  # (2,) [m] the gait's carriage at the landing foot's heel strike
    times_s: tuple[float, float, float]  # toe off, heel strike of the landing, end
    weight: str = "cubic"

    @property
    def duration_s(self) -> float:
        """How long the whole transition lasts."""
        return self.times_s[2]

    @property
    def end_phase(self) -> float:
        """Phase at which the gait goes on."""
        return self.out.b[1] % 1.0

    @property
    def end_position(self) -> FloatArray:
        """Carriage ``(x, z)`` [m] with which the gait goes on."""
        return self._carriage(self.landing, self.out.b[1] - self.out.b[0])

    def state(self, time_s: float) -> str:
        """Name of the state: blend-in, jump or blend-out."""
        toe_off, strike, _ = self.times_s
        return "blend-in" if time_s < toe_off else "jump" if time_s < strike else "blend-out"

    def frame(self, time_s: float) -> PoseFrame:
        """Raw pose at a time since the heel strike [s]."""
        toe_off, strike, _ = self.times_s
        if time_s < toe_off:
            return self._blend_in(self.into.progress(time_s))
        if time_s < strike:
            return self._jump(self._jump_phase(time_s))
        return self._blend_out(self.out.progress(time_s - strike))

    def jump_phase(self, time_s: float) -> float:
        """Phase of the jump at a time since the heel strike."""
        toe_off, strike, _ = self.times_s
        if time_s < toe_off:
            return self.into.phases(self.into.progress(time_s))[1]
        return self._jump_phase(time_s) if time_s < strike else self.out.phases(self.out.progress(time_s - strike))[0]

    def gait_phase(self, time_s: float) -> float:
        """Phase of the gait; from the toe off to the landing it goes evenly from the one to the other."""
        toe_off, strike, _ = self.times_s
        if time_s < toe_off:
            return self.into.phases(self.into.progress(time_s))[0]
        if time_s >= strike:
            return self.out.phases(self.out.progress(time_s - strike))[1]
        u = (time_s - toe_off) / (strike - toe_off)
        return (1.0 - u) * self.into.a[1] + u * max(self.out.b[0], self.into.a[1])

    def carriage(self, time_s: float) -> FloatArray:
        """Where the character is on the ground ``(x, z)`` [m]; straight between the toe off and the landing."""
        toe_off, strike, _ = self.times_s
        leaving = self._carriage(self.start, self.into.a[1] - self.into.a[0])
        if time_s < toe_off:
            return self._carriage(self.start, self.gait_phase(time_s) - self.into.a[0])
        if time_s < strike:
            return leaving + (time_s - toe_off) / (strike - toe_off) * (self.landing - leaving)
        return self._carriage(self.landing, self.gait_phase(time_s) - self.out.b[0])

    def _carriage(self, start: FloatArray, cycles: float) -> FloatArray:
        return start + self.gait.speed / self.gait.frequency_hz * cycles * heading_vector(self.heading_rad)

    def _jump_phase(self, time_s: float) -> float:
        return self.into.b[1] + (time_s - self.times_s[0]) / self.jump.duration_s

    def _jump(self, phase: float) -> PoseFrame:
        return place_frame(self.jump.frame(phase), self.anchor, self.heading_rad)

    def _gait(self, start: FloatArray, window: float, phase: float) -> PoseFrame:
        return place_frame(self.gait.frame(phase), self._carriage(start, phase - window), self.heading_rad)

    def _blend_in(self, p: float) -> PoseFrame:
        phase, jump_phase = self.into.phases(p)
        return blend_frames(
            self._gait(self.start, self.into.a[0], phase), self._jump(jump_phase), BLEND_WEIGHTS[self.weight](p)
        )

    def _blend_out(self, p: float) -> PoseFrame:
        jump_phase, phase = self.out.phases(p)
        return blend_frames(
            self._jump(jump_phase), self._gait(self.landing, self.out.b[0], phase), BLEND_WEIGHTS[self.weight](p)
        )

    def after(self, time_s: float) -> PoseFrame:
        """Pose of the gait alone at a time past the end [s of the plan], if nothing is changed."""
        phase = self.out.b[1] + (time_s - self.duration_s) * self.gait.frequency_hz
        return self._gait(self.landing, self.out.b[0], phase)
