"""Compiled clockwork of the walker: plans, phase, arcs, the schedule of the feet, frames; one character or many.

All that moves is a function of time alone, whatever the steps were: a plan is integrated piece by piece from its start,
and the clock keeps the state at the last whole piece, its anchor.
"""

from __future__ import annotations

from math import ceil, cos, floor, pi, sin, sqrt
from typing import NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, kernel
from marey.locomotion._engine_plan import LEG, POSTURE, RUN, SPEED, STYLES, TURN
from marey.locomotion._model import GaitArrays
from marey.locomotion._pose_kernels import Build, Placing, lift_leg, write_feet, write_pose
from marey.locomotion._synthesis_kernels import foot_events, frequency, normal_speed, tempo

NOW, KNOT, PIECE, PHASE, X, Z, HEADING = 0, 1, 2, 3, 4, 5, 6  # columns of a clock: time, anchor, state there
FOOT, SINCE, TRIED, STOOD = (
    0,
    1,
    2,
    3,
)  # columns of a settling: foot that steps (-1 none), since when, who did, came to rest
PIECE_S = 0.1  # [s] quadrature over longer pieces of a ramp would show
LOOK_S = 1.6  # [s] how far ahead a landing is looked for; a slow walker's swing lasts 0.7 s
NEVER_S = 1e9  # [s] as in the seam
SETTLE_S = 0.45  # [s] a small step on the spot
SETTLE_LIFT = 0.3  # [rad] of the thigh, 4 % of the leg high
ODD = 0.035  # of the leg: feet farther than this from where they stand at ease step there
NODE = 0.5 * sqrt(0.6)  # of a piece: Gauss's outer points
ENDS = ((0, 2), (1, 3), (4, 6), (5, 7))  # first and last event of each effector's plant


class Plan(NamedTuple):
    """Parameters over time, linear between knots and held after the last."""

    knots: FloatArray  # (M,) [s] since the plan was made, the first is zero
    values: FloatArray  # (M, P) speed, run, turn rate, leg length, posture (a power of speed), style weights


class Walker(NamedTuple):
    """All that one walker remembers."""

    clock: FloatArray  # (7,) time since the plan was made, and the state at its anchor
    state: FloatArray  # (7,) as the clock, but the state now
    here: FloatArray  # (P,) parameters now
    held: BoolArray  # (4,) effectors on the ground
    settling: FloatArray  # (4,) small steps of a stand


@kernel
def values_at(plan: Plan, knot: int, t: float, out: FloatArray) -> None:
    """Parameters ``(P,)`` of a plan at a time not before the knot."""
    knots, values = plan.knots, plan.values
    i, last = knot, knots.shape[0] - 1
    while i < last and knots[i + 1] <= t:
        i += 1
    if i == last:
        out[:] = values[last]
        return
    part = (t - knots[i]) / (knots[i + 1] - knots[i])
    for c in range(values.shape[1]):
        out[c] = values[i, c] + part * (values[i + 1, c] - values[i, c])


@kernel
def rate(gaits: GaitArrays, build: Build, values: FloatArray) -> float:
    """Cycles per second [Hz] with these parameters."""
    s_n = normal_speed(values[SPEED], values[LEG], build.own_leg, build.froude)
    return frequency(gaits, s_n, values[RUN], values[STYLES:]) * tempo(values[LEG], build.own_leg, build.froude)


@kernel
def add_arc(state: FloatArray, distance: float, turn: float) -> None:
    """Move along an arc; the chord of an arc is ``sinc(turn / 2)`` of its length ([Glardon2005]_ §III.2.2.1)."""
    half = 0.5 * turn
    chord = distance * (sin(half) / half if abs(half) > 1e-8 else 1.0)
    state[X] += chord * sin(state[HEADING] + half)
    state[Z] += chord * cos(state[HEADING] + half)
    state[HEADING] += turn


@kernel
def add_piece(gaits: GaitArrays, build: Build, plan: Plan, state: FloatArray, span: tuple[float, float]) -> None:
    """Integrate phase, place and heading over a part of one interval of the plan, by Gauss's three points."""
    start, h = span[0], span[1] - span[0]
    if h <= 0.0:
        return
    here = np.empty(plan.values.shape[1])
    knot, heading = int(state[KNOT]), state[HEADING]
    values_at(plan, knot, start, here)
    turn = here[TURN]
    x = z = phase = mean_turn = 0.0
    for point in range(3):
        u = 0.5 + (point - 1) * NODE
        weight = (8.0 if point == 1 else 5.0) / 18.0
        values_at(plan, knot, start + u * h, here)
        phase += weight * rate(gaits, build, here)
        mean_turn += weight * here[TURN]
        way = heading + 0.5 * (turn + here[TURN]) * u * h
        x += weight * here[SPEED] * sin(way)
        z += weight * here[SPEED] * cos(way)
    state[PHASE] += h * phase
    state[X] += h * x
    state[Z] += h * z
    state[HEADING] = heading + h * mean_turn


@kernel
def travel(gaits: GaitArrays, build: Build, plan: Plan, state: FloatArray, t: float, keep: bool) -> None:
    """Bring a clock to time ``t``; with ``keep`` only as far as the last whole piece, which is its new anchor."""
    knots, values = plan.knots, plan.values
    last = knots.shape[0] - 1
    while int(state[KNOT]) < last:
        knot = int(state[KNOT])
        length = knots[knot + 1] - knots[knot]
        pieces = max(1, ceil(length / PIECE_S))
        start = knots[knot] + length * state[PIECE] / pieces
        stop = knots[knot + 1] if state[PIECE] + 1 >= pieces else knots[knot] + length * (state[PIECE] + 1) / pieces
        if stop > t:
            if not keep:
                add_piece(gaits, build, plan, state, (start, t))
            return
        add_piece(gaits, build, plan, state, (start, stop))
        state[PIECE] += 1
        if state[PIECE] >= pieces:
            state[KNOT] += 1
            state[PIECE] = 0
    if not keep:
        h = t - knots[last]
        state[PHASE] += h * rate(gaits, build, values[last])
        add_arc(state, h * values[last, SPEED], h * values[last, TURN])


@kernel
def placing(gaits: GaitArrays, build: Build, state: FloatArray, values: FloatArray) -> Placing:
    """Where a body with these parameters is shown; its posture has a speed of its own."""
    posture = max(values[POSTURE], 0.0) ** (1.0 / gaits.power)
    return Placing(posture, values[RUN], state[PHASE], state[X], state[Z], state[HEADING], values[LEG])


@kernel
def is_still(plan: Plan, clock: FloatArray) -> bool:
    """Whether there is no speed now nor later."""
    for i in range(int(clock[KNOT]), plan.knots.shape[0]):
        if plan.values[i, SPEED] > 0.0:
            return False
    return True


@kernel
def write_planted(gaits: GaitArrays, build: Build, phase: float, values: FloatArray, held: BoolArray) -> None:
    """Which effectors are down; a plant neither starts twice nor comes back when parameters shift its ends."""
    events = np.empty(8)
    s_n = normal_speed(values[SPEED], values[LEG], build.own_leg, build.froude)
    foot_events(gaits, s_n, values[RUN], values[STYLES:], events)
    for e in range(4):
        start, end = events[ENDS[e][0]], events[ENDS[e][1]]
        into = phase - start - floor(phase - start)
        if held[e]:
            held[e] = into < end - start or into > 0.9
        else:
            held[e] = into < 0.5 * (end - start)


@kernel
def phase_missing(
    gaits: GaitArrays,
    build: Build,
    plan: Plan,
    mark: FloatArray,
    t: float,
    effector: int,
    there: FloatArray,
    state: FloatArray,
) -> float:
    """Phase from where the walker is at time ``t`` to the start of an effector's plant then, of any cycle."""
    events = np.empty(8)
    state[:] = mark
    travel(gaits, build, plan, state, t, False)
    values_at(plan, int(mark[KNOT]), t, there)
    s_n = normal_speed(there[SPEED], there[LEG], build.own_leg, build.froude)
    foot_events(gaits, s_n, there[RUN], there[STYLES:], events)
    return events[ENDS[effector][0]] - state[PHASE]


@kernel
def time_to_plant(
    gaits: GaitArrays, build: Build, plan: Plan, clock: FloatArray, effector: int, there: FloatArray, state: FloatArray
) -> float:
    """Time [s] to the start of the effector's next plant; ``there`` and ``state`` are room to work in."""
    mark, now, end = clock.copy(), clock[NOW], plan.knots[plan.knots.shape[0] - 1]
    before = phase_missing(gaits, build, plan, mark, now, effector, there, state)
    cycle = -floor(before)
    before += cycle
    ahead, after = 0.0, before
    while after > 0.0:
        if now + ahead >= end:
            hertz = rate(gaits, build, plan.values[plan.knots.shape[0] - 1])
            if after > LOOK_S * hertz:
                return NEVER_S
            return ahead + after / hertz
        if ahead > LOOK_S:
            return NEVER_S
        before, ahead = after, ahead + PIECE_S
        travel(gaits, build, plan, mark, now + ahead - PIECE_S, True)
        after = phase_missing(gaits, build, plan, mark, now + ahead, effector, there, state) + cycle
    low, high = max(ahead - PIECE_S, 0.0), ahead
    for _ in range(3):
        if before - after < 1e-12:
            break
        ahead = low + (high - low) * before / (before - after)
        missing = phase_missing(gaits, build, plan, mark, now + ahead, effector, there, state) + cycle
        if abs(missing) < 1e-6:
            break
        if missing > 0.0:
            low, before = ahead, missing
        else:
            high, after = ahead, missing
    return ahead


@kernel
def advance_walker(gaits: GaitArrays, build: Build, plan: Plan, walker: Walker, feet: FloatArray, dt: float) -> None:
    """Move one walker on by ``dt`` [s]: its clock, which effectors are down, the small steps of a stand.

    ``feet`` ``(4, 3)`` [m] is where the effectors were shown last, after foot plants.
    """
    clock, settling = walker.clock, walker.settling
    clock[NOW] += dt
    travel(gaits, build, plan, clock, clock[NOW], True)
    if not is_still(plan, clock):
        settling[FOOT], settling[TRIED], settling[STOOD] = -1.0, 0.0, 0.0
    elif clock[NOW] >= plan.knots[plan.knots.shape[0] - 1]:
        settling[STOOD] = 1.0
    if settling[STOOD] > 0.0:
        clock[PHASE] = ceil(clock[PHASE] - 1e-9)
    walker.state[:] = clock
    travel(gaits, build, plan, walker.state, clock[NOW], False)
    values_at(plan, int(clock[KNOT]), clock[NOW], walker.here)
    if settling[STOOD] > 0.0:
        stand(gaits, build, plan, walker, feet)
    else:
        write_planted(gaits, build, walker.state[PHASE], walker.here, walker.held)


@kernel
def stand(gaits: GaitArrays, build: Build, plan: Plan, walker: Walker, feet: FloatArray) -> None:
    """Stand on both feet, phase at a right heel strike; a foot that stands oddly makes one small step."""
    clock, settling = walker.clock, walker.settling
    if clock[NOW] < plan.knots[plan.knots.shape[0] - 1] or walker.here[TURN] != 0.0:
        settling[TRIED] = 0.0  # whoever turns on the spot, or changes, steps again and again
    if settling[FOOT] >= 0.0 and clock[NOW] - settling[SINCE] >= SETTLE_S:
        settling[FOOT] = -1.0
    elif settling[FOOT] < 0.0 and settling[TRIED] < 3.0:
        choose_settling(gaits, build, walker, feet)
    for e in range(4):
        walker.held[e] = int(settling[FOOT]) != e // 2


@kernel
def write_ease(gaits: GaitArrays, build: Build, state: FloatArray, values: FloatArray, out: FloatArray) -> None:
    """Effectors ``(4, 3)`` [m] of the raw pose at a clock's state."""
    root, rotations = np.empty(3), np.empty((build.num_low, 4))
    at = placing(gaits, build, state, values)
    write_pose(gaits, build, values[STYLES:], at, root, rotations)
    write_feet(build, at.leg / build.own_leg, root, rotations, out)


@kernel
def choose_settling(gaits: GaitArrays, build: Build, walker: Walker, feet: FloatArray) -> None:
    """Let the odder foot step first; none steps twice."""
    ease, settling = np.empty((4, 3)), walker.settling
    write_ease(gaits, build, walker.state, walker.here, ease)
    worst, tried = ODD * walker.here[LEG], int(settling[TRIED])
    for side in range(2):
        if not tried & (1 << side):
            off = 0.0
            for e in (2 * side, 2 * side + 1):
                off = max(off, sqrt((feet[e, 0] - ease[e, 0]) ** 2 + (feet[e, 2] - ease[e, 2]) ** 2))
            if off > worst:
                worst, settling[FOOT] = off, side
    if settling[FOOT] >= 0.0:
        settling[SINCE] = walker.clock[NOW]
        settling[TRIED] = tried | (1 << int(settling[FOOT]))


@kernel
def show_walker(gaits: GaitArrays, build: Build, walker: Walker, root: FloatArray, rotations: FloatArray) -> None:
    """Pose of one walker now, before foot plants."""
    at = placing(gaits, build, walker.state, walker.here)
    write_pose(gaits, build, walker.here[STYLES:], at, root, rotations)
    if walker.settling[FOOT] >= 0.0:
        part = min((walker.clock[NOW] - walker.settling[SINCE]) / SETTLE_S, 1.0)
        lift_leg(build, int(walker.settling[FOOT]), SETTLE_LIFT * sin(pi * part) ** 2, rotations)


@kernel
def schedule_walker(
    gaits: GaitArrays, build: Build, plan: Plan, walker: Walker, until: FloatArray, landing: FloatArray
) -> None:
    """When and where effectors in the air come down; for those on the ground ``landing`` keeps what it holds."""
    there, state, feet = np.empty(plan.values.shape[1]), np.empty(walker.clock.shape[0]), np.empty((4, 3))
    now, last = walker.clock[NOW], plan.knots.shape[0] - 1
    for e in range(4):
        until[e] = NEVER_S
        if walker.held[e]:
            continue
        if walker.settling[STOOD] > 0.0:
            until[e] = max(SETTLE_S - (now - walker.settling[SINCE]), 0.0)
        else:
            until[e] = time_to_plant(gaits, build, plan, walker.clock, e, there, state)
            if until[e] >= NEVER_S and plan.values[last, SPEED] == 0.0:  # it stops with this foot in the air
                until[e] = max(plan.knots[last] - now, 0.0)
        if until[e] < NEVER_S:
            state[:] = walker.clock
            travel(gaits, build, plan, state, now + until[e], False)
            values_at(plan, int(walker.clock[KNOT]), now + until[e], there)
            write_ease(gaits, build, state, there, feet)
            landing[e] = feet[e]
