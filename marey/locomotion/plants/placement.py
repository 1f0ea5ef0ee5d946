"""Compiled foot plants: the target position of an ankle and the target orientation of a foot.

A foot is turned flat on the ground or on its way there; a plant begins, holds and ends.
"""

from __future__ import annotations

from math import atan2, sqrt
from typing import NamedTuple

from marey.base import kernel
from marey.lie.kernels import (
    Quaternion,
    Vector,
    add3,
    conjugate,
    exp,
    log,
    multiply,
    norm,
    rotate,
    row3,
    scale3,
    shortest_rotation,
    subtract3,
    unit,
)
from marey.locomotion.plants.easing import ease_cubic, ease_vector, track_vector
from marey.locomotion.plants.leg import get3, get4, set3, set4, yaw_rotation
from marey.locomotion.plants.state import (
    ANNOUNCED,
    EASE_PART,
    FADE_MPS,
    FADE_RADPS,
    FASTEST_MPS,
    FASTEST_RADPS,
    ROLL_IN_M,
    ROLL_IN_S,
    ROLL_S,
    SETTLE_S,
    SHORT_S,
    SINK_M,
    SINK_S,
    SWING_PART,
    TIPTOE_M,
    FootState,
    LegArrays,
)


class FootFrame(NamedTuple):
    """One foot in one frame: its raw pose, what of it is down, and where and when the rest will land."""

    ankle: Vector  # [m] raw, as all below
    toe: Vector  # [m]
    W_ankle: Quaternion
    ankle_down: bool  # is held in this frame
    toe_down: bool
    ankle_s: float  # [s] until it is held
    toe_s: float
    ankle_landing: Vector  # [m]
    toe_landing: Vector  # [m]
    ankle_edit: Vector  # [m] added to where it lands; y is the ground there
    toe_edit: Vector  # [m]
    ease_s: float
    floor_y: float
    dt: float


@kernel
def write_foot_measures(foot: FootState, side: int, scale: float, legs: LegArrays) -> None:
    """Copy what the other kernels need of a foot into its state, in the size of the character."""
    foot.ankle_rest, foot.toe_rest, foot.size = scale * legs.rest[2 * side], scale * legs.rest[2 * side + 1], scale
    flat = unit((legs.foot[side, 0], 0.0, legs.foot[side, 2]))
    foot.flat[0], foot.flat[1] = flat[0], flat[2]
    set3(foot.lateral, row3(legs.lateral, side))
    set3(foot.heel, scale3(scale, row3(legs.heel, side)))
    foot.heel_drop = scale * legs.heel_drop[side]
    set3(foot.tip, scale3(scale, row3(legs.tip, side)))
    foot.heel_back = scale * legs.heel[side, 2]


@kernel
def flat_foot_vector(foot: FootState, length: float) -> Vector:
    """Ankle to toe [m] of a foot that lies flat along its heading."""
    rise = foot.toe_rest - foot.ankle_rest
    along = sqrt(max(length * length - rise * rise, 0.0))
    ahead = rotate(yaw_rotation(foot.heading), (foot.flat[0], 0.0, foot.flat[1]))
    return along * ahead[0], rise, along * ahead[2]


@kernel
def orient_foot(foot: FootState, frame: FootFrame, rise: float, toe_in: float) -> Vector:
    """Ankle to toe [m] of the corrected foot; keeps its yaw and tilt in the state.

    A held foot keeps its heading; one that lands turns in until then. The tilt eases to what lays the foot flat if that
    is due within the ease time, when the raw toe will be ``rise`` [m] above the ankle; else to none.
    """
    dt, ease_s, raw = frame.dt, frame.ease_s, subtract3(frame.toe, frame.ankle)
    held, was_held = frame.ankle_down or frame.toe_down, foot.ankle_held or foot.toe_held
    first_s = min(frame.ankle_s, frame.toe_s)
    flat_s = max(max(frame.ankle_s, frame.toe_s), foot.settle_s if held else 0.0)
    # Yaw by which the raw foot has turned since the last frame
    since = 0.0
    if foot.is_alive:
        step = multiply(frame.W_ankle, conjugate(get4(foot.raw_rotation)))
        since = 2.0 * atan2(step[2] if step[0] >= 0.0 else -step[2], abs(step[0]))
    set4(foot.raw_rotation, frame.W_ankle)
    if held and was_held:
        foot.yaw_rate = -since / dt if dt > 1e-9 else 0.0
        foot.yaw -= since
    elif first_s <= ease_s:
        foot.yaw, foot.yaw_rate = ease_cubic(foot.yaw, foot.yaw_rate, toe_in, first_s + dt, dt)
    else:
        foot.yaw, foot.yaw_rate = ease_cubic(foot.yaw, foot.yaw_rate, 0.0, foot.turn_back_s, dt)
    turned = rotate(yaw_rotation(foot.yaw), raw)
    if not held or not was_held:
        # The heading is that of the lateral axis, so that a steep foot has one too.
        left = rotate(multiply(yaw_rotation(foot.yaw), frame.W_ankle), get3(foot.lateral))
        foot.heading = atan2(-left[2], left[0])
    if flat_s > ease_s:
        ease_vector(foot.tilt, foot.tilt_rate, (0.0, 0.0, 0.0), foot.turn_back_s, dt)
    else:
        # Tilt [rad] that will lay a foot flat, by how it is foreseen to stand; nearer to the time, by how it stands
        flat = flat_foot_vector(foot, norm(raw))
        done = 1.0 - flat_s / ease_s
        length = norm(flat)
        sine = min(0.98, max(-0.98, rise / length))
        ahead = unit((flat[0], 0.0, flat[2]))
        level = sqrt(1.0 - sine * sine)
        later = log(shortest_rotation((level * ahead[0], sine, level * ahead[2]), unit(flat)))
        now = log(shortest_rotation(unit(turned), unit(flat)))
        w = done * done * done * done
        needed = add3(scale3(1.0 - w, later), scale3(w, now))
        if flat_s <= 0.0:
            track_vector(foot.tilt, foot.tilt_rate, needed, dt, FASTEST_RADPS)
        else:
            ease_vector(foot.tilt, foot.tilt_rate, needed, flat_s + dt, dt)
    return rotate(exp(get3(foot.tilt)), turned)


@kernel
def store_foot_target(foot: FootState, target: Vector, f: Vector, f0: Vector) -> None:
    """Put the ankle's target and the foot's turn, which takes ``f0`` to ``f``, into the state."""
    set3(foot.target, target)
    turn = multiply(exp(get3(foot.tilt)), yaw_rotation(foot.yaw))
    turn = multiply(shortest_rotation(unit(rotate(turn, f0)), unit(f)), turn)
    set4(foot.turn, turn)


@kernel
def begin_unannounced_plant(foot: FootState, place: Vector, lowest_y: float, shift: Vector) -> Vector:
    """Target of an unannounced plant: the position of the effector; shifted in the very first frame."""
    if not foot.is_alive:
        return place[0] + shift[0], place[1], place[2] + shift[2]
    foot.rise, foot.rise_rate, foot.settle_s, foot.sink_s = place[1] - lowest_y, 0.0, SETTLE_S, SETTLE_S
    return place


@kernel
def begin_plants(foot: FootState, frame: FootFrame, f: Vector) -> None:
    """Choose where an effector that comes down now is held: where it was foreseen, or where it is.

    The second effector of a foot is held a foot's length from the first, so that both can be kept.
    """
    ankle = add3(frame.ankle, get3(foot.ankle_shift))
    flat = flat_foot_vector(foot, norm(f))
    ground = frame.floor_y + foot.level
    soon_s = ANNOUNCED * frame.dt
    # The ankle comes down: a foot's length from a held toe, where it is, or where it was foreseen.
    if frame.ankle_down and not foot.ankle_held:
        if foot.toe_held:
            set3(foot.ankle_goal, subtract3(get3(foot.toe_goal), flat))
        elif not foot.is_alive or foot.ankle_ahead_s > soon_s:
            set3(foot.ankle_goal, begin_unannounced_plant(foot, ankle, ground + foot.ankle_rest, frame.ankle_edit))
        else:
            # Announced: it comes down from the height at which it lands, falling already; twice as fast it would dip.
            foot.sink_s, foot.rise_rate = SINK_S, -1.5 * foot.rise / SINK_S
    # The toe comes down, in the same way
    if frame.toe_down and not foot.toe_held:
        if frame.ankle_down:
            set3(foot.toe_goal, add3(get3(foot.ankle_goal), flat))
        elif foot.ankle_held:
            toe = add3(get3(foot.ankle_goal), f)
            set3(foot.toe_goal, begin_unannounced_plant(foot, toe, ground + foot.toe_rest, (0.0, 0.0, 0.0)))
        elif not foot.is_alive or foot.toe_ahead_s > soon_s:
            toe = add3(ankle, f)
            set3(foot.toe_goal, begin_unannounced_plant(foot, toe, ground + foot.toe_rest, frame.toe_edit))
        else:
            foot.sink_s, foot.rise_rate = SINK_S, -1.5 * foot.rise / SINK_S


@kernel
def fade_time(size: float, speed: float, next_s: float, ease_s: float) -> float:
    """Time [s] in which a correction of some size fades: longer for a large one, but it must be over in time."""
    usual = min(ease_s, max(EASE_PART * next_s, SHORT_S))
    return max(usual, min(size / speed, SWING_PART * next_s))


@kernel
def start_easing_out(foot: FootState, ankle_down: bool, toe_down: bool, next_s: float, ease_s: float) -> None:
    """When an effector leaves, give its correction time to fade."""
    if not ((foot.ankle_held and not ankle_down) or (foot.toe_held and not toe_down)):
        return
    turn = abs(foot.yaw) + norm(get3(foot.tilt))
    foot.turn_back_s = ROLL_S if toe_down else fade_time(turn, FADE_RADPS, next_s, ease_s)
    if not ankle_down and not toe_down:
        foot.let_go_s = fade_time(norm(get3(foot.ankle_shift)), FADE_MPS, next_s, ease_s)


@kernel
def place_foot(foot: FootState, frame: FootFrame, f: Vector) -> Vector:
    """Target of the ankle [m]: its plant, the sphere around a planted toe, or its easing curve.

    Ease-in and ease-out of the corrections are those of [Glardon2005]_ Eq. 2.6 and 2.7, see ``ease_cubic``.
    """
    ankle, toe, ease_s, dt = frame.ankle, frame.toe, frame.ease_s, frame.dt
    toe_first = frame.toe_s < frame.ankle_s and frame.toe_s <= ease_s
    # The ground under a foot in the air eases to that of its coming plant.
    level = frame.toe_edit[1] if toe_first else frame.ankle_edit[1]
    next_s = min(frame.ankle_s, frame.toe_s)
    if not foot.is_alive:
        foot.level = level
    elif 0.0 < next_s <= ease_s:
        foot.level, foot.level_rate = ease_cubic(foot.level, foot.level_rate, level, next_s + dt, dt)
    ground = frame.floor_y + foot.level
    # A pitched foot stands on its heel, its ankle higher than that of a flat foot.
    W_ankle = multiply(exp(get3(foot.tilt)), multiply(yaw_rotation(foot.yaw), frame.W_ankle))
    heel_lift = max(0.0, -rotate(W_ankle, get3(foot.heel))[1] - foot.heel_drop)
    low_a, low_t = ground + foot.ankle_rest + heel_lift, ground + foot.toe_rest
    if frame.ankle_down or frame.toe_down:
        foot.rise, foot.rise_rate = ease_cubic(foot.rise, foot.rise_rate, 0.0, foot.sink_s, dt)
    if frame.ankle_down:
        foot.ankle_goal[1] = low_a + foot.rise
        placed = get3(foot.ankle_goal)
        if frame.toe_down:
            set3(foot.toe_goal, add3(placed, f))
        track_vector(foot.ankle_shift, foot.ankle_shift_rate, subtract3(placed, ankle), dt, FASTEST_MPS)
        track_vector(foot.toe_shift, foot.toe_shift_rate, subtract3(add3(placed, f), toe), dt, FASTEST_MPS)
        return placed
    if frame.toe_down:
        # A held toe goes up with its raw one: hardly near the ground, all the way from the height of a tiptoe on.
        x = min(1.0, max(0.0, foot.toe_risen / (TIPTOE_M * foot.size)))
        foot.toe_goal[1] = low_t + foot.rise + max(0.0, foot.toe_risen) * x * x * (3.0 - 2.0 * x)
        placed = subtract3(get3(foot.toe_goal), f)
        track_vector(foot.toe_shift, foot.toe_shift_rate, subtract3(get3(foot.toe_goal), toe), dt, FASTEST_MPS)
        track_vector(foot.ankle_shift, foot.ankle_shift_rate, subtract3(placed, ankle), dt, FASTEST_MPS)
        return placed
    if toe_first:
        # Ease-in of a toe that lands before its ankle
        landing, edit = frame.toe_landing, frame.toe_edit
        foot.rise = min(SINK_M * foot.size, max(0.0, landing[1] - low_t))
        goal = (landing[0] + edit[0], low_t + foot.rise, landing[2] + edit[2])
        set3(foot.toe_goal, goal)
        shift = ease_vector(foot.toe_shift, foot.toe_shift_rate, subtract3(goal, landing), frame.toe_s + dt, dt)
        placed = subtract3(add3(toe, shift), f)
        track_vector(foot.ankle_shift, foot.ankle_shift_rate, subtract3(placed, ankle), dt, FASTEST_MPS)
    else:
        # An ankle that was held leaves from where it was posed: a leg that did not reach had another shift.
        if foot.ankle_held or foot.toe_held:
            set3(foot.ankle_shift, get3(foot.posed_shift))
            set3(foot.ankle_shift_rate, get3(foot.posed_shift_rate))
        # Ease-out to no shift; ease-in to that of the landing once it is near
        wanted, remaining = (0.0, 0.0, 0.0), foot.let_go_s
        if frame.ankle_s <= ease_s:
            landing, edit = frame.ankle_landing, frame.ankle_edit
            foot.rise = min(SINK_M * foot.size, max(0.0, landing[1] - low_a))
            goal = (landing[0] + edit[0], low_a + foot.rise, landing[2] + edit[2])
            set3(foot.ankle_goal, goal)
            wanted, remaining = subtract3(goal, landing), frame.ankle_s + dt
        placed = add3(ankle, ease_vector(foot.ankle_shift, foot.ankle_shift_rate, wanted, remaining, dt))
        track_vector(foot.toe_shift, foot.toe_shift_rate, subtract3(add3(placed, f), toe), dt, FASTEST_MPS)
    return placed[0], max(placed[1], low_a), placed[2]


@kernel
def roll_in_time(foot: FootState, rise: float) -> float:
    """Time [s] in which a foot rolls down after its toe touched: none if it lands flat, as in a run.

    ``rise`` [m] is how far the raw toe is above the ankle then.
    """
    open_m = rise - (foot.toe_rest - foot.ankle_rest)
    return ROLL_IN_S * min(1.0, max(0.0, open_m / (ROLL_IN_M * foot.size)))
