"""Compiled foot plants: one character, one frame or one clip ([Glardon2005]_ §III.2.4).

Each foot is an ankle and a direction to its toe. Both are the raw ones plus a correction that is state: a shift of the
ankle, a yaw, and a tilt of the foot. While a foot is held the correction is whatever keeps it in place; otherwise it
eases, to nothing or to what the coming plant needs. As the correction is state, raw motion may change at any time.
"""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, kernel
from marey.dynamics.spatial import add3, row3, subtract3
from marey.lie.kernels import Vector, exp, multiply, rotate
from marey.locomotion.plants.leg import (
    ORIGIN,
    WORLD,
    bend_toes,
    get3,
    get4,
    leg_extension,
    norm,
    pose_leg,
    write_leg_frames,
    yaw_rotation,
)
from marey.locomotion.plants.placement import (
    begin_plants,
    is_down,
    is_rolling,
    orient_foot,
    place_foot,
    raise_toe_above_floor,
    roll_in_time,
    start_easing_out,
    store_foot_target,
    write_foot_measures,
)
from marey.locomotion.plants.reach import allow_replant, hip_excess, lower_root, release_by_height, release_by_reach
from marey.locomotion.plants.state import (
    ALIVE,
    ANKLE_AHEAD,
    ANKLE_BARRED,
    ANKLE_HELD,
    DROP_PART,
    GOAL_T,
    LEAVE_M,
    LET_GO,
    LEVEL,
    LOWEST_A,
    LOWEST_T,
    NEED,
    REST_T,
    RISEN,
    SEEN_M,
    SEEN_S,
    SETTLE,
    SETTLE_S,
    SHIFT_A,
    SHOWN_M,
    SINK_TIME,
    SIZE,
    TARGET,
    TILT,
    TOE_AHEAD,
    TOE_BARRED,
    TOE_HELD,
    TURN,
    TURN_BACK,
    UNSEEN_M,
    WAIT,
    YAW,
    LegArrays,
    PlantOptions,
)


@kernel
def update_foot(
    row: FloatArray, foot: int, dt: float, planted: BoolArray, until_s: FloatArray, landing: FloatArray,
    options: PlantOptions, floor_y: float,
) -> None:  # fmt: skip
    """Update the memory of one foot: target of its ankle, turn of the foot, and what the hip lacks to reach."""
    a, t = 2 * foot, 2 * foot + 1
    p_ankle, p_toe, W_ankle = get3(row, ORIGIN + 22), get3(row, ORIGIN + 33), get4(row, WORLD + 22)
    if row[ALIVE] == 0.0:
        row[LOWEST_A], row[LOWEST_T] = UNSEEN_M, UNSEEN_M
    allow_replant(row)
    release_by_height(row, floor_y)
    ankle_down, toe_down = is_down(row, planted[a], ANKLE_BARRED), is_down(row, planted[t], TOE_BARRED)
    land_a, land_t = row3(landing, a), row3(landing, t)
    rise = (p_toe[1] if planted[t] else land_t[1]) - (p_ankle[1] if ankle_down else land_a[1])
    roll_s = roll_in_time(row, rise)
    rolling = is_rolling(row, ankle_down, toe_down, roll_s, dt)
    toe_down = toe_down and not rolling
    held = ankle_down or toe_down
    ankle_s = 0.0 if ankle_down else until_s[a]
    toe_s = 0.0 if toe_down else row[WAIT] if rolling else until_s[t]
    if not toe_down and not rolling and toe_s >= ankle_s:
        toe_s += roll_s
    start_easing_out(row, ankle_down, toe_down, min(until_s[a], until_s[t]), options.ease_s)
    f0 = subtract3(p_toe, p_ankle)
    flat_s = max(max(ankle_s, toe_s), row[SETTLE] if held else 0.0)
    shift_a, shift_t = row3(options.shift, a), row3(options.shift, t)
    f = orient_foot(row, f0, W_ankle, held, min(ankle_s, toe_s), flat_s, rise, options.toe_in[foot], options.ease_s, dt)
    now = add3(p_ankle, get3(row, SHIFT_A))
    begin_plants(row, ankle_down, toe_down, now, f, shift_a, shift_t, floor_y, dt)
    turned = multiply(exp(get3(row, TILT)), multiply(yaw_rotation(row[YAW]), W_ankle))
    target = place_foot(row, p_ankle, p_toe, f, turned, ankle_down, toe_down, ankle_s, toe_s, land_a, land_t, shift_a,
                        shift_t, options.ease_s, floor_y, dt)  # fmt: skip
    if not toe_down:
        f = raise_toe_above_floor(f, target[1], floor_y + row[LEVEL] + row[REST_T])
    store_foot_target(row, target, f, f0)
    update_needed_reach(row, ankle_down, toe_down, min(ankle_s, toe_s))
    store_foot_history(row, ankle_down, toe_down, until_s[a], until_s[t], dt)


@kernel
def update_needed_reach(row: FloatArray, ankle_down: bool, toe_down: bool, first_s: float) -> None:
    """Tell how far the hip is too high, as far as the root shall be lowered for it."""
    reach, soft, _ = leg_extension(row)
    weight = 1.0 - row[SETTLE] / SETTLE_S
    if toe_down:  # the more the raw heel has risen, the more the heel rises instead
        left = 1.0 - row[RISEN] / (LEAVE_M * row[SIZE])
        weight *= min(1.0, max(0.0, 1.5 * left)) if ankle_down else 0.0
    elif not ankle_down:
        early = min(1.0, first_s / SEEN_S)
        weight = 1.0 - early * early * (3.0 - 2.0 * early)
    row[NEED] = weight * hip_excess(get3(row, ORIGIN), get3(row, TARGET), soft * reach)


@kernel
def store_foot_history(
    row: FloatArray, ankle_down: bool, toe_down: bool, ankle_s: float, toe_s: float, dt: float
) -> None:
    """Keep what the next frame has to know of this one."""
    row[ALIVE] = 1.0
    row[ANKLE_HELD], row[TOE_HELD] = 1.0 if ankle_down else 0.0, 1.0 if toe_down else 0.0
    row[ANKLE_AHEAD], row[TOE_AHEAD] = ankle_s, toe_s
    row[LET_GO] = max(0.0, row[LET_GO] - dt)
    row[TURN_BACK] = max(0.0, row[TURN_BACK] - dt)
    row[SETTLE] = max(0.0, row[SETTLE] - dt)
    row[SINK_TIME] = max(0.0, row[SINK_TIME] - dt)


@kernel
def update_feet(
    dt: float, planted: BoolArray, until_s: FloatArray, landing: FloatArray, options: PlantOptions, floor_y: float,
    scale: float, legs: LegArrays, state: FloatArray, root_position: FloatArray, rotations: FloatArray,
) -> None:  # fmt: skip
    """Update the memory for one frame and lower the root; the legs are not posed yet."""
    root = (root_position[0], root_position[1], root_position[2])
    for foot in range(2):
        write_leg_frames(state[foot], foot, root, rotations, legs, scale)
        write_foot_measures(state[foot], foot, scale, legs)
        update_foot(state[foot], foot, dt, planted, until_s, landing, options, floor_y)
    most = DROP_PART * scale * min(legs.reach[0], legs.reach[1])
    drop = lower_root(state[2], max(state[0, NEED], state[1, NEED]), most, dt)
    root_position[1] -= drop
    for foot in range(2):
        for j in range(4):
            state[foot, ORIGIN + 11 * j + 1] -= drop
        release_by_reach(state[foot], drop, dt, options.ease_s)


@kernel
def encode_foot_flags(row: FloatArray, foot: int, ankle: Vector, miss: float) -> int:
    """Bits of one foot: what is held and where it should be, and whether the ankle missed its target."""
    flags = 0
    f0 = subtract3(get3(row, ORIGIN + 33), get3(row, ORIGIN + 22))
    toe = add3(ankle, rotate(get4(row, TURN), f0))
    if row[ANKLE_HELD] > 0.0 and miss < SHOWN_M:
        flags |= 1 << (2 * foot)
    if row[TOE_HELD] > 0.0 and norm(subtract3(toe, get3(row, GOAL_T))) < SHOWN_M:
        flags |= 2 << (2 * foot)
    if miss > SEEN_M:
        flags |= 16 << foot
    return flags


@kernel
def plant_step(
    dt: float, planted: BoolArray, until_s: FloatArray, landing: FloatArray, options: PlantOptions, floor_y: float,
    scale: float, legs: LegArrays, state: FloatArray, root_position: FloatArray, rotations: FloatArray,
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
    update_feet(dt, planted, until_s, landing, options, floor_y, scale, legs, state, root_position, rotations)
    flags = 0
    for foot in range(2):
        row = state[foot]
        turn, ground = get4(row, TURN), floor_y + row[LEVEL]
        ankle, miss = pose_leg(row, foot, get3(row, TARGET), turn, legs, rotations)
        bend_toes(row, foot, ankle, turn, ground, dt, scale, legs, rotations)
        flags |= encode_foot_flags(row, foot, ankle, miss)
    return flags


@kernel
def copy_frame_edits(options: PlantOptions, shifts: FloatArray, toe_in: FloatArray, f: int) -> None:
    """Copy the edits of frame ``f`` into the options."""
    for k in range(4):
        for c in range(3):
            options.shift[k, c] = shifts[f, k, c]
    options.toe_in[0], options.toe_in[1] = toe_in[f, 0], toe_in[f, 1]


@kernel
def plant_clip(
    dt: float, planted: BoolArray, until_s: FloatArray, landing: FloatArray, shifts: FloatArray, toe_in: FloatArray,
    options: PlantOptions, floor_y: float, legs: LegArrays, state: FloatArray, roots: FloatArray, rotations: FloatArray,
) -> IntArray:  # fmt: skip
    """Plant the feet of all frames in place; arguments are those of ``plant_step``, frames first; returns flags."""
    flags = np.empty(len(roots), dtype=np.int64)
    for f in range(len(roots)):
        copy_frame_edits(options, shifts, toe_in, f)
        flags[f] = plant_step(
            dt, planted[f], until_s[f], landing[f], options, floor_y, 1.0, legs, state, roots[f], rotations[f]
        )
    return flags
