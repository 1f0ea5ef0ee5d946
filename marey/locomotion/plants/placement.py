"""Compiled foot plants: the target position of an ankle and the target orientation of a foot.

A foot is turned flat on the ground or on its way there; a plant begins, holds and ends.
"""

from __future__ import annotations

from math import atan2, sqrt

from marey.base import FloatArray, kernel
from marey.dynamics.spatial import add3, row3, scale3, subtract3
from marey.lie.kernels import Quaternion, Vector, conjugate, exp, log, multiply, rotate
from marey.locomotion.plants.easing import ease_cubic, ease_vector, track_vector
from marey.locomotion.plants.leg import get3, get4, norm, set3, set4, shortest_rotation, unit, yaw_rotation
from marey.locomotion.plants.state import (
    ALIVE,
    ANKLE_AHEAD,
    ANKLE_HELD,
    ANNOUNCED,
    EASE_PART,
    FADE_MPS,
    FADE_RADPS,
    FASTEST_MPS,
    FASTEST_RADPS,
    FINAL,
    FLAT,
    GOAL_A,
    GOAL_T,
    HEADING,
    HEEL,
    HEEL_DROP,
    LATERAL,
    LET_GO,
    LEVEL,
    RAW,
    REST_A,
    REST_T,
    RISE,
    ROLL_IN_M,
    ROLL_IN_S,
    ROLL_S,
    SETTLE,
    SETTLE_S,
    SHIFT_A,
    SHIFT_T,
    SHORT_S,
    SINK_M,
    SINK_S,
    SINK_TIME,
    SIZE,
    SWING_PART,
    TARGET,
    TILT,
    TIPTOE,
    TIPTOE_M,
    TOE_AHEAD,
    TOE_HELD,
    TURN,
    TURN_BACK,
    WAIT,
    YAW,
    LegArrays,
)


@kernel
def write_foot_measures(row: FloatArray, foot: int, scale: float, legs: LegArrays) -> None:
    """Copy what the other kernels need of a foot into its row, in the size of the character."""
    row[REST_A], row[REST_T], row[SIZE] = scale * legs.rest[2 * foot], scale * legs.rest[2 * foot + 1], scale
    flat = unit((legs.foot[foot, 0], 0.0, legs.foot[foot, 2]))
    row[FLAT], row[FLAT + 1] = flat[0], flat[2]
    set3(row, LATERAL, row3(legs.lateral, foot))
    set3(row, HEEL, scale3(scale, row3(legs.heel, foot)))
    row[HEEL_DROP] = scale * legs.heel_drop[foot]


@kernel
def flat_foot_vector(row: FloatArray, length: float) -> Vector:
    """Ankle to toe [m] of a foot that lies flat along its heading."""
    rise = row[REST_T] - row[REST_A]
    along = sqrt(max(length * length - rise * rise, 0.0))
    ahead = rotate(yaw_rotation(row[HEADING]), (row[FLAT], 0.0, row[FLAT + 1]))
    return along * ahead[0], rise, along * ahead[2]


@kernel
def foot_heading(row: FloatArray, W_ankle: Quaternion) -> float:
    """Yaw of a foot, by its lateral axis, so that a steep foot has one too."""
    left = rotate(W_ankle, get3(row, LATERAL))
    return atan2(-left[2], left[0])


@kernel
def heel_lift(row: FloatArray, W_ankle: Quaternion) -> float:
    """How much higher [m] than on a flat foot an ankle is whose heel touches the floor."""
    return max(0.0, -rotate(W_ankle, get3(row, HEEL))[1] - row[HEEL_DROP])


@kernel
def yaw_since_last_frame(row: FloatArray, W_ankle: Quaternion) -> float:
    """Yaw [rad] by which the raw foot has turned since the last frame; keeps the rotation for the next."""
    last = get4(row, RAW)
    set4(row, RAW, W_ankle)
    if row[ALIVE] == 0.0:
        return 0.0
    step = multiply(W_ankle, conjugate(last))
    return 2.0 * atan2(step[2] if step[0] >= 0.0 else -step[2], abs(step[0]))


@kernel
def predict_tilt(turned: Vector, flat: Vector, rise: float, done: float) -> Vector:
    """Tilt [rad] that will lay a foot flat, by how it is foreseen to stand; nearer to the time, by how it stands."""
    length = norm(flat)
    sine = min(0.98, max(-0.98, rise / length))
    ahead = unit((flat[0], 0.0, flat[2]))
    level = sqrt(1.0 - sine * sine)
    later = log(shortest_rotation((level * ahead[0], sine, level * ahead[2]), unit(flat)))
    now = log(shortest_rotation(unit(turned), unit(flat)))
    w = done * done * done * done
    return add3(scale3(1.0 - w, later), scale3(w, now))


@kernel
def orient_foot(
    row: FloatArray, raw: Vector, W_ankle: Quaternion, held: bool, first_s: float, flat_s: float, rise: float,
    toe_in: float, ease_s: float, dt: float,
) -> Vector:  # fmt: skip
    """Ankle to toe [m] of the corrected foot; keeps its yaw and tilt in the memory.

    A held foot keeps its heading; one that lands in ``first_s`` turns in by then. The tilt eases to what lays the foot
    flat if that is due in ``flat_s``, when the raw toe will be ``rise`` [m] above the ankle; else to none.
    """
    since = yaw_since_last_frame(row, W_ankle)
    coming = flat_s <= ease_s
    if held and row[ANKLE_HELD] + row[TOE_HELD] > 0.0:
        row[YAW + 1] = -since / dt if dt > 1e-9 else 0.0
        row[YAW] -= since
    elif first_s <= ease_s:
        row[YAW], row[YAW + 1] = ease_cubic(row[YAW], row[YAW + 1], toe_in, first_s + dt, dt)
    else:
        row[YAW], row[YAW + 1] = ease_cubic(row[YAW], row[YAW + 1], 0.0, row[TURN_BACK], dt)
    turned = rotate(yaw_rotation(row[YAW]), raw)
    if not held or row[ANKLE_HELD] + row[TOE_HELD] == 0.0:
        row[HEADING] = foot_heading(row, multiply(yaw_rotation(row[YAW]), W_ankle))
    if coming:
        flat = flat_foot_vector(row, norm(raw))
        needed = predict_tilt(turned, flat, rise, 1.0 - flat_s / ease_s)
        if flat_s <= 0.0:
            track_vector(row, TILT, needed, dt, FASTEST_RADPS)
        else:
            ease_vector(row, TILT, needed, flat_s + dt, dt)
    else:
        ease_vector(row, TILT, (0.0, 0.0, 0.0), row[TURN_BACK], dt)
    return rotate(exp(get3(row, TILT)), turned)


@kernel
def store_foot_target(row: FloatArray, target: Vector, f: Vector, f0: Vector) -> None:
    """Put the ankle's target and the foot's turn, which takes ``f0`` to ``f``, into the memory."""
    set3(row, TARGET, target)
    turn = multiply(exp(get3(row, TILT)), yaw_rotation(row[YAW]))
    turn = multiply(shortest_rotation(unit(rotate(turn, f0)), unit(f)), turn)
    set4(row, TURN, turn)


@kernel
def begin_unannounced_plant(row: FloatArray, place: Vector, lowest_y: float, shift: Vector) -> Vector:
    """Goal of a plant that nobody announced: where the effector is; in the first frame of all, shifted as asked."""
    if row[ALIVE] == 0.0:
        return place[0] + shift[0], place[1], place[2] + shift[2]
    row[RISE], row[RISE + 1], row[SETTLE], row[SINK_TIME] = place[1] - lowest_y, 0.0, SETTLE_S, SETTLE_S
    return place


@kernel
def begin_announced_plant(row: FloatArray) -> None:
    """Let an announced effector come down from the height at which it lands, falling already."""
    row[SINK_TIME] = SINK_S
    row[RISE + 1] = -1.5 * row[RISE] / SINK_S  # twice as fast it would dip below its rest height


@kernel
def begin_plants(
    row: FloatArray, ankle_down: bool, toe_down: bool, ankle: Vector, f: Vector, shift_a: Vector, shift_t: Vector,
    floor_y: float, dt: float,
) -> None:  # fmt: skip
    """Choose where an effector that comes down now is held: where it was foreseen, or where it is.

    The second effector of a foot is held a foot's length from the first, so that both can be kept.
    """
    was_ankle, was_toe = row[ANKLE_HELD] > 0.0, row[TOE_HELD] > 0.0
    flat = flat_foot_vector(row, norm(f))
    ground = floor_y + row[LEVEL]
    if ankle_down and not was_ankle:
        if was_toe:
            set3(row, GOAL_A, subtract3(get3(row, GOAL_T), flat))
        elif row[ALIVE] == 0.0 or row[ANKLE_AHEAD] > ANNOUNCED * dt:
            set3(row, GOAL_A, begin_unannounced_plant(row, ankle, ground + row[REST_A], shift_a))
        else:
            begin_announced_plant(row)
    if toe_down and not was_toe:
        if ankle_down:
            set3(row, GOAL_T, add3(get3(row, GOAL_A), flat))
        elif was_ankle:
            toe = add3(get3(row, GOAL_A), f)
            set3(row, GOAL_T, begin_unannounced_plant(row, toe, ground + row[REST_T], (0.0, 0.0, 0.0)))
        elif row[ALIVE] == 0.0 or row[TOE_AHEAD] > ANNOUNCED * dt:
            toe = add3(ankle, f)
            set3(row, GOAL_T, begin_unannounced_plant(row, toe, ground + row[REST_T], shift_t))
        else:
            begin_announced_plant(row)


@kernel
def fade_time(size: float, speed: float, next_s: float, ease_s: float) -> float:
    """Time [s] in which a correction of some size fades: longer for a large one, but it must be over in time."""
    usual = min(ease_s, max(EASE_PART * next_s, SHORT_S))
    return max(usual, min(size / speed, SWING_PART * next_s))


@kernel
def start_easing_out(row: FloatArray, ankle_down: bool, toe_down: bool, next_s: float, ease_s: float) -> None:
    """When an effector leaves, give its correction time to fade."""
    if not ((row[ANKLE_HELD] > 0.0 and not ankle_down) or (row[TOE_HELD] > 0.0 and not toe_down)):
        return
    turn = abs(row[YAW]) + norm(get3(row, TILT))
    row[TURN_BACK] = ROLL_S if toe_down else fade_time(turn, FADE_RADPS, next_s, ease_s)
    if not ankle_down and not toe_down:
        row[LET_GO] = fade_time(norm(get3(row, SHIFT_A)), FADE_MPS, next_s, ease_s)


@kernel
def ease_ground_level(row: FloatArray, level: float, next_s: float, ease_s: float, dt: float) -> None:
    """Ease the ground under a foot in the air to that of its coming plant."""
    if row[ALIVE] == 0.0:
        row[LEVEL] = level
    elif 0.0 < next_s <= ease_s:
        row[LEVEL], row[LEVEL + 1] = ease_cubic(row[LEVEL], row[LEVEL + 1], level, next_s + dt, dt)


@kernel
def tiptoe_rise(rise: float, whole: float) -> float:
    """How far [m] a held toe goes up with its raw one: hardly near the ground, all the way from ``whole`` on."""
    x = min(1.0, max(0.0, rise / whole))
    return max(0.0, rise) * x * x * (3.0 - 2.0 * x)


@kernel
def place_foot(
    row: FloatArray, ankle: Vector, toe: Vector, f: Vector, W_ankle: Quaternion, ankle_down: bool, toe_down: bool,
    ankle_s: float, toe_s: float, land_a: Vector, land_t: Vector, shift_a: Vector, shift_t: Vector, ease_s: float,
    floor_y: float, dt: float,
) -> Vector:  # fmt: skip
    """Where the ankle [m] shall be: at its plant, on the sphere round a planted toe, or on its eased way."""
    toe_first = toe_s < ankle_s and toe_s <= ease_s
    ease_ground_level(row, shift_t[1] if toe_first else shift_a[1], min(ankle_s, toe_s), ease_s, dt)
    ground = floor_y + row[LEVEL]
    low_a, low_t = ground + row[REST_A] + heel_lift(row, W_ankle), ground + row[REST_T]
    if ankle_down or toe_down:
        row[RISE], row[RISE + 1] = ease_cubic(row[RISE], row[RISE + 1], 0.0, row[SINK_TIME], dt)
    if ankle_down:
        row[GOAL_A + 1] = low_a + row[RISE]
        placed = get3(row, GOAL_A)
        if toe_down:
            set3(row, GOAL_T, add3(placed, f))
        track_vector(row, SHIFT_A, subtract3(placed, ankle), dt, FASTEST_MPS)
        track_vector(row, SHIFT_T, subtract3(add3(placed, f), toe), dt, FASTEST_MPS)
        return placed
    if toe_down:
        row[GOAL_T + 1] = low_t + row[RISE] + tiptoe_rise(row[TIPTOE], TIPTOE_M * row[SIZE])
        placed = subtract3(get3(row, GOAL_T), f)
        track_vector(row, SHIFT_T, subtract3(get3(row, GOAL_T), toe), dt, FASTEST_MPS)
        track_vector(row, SHIFT_A, subtract3(placed, ankle), dt, FASTEST_MPS)
        return placed
    if toe_first:
        row[RISE] = min(SINK_M * row[SIZE], max(0.0, land_t[1] - low_t))
        goal = (land_t[0] + shift_t[0], low_t + row[RISE], land_t[2] + shift_t[2])
        set3(row, GOAL_T, goal)
        shift = ease_vector(row, SHIFT_T, subtract3(goal, land_t), toe_s + dt, dt)
        placed = subtract3(add3(toe, shift), f)
        track_vector(row, SHIFT_A, subtract3(placed, ankle), dt, FASTEST_MPS)
    else:
        if row[ANKLE_HELD] + row[TOE_HELD] > 0.0:
            for c in range(6):
                row[SHIFT_A + c] = row[FINAL + c]
        wanted, remaining = (0.0, 0.0, 0.0), row[LET_GO]
        if ankle_s <= ease_s:
            row[RISE] = min(SINK_M * row[SIZE], max(0.0, land_a[1] - low_a))
            goal = (land_a[0] + shift_a[0], low_a + row[RISE], land_a[2] + shift_a[2])
            set3(row, GOAL_A, goal)
            wanted, remaining = subtract3(goal, land_a), ankle_s + dt
        placed = add3(ankle, ease_vector(row, SHIFT_A, wanted, remaining, dt))
        track_vector(row, SHIFT_T, subtract3(add3(placed, f), toe), dt, FASTEST_MPS)
    return placed[0], max(placed[1], low_a), placed[2]


@kernel
def raise_toe_above_floor(f: Vector, ankle_y: float, lowest_y: float) -> Vector:
    """Foot vector, raised if its toe would be under the floor."""
    if ankle_y + f[1] >= lowest_y:
        return f
    length = norm(f)
    rise = min(length, max(-length, lowest_y - ankle_y))
    along = unit((f[0], 0.0, f[2]))
    flat = sqrt(length * length - rise * rise)
    return flat * along[0], rise, flat * along[2]


@kernel
def is_down(row: FloatArray, wanted: bool, barred: int) -> bool:
    """Whether an effector is to be held: wanted, and not let go before its time."""
    if not wanted:
        row[barred] = 0.0
    return wanted and row[barred] == 0.0


@kernel
def roll_in_time(row: FloatArray, rise: float) -> float:
    """Time [s] in which a foot rolls down after its toe touched: none if it lands flat, as in a run.

    ``rise`` [m] is how far the raw toe is above the ankle then.
    """
    open_m = rise - (row[REST_T] - row[REST_A])
    return ROLL_IN_S * min(1.0, max(0.0, open_m / (ROLL_IN_M * row[SIZE])))


@kernel
def is_rolling(row: FloatArray, ankle_down: bool, toe_down: bool, roll_s: float, dt: float) -> bool:
    """Whether a foot that stands on its heel still rolls down onto its toe."""
    if not toe_down:
        row[WAIT] = roll_s
    elif row[ALIVE] == 0.0 or row[TOE_HELD] > 0.0 or not ankle_down:
        row[WAIT] = 0.0
    else:
        row[WAIT] = max(0.0, row[WAIT] - dt)
    return toe_down and row[WAIT] > 1e-9
