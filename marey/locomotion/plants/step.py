"""Compiled foot plants: one character, one frame or one clip ([Glardon2005]_ §III.2.4).

Each foot is an ankle and a direction to its toe. Both are the raw ones plus a correction that is state: a shift of the
ankle, a yaw, and a tilt of the foot. While a foot is held the correction is whatever keeps it in place; otherwise it
eases, to nothing or to what the coming plant needs. As the correction is state, raw motion may change at any time.

Where a leg does not reach, the root comes down a little, then the heel rises, then the plant ends.
"""

from __future__ import annotations

from math import atan2, sqrt

from marey.base import FloatArray, kernel
from marey.lie.kernels import (
    Vector,
    add3,
    log,
    norm,
    quaternion_at,
    rotate,
    row3,
    scale3,
    shortest_rotation,
    subtract3,
    unit,
)
from marey.locomotion.plants.easing import track_vector
from marey.locomotion.plants.leg import (
    get3,
    get4,
    heel_rise_angle,
    leg_extension,
    set3,
    write_leg_frames,
    yaw_rotation,
)
from marey.locomotion.plants.placement import (
    FootFrame,
    begin_plants,
    orient_foot,
    place_foot,
    roll_in_time,
    start_easing_out,
    store_foot_target,
    write_foot_measures,
)
from marey.locomotion.plants.state import (
    ANKLE,
    CLOSE_M,
    DROP_MPS,
    DROP_PART,
    FASTEST_MPS,
    FORCED_RAD,
    HALF_LIFE_S,
    HEEL_M,
    HIP,
    LAG_M,
    LEAVE_M,
    LOST_M,
    MARGIN_RAD,
    ROLL_S,
    SEEN_M,
    SEEN_S,
    SETTLE_S,
    SHOWN_M,
    STEEP_RAD,
    TOE,
    TOE_M,
    TWIST_RAD,
    UNSEEN_M,
    FootState,
    LegArrays,
    PlantForecast,
    PlantOptions,
    PlantState,
)


@kernel
def release_by_height(foot: FootState, floor_y: float) -> None:
    """Let go of a heel, or of a toe that stands alone, whose raw one has left; a toe that lags behind leaves sooner."""
    ground = floor_y + foot.level
    ankle_y, toe_y = foot.origin[ANKLE, 1], foot.origin[TOE, 1]
    # How far the raw path of a held effector is over its rest height, or over its lowest point if that is more
    foot.ankle_lowest = min(foot.ankle_lowest, ankle_y) if foot.ankle_held else UNSEEN_M
    foot.heel_risen = ankle_y - max(foot.ankle_lowest, ground + foot.ankle_rest) if foot.ankle_held else 0.0
    foot.toe_lowest = min(foot.toe_lowest, toe_y) if foot.toe_held else UNSEEN_M
    foot.toe_risen = toe_y - max(foot.toe_lowest, ground + foot.toe_rest) if foot.toe_held else 0.0
    if foot.toe_held and foot.heel_risen > HEEL_M * foot.size:
        foot.ankle_barred = True
    shift = foot.toe_shift
    lag = sqrt(shift[0] * shift[0] + shift[2] * shift[2])
    foot.least_lag = min(foot.least_lag, lag) if foot.toe_held else UNSEEN_M
    highest = LEAVE_M if lag - foot.least_lag > LAG_M * foot.size else TOE_M
    if not foot.ankle_held and foot.toe_risen > highest * foot.size:
        foot.toe_barred = True


@kernel
def update_foot(foot: FootState, side: int, dt: float, forecast: PlantForecast, options: PlantOptions) -> None:
    """Update the state of one foot: target of its ankle, turn of the foot, and what the hip lacks to reach."""
    a, t = 2 * side, 2 * side + 1
    p_ankle, p_toe = row3(foot.origin, ANKLE), row3(foot.origin, TOE)
    if not foot.is_alive:
        foot.ankle_lowest, foot.toe_lowest = UNSEEN_M, UNSEEN_M
    # A foot that was let go as a whole may stand again once its correction has faded.
    in_air = not foot.ankle_held and not foot.toe_held
    if in_air and foot.ankle_barred and foot.toe_barred and foot.let_go_s <= 0.0:
        foot.ankle_barred, foot.toe_barred = False, False
    release_by_height(foot, options.floor_y)
    # What is held: wanted, and not let go before its time
    foot.ankle_barred = foot.ankle_barred and forecast.planted[a]
    foot.toe_barred = foot.toe_barred and forecast.planted[t]
    ankle_down = forecast.planted[a] and not foot.ankle_barred
    toe_down = forecast.planted[t] and not foot.toe_barred
    land_a, land_t = row3(forecast.landing, a), row3(forecast.landing, t)
    # A foot that stands on its heel still rolls down onto its toe, which is held afterwards.
    rise = (p_toe[1] if forecast.planted[t] else land_t[1]) - (p_ankle[1] if ankle_down else land_a[1])
    roll_s = roll_in_time(foot, rise)
    if not toe_down:
        foot.wait_s = roll_s
    elif not foot.is_alive or foot.toe_held or not ankle_down:
        foot.wait_s = 0.0
    else:
        foot.wait_s = max(0.0, foot.wait_s - dt)
    rolling = toe_down and foot.wait_s > 1e-9
    toe_down = toe_down and not rolling
    ankle_s = 0.0 if ankle_down else forecast.until_s[a]
    toe_s = 0.0 if toe_down else foot.wait_s if rolling else forecast.until_s[t]
    if not toe_down and not rolling and toe_s >= ankle_s:
        toe_s += roll_s
    start_easing_out(foot, ankle_down, toe_down, min(forecast.until_s[a], forecast.until_s[t]), options.ease_s)
    frame = FootFrame(
        p_ankle, p_toe, quaternion_at(foot.world, ANKLE), ankle_down, toe_down, ankle_s, toe_s, land_a, land_t,
        row3(forecast.shift, a), row3(forecast.shift, t), options.ease_s, options.floor_y, dt,
    )  # fmt: skip
    f = orient_foot(foot, frame, rise, forecast.toe_in[side])
    begin_plants(foot, frame, f)
    target = place_foot(foot, frame, f)
    lowest_y = options.floor_y + foot.level + foot.toe_rest
    if not toe_down and target[1] + f[1] < lowest_y:
        # A toe in the air that would be under the floor is raised to it.
        length = norm(f)
        up = min(length, max(-length, lowest_y - target[1]))
        along = unit((f[0], 0.0, f[2]))
        flat = sqrt(length * length - up * up)
        f = (flat * along[0], up, flat * along[2])
    store_foot_target(foot, target, f, subtract3(p_toe, p_ankle))
    # How far the hip is too high, as far as the root shall be lowered for this foot
    reach, soft, _ = leg_extension(foot)
    weight = 1.0 - foot.settle_s / SETTLE_S
    if toe_down:
        # The more the raw heel has risen, the more the heel rises instead.
        left = 1.0 - foot.heel_risen / (LEAVE_M * foot.size)
        weight *= min(1.0, max(0.0, 1.5 * left)) if ankle_down else 0.0
    elif not ankle_down:
        early = min(1.0, min(ankle_s, toe_s) / SEEN_S)
        weight = 1.0 - early * early * (3.0 - 2.0 * early)
    dx, dz = foot.origin[HIP, 0] - foot.target[0], foot.origin[HIP, 2] - foot.target[2]
    height = sqrt(max((soft * reach) * (soft * reach) - dx * dx - dz * dz, 0.0))
    foot.needed_drop = weight * max(0.0, foot.origin[HIP, 1] - foot.target[1] - height)
    # What the next frame has to know of this one
    foot.is_alive, foot.ankle_held, foot.toe_held = True, ankle_down, toe_down
    foot.ankle_ahead_s, foot.toe_ahead_s = forecast.until_s[a], forecast.until_s[t]
    foot.let_go_s = max(0.0, foot.let_go_s - dt)
    foot.turn_back_s = max(0.0, foot.turn_back_s - dt)
    foot.settle_s = max(0.0, foot.settle_s - dt)
    foot.sink_s = max(0.0, foot.sink_s - dt)


@kernel
def raise_heel(foot: FootState, hip: Vector, reach: float) -> float:
    """Let a foot on its toe roll so far that its ankle is within reach; keeps the turn, returns how far [rad]."""
    target, toe = get3(foot.target), get3(foot.toe_goal)
    f0 = subtract3(row3(foot.origin, TOE), row3(foot.origin, ANKLE))
    f = subtract3(toe, target)
    length = norm(f)
    ahead = unit((f[0], 0.0, f[2]))
    angle = atan2(-f[1], sqrt(f[0] * f[0] + f[2] * f[2]))
    needed = min(STEEP_RAD, heel_rise_angle(hip, toe, ahead, length, reach))
    gap = angle - needed
    if gap >= MARGIN_RAD:
        return 0.0
    # A parabola over the margin joins the heel that rises with the one that must.
    raised = needed + (0.25 * (gap + MARGIN_RAD) ** 2 / MARGIN_RAD if gap > -MARGIN_RAD else 0.0)
    half = yaw_rotation(min(raised, STEEP_RAD))
    c, s = half[0] * half[0] - half[2] * half[2], 2.0 * half[0] * half[2]
    f = (length * c * ahead[0], -length * s, length * c * ahead[2])
    set3(foot.tilt, log(shortest_rotation(unit(rotate(yaw_rotation(foot.yaw), f0)), unit(f))))
    store_foot_target(foot, subtract3(toe, f), f, f0)
    return raised - angle


@kernel
def update_feet(
    dt: float, forecast: PlantForecast, options: PlantOptions, legs: LegArrays, state: PlantState, root: FloatArray,
    rotations: FloatArray,
) -> None:  # fmt: skip
    """Update the state for one frame and lower the root; the legs are not posed yet."""
    p_root = get3(root)
    for side in range(2):
        write_leg_frames(state.feet[side], side, p_root, rotations, legs, options.scale)
        write_foot_measures(state.feet[side], side, options.scale, legs)
        update_foot(state.feet[side], side, dt, forecast, options)
    most = DROP_PART * options.scale * min(legs.reach[0], legs.reach[1])
    needed = max(state.feet[0].needed_drop, state.feet[1].needed_drop)
    # Lowering of the root [m]: critically damped towards the required value, at least that, at most `most`
    root_drop, needed = state.root_drop, min(needed, most)
    omega = 1.678 / HALF_LIFE_S  # a critically damped step is half done after 1.678 / omega
    away, rate = root_drop[0] - needed, root_drop[1]
    push = rate + omega * away
    fade = 2.718281828459045 ** (-omega * dt)
    drop = needed + (away + push * dt) * fade
    root_drop[1] = (rate - push * omega * dt) * fade
    if drop < needed:
        drop = needed
        root_drop[1] = max(root_drop[1], 0.0)
    drop = min(most, min(drop, root_drop[0] + DROP_MPS * dt))
    root_drop[0] = drop
    root[1] -= drop
    # Heels rise that must, and what a leg cannot keep is let go.
    for side in range(2):
        foot = state.feet[side]
        for j in range(4):
            foot.origin[j, 1] -= drop
        reach, soft, _ = leg_extension(foot)
        hip = row3(foot.origin, HIP)
        ankle = (foot.origin[ANKLE, 0], foot.origin[ANKLE, 1] + drop, foot.origin[ANKLE, 2])
        # A flat foot out of reach goes onto its toe, whose heel rises as far as the leg needs.
        is_flat = foot.toe_held and foot.ankle_held
        if is_flat and norm(subtract3(get3(foot.target), hip)) > soft * reach + CLOSE_M:
            foot.ankle_barred, foot.ankle_held, foot.turn_back_s = True, False, ROLL_S
        on_toe = foot.toe_held and not foot.ankle_held
        stretched = on_toe and raise_heel(foot, hip, soft * reach) > FORCED_RAD
        way = subtract3(get3(foot.target), hip)
        excess = norm(way) - soft * reach
        if foot.ankle_held and excess > LOST_M:
            foot.ankle_barred = True
        if stretched:
            foot.toe_barred = True
        # A foot in the air is brought within reach.
        if not foot.ankle_held and not foot.toe_held and excess > 0.0:
            set3(foot.target, add3(hip, scale3(soft * reach / norm(way), way)))
            set3(foot.ankle_shift, subtract3(get3(foot.target), ankle))
        # A foot that is lost on its toe, or twisted, is let go as a whole.
        twisted = abs(foot.yaw) > TWIST_RAD and (foot.ankle_held or foot.toe_held)
        if (on_toe and excess > LOST_M) or twisted:
            foot.ankle_barred, foot.toe_barred, foot.let_go_s = True, True, options.ease_s
        track_vector(foot.posed_shift, foot.posed_shift_rate, subtract3(get3(foot.target), ankle), dt, FASTEST_MPS)


@kernel
def encode_foot_flags(foot: FootState, side: int, ankle: Vector, miss: float) -> int:
    """Bits of one foot: what is held and where it should be, and whether the ankle missed its target."""
    flags = 0
    f0 = subtract3(row3(foot.origin, TOE), row3(foot.origin, ANKLE))
    toe = add3(ankle, rotate(get4(foot.turn), f0))
    if foot.ankle_held and miss < SHOWN_M:
        flags |= 1 << (2 * side)
    if foot.toe_held and norm(subtract3(toe, get3(foot.toe_goal))) < SHOWN_M:
        flags |= 2 << (2 * side)
    if miss > SEEN_M:
        flags |= 16 << side
    return flags
