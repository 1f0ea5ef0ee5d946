"""Plans of jumps: leaps from a gait and back into it, and jumps with both feet from standing.

A leap is planned whole at the heel strike as a function of time: windows of both motions, anchors, and the foot plants
that follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from marey.base import FloatArray
from marey.locomotion.model.locomotion_model import EFFECTORS
from marey.locomotion.planning.ground_path import heading_vector
from marey.locomotion.transitions.alignment import (
    BLEND_WEIGHTS,
    HEEL_OFF,
    STRIKE,
    TOE_OFF,
    TOE_STRIKE,
    Alignment,
    HeldStance,
    find_foot_passing,
    find_matching_phase,
    make_gait_stance,
    make_stance,
)
from marey.locomotion.transitions.clips import (
    RIGHT,
    ConstantGait,
    FootholdSchedule,
    JumpClip,
    PoseFrame,
    Span,
    blend_frames,
    compute_effectors,
    place_frame,
    schedule_footholds,
    solve_ground_shift,
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
    gait: ConstantGait
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

    def phases(self, time_s: float) -> tuple[float, float]:
        """Phases of gait and jump; from the toe off to the landing the gait's goes evenly from one to the other."""
        toe_off, strike, _ = self.times_s
        if time_s < toe_off:
            return self.into.phases(self.into.progress(time_s))
        if time_s >= strike:
            jump, gait = self.out.phases(self.out.progress(time_s - strike))
            return gait, jump
        u = (time_s - toe_off) / (strike - toe_off)
        gait = (1.0 - u) * self.into.a[1] + u * max(self.out.b[0], self.into.a[1])
        return gait, self.into.b[1] + (time_s - toe_off) / self.jump.duration_s

    def frame(self, time_s: float) -> PoseFrame:
        """Raw pose at a time since the heel strike [s]."""
        toe_off, strike, _ = self.times_s
        gait, phase = self.phases(time_s)
        jump = place_frame(self.jump.frame(phase), self.anchor, self.heading_rad)
        weigh = BLEND_WEIGHTS[self.weight]
        if time_s < toe_off:
            return blend_frames(self._gait(self.start, self.into.a[0], gait), jump, weigh(self.into.progress(time_s)))
        if time_s < strike:
            return jump
        progress = self.out.progress(time_s - strike)
        return blend_frames(jump, self._gait(self.landing, self.out.b[0], gait), weigh(progress))

    def gait_phase(self, time_s: float) -> float:
        """Phase of the gait."""
        return self.phases(time_s)[0]

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

    def _gait(self, start: FloatArray, window: float, phase: float) -> PoseFrame:
        return place_frame(self.gait.frame(phase), self._carriage(start, phase - window), self.heading_rad)

    def after(self, time_s: float) -> PoseFrame:
        """Pose of the gait alone at a time past the end [s of the plan], if nothing is changed."""
        phase = self.out.b[1] + (time_s - self.duration_s) * self.gait.frequency_hz
        return self._gait(self.landing, self.out.b[0], phase)


LAST_PHASE: Final = 1.0  # [-] of a jump
LATEST_ENTRY: Final = 0.4  # [-] of a stance: a motion is entered no later
EARLIEST_EXIT: Final = 0.5  # [-] of a stance: nor left earlier
EARLIEST_ENTRY: Final = -0.15  # [-] of a stance: nor earlier, while its foot still comes down
# [-] how much the swings of both motions are brought together; all of it makes the body hurry
SWING_ALIGNMENT: Final = 0.5


def plan_leap(
    skeleton: Skeleton,
    gait: ConstantGait,
    jump: JumpClip,
    position: FloatArray,
    heading_rad: float,
    *,
    side: int = RIGHT,
    phase: float | None = None,
    rate: str = "repaired",
    weight: str = "cubic",
) -> LeapPlan:
    """Line a jump up with the gait it leaves from, at the take-off foot's heel strike, and with the one it lands in.

    Args:
        skeleton: the body.
        gait: what is walked or run before and after, frozen.
        jump: the jump; its clip must be mirrored for a left take-off.
        position: the gait's carriage ``(x, z)`` at the heel strike [m].
        heading_rad: direction of the approach and of the jump.
        side: take-off foot, 0 right or 1 left.
        phase: of the gait now, near that of the heel strike; exactly that by default.
        rate: of the blend, ``"repaired"`` or ``"glardon"``.
        weight: of the blend, a name of ``WEIGHTS``.
    """
    stances = _make_leap_stances(skeleton, gait, jump, side)
    into, out = align_windows(stances, gait, jump, side, phase, rate)
    start, ahead = np.array(position, dtype=np.float64), heading_vector(heading_rad)
    off, on = stances.leaving, stances.landing
    # The jump's frame: its ankle falls on the gait's held one.
    here = start + off.stride_m * (off.held - into.a[0]) * ahead
    held = compute_effectors(skeleton, place_frame(gait.frame(off.held), here, heading_rad))[off.ankle]
    anchor = solve_ground_shift(held, stances.push.foot, heading_rad)
    # The carriage after the landing: the gait's ankle falls on the jump's.
    struck = compute_effectors(skeleton, place_frame(jump.frame(out.a[0]), anchor, heading_rad))[on.ankle]
    carriage = solve_ground_shift(struck, on.foot, heading_rad) - on.stride_m * (on.held - out.b[0]) * ahead
    strike = into.duration_s + (out.a[0] - into.b[1]) * jump.duration_s
    times = (into.duration_s, strike, strike + out.duration_s)
    return LeapPlan(skeleton, gait, jump, side, heading_rad, into, out, start, anchor, carriage, times, weight)


class LeapStances(NamedTuple):
    """Both motions on both feet: the gait leaves, the jump pushes off, the jump lands, the gait goes on."""

    leaving: HeldStance
    push: HeldStance
    land: HeldStance
    landing: HeldStance


def _make_leap_stances(skeleton: Skeleton, gait: ConstantGait, jump: JumpClip, side: int) -> LeapStances:
    ankle, other = (0, 2) if side == RIGHT else (2, 0)
    leaving, landing = split_gait_events(gait.events, side)
    flat = 0.5 * float(jump.events[TOE_STRIKE] + jump.events[HEEL_OFF])
    return LeapStances(
        make_gait_stance(skeleton, gait, leaving, ankle),
        make_stance(skeleton, jump, ankle, flat),
        make_stance(skeleton, jump, other, float(jump.events[4])),
        make_gait_stance(skeleton, gait, landing, other),
    )


def align_windows(
    stances: LeapStances, gait: ConstantGait, jump: JumpClip, side: int, phase: float | None, rate: str
) -> tuple[Alignment, Alignment]:
    """Windows of both blends: the stance of the take-off foot, and of the landing foot.

    [Glardon2005]_ §III.3.3 takes whole stances. The body of a jump may stand over its foot otherwise than that of the
    gait at the same event, and would have to hurry or wait; so both windows begin and end where it stands alike. And
    a jump's leg may swing later than a walk's: both swings are brought nearer, lest they meet in the ground.
    """
    leaving, landing = split_gait_events(gait.events, side)
    # Whole stances of the thesis: of the take-off foot in gait and jump, of the landing foot in jump and gait
    late = 0.0 if phase is None else (phase - leaving[STRIKE] + 0.5) % 1.0 - 0.5
    hold, land = (jump.events[STRIKE], jump.events[TOE_OFF]), (jump.events[4], min(jump.events[7], LAST_PHASE))
    whole, after = (leaving[STRIKE] + late, leaving[TOE_OFF]), (landing[STRIKE], landing[TOE_OFF])
    # Narrowed to where the body stands alike over its foot in both motions
    entry = find_matching_phase(stances.leaving, whole[0], stances.push, _sub_window(hold, 0.0, LATEST_ENTRY))
    left = find_matching_phase(stances.push, hold[1], stances.leaving, _sub_window(whole, EARLIEST_EXIT, 1.0))
    back = find_matching_phase(stances.land, land[0], stances.landing, _sub_window(after, EARLIEST_ENTRY, LATEST_ENTRY))
    done = find_matching_phase(stances.land, land[1], stances.landing, _sub_window(after, EARLIEST_EXIT, 1.0))
    jump_hz = 1.0 / jump.duration_s
    into = Alignment((whole[0], left), (entry, hold[1]), gait.frequency_hz, jump_hz, rate)
    out = Alignment(land, (back, done), jump_hz, gait.frequency_hz, rate)
    # Both swings are brought nearer where the jump's leg passes later than the gait's.
    skeleton, feet = stances.push.skeleton, (stances.land.ankle, stances.push.ankle)
    first, second = (find_foot_passing(skeleton, motion, at, *feet) for motion, at in ((gait, into.a), (jump, into.b)))
    return into.bend_to_meet(first, second, part=SWING_ALIGNMENT) if first < second else into, out


def find_planted_toe(plan: LeapPlan, rest_heights: FloatArray) -> FloatArray:
    """Where the take-off toe is held ``(x, z)`` [m]: before the ankle as far as a flat foot reaches."""
    off = _make_leap_stances(plan.skeleton, plan.gait, plan.jump, plan.side).leaving
    here = plan.start + off.stride_m * (off.held - plan.into.a[0]) * heading_vector(plan.heading_rad)
    feet = compute_effectors(plan.skeleton, place_frame(plan.gait.frame(off.held), here, plan.heading_rad))[:, [0, 2]]
    ankle, toe = off.ankle, off.ankle + 1
    along = feet[toe] - feet[ankle]
    bone = float(np.linalg.norm(plan.skeleton.offsets[plan.skeleton.index(EFFECTORS[toe])]))
    reach = np.sqrt(max(bone**2 - float(rest_heights[ankle] - rest_heights[toe]) ** 2, 0.0))
    return feet[ankle] + reach * (along / np.linalg.norm(along))


def _sub_window(window: tuple[float, float], start: float, stop: float) -> tuple[float, float]:
    span = window[1] - window[0]
    return window[0] + start * span, window[0] + stop * span


def split_gait_events(events: FloatArray, side: int) -> tuple[FloatArray, FloatArray]:
    """Events ``(4,)`` of the take-off foot, and those of the other foot that come next, from the gait's eight."""
    leaving, landing = (events[:4], events[4:]) if side == RIGHT else (events[4:], events[:4] + 1.0)
    return leaving, landing


def schedule_leap_footholds(plan: LeapPlan) -> FootholdSchedule:
    """Foot plants of a leap: of the take-off foot, of the other, and the first ones after it.

    While two motions are blended, an event that both have falls where :meth:`Alignment.progress_of_shared_event` puts
    it; one that the gait alone has (the other foot's leaving, the next heel strike of a walk) falls where the gait has
    it.
    """
    into, out, jump = plan.into, plan.out, plan.jump.events
    toe_off, strike, end = plan.times_s
    # The take-off foot: this stance, and the next
    events, after = split_gait_events(plan.gait.events, plan.side)
    heel_off = into.time_of(into.progress_of_shared_event(events[HEEL_OFF], jump[HEEL_OFF]))
    toe_on = into.time_of(into.progress_of_shared_event(events[TOE_STRIKE], jump[TOE_STRIKE]))
    ankle: list[Span] = [(-np.inf, heel_off), (_time_after_leap(plan, events[STRIKE] + 1.0), np.inf)]
    toe: list[Span] = [(toe_on, toe_off), (_time_after_leap(plan, events[TOE_STRIKE] + 1.0), np.inf)]
    # The other foot: what is left of its last stance, where that is not past, ...
    left: list[float] = []
    for event in (HEEL_OFF, TOE_OFF):
        p = into.places(after[event] - 1.0, 0.0)[0]
        left.append(into.time_of(p) if 0.0 < p < 1.0 else -np.inf)
    # ... the landing, which may last beyond the blend, and the next stance
    landed_toe = strike + out.time_of(out.progress_of_shared_event(jump[5], after[TOE_STRIKE]))
    landed_heel_off, landed_toe_off = np.inf, end if after[TOE_OFF] <= out.b[1] else np.inf
    if after[HEEL_OFF] < out.b[1]:
        landed_heel_off = strike + out.time_of(out.progress_of_shared_event(jump[6], after[HEEL_OFF]))
    next_heel, next_toe = (_time_after_leap(plan, after[event] + 1.0) for event in (STRIKE, TOE_STRIKE))
    other_ankle: list[Span] = [(-np.inf, left[0]), (strike, landed_heel_off), (next_heel, np.inf)]
    other_toe: list[Span] = [(-np.inf, left[1]), (landed_toe, landed_toe_off), (next_toe, np.inf)]
    order = (0, 1, 2, 3) if plan.side == RIGHT else (2, 3, 0, 1)
    spans: dict[int, list[Span]] = dict(zip(order, (ankle, toe, other_ankle, other_toe), strict=True))
    return schedule_footholds(plan.skeleton, lambda t: plan.frame(t) if t < plan.duration_s else plan.after(t), spans)


def _time_after_leap(plan: LeapPlan, phase: float) -> float:
    """Time at which the gait after the leap has a phase [s], if nothing is changed."""
    p = plan.out.places(0.0, phase)[1]
    if p < 1.0:
        return plan.times_s[1] + plan.out.time_of(p)
    return plan.duration_s + (phase - plan.out.b[1]) / plan.gait.frequency_hz


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
    end_phase: float = 0.0  # of standing

    @property
    def duration_s(self) -> float:
        """How long the whole jump lasts."""
        return self.jump.duration_s

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


def _ankle_midpoint(skeleton: Skeleton, frame: PoseFrame) -> FloatArray:
    return compute_effectors(skeleton, frame)[list(ANKLES)].mean(axis=0)
