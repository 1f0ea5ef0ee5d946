"""Compiled clockwork of the walker: plans, phase, arcs, the schedule of the feet, frames; one character or many.

All that moves is a function of time alone, whatever the steps were: a plan is integrated piece by piece from its start,
and the clock keeps the state at the last whole piece, its anchor.
"""

from __future__ import annotations

from math import ceil, cos, floor, pi, sin, sqrt
from typing import NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, kernel
from marey.lie.kernels import conjugate, multiply, quaternion_at, write_rotation
from marey.locomotion.model.locomotion_model import GaitArrays
from marey.locomotion.model.synthesis import (
    BANK_AT,
    BOUNCE_AT,
    HEADING_AT,
    LEG_AT,
    PHASE_AT,
    PITCH_AT,
    RATE_AT,
    RUN_AT,
    S_N,
    SWAY_AT,
    SWAY_POWER,
    TURN_AT,
    X_AT,
    Z_AT,
    BodyArrays,
    copy_values,
    evaluate_cadence,
    evaluate_foot_events,
    foot_speed,
    gait_weight,
    normalise_speed,
    write_effectors,
    write_pose,
    write_rhythm,
)
from marey.locomotion.planning.parameters import (
    BANK,
    HASTE,
    LEG,
    MAX_MID_STANCE_S,
    PITCH,
    POSTURE,
    RUN,
    SPEED,
    STYLES,
    TURN,
)

NOW, KNOT, PIECE, PHASE, X, Z, HEADING = 0, 1, 2, 3, 4, 5, 6  # columns of a clock: time, anchor, state there
# Of a settling: who steps (or -1), since when, who did; at rest; new; a copy that looks ahead and begins no step; the
# phase from which it went on
FOOT, SINCE, TRIED, STOOD, FRESH, LEADS, BEGUN = 0, 1, 2, 3, 4, 5, 6
TO_TIME, TO_ANCHOR = 0.0, 1.0  # of a clock: to a time, or to the last anchor before it
PIECE_S = 0.05  # [s] over longer pieces of a ramp it would show that they are taken to be simple
LOOK_AHEAD_STEP_S = 0.1  # [s] from look to look for a landing
NUM_LOOK_AHEAD_STEPS = 6  # landings farther away than so many are told as if nothing changed after them
LANDING_NOTICE_S = 0.25  # [s] from here on, feet want to know where they land
NEVER_S = 1e9  # [s] as in the seam
SETTLE_S = 0.7  # [s] a small step on the spot, with the shift of weight before and after it
LIFTED = (0.25, 0.8)  # [-] of it the foot is in the air
PAUSE_S = 0.0  # [s] on both feet before the next
MAX_FRAME_S = 0.1  # [s] longer ago it was not just now
SETTLING_SWAY = 0.03  # [-] of the leg: how far the pelvis goes over the other foot
STAND_PHASE = 0.25  # the right foot under the body: here stands end, and from here the left foot makes the first step
FIRST_LIFT = 0.04  # [-] of a cycle later it leaves: 0.3 s after a start, when the body falls ahead
SETTLING_LIFT = 0.25  # [rad] of the thigh in a small step: 3 % of the leg high
MAX_STANDING_OFFSET = 0.035  # of the leg: feet farther than this from where they stand at ease step there
PLANT_EVENTS = ((0, 2), (1, 3), (4, 6), (5, 7))  # first and last event of each effector's plant


class ParameterPlan(NamedTuple):
    """Parameters over time, linear between knots and held after the last."""

    knots: FloatArray  # (M,) [s] since the plan was made, the first is zero
    values: FloatArray  # (M, P) speed, run, turn rate, leg length, posture (a power of speed), style weights


class WalkerState(NamedTuple):
    """All that one walker remembers."""

    clock: FloatArray  # (7,) time since the plan was made, and the state at its anchor
    state: FloatArray  # (7,) as the clock, but the state now
    here: FloatArray  # (P,) parameters now
    held: BoolArray  # (4,) effectors on the ground
    settling: FloatArray  # (7,) small steps of a stand, and whether the walker has just been placed
    until: FloatArray  # (4,) [s] to the start of the next plants of effectors in the air
    places: FloatArray  # (7, 15) placings: now, when each of them lands, and in the middle of each foot's stance
    shift: FloatArray  # (4, 3) [m] landings are moved by this, to where the raw foot is in the middle of its stance
    yaw: FloatArray  # (2,) [rad] and turned by this
    ease: FloatArray  # (4, 3) [m] effectors as shown last, before foot plants and small steps
    feet: FloatArray  # (4, 3) [m] effectors as shown last, after foot plants
    touch: BoolArray  # (4,) which of them the plants held then


@kernel
def interpolate_plan(plan: ParameterPlan, knot: int, t: float, out: FloatArray) -> None:
    """Parameters ``(P,)`` of a plan at a time not before the knot."""
    knots, values = plan.knots, plan.values
    i, last = knot, knots.shape[0] - 1
    while i < last and knots[i + 1] <= t:
        i += 1
    if i == last:
        copy_values(out, values[last])
        return
    part = (t - knots[i]) / (knots[i + 1] - knots[i])
    for c in range(values.shape[1]):
        out[c] = values[i, c] + part * (values[i + 1, c] - values[i, c])


@kernel
def cycle_rate(gaits: GaitArrays, build: BodyArrays, values: FloatArray) -> float:
    """Cycles per second [Hz] with these parameters; who brakes or turns makes shorter and faster steps."""
    s_n = normalise_speed(values[SPEED] + values[HASTE], values[LEG], build.own_leg, build.froude)
    # Short legs are short pendulums: they step faster than the tables tell.
    scale = sqrt(build.own_leg / values[LEG]) if build.froude else 1.0
    return evaluate_cadence(gaits, s_n, values[RUN], values[STYLES:]) * scale


@kernel
def add_arc(state: FloatArray, distance: float, turn: float) -> None:
    """Move along an arc; the chord of an arc is ``sinc(turn / 2)`` of its length ([Glardon2005]_ §III.2.2.1)."""
    half = 0.5 * turn
    chord = distance * (sin(half) / half if abs(half) > 1e-8 else 1.0)
    state[X] += chord * sin(state[HEADING] + half)
    state[Z] += chord * cos(state[HEADING] + half)
    state[HEADING] += turn


@kernel
def integrate_piece(
    gaits: GaitArrays, build: BodyArrays, plan: ParameterPlan, state: FloatArray, start: float, stop: float, t: float
) -> None:
    """Integrate phase, place and heading from the start of a piece of the plan to a time within it.

    The frequency is taken to be linear over a piece, so that the phase never decreases; the way is an arc of the mean
    speed and turn rate.
    """
    h = t - start
    if h <= 0.0:
        return
    knot, here = int(state[KNOT]), np.empty(plan.values.shape[1])
    interpolate_plan(plan, knot, start, here)
    first = cycle_rate(gaits, build, here)
    interpolate_plan(plan, knot, stop, here)
    last = cycle_rate(gaits, build, here)
    interpolate_plan(plan, knot, start + 0.5 * h, here)
    state[PHASE] += h * (first + 0.5 * h / (stop - start) * (last - first))
    add_arc(state, h * here[SPEED], h * here[TURN])


@kernel
def integrate_clock(
    gaits: GaitArrays, build: BodyArrays, plan: ParameterPlan, state: FloatArray, t: float, keep: float
) -> None:
    """Bring a clock to time ``t``; with ``keep`` only as far as the last whole piece, which is its new anchor.

    ``keep`` is ``TO_ANCHOR`` or ``TO_TIME``: a kernel is compiled anew for each flag or whole number, but not for
    these.
    """
    knots, values = plan.knots, plan.values
    last = knots.shape[0] - 1
    # Whole pieces of the plan, knot by knot; the piece in which `t` lies is integrated in part.
    while int(state[KNOT]) < last:
        knot = int(state[KNOT])
        length = knots[knot + 1] - knots[knot]
        pieces = max(1, ceil(length / PIECE_S))
        start = knots[knot] + length * state[PIECE] / pieces
        stop = knots[knot + 1] if state[PIECE] + 1 >= pieces else knots[knot] + length * (state[PIECE] + 1) / pieces
        if stop > t:
            if keep == TO_TIME:
                integrate_piece(gaits, build, plan, state, start, stop, t)
            return
        integrate_piece(gaits, build, plan, state, start, stop, stop)
        state[PIECE] += 1
        if state[PIECE] >= pieces:
            state[KNOT] += 1
            state[PIECE] = 0
    # After the last knot the parameters are held.
    if keep == TO_TIME:
        h = t - knots[last]
        state[PHASE] += h * cycle_rate(gaits, build, values[last])
        add_arc(state, h * values[last, SPEED], h * values[last, TURN])


@kernel
def write_placement(
    gaits: GaitArrays, build: BodyArrays, state: FloatArray, values: FloatArray, out: FloatArray
) -> None:
    r"""Placing ``(16,)`` of a body with these parameters; its posture has a speed of its own.

    Who steps faster than the gait of this posture, at the cadence :math:`f` in place of :math:`f_0`, sways less far
    aside, :math:`(f_0/f)^5` times: with the square of it the soles would press as far from the centre of mass as in
    that gait, and feet that go round a curve leave less room.
    """
    out[S_N] = max(values[POSTURE], 0.0) ** (1.0 / gaits.power)
    out[RUN_AT], out[PHASE_AT] = values[RUN], state[PHASE]
    out[X_AT], out[Z_AT], out[HEADING_AT] = state[X], state[Z], state[HEADING]
    out[LEG_AT], out[BANK_AT], out[PITCH_AT] = values[LEG], values[BANK], values[PITCH]
    out[BOUNCE_AT], out[RATE_AT], out[TURN_AT], out[SWAY_AT] = 0.0, 0.0, values[TURN], 1.0
    for k in range(values.shape[0] - STYLES):
        out[BOUNCE_AT] += values[STYLES + k] * gait_weight(gaits, k, 1, values[RUN])
    if out[BOUNCE_AT] > 0.0 or values[HASTE] > 0.0:
        out[RATE_AT] = cycle_rate(gaits, build, values)
    if values[HASTE] > 0.0 and out[RATE_AT] > 0.0:
        scale = sqrt(build.own_leg / values[LEG]) if build.froude else 1.0
        own = evaluate_cadence(gaits, out[S_N], values[RUN], values[STYLES:]) * scale
        out[SWAY_AT] = min(1.0, own / out[RATE_AT]) ** SWAY_POWER
    # How a runner bounces
    if out[BOUNCE_AT] > 0.0:
        events = np.empty(8)
        speed = foot_speed(values)
        s_n = normalise_speed(speed, values[LEG], build.own_leg, build.froude)
        evaluate_foot_events(gaits, s_n, values[RUN], values[STYLES:], events)
        write_rhythm(speed / values[LEG], events, out)


@kernel
def predict_plant_times(gaits: GaitArrays, build: BodyArrays, plan: ParameterPlan, walker: WalkerState) -> None:
    """Times [s] to the starts of the next plants of effectors in the air, while parameters change.

    The gaps of phase to the starts are looked at from tick to tick, and taken to be linear between.
    """
    mark, state, here = np.empty(7), np.empty(7), np.empty(plan.values.shape[1])
    events, gap, cycle = np.empty(8), np.empty(4), np.empty(4)
    # When the plan comes to rest for good: no speed, and the posture of standing; never, if it goes on
    last, rest = plan.knots.shape[0] - 1, NEVER_S
    if plan.values[last, SPEED] <= 0.0:
        while last > 0 and plan.values[last - 1, SPEED] <= 0.0 and plan.values[last - 1, POSTURE] <= 0.0:
            last -= 1
        rest = float(plan.knots[last])
    now, waiting = walker.clock[NOW], 4
    copy_values(mark, walker.clock)
    hertz, tick = 0.0, 0
    while waiting > 0 and (
        tick <= NUM_LOOK_AHEAD_STEPS
        or (now + LOOK_AHEAD_STEP_S * (tick - 1) < rest < NEVER_S and tick <= 8 * NUM_LOOK_AHEAD_STEPS)
    ):
        # State and parameters at this tick
        t = now + LOOK_AHEAD_STEP_S * tick
        integrate_clock(gaits, build, plan, mark, t, TO_ANCHOR)
        copy_values(state, mark)
        integrate_clock(gaits, build, plan, state, t, TO_TIME)
        interpolate_plan(plan, int(mark[KNOT]), t, here)
        s_n = normalise_speed(foot_speed(here), here[LEG], build.own_leg, build.froude)
        evaluate_foot_events(gaits, s_n, here[RUN], here[STYLES:], events)
        # Gaps of phase to the plants; one that closes between two ticks gives the time by a line.
        waiting = 0
        for e in range(4):
            missing = events[PLANT_EVENTS[e][0]] - state[PHASE]
            if tick == 0:
                cycle[e] = -floor(missing)
            missing += cycle[e]
            if not walker.held[e] and walker.until[e] >= NEVER_S:
                if missing <= 0.0 and tick > 0:
                    walker.until[e] = LOOK_AHEAD_STEP_S * (tick - 1 + gap[e] / (gap[e] - missing))
                else:
                    waiting += 1
            gap[e] = missing
        hertz = cycle_rate(gaits, build, here)
        tick += 1
    # Plants that were not reached: at the stop, or as if nothing changed after the last tick
    for e in range(4):
        if not walker.held[e] and walker.until[e] >= NEVER_S:
            if rest < NEVER_S:
                walker.until[e] = max(rest - now, 0.0)  # it stops with this foot in the air
            elif hertz > 0.0:
                walker.until[e] = LOOK_AHEAD_STEP_S * (tick - 1) + gap[e] / hertz


@kernel
def advance_walker(gaits: GaitArrays, build: BodyArrays, plan: ParameterPlan, walker: WalkerState, dt: float) -> None:
    """Move one walker on by ``dt`` [s]: its clock, which effectors are down, when and where the others will be."""
    clock, settling = walker.clock, walker.settling
    # The clock and its parameters; a stand waits at the phase from which the first step begins.
    clock[NOW] += dt
    integrate_clock(gaits, build, plan, clock, clock[NOW], TO_ANCHOR)
    interpolate_plan(plan, int(clock[KNOT]), clock[NOW], walker.here)
    if walker.here[SPEED] <= 0.0 and walker.here[POSTURE] <= 0.0:
        settling[STOOD] = 1.0
        clock[PHASE] = ceil(clock[PHASE] - STAND_PHASE - 1e-9) + STAND_PHASE
        settling[BEGUN] = clock[PHASE]
    else:
        if settling[STOOD] > 0.0 and settling[FOOT] == 0.0:
            clock[PHASE] += 0.5  # the right foot is in the air already: it makes the first step
            settling[BEGUN] = NEVER_S
        settling[TRIED], settling[STOOD] = 0.0, 0.0
    if settling[FOOT] >= 0.0 and clock[NOW] - settling[SINCE] >= SETTLE_S:
        settling[FOOT] = -1.0
    # The state now, from the anchor on
    copy_values(walker.state, clock)
    integrate_clock(gaits, build, plan, walker.state, clock[NOW], TO_TIME)
    write_placement(gaits, build, walker.state, walker.here, walker.places[0])
    if settling[STOOD] > 0.0:
        # Standing on both feet, phase where the first step begins; a foot that stands oddly makes one small step.
        if clock[NOW] < plan.knots[plan.knots.shape[0] - 1] or walker.here[TURN] != 0.0:
            settling[TRIED] = 0.0  # whoever turns on the spot, or changes, steps again and again
        calm = clock[NOW] - settling[SINCE] >= SETTLE_S + PAUSE_S
        if settling[FOOT] < 0.0 and settling[TRIED] < 3.0 and calm and settling[LEADS] <= 0.0:
            # The odder foot steps first; none steps twice.
            ease, feet = walker.ease, walker.feet
            worst, tried = MAX_STANDING_OFFSET * walker.here[LEG], int(settling[TRIED])
            for e in range(4):
                off = sqrt((feet[e, 0] - ease[e, 0]) ** 2 + (feet[e, 2] - ease[e, 2]) ** 2)
                if not walker.touch[e]:
                    off += worst  # a foot that was let go stands again after a step
                if not tried & (1 << (e // 2)) and off > worst:
                    worst, settling[FOOT] = off, e // 2
            if settling[FOOT] >= 0.0:
                # It began when the walker came to rest or the last step ended, whatever the frames are.
                due = max(plan.knots[plan.knots.shape[0] - 1], settling[SINCE] + SETTLE_S + PAUSE_S)
                settling[SINCE] = due if 0.0 <= clock[NOW] - due < MAX_FRAME_S else clock[NOW]
                settling[TRIED] = tried | (1 << int(settling[FOOT]))
        for e in range(4):
            part = (clock[NOW] - settling[SINCE]) / SETTLE_S
            walker.held[e] = int(settling[FOOT]) != e // 2 or part < LIFTED[0] or part >= LIFTED[1]
    else:
        # A plant neither starts twice nor comes back when parameters shift its ends.
        phase, values, held = walker.state[PHASE], walker.here, walker.held
        events = np.empty(8)
        s_n = normalise_speed(foot_speed(values), values[LEG], build.own_leg, build.froude)
        evaluate_foot_events(gaits, s_n, values[RUN], values[STYLES:], events)
        for e in range(4):
            start, end = events[PLANT_EVENTS[e][0]], events[PLANT_EVENTS[e][1]]
            into = phase - start - floor(phase - start)
            if settling[FRESH] > 0.0:
                held[e] = into < end - start
            elif held[e]:
                held[e] = into < end - start or into > 0.9 or 0.0 <= phase - settling[BEGUN] < FIRST_LIFT
            else:
                held[e] = into < 0.5 * (end - start)
    settling[FRESH] = 0.0
    predict_landings(gaits, build, plan, walker)


@kernel
def predict_landings(gaits: GaitArrays, build: BodyArrays, plan: ParameterPlan, walker: WalkerState) -> None:
    """When effectors in the air come down, and the walker's placing then."""
    there, state, events = np.empty(plan.values.shape[1]), np.empty(7), np.empty(8)
    now, airborne = walker.clock[NOW], False
    for e in range(4):
        walker.until[e] = NEVER_S
        airborne = airborne or not walker.held[e]
    if not airborne:
        return
    if walker.settling[STOOD] <= 0.0 and now < plan.knots[plan.knots.shape[0] - 1]:
        predict_plant_times(gaits, build, plan, walker)
    else:
        hertz = cycle_rate(gaits, build, walker.here)
        s_n = normalise_speed(foot_speed(walker.here), walker.here[LEG], build.own_leg, build.froude)
        evaluate_foot_events(gaits, s_n, walker.here[RUN], walker.here[STYLES:], events)
        for e in range(4):
            missing = events[PLANT_EVENTS[e][0]] - walker.state[PHASE]
            if walker.settling[STOOD] > 0.0 and not walker.held[e]:
                walker.until[e] = max(LIFTED[1] * SETTLE_S - (now - walker.settling[SINCE]), 0.0)
            elif hertz > 0.0 and not walker.held[e]:
                walker.until[e] = (missing - floor(missing)) / hertz
    # The placing at each landing that is near, and in the middle of the stance of its foot
    for e in range(4):
        if walker.until[e] <= LANDING_NOTICE_S:
            copy_values(state, walker.clock)
            integrate_clock(gaits, build, plan, state, now + walker.until[e], TO_TIME)
            interpolate_plan(plan, int(walker.clock[KNOT]), now + walker.until[e], there)
            write_placement(gaits, build, state, there, walker.places[1 + e])
            if e % 2 == 0:
                # From the strike of the heel to the middle of its flat stance, where the raw foot moves least
                middle, hertz = now + walker.until[e], cycle_rate(gaits, build, there)
                if hertz > 0.0:
                    s_n = normalise_speed(foot_speed(there), there[LEG], build.own_leg, build.froude)
                    evaluate_foot_events(gaits, s_n, there[RUN], there[STYLES:], events)
                    start = PLANT_EVENTS[e][0]
                    flat = max(0.5 * (events[start + 1] + events[start + 2]) - events[start], 0.0)
                    middle += min(flat / hertz, MAX_MID_STANCE_S)
                copy_values(state, walker.clock)
                integrate_clock(gaits, build, plan, state, middle, TO_TIME)
                interpolate_plan(plan, int(walker.clock[KNOT]), middle, there)
                write_placement(gaits, build, state, there, walker.places[5 + e // 2])


@kernel
def write_walker_frame(
    gaits: GaitArrays,
    build: BodyArrays,
    walker: WalkerState,
    root: FloatArray,
    rotations: FloatArray,
    landing: FloatArray,
) -> None:
    """Pose of one walker now, before foot plants, and where its feet will land.

    Landings are shifted and turned: feet are set where the raw foot will be in mid-stance, so that it has the least to
    be held back; on a curve that is on the curve, not on its tangent.

    Args:
        gaits: the model.
        build: the body.
        walker: placings and small steps; ``ease``, ``shift`` and ``yaw`` are written.
        root: out ``(3,)`` [m].
        rotations: out ``(J, 4)``.
        landing: out ``(4, 3)`` [m], for effectors that do not land where they are now.
    """
    weights, places, until = walker.here[STYLES:], walker.places, walker.until
    # The pose now, and where its effectors are; `ease` is without the small step, which ends there.
    leg = places[0, LEG_AT]
    write_pose(gaits, build, weights, places[0], root, rotations)
    write_effectors(build, leg, root, rotations, walker.ease)
    if walker.settling[FOOT] >= 0.0:
        part = min((walker.clock[NOW] - walker.settling[SINCE]) / SETTLE_S, 1.0)
        # The foot is raised under its hip: thigh forward, shank back, foot level, about the pelvis's own axis.
        stepping = int(walker.settling[FOOT])
        hip, knee, ankle = build.legs[stepping, 0], build.legs[stepping, 1], build.legs[stepping, 2]
        raised = min(max((part - LIFTED[0]) / (LIFTED[1] - LIFTED[0]), 0.0), 1.0)
        angle = SETTLING_LIFT * sin(pi * raised) ** 2
        q_hip, q_knee, q_ankle = (
            quaternion_at(rotations, hip),
            quaternion_at(rotations, knee),
            quaternion_at(rotations, ankle),
        )
        forth, back = (cos(0.5 * angle), -sin(0.5 * angle), 0.0, 0.0), (cos(angle), sin(angle), 0.0, 0.0)
        # The same turns in the frame of the shank
        q = multiply(q_hip, q_knee)
        shank_back = multiply(multiply(conjugate(q), back), q)
        shank_forth = multiply(multiply(conjugate(q), forth), q)
        write_rotation(rotations[hip], multiply(forth, q_hip))
        write_rotation(rotations[knee], multiply(q_knee, shank_back))
        write_rotation(rotations[ankle], multiply(shank_forth, q_ankle))
    write_effectors(build, leg, root, rotations, landing)
    if walker.settling[FOOT] >= 0.0:
        # The weight goes over the other foot: to the left of who steps with the right one.
        part = min((walker.clock[NOW] - walker.settling[SINCE]) / SETTLE_S, 1.0)
        sway = SETTLING_SWAY * leg * sin(pi * part) ** 2 * (1.0 if walker.settling[FOOT] == 0.0 else -1.0)
        root[0] += sway * cos(places[0, HEADING_AT])
        root[2] -= sway * sin(places[0, HEADING_AT])
    low_root, low, feet = np.empty(3), np.empty((build.num_low, 4)), np.empty((4, 3))
    # Where ankle and ball of a foot in the air will be when the first of them lands
    for side in range(2):
        ankle, ball = 2 * side, 2 * side + 1
        if walker.held[ankle] or walker.held[ball]:
            continue
        first = ball if until[ball] < until[ankle] else ankle
        if until[first] > LANDING_NOTICE_S:
            continue
        place = places[1 + first]
        write_pose(gaits, build, weights, place, low_root, low)
        write_effectors(build, place[LEG_AT], low_root, low, feet)
        for e in range(ankle, ball + 1):
            for c in range(3):
                landing[e, c] = feet[e, c]
        # From there to where the raw foot will be in the middle of its stance
        if until[ankle] <= LANDING_NOTICE_S:
            middle = places[5 + side]
            write_pose(gaits, build, weights, middle, low_root, low)
            write_effectors(build, middle[LEG_AT], low_root, low, feet)
            walker.yaw[side] = middle[HEADING_AT] - place[HEADING_AT]
        for e in range(ankle, ball + 1):
            walker.shift[e, 0] = feet[e, 0] - landing[e, 0]
            walker.shift[e, 2] = feet[e, 2] - landing[e, 2]
