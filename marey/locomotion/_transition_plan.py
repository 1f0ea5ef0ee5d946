"""Planning of leaps: windows of both motions, anchors, and the foot plants that follow."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.locomotion._blend import Alignment
from marey.locomotion._transition import LeapPlan
from marey.locomotion._transition_clip import RIGHT, Gait, JumpClip, effectors, ground_shift, placed
from marey.locomotion._transition_feet import Feet, feet_of
from marey.skeleton import Skeleton

STRIKE, TOE_STRIKE, HEEL_OFF, TOE_OFF = range(4)
LAST_PHASE: Final = 1.0  # [-] of a jump


def plan_leap(
    skeleton: Skeleton,
    gait: Gait,
    jump: JumpClip,
    position: FloatArray,
    heading_rad: float,
    *,
    side: int = RIGHT,
    rate: str = "repaired",
    weight: str = "quintic",
) -> LeapPlan:
    """Line a jump up with the gait it leaves from, at the take-off foot's heel strike, and with the one it lands in.

    Args:
        skeleton: the body.
        gait: what is walked or run before and after, frozen.
        jump: the jump; its clip must be mirrored for a left take-off.
        position: the gait's carriage ``(x, z)`` at the heel strike [m].
        heading_rad: direction of the approach and of the jump.
        side: take-off foot, 0 right or 1 left.
        rate: of the blend, ``"repaired"`` or ``"glardon"``.
        weight: of the blend, a name of ``WEIGHTS``.
    """
    leaving, landing = gait_windows(gait.events, side)
    jump_in, jump_out = (jump.events[STRIKE], jump.events[TOE_OFF]), (jump.events[4], min(jump.events[7], LAST_PHASE))
    jump_hz = 1.0 / jump.duration_s
    into = Alignment((leaving[STRIKE], leaving[TOE_OFF]), jump_in, gait.frequency_hz, jump_hz, rate)
    out = Alignment(jump_out, (landing[STRIKE], landing[TOE_OFF]), jump_hz, gait.frequency_hz, rate)
    toe_off = into.duration_s
    strike = toe_off + (jump_out[0] - jump_in[1]) * jump.duration_s
    start = np.array(position, dtype=np.float64)
    ankle, other = (0, 2) if side == RIGHT else (2, 0)
    held = effectors(skeleton, placed(gait.frame(into.a[0]), start, heading_rad))[ankle]
    anchor = ground_shift(held, effectors(skeleton, jump.frame(jump_in[0]))[ankle], heading_rad)
    struck = effectors(skeleton, placed(jump.frame(jump_out[0]), anchor, heading_rad))[other]
    carriage = ground_shift(struck, effectors(skeleton, gait.frame(out.b[0]))[other], heading_rad)
    times = (toe_off, strike, strike + out.duration_s)
    return LeapPlan(skeleton, gait, jump, side, heading_rad, into, out, start, anchor, carriage, times, weight)


def gait_windows(events: FloatArray, side: int) -> tuple[FloatArray, FloatArray]:
    """Events ``(4,)`` of the take-off foot, and those of the other foot that come next, from the gait's eight."""
    leaving, landing = (events[:4], events[4:]) if side == RIGHT else (events[4:], events[:4] + 1.0)
    return leaving, landing


def leap_feet(plan: LeapPlan) -> Feet:
    """Foot plants of a leap: of the take-off foot, of the other, and the first ones after it.

    While two motions are blended, an event that both have falls where :meth:`Alignment.shared` puts it; one that the
    gait alone has (the other foot's leaving, the next heel strike of a walk) falls where the gait has it.
    """
    leaving, landing = gait_windows(plan.gait.events, plan.side)
    jump, own = plan.jump.events, (0, 1) if plan.side == RIGHT else (2, 3)
    other = (2, 3) if plan.side == RIGHT else (0, 1)
    toe_off, strike, end = plan.times_s

    def entering(p: float) -> float:
        return plan.into.time_of(p)

    def leaving_at(p: float) -> float:
        return strike + plan.out.time_of(p)

    def before(phase: float) -> float:
        p = (phase - plan.into.a[0]) / (plan.into.a[1] - plan.into.a[0])
        return entering(p) if 0.0 < p < 1.0 else -np.inf

    def later(phase: float) -> float:
        p = (phase - plan.out.b[0]) / (plan.out.b[1] - plan.out.b[0])
        return leaving_at(p) if p < 1.0 else end + (phase - plan.out.b[1]) / plan.gait.frequency_hz

    heel_off = entering(plan.into.shared(leaving[HEEL_OFF], jump[HEEL_OFF]))
    toe_on = entering(plan.into.shared(leaving[TOE_STRIKE], jump[TOE_STRIKE]))
    toe_down = leaving_at(plan.out.shared(jump[5], landing[TOE_STRIKE]))
    heel_up = leaving_at(plan.out.shared(jump[6], landing[HEEL_OFF]))
    spans = {
        own[0]: [(-np.inf, heel_off), (later(leaving[STRIKE] + 1.0), np.inf)],
        own[1]: [(toe_on, toe_off), (later(leaving[TOE_STRIKE] + 1.0), np.inf)],
        other[0]: [
            (-np.inf, before(landing[HEEL_OFF] - 1.0)),
            (strike, heel_up),
            (later(landing[STRIKE] + 1.0), np.inf),
        ],
        other[1]: [
            (-np.inf, before(landing[TOE_OFF] - 1.0)),
            (toe_down, end),
            (later(landing[TOE_STRIKE] + 1.0), np.inf),
        ],
    }
    return feet_of(plan.skeleton, lambda t: plan.frame(t) if t < end else plan.after(t), spans)
