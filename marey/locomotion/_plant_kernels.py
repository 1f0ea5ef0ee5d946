"""Compiled foot plants: one character, one frame ([Glardon2005]_ §III.2.4).

Each foot is an ankle and a direction to its toe. Both are the raw ones plus a correction that is memory: a shift of the
ankle, a yaw, and a tilt of the foot. While a foot is held the correction is whatever keeps it in place; otherwise it
eases, to nothing or to what the coming plant needs. As the correction is memory, raw motion may change at any time.
"""

from __future__ import annotations

from math import atan2, sqrt

from marey.base import BoolArray, FloatArray, kernel
from marey.dynamics._spatial_kernels import minus, plus, row3, times
from marey.lie._rotation_kernels import (
    Quaternion,
    Vector,
    conjugate,
    exp,
    log,
    multiply,
    rotate,
)
from marey.locomotion._foot_kernels import (
    ORIGIN,
    WORLD,
    arc,
    bend_toes,
    get3,
    get4,
    heel_angle,
    leg_extension,
    leg_frames,
    norm,
    pose_leg,
    set3,
    set4,
    unit,
    yaw,
)
from marey.locomotion._plant_arrays import Legs, PlantOptions
from marey.locomotion._plant_ease_kernels import ease3, eased, follow3

# columns of a foot's row of the memory
ALIVE, ANKLE_HELD, TOE_HELD, ANKLE_BARRED, TOE_BARRED = 0, 1, 2, 3, 4
LET_GO, TURN_BACK, SETTLE = 5, 6, 7  # [s] left of easing out the shift, the turn, and of settling after a surprise
YAW, TILT, SHIFT_A, GOAL_A, GOAL_T, SHIFT_T = 8, 10, 16, 22, 25, 28  # rates of those eased stand behind them
HEADING, ANKLE_AHEAD, TOE_AHEAD, RAW = 34, 35, 36, 37  # RAW: raw rotation of the ankle one frame ago
RISE, TARGET, TURN = 41, 43, 46  # TARGET, TURN: what the legs are posed with in this frame
LEVEL = 51  # [m] of the ground under this foot, over the floor, and its rate
LOWEST_A, LOWEST_T = 55, 101  # [m] largest lift that a held ankle, toe has got: how low the raw one has been
SINK, WAIT = 53, 54  # [s] left until a landed effector is all the way down, and until a foot has rolled onto its toe
NEED = 50  # [m] how far the hip is too high
FINAL = 102  # [m] shift of the ankle as posed, and its rate
DROP = 0  # of the body's row: how far the root is lowered [m], and its rate

SETTLE_S = 0.06  # [s] a plant that nobody announced settles in this time
SINK_S = 0.08  # [s] a foot that lands above its rest height comes down in this time
SINK_M = 0.04  # [m] at most so much
ROLL_IN_S = 0.05  # [s] a toe is held this long after it touched: until then the foot rolls down on its heel
EASE_PART = 0.4  # [-] of the time to the next plant
SWING_PART = 0.8  # [-] of that time: large corrections fade longer
FADE_MPS, FADE_RADPS = 0.25, 1.5  # usual speeds of a large correction that fades
SHORT_S = 0.06  # [s] shortest ease-out
ANNOUNCED = 1.5  # [-] frames: a plant seen coming one frame ago was announced
FASTEST_MPS, FASTEST_RADPS = 0.25, 2.0  # corrections are let go no faster: more would overshoot by centimetres
ROLL_S = 0.10  # [s] a foot that rolls onto its toe is back on its own course after this time
HALF_LIFE_S = 0.06  # [s] of lowering the root
DROP_PART = 0.04  # [-] of the leg: the most that the root is lowered
SEEN_S = 0.15  # [s] a foot that lands this soon starts to lower the root
TWIST_RAD = 1.0471975511965976  # 60 degrees: a foot that was turned away more is let go (§III.2.5.5)
SEEN_M = 0.0005  # [m] an ankle farther from its target has missed it
LEAVE_M = 0.015  # [m] an effector whose raw one has risen this much since it was lowest leaves
LOST_M = 0.02  # [m] beyond reach: the plant is over
MARGIN_RAD = 0.05  # [rad] over which a heel that must rise takes over from one that rises
FORCED_RAD = 0.2  # [rad] a heel that must rise this much more than it would has stayed behind: its toe is let go
STEEP_RAD = 1.4  # [rad] a foot stands on its toe no steeper than this


@kernel
def lying_foot(foot: int, heading: float, length: float, scale: float, legs: Legs) -> Vector:
    """Ankle to toe [m] of a flat foot that points as ``heading`` says."""
    rise = scale * (legs.rest[2 * foot + 1] - legs.rest[2 * foot])
    along = sqrt(max(length * length - rise * rise, 0.0))
    flat = unit((legs.foot[foot, 0], 0.0, legs.foot[foot, 2]))
    ahead = rotate(yaw(heading), flat)
    return along * ahead[0], rise, along * ahead[2]


@kernel
def heading_of(foot: int, W_ankle: Quaternion, legs: Legs) -> float:
    """Yaw of a foot, by its lateral axis, so that a steep foot has one too."""
    left = rotate(W_ankle, row3(legs.lateral, foot))
    return atan2(-left[2], left[0])


@kernel
def heel_lift(foot: int, W_ankle: Quaternion, scale: float, legs: Legs) -> float:
    """How much higher [m] than on a flat foot an ankle is whose heel touches the floor."""
    down = -rotate(W_ankle, row3(legs.heel, foot))[1]
    return scale * max(0.0, down - legs.heel_drop[foot])


@kernel
def turned_since(row: FloatArray, W_ankle: Quaternion) -> float:
    """Yaw [rad] by which the raw foot has turned since the last frame; keeps the rotation for the next."""
    last = get4(row, RAW)
    set4(row, RAW, W_ankle)
    if row[ALIVE] == 0.0:
        return 0.0
    step = multiply(W_ankle, conjugate(last))
    return 2.0 * atan2(step[2] if step[0] >= 0.0 else -step[2], abs(step[0]))


@kernel
def foreseen_tilt(turned: Vector, flat: Vector, rise: float, done: float) -> Vector:
    """Tilt [rad] that will lay a foot flat, by how it is foreseen to stand; nearer to the time, by how it stands."""
    length = norm(flat)
    sine = min(0.98, max(-0.98, rise / length))
    ahead = unit((flat[0], 0.0, flat[2]))
    level = sqrt(1.0 - sine * sine)
    later = log(arc((level * ahead[0], sine, level * ahead[2]), unit(flat)))
    now = log(arc(unit(turned), unit(flat)))
    w = done * done
    return plus(times(1.0 - w, later), times(w, now))


@kernel
def turn_foot(
    row: FloatArray, foot: int, raw: Vector, W_ankle: Quaternion, held: bool, flat_s: float, rise: float, toe_in: float,
    ease_s: float, dt: float, scale: float, legs: Legs,
) -> Vector:  # fmt: skip
    """Ankle to toe [m] of the corrected foot; keeps its yaw and tilt in the memory.

    A held foot keeps its heading. The tilt eases to what lays the foot flat if that is due in ``flat_s``, when the raw
    toe will be ``rise`` [m] above the ankle; else to none.
    """
    since = turned_since(row, W_ankle)
    coming = flat_s <= ease_s
    if held and row[ANKLE_HELD] + row[TOE_HELD] > 0.0:
        row[YAW + 1] = -since / dt if dt > 1e-9 else 0.0
        row[YAW] -= since
    elif coming or held:
        row[YAW], row[YAW + 1] = eased(row[YAW], row[YAW + 1], toe_in, flat_s + dt, dt)
    else:
        row[YAW], row[YAW + 1] = eased(row[YAW], row[YAW + 1], 0.0, row[TURN_BACK], dt)
    turned = rotate(yaw(row[YAW]), raw)
    if not held or row[ANKLE_HELD] + row[TOE_HELD] == 0.0:
        row[HEADING] = heading_of(foot, multiply(yaw(row[YAW]), W_ankle), legs)
    if coming:
        flat = lying_foot(foot, row[HEADING], norm(raw), scale, legs)
        needed = foreseen_tilt(turned, flat, rise, 1.0 - flat_s / ease_s)
        if flat_s <= 0.0:
            follow3(row, TILT, needed, dt, FASTEST_RADPS)
        else:
            ease3(row, TILT, needed, flat_s + dt, dt)
    else:
        ease3(row, TILT, (0.0, 0.0, 0.0), row[TURN_BACK], dt)
    return rotate(exp(get3(row, TILT)), turned)


@kernel
def surprised(row: FloatArray, place: Vector, lowest_y: float, shift: Vector) -> Vector:
    """Goal of a plant that nobody announced: where the effector is; in the first frame of all, shifted as asked."""
    if row[ALIVE] == 0.0:
        return place[0] + shift[0], place[1], place[2] + shift[2]
    row[RISE], row[RISE + 1], row[SETTLE], row[SINK] = place[1] - lowest_y, 0.0, SETTLE_S, SETTLE_S
    return place


@kernel
def landed(row: FloatArray) -> None:
    """Let an announced effector come down from the height at which it lands, falling already."""
    row[SINK] = SINK_S
    row[RISE + 1] = -1.5 * row[RISE] / SINK_S  # twice as fast it would dip below its rest height


@kernel
def begin_plants(
    row: FloatArray, foot: int, ankle_down: bool, toe_down: bool, ankle: Vector, f: Vector, dt: float,
    floor_y: float, scale: float, options: PlantOptions, legs: Legs,
) -> None:  # fmt: skip
    """Choose where an effector that comes down now is held: where it was foreseen, or where it is.

    The second effector of a foot is held a foot's length from the first, so that both can be kept.
    """
    was_ankle, was_toe = row[ANKLE_HELD] > 0.0, row[TOE_HELD] > 0.0
    a, t = 2 * foot, 2 * foot + 1
    flat = lying_foot(foot, row[HEADING], norm(f), scale, legs)
    ground = floor_y + row[LEVEL]
    if ankle_down and not was_ankle:
        if was_toe:
            set3(row, GOAL_A, minus(get3(row, GOAL_T), flat))
        elif row[ALIVE] == 0.0 or row[ANKLE_AHEAD] > ANNOUNCED * dt:
            set3(row, GOAL_A, surprised(row, ankle, ground + scale * legs.rest[a], row3(options.shift, a)))
        else:
            landed(row)
    if toe_down and not was_toe:
        if ankle_down:
            set3(row, GOAL_T, plus(get3(row, GOAL_A), flat))
        elif was_ankle:
            set3(
                row, GOAL_T, surprised(row, plus(get3(row, GOAL_A), f), ground + scale * legs.rest[t], (0.0, 0.0, 0.0))
            )
        elif row[ALIVE] == 0.0 or row[TOE_AHEAD] > ANNOUNCED * dt:
            toe = plus(ankle, f)
            set3(row, GOAL_T, surprised(row, toe, ground + scale * legs.rest[t], row3(options.shift, t)))
        else:
            landed(row)


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
def set_level(row: FloatArray, level: float, next_s: float, ease_s: float, dt: float) -> None:
    """Ease the ground under a foot in the air to that of its coming plant."""
    if row[ALIVE] == 0.0:
        row[LEVEL] = level
    elif 0.0 < next_s <= ease_s:
        row[LEVEL], row[LEVEL + 1] = eased(row[LEVEL], row[LEVEL + 1], level, next_s + dt, dt)


@kernel
def place_foot(
    row: FloatArray, foot: int, ankle: Vector, toe: Vector, f: Vector, W_ankle: Quaternion, ankle_down: bool,
    toe_down: bool, ankle_s: float, toe_s: float, landing: FloatArray, options: PlantOptions, dt: float, floor_y: float,
    scale: float, legs: Legs,
) -> Vector:  # fmt: skip
    """Where the ankle [m] shall be: at its plant, on the sphere round a planted toe, or on its eased way."""
    a, t = 2 * foot, 2 * foot + 1
    toe_first = toe_s < ankle_s and toe_s <= options.ease_s
    set_level(row, options.shift[t if toe_first else a, 1], min(ankle_s, toe_s), options.ease_s, dt)
    ground = floor_y + row[LEVEL]
    lift = heel_lift(foot, W_ankle, scale, legs)
    low_a, low_t = ground + scale * legs.rest[a] + lift, ground + scale * legs.rest[t]
    if ankle_down or toe_down:
        row[RISE], row[RISE + 1] = eased(row[RISE], row[RISE + 1], 0.0, row[SINK], dt)
    if ankle_down:
        row[GOAL_A + 1] = low_a + row[RISE]
        row[GOAL_T + 1] = low_t + row[RISE]
        placed = get3(row, GOAL_A)
        follow3(row, SHIFT_A, minus(placed, ankle), dt, FASTEST_MPS)
        follow3(row, SHIFT_T, minus(plus(placed, f), toe), dt, FASTEST_MPS)
        return placed
    if toe_down:
        row[GOAL_T + 1] = low_t + row[RISE]
        placed = minus(get3(row, GOAL_T), f)
        follow3(row, SHIFT_T, minus(get3(row, GOAL_T), toe), dt, FASTEST_MPS)
        follow3(row, SHIFT_A, minus(placed, ankle), dt, FASTEST_MPS)
        return placed
    if toe_first:
        row[RISE] = min(SINK_M * scale, max(0.0, landing[t, 1] - low_t))
        goal = (landing[t, 0] + options.shift[t, 0], low_t + row[RISE], landing[t, 2] + options.shift[t, 2])
        set3(row, GOAL_T, goal)
        shift = ease3(row, SHIFT_T, minus(goal, row3(landing, t)), toe_s + dt, dt)
        placed = minus(plus(toe, shift), f)
        follow3(row, SHIFT_A, minus(placed, ankle), dt, FASTEST_MPS)
    else:
        if row[ANKLE_HELD] + row[TOE_HELD] > 0.0:
            for c in range(6):
                row[SHIFT_A + c] = row[FINAL + c]
        wanted, remaining = (0.0, 0.0, 0.0), row[LET_GO]
        if ankle_s <= options.ease_s:
            row[RISE] = min(SINK_M * scale, max(0.0, landing[a, 1] - low_a))
            goal = (landing[a, 0] + options.shift[a, 0], low_a + row[RISE], landing[a, 2] + options.shift[a, 2])
            set3(row, GOAL_A, goal)
            wanted, remaining = minus(goal, row3(landing, a)), ankle_s + dt
        placed = plus(ankle, ease3(row, SHIFT_A, wanted, remaining, dt))
        follow3(row, SHIFT_T, minus(plus(placed, f), toe), dt, FASTEST_MPS)
    return placed[0], max(placed[1], low_a), placed[2]


@kernel
def above_floor(f: Vector, ankle_y: float, lowest_y: float) -> Vector:
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
def is_rolling(row: FloatArray, ankle_down: bool, toe_down: bool, dt: float) -> bool:
    """Whether a foot that stands on its heel still rolls down onto its toe."""
    if not toe_down:
        row[WAIT] = ROLL_IN_S
    elif row[ALIVE] == 0.0 or row[TOE_HELD] > 0.0 or not ankle_down:
        row[WAIT] = 0.0
    else:
        row[WAIT] = max(0.0, row[WAIT] - dt)
    return toe_down and row[WAIT] > 1e-9


@kernel
def guide_foot(
    row: FloatArray, foot: int, dt: float, planted: BoolArray, until_s: FloatArray, landing: FloatArray,
    options: PlantOptions, floor_y: float, scale: float, legs: Legs,
) -> None:  # fmt: skip
    """Update the memory of one foot: target of its ankle, turn of the foot, and what the hip lacks to reach."""
    a, t = 2 * foot, 2 * foot + 1
    p_ankle, p_toe, W_ankle = get3(row, ORIGIN + 22), get3(row, ORIGIN + 33), get4(row, WORLD + 22)
    if row[ANKLE_BARRED] > 0.0 and row[TOE_BARRED] > 0.0 and row[LET_GO] <= 0.0:
        row[ANKLE_BARRED], row[TOE_BARRED] = 0.0, 0.0
    ankle_down, toe_down = is_down(row, planted[a], ANKLE_BARRED), is_down(row, planted[t], TOE_BARRED)
    toe_down = toe_down and not is_rolling(row, ankle_down, toe_down, dt)
    held = ankle_down or toe_down
    ankle_s = 0.0 if ankle_down else until_s[a]
    toe_s = 0.0 if toe_down else row[WAIT] if planted[t] else until_s[t]
    if not toe_down and not planted[t] and toe_s >= ankle_s:
        toe_s += ROLL_IN_S
    start_easing_out(row, ankle_down, toe_down, min(until_s[a], until_s[t]), options.ease_s)
    f0 = minus(p_toe, p_ankle)
    flat_s = max(max(ankle_s, toe_s), row[SETTLE] if held else 0.0)
    rise = (p_toe[1] if planted[t] else landing[t, 1]) - (p_ankle[1] if ankle_down else landing[a, 1])
    f = turn_foot(row, foot, f0, W_ankle, held, flat_s, rise, options.toe_in[foot], options.ease_s, dt, scale, legs)
    now = plus(p_ankle, get3(row, SHIFT_A))
    begin_plants(row, foot, ankle_down, toe_down, now, f, dt, floor_y, scale, options, legs)
    turned = multiply(exp(get3(row, TILT)), multiply(yaw(row[YAW]), W_ankle))
    target = place_foot(row, foot, p_ankle, p_toe, f, turned, ankle_down, toe_down, ankle_s, toe_s, landing, options,
                        dt, floor_y, scale, legs)  # fmt: skip
    if not toe_down:
        f = above_floor(f, target[1], floor_y + row[LEVEL] + scale * legs.rest[t])
    keep_foot(row, target, f, f0)
    reach, soft, _ = leg_extension(row)
    hip = get3(row, ORIGIN)
    weight = 1.0
    if toe_down:  # the more the raw heel has risen, the more the heel rises instead
        risen = 1.0 if not ankle_down else min(1.0, max(0.0, row[LOWEST_A] - row[SHIFT_A + 1]) / (LEAVE_M * scale))
        weight = 1.0 - risen
    if not held:
        early = min(1.0, min(ankle_s, toe_s) / SEEN_S)
        weight = 1.0 - early * early * (3.0 - 2.0 * early)
    row[NEED] = weight * hip_excess(hip, target, soft * reach)
    remember_foot(row, ankle_down, toe_down, until_s[a], until_s[t], dt)


@kernel
def keep_foot(row: FloatArray, target: Vector, f: Vector, f0: Vector) -> None:
    """Put the ankle's target and the foot's turn, which takes ``f0`` to ``f``, into the memory."""
    set3(row, TARGET, target)
    turn = multiply(exp(get3(row, TILT)), yaw(row[YAW]))
    turn = multiply(arc(unit(rotate(turn, f0)), unit(f)), turn)
    set4(row, TURN, turn)


@kernel
def remember_foot(row: FloatArray, ankle_down: bool, toe_down: bool, ankle_s: float, toe_s: float, dt: float) -> None:
    """Keep what the next frame has to know of this one."""
    row[ALIVE] = 1.0
    row[ANKLE_HELD], row[TOE_HELD] = 1.0 if ankle_down else 0.0, 1.0 if toe_down else 0.0
    row[ANKLE_AHEAD], row[TOE_AHEAD] = ankle_s, toe_s
    row[LET_GO] = max(0.0, row[LET_GO] - dt)
    row[TURN_BACK] = max(0.0, row[TURN_BACK] - dt)
    row[SETTLE] = max(0.0, row[SETTLE] - dt)
    row[SINK] = max(0.0, row[SINK] - dt)


@kernel
def hip_excess(hip: Vector, target: Vector, reach: float) -> float:
    """How much lower [m] a hip must be for a target to be within reach."""
    dx, dz = hip[0] - target[0], hip[2] - target[2]
    height = sqrt(max(reach * reach - dx * dx - dz * dz, 0.0))
    return max(0.0, hip[1] - target[1] - height)


@kernel
def lowered(body: FloatArray, needed: float, most: float, dt: float) -> float:
    """How far the root is lowered [m]: critically damped towards what is needed, never less, at most ``most``."""
    needed = min(needed, most)
    omega = 1.678 / HALF_LIFE_S  # a critically damped step is half done after 1.678 / omega
    away, rate = body[DROP] - needed, body[DROP + 1]
    j = rate + omega * away
    fade = 2.718281828459045 ** (-omega * dt)
    drop = needed + (away + j * dt) * fade
    body[DROP + 1] = (rate - j * omega * dt) * fade
    if drop < needed:
        drop = needed
        body[DROP + 1] = max(body[DROP + 1], 0.0)
    body[DROP] = drop
    return drop


@kernel
def raise_heel(row: FloatArray, hip: Vector, reach: float) -> float:
    """Let a foot on its toe roll so far that its ankle is within reach; keeps the turn, returns how far [rad]."""
    target, toe = get3(row, TARGET), get3(row, GOAL_T)
    f0 = minus(get3(row, ORIGIN + 33), get3(row, ORIGIN + 22))
    f = minus(toe, target)
    length = norm(f)
    ahead = unit((f[0], 0.0, f[2]))
    angle = atan2(-f[1], sqrt(f[0] * f[0] + f[2] * f[2]))
    needed = min(STEEP_RAD, heel_angle(hip, toe, ahead, length, reach))
    gap = angle - needed
    if gap >= MARGIN_RAD:
        return 0.0
    raised = needed + (0.25 * (gap + MARGIN_RAD) ** 2 / MARGIN_RAD if gap > -MARGIN_RAD else 0.0)
    c, s = _cos_sin(min(raised, STEEP_RAD))
    f = (length * c * ahead[0], -length * s, length * c * ahead[2])
    set3(row, TARGET, minus(toe, f))
    set3(row, TILT, log(arc(unit(rotate(yaw(row[YAW]), f0)), unit(f))))
    keep_foot(row, get3(row, TARGET), f, f0)
    return raised - angle


@kernel
def _cos_sin(angle: float) -> tuple[float, float]:
    half = yaw(angle)
    return half[0] * half[0] - half[2] * half[2], 2.0 * half[0] * half[2]


@kernel
def let_go(row: FloatArray, drop: float, dt: float, scale: float, ease_s: float) -> None:
    """Let a heel rise that must, and let go of what the leg cannot keep."""
    reach, soft, _ = leg_extension(row)
    hip = get3(row, ORIGIN)
    if row[TOE_HELD] > 0.0 and row[ANKLE_HELD] > 0.0 and norm(minus(get3(row, TARGET), hip)) > soft * reach:
        row[ANKLE_BARRED], row[ANKLE_HELD], row[TURN_BACK] = 1.0, 0.0, ROLL_S
    ankle_down, toe_down = row[ANKLE_HELD] > 0.0, row[TOE_HELD] > 0.0
    on_toe = toe_down and not ankle_down
    stretched = on_toe and raise_heel(row, hip, soft * reach) > FORCED_RAD
    excess = norm(minus(get3(row, TARGET), hip)) - soft * reach
    if (has_risen(row, LOWEST_A, SHIFT_A, ankle_down, scale) and toe_down) or (ankle_down and excess > LOST_M):
        row[ANKLE_BARRED] = 1.0
    if (has_risen(row, LOWEST_T, SHIFT_T, toe_down, scale) and on_toe) or stretched:
        row[TOE_BARRED] = 1.0
    if (on_toe and excess > LOST_M) or (abs(row[YAW]) > TWIST_RAD and (ankle_down or toe_down)):
        row[ANKLE_BARRED], row[TOE_BARRED], row[LET_GO] = 1.0, 1.0, ease_s
    ankle = get3(row, ORIGIN + 22)
    follow3(row, FINAL, minus(get3(row, TARGET), (ankle[0], ankle[1] + drop, ankle[2])), dt, FASTEST_MPS)


@kernel
def has_risen(row: FloatArray, lowest: int, shift: int, down: bool, scale: float) -> bool:
    """Whether the raw path of a held effector has risen since it was lowest."""
    row[lowest] = max(row[lowest], row[shift + 1]) if down else -1.0
    return down and row[lowest] - row[shift + 1] > LEAVE_M * scale


@kernel
def guide_feet(
    dt: float, planted: BoolArray, until_s: FloatArray, landing: FloatArray, options: PlantOptions, floor_y: float,
    scale: float, legs: Legs, state: FloatArray, root_position: FloatArray, rotations: FloatArray,
) -> None:  # fmt: skip
    """Update the memory for one frame and lower the root; the legs are not posed yet."""
    root = (root_position[0], root_position[1], root_position[2])
    for foot in range(2):
        leg_frames(state[foot], foot, root, rotations, legs, scale)
        guide_foot(state[foot], foot, dt, planted, until_s, landing, options, floor_y, scale, legs)
    most = DROP_PART * scale * min(legs.reach[0], legs.reach[1])
    drop = lowered(state[2], max(state[0, NEED], state[1, NEED]), most, dt)
    root_position[1] -= drop
    for foot in range(2):
        for j in range(4):
            state[foot, ORIGIN + 11 * j + 1] -= drop
        let_go(state[foot], drop, dt, scale, options.ease_s)


@kernel
def foot_flags(row: FloatArray, foot: int, miss: float) -> int:
    """Bits of one foot: what is held, and whether the ankle missed its target."""
    flags = 0
    if row[ANKLE_HELD] > 0.0:
        flags |= 1 << (2 * foot)
    if row[TOE_HELD] > 0.0:
        flags |= 2 << (2 * foot)
    if miss > SEEN_M:
        flags |= 16 << foot
    return flags


@kernel
def plant_step(
    dt: float, planted: BoolArray, until_s: FloatArray, landing: FloatArray, options: PlantOptions, floor_y: float,
    scale: float, legs: Legs, state: FloatArray, root_position: FloatArray, rotations: FloatArray,
) -> int:  # fmt: skip
    """Plant the feet of one character in one frame, in place and without allocating.

    Effectors are right ankle, right toe, left ankle, left toe, as in ``EFFECTORS``.

    Args:
        dt: time since the last frame [s].
        planted: which effectors are to be held now ``(4,)``.
        until_s: time ``(4,)`` [s] until the next plant of each effector starts; large if none is known.
        landing: raw positions ``(4, 3)`` [m] in world that the effectors will have when those plants start.
        options: edits and ease time.
        floor_y: height of the floor [m].
        scale: size of the character over that of ``legs``.
        legs: of the skeleton.
        state: memory ``(3, S)``, see ``plant_state``; zeros before the first frame.
        root_position: ``(3,)`` [m] raw root, lowered if a leg does not reach.
        rotations: ``(J, 4)`` raw local rotations; those of the legs are changed.

    Returns:
        Bits 0-3: effector is held. Bits 4, 5: the right, left ankle is farther than 0.5 mm from where it should be.
    """
    guide_feet(dt, planted, until_s, landing, options, floor_y, scale, legs, state, root_position, rotations)
    flags = 0
    for foot in range(2):
        row = state[foot]
        turn, ground = get4(row, TURN), floor_y + row[LEVEL]
        ankle, miss = pose_leg(row, foot, get3(row, TARGET), turn, legs, rotations)
        bend_toes(row, foot, ankle, turn, ground, dt, scale, legs, rotations)
        flags |= foot_flags(row, foot, miss)
    return flags
