"""Planning of leaps: windows of both motions, anchors, and the foot plants that follow."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from marey.base import FloatArray
from marey.locomotion._blend import Alignment
from marey.locomotion._steer import heading_vector
from marey.locomotion._transition import LeapPlan
from marey.locomotion._transition_clip import (
    RIGHT,
    GaitClip,
    JumpClip,
    compute_effectors,
    place_frame,
    solve_ground_shift,
)
from marey.locomotion._transition_feet import FootholdSchedule, Span, schedule_footholds
from marey.locomotion._transition_stance import (
    HEEL_OFF,
    STRIKE,
    TOE_OFF,
    TOE_STRIKE,
    HeldStance,
    find_foot_passing,
    find_matching_phase,
    make_gait_stance,
    make_stance,
)
from marey.skeleton import Skeleton

LAST_PHASE: Final = 1.0  # [-] of a jump
LATEST_ENTRY: Final = 0.4  # [-] of a stance: a motion is entered no later
EARLIEST_EXIT: Final = 0.5  # [-] of a stance: nor left earlier
EARLIEST_ENTRY: Final = -0.15  # [-] of a stance: nor earlier, while its foot still comes down
SWING_ALIGNMENT: Final = (
    0.5  # [-] how much the swings of both motions are brought together; all of it makes the body hurry
)


def plan_leap(
    skeleton: Skeleton,
    gait: GaitClip,
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
    here = start + off.stride_m * (off.held - into.a[0]) * ahead
    held = compute_effectors(skeleton, place_frame(gait.frame(off.held), here, heading_rad))[off.ankle]
    anchor = solve_ground_shift(held, stances.push.foot, heading_rad)
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


def _make_leap_stances(skeleton: Skeleton, gait: GaitClip, jump: JumpClip, side: int) -> LeapStances:
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
    stances: LeapStances, gait: GaitClip, jump: JumpClip, side: int, phase: float | None, rate: str
) -> tuple[Alignment, Alignment]:
    """Windows of both blends: the stance of the take-off foot, and of the landing foot.

    [Glardon2005]_ §III.3.3 takes whole stances. The body of a jump may stand over its foot otherwise than that of the
    gait at the same event, and would have to hurry or wait; so both windows begin and end where it stands alike. And
    a jump's leg may swing later than a walk's: both swings are brought nearer, lest they meet in the ground.
    """
    leaving, landing = split_gait_events(gait.events, side)
    late = 0.0 if phase is None else (phase - leaving[STRIKE] + 0.5) % 1.0 - 0.5
    hold, land = (jump.events[STRIKE], jump.events[TOE_OFF]), (jump.events[4], min(jump.events[7], LAST_PHASE))
    whole, after = (leaving[STRIKE] + late, leaving[TOE_OFF]), (landing[STRIKE], landing[TOE_OFF])
    entry = find_matching_phase(stances.leaving, whole[0], stances.push, _sub_window(hold, 0.0, LATEST_ENTRY))
    left = find_matching_phase(stances.push, hold[1], stances.leaving, _sub_window(whole, EARLIEST_EXIT, 1.0))
    back = find_matching_phase(stances.land, land[0], stances.landing, _sub_window(after, EARLIEST_ENTRY, LATEST_ENTRY))
    done = find_matching_phase(stances.land, land[1], stances.landing, _sub_window(after, EARLIEST_EXIT, 1.0))
    jump_hz = 1.0 / jump.duration_s
    into = Alignment((whole[0], left), (entry, hold[1]), gait.frequency_hz, jump_hz, rate)
    out = Alignment(land, (back, done), jump_hz, gait.frequency_hz, rate)
    skeleton, feet = stances.push.skeleton, (stances.land.ankle, stances.push.ankle)
    first, second = (find_foot_passing(skeleton, motion, at, *feet) for motion, at in ((gait, into.a), (jump, into.b)))
    return into.bend_to_meet(first, second, part=SWING_ALIGNMENT) if first < second else into, out


def find_takeoff_foot(plan: LeapPlan) -> tuple[FloatArray, FloatArray]:
    """Where the take-off ankle is held ``(x, z)`` [m], and the unit direction in which the foot points."""
    off = _make_leap_stances(plan.skeleton, plan.gait, plan.jump, plan.side).leaving
    here = plan.start + off.stride_m * (off.held - plan.into.a[0]) * heading_vector(plan.heading_rad)
    feet = compute_effectors(plan.skeleton, place_frame(plan.gait.frame(off.held), here, plan.heading_rad))[:, [0, 2]]
    along = feet[off.ankle + 1] - feet[off.ankle]
    return feet[off.ankle], along / np.linalg.norm(along)


def _sub_window(window: tuple[float, float], start: float, stop: float) -> tuple[float, float]:
    span = window[1] - window[0]
    return window[0] + start * span, window[0] + stop * span


def split_gait_events(events: FloatArray, side: int) -> tuple[FloatArray, FloatArray]:
    """Events ``(4,)`` of the take-off foot, and those of the other foot that come next, from the gait's eight."""
    leaving, landing = (events[:4], events[4:]) if side == RIGHT else (events[4:], events[:4] + 1.0)
    return leaving, landing


def schedule_leap_footholds(plan: LeapPlan) -> FootholdSchedule:
    """Foot plants of a leap: of the take-off foot, of the other, and the first ones after it.

    While two motions are blended, an event that both have falls where :meth:`Alignment.shared` puts it; one that the
    gait alone has (the other foot's leaving, the next heel strike of a walk) falls where the gait has it.
    """
    own, other = ((0, 1), (2, 3)) if plan.side == RIGHT else ((2, 3), (0, 1))
    spans = dict(zip((*own, *other), (*_takeoff_foot_spans(plan), *_landing_foot_spans(plan)), strict=True))
    return schedule_footholds(plan.skeleton, lambda t: plan.frame(t) if t < plan.duration_s else plan.after(t), spans)


def _takeoff_foot_spans(plan: LeapPlan) -> tuple[list[Span], list[Span]]:
    """Plants of the take-off foot's ankle and toe: this stance, and the next."""
    events, jump = split_gait_events(plan.gait.events, plan.side)[0], plan.jump.events
    heel_off = plan.into.time_of(plan.into.progress_of_shared_event(events[HEEL_OFF], jump[HEEL_OFF]))
    toe_on = plan.into.time_of(plan.into.progress_of_shared_event(events[TOE_STRIKE], jump[TOE_STRIKE]))
    return (
        [(-np.inf, heel_off), (_time_after_leap(plan, events[STRIKE] + 1.0), np.inf)],
        [(toe_on, plan.times_s[0]), (_time_after_leap(plan, events[TOE_STRIKE] + 1.0), np.inf)],
    )


def _landing_foot_spans(plan: LeapPlan) -> tuple[list[Span], list[Span]]:
    """Plants of the landing foot's ankle and toe: what is left of the last stance, the landing, and the next."""
    events, jump, out = split_gait_events(plan.gait.events, plan.side)[1], plan.jump.events, plan.out
    strike, end = plan.times_s[1:]
    toe_on = strike + out.time_of(out.progress_of_shared_event(jump[5], events[TOE_STRIKE]))
    heel_off = (
        strike + out.time_of(out.progress_of_shared_event(jump[6], events[HEEL_OFF]))
        if events[HEEL_OFF] < out.b[1]
        else np.inf
    )
    toe_off = end if events[TOE_OFF] <= out.b[1] else np.inf
    left = [_time_before_leap(plan, events[event] - 1.0) for event in (HEEL_OFF, TOE_OFF)]
    return (
        [(-np.inf, left[0]), (strike, heel_off), (_time_after_leap(plan, events[STRIKE] + 1.0), np.inf)],
        [(-np.inf, left[1]), (toe_on, toe_off), (_time_after_leap(plan, events[TOE_STRIKE] + 1.0), np.inf)],
    )


def _time_before_leap(plan: LeapPlan, phase: float) -> float:
    """Time at which the gait before the leap has a phase [s]; minus infinity where that is past."""
    p = plan.into.places(phase, 0.0)[0]
    return plan.into.time_of(p) if 0.0 < p < 1.0 else -np.inf


def _time_after_leap(plan: LeapPlan, phase: float) -> float:
    """Time at which the gait after the leap has a phase [s], if nothing is changed."""
    p = plan.out.places(0.0, phase)[1]
    if p < 1.0:
        return plan.times_s[1] + plan.out.time_of(p)
    return plan.duration_s + (phase - plan.out.b[1]) / plan.gait.frequency_hz
