"""Compiled foot plants: how a foot is turned, flat on the ground or on its way there."""

from __future__ import annotations

from math import atan2, sqrt

from marey.base import FloatArray, kernel
from marey.dynamics._spatial_kernels import add3, row3, scale3
from marey.lie._rotation_kernels import Quaternion, Vector, conjugate, exp, log, multiply, rotate
from marey.locomotion._foot_kernels import get3, get4, norm, set3, set4, shortest_rotation, unit, yaw_rotation
from marey.locomotion._plant_arrays import LegArrays
from marey.locomotion._plant_columns import (
    ALIVE,
    ANKLE_HELD,
    FASTEST_RADPS,
    FLAT,
    HEADING,
    HEEL,
    HEEL_DROP,
    LATERAL,
    RAW,
    REST_A,
    REST_T,
    SIZE,
    TARGET,
    TILT,
    TOE_HELD,
    TURN,
    TURN_BACK,
    YAW,
)
from marey.locomotion._plant_ease_kernels import ease_cubic, ease_vector, track_vector


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
