"""Planning of leaps: windows of both motions, anchors, and the foot plants that follow."""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np

from marey.base import FloatArray
from marey.locomotion._blend import Alignment
from marey.locomotion._transition import LeapPlan
from marey.locomotion._transition_clip import RIGHT, BodyFrame, Gait, JumpClip, effectors, ground_shift, placed
from marey.locomotion._transition_feet import Feet, feet_of
from marey.skeleton import Skeleton

STRIKE, TOE_STRIKE, HEEL_OFF, TOE_OFF = range(4)
LAST_PHASE: Final = 1.0  # [-] of a jump
LATEST: Final = 0.4  # [-] of a window
TRIES: Final = 8
PASSING_POINTS: Final = 13
NEARER: Final = 0.5  # [-] how much the swings of both motions are brought together; all of it makes the body hurry
NEAR_M: Final = 1e-3


def plan_leap(
    skeleton: Skeleton,
    gait: Gait,
    jump: JumpClip,
    position: FloatArray,
    heading_rad: float,
    *,
    side: int = RIGHT,
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
        rate: of the blend, ``"repaired"`` or ``"glardon"``.
        weight: of the blend, a name of ``WEIGHTS``.
    """
    leaving, landing = gait_windows(gait.events, side)
    ankle, other = (0, 2) if side == RIGHT else (2, 0)
    jump_hz, start = 1.0 / jump.duration_s, np.array(position, dtype=np.float64)
    entry = later_phase(skeleton, gait, leaving[STRIKE], jump, (jump.events[STRIKE], jump.events[TOE_OFF]), ankle)
    land = (jump.events[4], min(jump.events[7], LAST_PHASE))
    back = later_phase(skeleton, jump, land[0], gait, (landing[STRIKE], landing[TOE_OFF]), other)
    into = Alignment(
        (leaving[STRIKE], leaving[TOE_OFF]), (entry, jump.events[TOE_OFF]), gait.frequency_hz, jump_hz, rate
    )
    out = Alignment(land, (back, landing[TOE_OFF]), jump_hz, gait.frequency_hz, rate)
    swings = (passing(skeleton, motion, at, other, ankle) for motion, at in ((gait, into.a), (jump, into.b)))
    into = into.meeting(*swings, part=NEARER)
    toe_off = into.duration_s
    strike = toe_off + (land[0] - jump.events[TOE_OFF]) * jump.duration_s
    held = effectors(skeleton, placed(gait.frame(into.a[0]), start, heading_rad))[ankle]
    anchor = ground_shift(held, effectors(skeleton, jump.frame(entry))[ankle], heading_rad)
    struck = effectors(skeleton, placed(jump.frame(land[0]), anchor, heading_rad))[other]
    carriage = ground_shift(struck, effectors(skeleton, gait.frame(back))[other], heading_rad)
    times = (toe_off, strike, strike + out.duration_s)
    return LeapPlan(skeleton, gait, jump, side, heading_rad, into, out, start, anchor, carriage, times, weight)


class Played(Protocol):
    """A gait or a jump: poses by phase."""

    def frame(self, phase: float) -> BodyFrame:
        """Pose at a phase."""
        ...


def later_phase(
    skeleton: Skeleton, first: Played, at: float, second: Played, window: tuple[float, float], ankle: int
) -> float:
    """Phase of the second motion, within its window, at which its body is as far over the foot as that of the first.

    A jump often comes down with the foot under the body, where a walk has it far ahead at the heel strike: the walk is
    entered a little later then, or its body would have to hurry. Never before the window, and never past its middle.
    """
    goal = _over_foot(skeleton, first.frame(at), ankle)
    low, high = window[0], window[0] + LATEST * (window[1] - window[0])
    below, above = (_over_foot(skeleton, second.frame(phase), ankle) - goal for phase in (low, high))
    if below >= 0.0:
        return low
    if above <= 0.0:
        return high
    phase = low
    for _ in range(TRIES):  # false position: the body moves over its foot almost evenly
        phase = low - below * (high - low) / (above - below)
        miss = _over_foot(skeleton, second.frame(phase), ankle) - goal
        if abs(miss) < NEAR_M:
            break
        if miss < 0.0:
            low, below = phase, miss
        else:
            high, above = phase, miss
    return phase


def passing(skeleton: Skeleton, motion: Played, window: tuple[float, float], swinging: int, standing: int) -> float:
    """Place in a window, 0 to 1, at which the swinging ankle passes the standing one; 0 or 1 where it does not.

    Two motions whose legs swing together can be mixed; legs at different places of their swing meet in the ground.
    """
    places = np.linspace(0.0, 1.0, PASSING_POINTS)
    feet = [effectors(skeleton, motion.frame(window[0] + p * (window[1] - window[0]))) for p in places]
    ahead = np.array([foot[swinging, 2] - foot[standing, 2] for foot in feet])
    if ahead[0] >= 0.0 or ahead.max() <= 0.0:
        return 0.0 if ahead[0] >= 0.0 else 1.0
    i = int(np.argmax(ahead > 0.0))
    return float(places[i - 1] - ahead[i - 1] * (places[i] - places[i - 1]) / (ahead[i] - ahead[i - 1]))


def _over_foot(skeleton: Skeleton, frame: BodyFrame, ankle: int) -> float:
    """How far the root is ahead of an ankle [m]; frames look along +Z."""
    return float(frame.root[2] - effectors(skeleton, frame)[ankle, 2])


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
        p = plan.into.places(phase, 0.0)[0]
        return entering(p) if 0.0 < p < 1.0 else -np.inf

    def later(phase: float) -> float:
        p = plan.out.places(0.0, phase)[1]
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
