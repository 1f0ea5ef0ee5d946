"""Compiled foot plants: what a leg that does not reach gives up, and in which order."""

from __future__ import annotations

from math import atan2, sqrt

from marey.base import FloatArray, kernel
from marey.dynamics.spatial import add3, scale3, subtract3
from marey.lie.kernels import Vector, log, rotate
from marey.locomotion.plants.easing import track_vector
from marey.locomotion.plants.leg import (
    ORIGIN,
    get3,
    heel_rise_angle,
    leg_extension,
    norm,
    set3,
    shortest_rotation,
    unit,
    yaw_rotation,
)
from marey.locomotion.plants.placement import store_foot_target
from marey.locomotion.plants.state import (
    ANKLE_BARRED,
    ANKLE_HELD,
    CLOSE_M,
    DROP_MPS,
    FASTEST_MPS,
    FINAL,
    FORCED_RAD,
    GOAL_T,
    HALF_LIFE_S,
    HEEL_M,
    LAG_M,
    LEAST,
    LEAVE_M,
    LET_GO,
    LEVEL,
    LOST_M,
    LOWEST_A,
    LOWEST_T,
    MARGIN_RAD,
    REST_A,
    REST_T,
    RISEN,
    ROLL_S,
    ROOT_DROP,
    SHIFT_A,
    SHIFT_T,
    SIZE,
    STEEP_RAD,
    TARGET,
    TILT,
    TIPTOE,
    TOE_BARRED,
    TOE_HELD,
    TOE_M,
    TURN_BACK,
    TWIST_RAD,
    UNSEEN_M,
    YAW,
)


@kernel
def hip_excess(hip: Vector, target: Vector, reach: float) -> float:
    """How much lower [m] a hip must be for a target to be within reach."""
    dx, dz = hip[0] - target[0], hip[2] - target[2]
    height = sqrt(max(reach * reach - dx * dx - dz * dz, 0.0))
    return max(0.0, hip[1] - target[1] - height)


@kernel
def lower_root(body: FloatArray, needed: float, most: float, dt: float) -> float:
    """How far the root is lowered [m]: critically damped towards what is needed, never less, at most ``most``."""
    needed = min(needed, most)
    omega = 1.678 / HALF_LIFE_S  # a critically damped step is half done after 1.678 / omega
    away, rate = body[ROOT_DROP] - needed, body[ROOT_DROP + 1]
    j = rate + omega * away
    fade = 2.718281828459045 ** (-omega * dt)
    drop = needed + (away + j * dt) * fade
    body[ROOT_DROP + 1] = (rate - j * omega * dt) * fade
    if drop < needed:
        drop = needed
        body[ROOT_DROP + 1] = max(body[ROOT_DROP + 1], 0.0)
    drop = min(most, min(drop, body[ROOT_DROP] + DROP_MPS * dt))
    body[ROOT_DROP] = drop
    return drop


@kernel
def _cos_sin(angle: float) -> tuple[float, float]:
    half = yaw_rotation(angle)
    return half[0] * half[0] - half[2] * half[2], 2.0 * half[0] * half[2]


@kernel
def raise_heel(row: FloatArray, hip: Vector, reach: float) -> float:
    """Let a foot on its toe roll so far that its ankle is within reach; keeps the turn, returns how far [rad]."""
    target, toe = get3(row, TARGET), get3(row, GOAL_T)
    f0 = subtract3(get3(row, ORIGIN + 33), get3(row, ORIGIN + 22))
    f = subtract3(toe, target)
    length = norm(f)
    ahead = unit((f[0], 0.0, f[2]))
    angle = atan2(-f[1], sqrt(f[0] * f[0] + f[2] * f[2]))
    needed = min(STEEP_RAD, heel_rise_angle(hip, toe, ahead, length, reach))
    gap = angle - needed
    if gap >= MARGIN_RAD:
        return 0.0
    raised = needed + (0.25 * (gap + MARGIN_RAD) ** 2 / MARGIN_RAD if gap > -MARGIN_RAD else 0.0)
    c, s = _cos_sin(min(raised, STEEP_RAD))
    f = (length * c * ahead[0], -length * s, length * c * ahead[2])
    set3(row, TARGET, subtract3(toe, f))
    set3(row, TILT, log(shortest_rotation(unit(rotate(yaw_rotation(row[YAW]), f0)), unit(f))))
    store_foot_target(row, get3(row, TARGET), f, f0)
    return raised - angle


@kernel
def raw_rise(row: FloatArray, lowest: int, height: float, rest_y: float, down: bool) -> float:
    """How far [m] the raw path of a held effector is over its rest height, or over its lowest point if that is more."""
    row[lowest] = min(row[lowest], height) if down else UNSEEN_M
    return height - max(row[lowest], rest_y) if down else 0.0


@kernel
def allow_replant(row: FloatArray) -> None:
    """Let a foot that was let go as a whole stand again once its correction has faded."""
    in_air = row[ANKLE_HELD] + row[TOE_HELD] == 0.0
    if in_air and row[ANKLE_BARRED] > 0.0 and row[TOE_BARRED] > 0.0 and row[LET_GO] <= 0.0:
        row[ANKLE_BARRED], row[TOE_BARRED] = 0.0, 0.0


@kernel
def release_by_height(row: FloatArray, floor_y: float) -> None:
    """Let go of a heel, or of a toe that stands alone, whose raw one has left; a toe that lags behind leaves sooner."""
    ankle_was, toe_was = row[ANKLE_HELD] > 0.0, row[TOE_HELD] > 0.0
    ground = floor_y + row[LEVEL]
    heel = raw_rise(row, LOWEST_A, row[ORIGIN + 23], ground + row[REST_A], ankle_was)
    toe = raw_rise(row, LOWEST_T, row[ORIGIN + 34], ground + row[REST_T], toe_was)
    row[RISEN], row[TIPTOE] = heel, toe
    if toe_was and heel > HEEL_M * row[SIZE]:
        row[ANKLE_BARRED] = 1.0
    lag = sqrt(row[SHIFT_T] * row[SHIFT_T] + row[SHIFT_T + 2] * row[SHIFT_T + 2])
    row[LEAST] = min(row[LEAST], lag) if toe_was else UNSEEN_M
    if not ankle_was and toe > (LEAVE_M if lag - row[LEAST] > LAG_M * row[SIZE] else TOE_M) * row[SIZE]:
        row[TOE_BARRED] = 1.0


@kernel
def release_by_reach(row: FloatArray, drop: float, dt: float, ease_s: float) -> None:
    """Let a heel rise that must, and let go of what the leg cannot keep."""
    reach, soft, _ = leg_extension(row)
    hip = get3(row, ORIGIN)
    ankle = (row[ORIGIN + 22], row[ORIGIN + 23] + drop, row[ORIGIN + 24])
    if (
        row[TOE_HELD] > 0.0
        and row[ANKLE_HELD] > 0.0
        and norm(subtract3(get3(row, TARGET), hip)) > soft * reach + CLOSE_M
    ):
        row[ANKLE_BARRED], row[ANKLE_HELD], row[TURN_BACK] = 1.0, 0.0, ROLL_S
    ankle_down, toe_down = row[ANKLE_HELD] > 0.0, row[TOE_HELD] > 0.0
    on_toe = toe_down and not ankle_down
    stretched = on_toe and raise_heel(row, hip, soft * reach) > FORCED_RAD
    excess = norm(subtract3(get3(row, TARGET), hip)) - soft * reach
    if ankle_down and excess > LOST_M:
        row[ANKLE_BARRED] = 1.0
    if stretched:
        row[TOE_BARRED] = 1.0
    if not ankle_down and not toe_down and excess > 0.0:
        way = subtract3(get3(row, TARGET), hip)
        set3(row, TARGET, add3(hip, scale3(soft * reach / norm(way), way)))
        set3(row, SHIFT_A, subtract3(get3(row, TARGET), ankle))
    if (on_toe and excess > LOST_M) or (abs(row[YAW]) > TWIST_RAD and (ankle_down or toe_down)):
        row[ANKLE_BARRED], row[TOE_BARRED], row[LET_GO] = 1.0, 1.0, ease_s
    track_vector(row, FINAL, subtract3(get3(row, TARGET), ankle), dt, FASTEST_MPS)
