"""Foot plants with the inverse kinematics of the source: the ankle task first, the toe task in its null space.

The default is the closed-form leg; this method is chosen by name.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, kernel
from marey.dynamics.spatial import add3, cross, dot, row3, scale3, subtract3
from marey.lie.kernels import Quaternion, Vector, conjugate, exp, multiply, quaternion_at, rotate
from marey.locomotion.plants.leg import (
    ABOVE,
    ORIGIN,
    WORLD,
    bend_direction,
    bend_toes,
    get3,
    get4,
    joint_in_world,
    leg_extension,
    norm,
    perpendicular,
    saturate_length,
    unit,
    write_unit_quaternion,
)
from marey.locomotion.plants.state import LEVEL, TARGET, TURN, LegArrays, PlantOptions
from marey.locomotion.plants.step import copy_frame_edits, encode_foot_flags, update_feet

ITERATIONS = 20
CONVERGED_M = 1e-4  # [m] both tasks nearer than this
DAMPING = 0.01  # [m] of the damped inverses
STRAIGHT_LEG_DAMPING = 0.04  # [m] more of it on a leg that is straight
MAX_STEP_RAD = 0.5  # [rad] longest step


@kernel
def solve_damped(A: FloatArray, damping: float, b: FloatArray, x: FloatArray) -> None:
    """Solve ``(A A^T + damping^2 I) y = b`` for a matrix ``(3, 6)`` and put ``A^T y`` into ``x``."""
    G = np.empty((3, 3))
    for i in range(3):
        for j in range(3):
            G[i, j] = damping * damping if i == j else 0.0
            for k in range(6):
                G[i, j] += A[i, k] * A[j, k]
    u, v, w = (G[0, 0], G[1, 0], G[2, 0]), (G[0, 1], G[1, 1], G[2, 1]), (G[0, 2], G[1, 2], G[2, 2])
    vw, r = cross(v, w), (b[0], b[1], b[2])
    det = dot(u, vw)
    y = (dot(r, vw) / det, dot(u, cross(r, w)) / det, dot(u, cross(v, r)) / det)
    for k in range(6):
        x[k] = A[0, k] * y[0] + A[1, k] * y[1] + A[2, k] * y[2]


@kernel
def write_jacobian_column(J: FloatArray, k: int, axis: Vector, lever: Vector) -> None:
    """Column of a Jacobian: what a turn about ``axis`` does to the end of ``lever``."""
    J[0, k], J[1, k], J[2, k] = cross(axis, lever)


@kernel
def subtract_product(J: FloatArray, x: FloatArray, e: FloatArray) -> None:
    """Subtract ``J x`` from ``e``."""
    for i in range(3):
        for k in range(6):
            e[i] -= J[i, k] * x[k]


@kernel
def project_to_null_space(J1: FloatArray, J2: FloatArray, out: FloatArray) -> None:
    r"""Second task in the null space of the first, :math:`J_2 (I - J_1^+ J_1)`."""
    x, row = np.empty(6), np.empty(3)
    for i in range(3):
        for j in range(3):
            row[j] = 0.0
            for k in range(6):
                row[j] += J1[j, k] * J2[i, k]
        solve_damped(J1, 1e-6, row, x)
        for k in range(6):
            out[i, k] = J2[i, k] - x[k]


@kernel
def step_leg(
    hip: Vector, knee: Vector, ankle: Vector, toe: Vector, hinge: Vector, e1: Vector, e2: Vector, locked: bool,
    dx: FloatArray,
) -> None:  # fmt: skip
    r"""One step of hip (3), knee (1) and ankle (2) [rad] that brings the ankle, then the toe, nearer.

    .. math:: \Delta\theta = J_1^{\lambda+} e_1 + (J_2 P_1)^{\lambda+}(e_2 - J_2 J_1^{\lambda+} e_1)
    """
    J1, J2, J2P = np.zeros((3, 6)), np.zeros((3, 6)), np.zeros((3, 6))
    axes = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    for k in range(3):
        write_jacobian_column(J1, k, axes[k], subtract3(ankle, hip))
        write_jacobian_column(J2, k, axes[k], subtract3(toe, hip))
    if not locked:
        write_jacobian_column(J1, 3, hinge, subtract3(ankle, knee))
        write_jacobian_column(J2, 3, hinge, subtract3(toe, knee))
    side = perpendicular(unit(subtract3(toe, ankle)))
    write_jacobian_column(J2, 4, side, subtract3(toe, ankle))
    write_jacobian_column(J2, 5, cross(unit(subtract3(toe, ankle)), side), subtract3(toe, ankle))
    straight = norm(subtract3(ankle, hip)) / (norm(subtract3(knee, hip)) + norm(subtract3(ankle, knee)))
    damping = DAMPING + STRAIGHT_LEG_DAMPING * max(0.0, (straight - 0.98) / 0.02) ** 2
    first, second, rest = np.empty(6), np.empty(6), np.array([e2[0], e2[1], e2[2]])
    solve_damped(J1, damping, np.array([e1[0], e1[1], e1[2]]), first)
    subtract_product(J2, first, rest)
    project_to_null_space(J1, J2, J2P)
    solve_damped(J2P, damping, rest, second)
    for k in range(6):
        dx[k] = first[k] + second[k]


@kernel
def pose_leg_priority(
    row: FloatArray, foot: int, target: Vector, turn: Quaternion, scale: float, legs: LegArrays, rotations: FloatArray
) -> tuple[Vector, float]:
    """Move the ankle to ``target`` and the toe to where ``turn`` puts it, by damped least squares in two priorities.

    The method of [Glardon2005]_ §III.2.4 with six degrees of freedom; starts from the raw pose. The knee is a hinge
    that stops before it is straight, and is then taken out. Returns the ankle reached and its miss [m].
    """
    hip, knee, ankle, toe = legs.joints[foot, 0], legs.joints[foot, 1], legs.joints[foot, 2], legs.joints[foot, 3]
    p_hip, above_hip, W_hip = get3(row, ORIGIN), get4(row, ABOVE), get4(row, WORLD)
    p_knee, p_ankle, p_toe = get3(row, ORIGIN + 11), get3(row, ORIGIN + 22), get3(row, ORIGIN + 33)
    k, a = subtract3(p_knee, p_hip), subtract3(p_ankle, p_hip)
    total, soft, limit = leg_extension(row)
    hinge = cross(unit(a), bend_direction(k, unit(a), norm(k), rotate(W_hip, row3(legs.pole, foot))))
    hinge_hip = rotate(conjugate(W_hip), hinge)
    far = norm(subtract3(target, p_hip))
    goal = add3(
        p_hip, scale3(saturate_length(far, soft * total, limit * total) / max(far, 1e-12), subtract3(target, p_hip))
    )
    reach = add3(goal, rotate(turn, subtract3(p_toe, p_ankle)))
    dx, locked = np.empty(6), False
    for _ in range(ITERATIONS):
        e1, e2 = subtract3(goal, p_ankle), subtract3(reach, p_toe)
        if dot(e1, e1) < CONVERGED_M * CONVERGED_M and dot(e2, e2) < CONVERGED_M * CONVERGED_M:
            break
        hinge = rotate(W_hip, hinge_hip)
        step_leg(p_hip, p_knee, p_ankle, p_toe, hinge, e1, e2, locked, dx)
        size = sqrt(dx[0] ** 2 + dx[1] ** 2 + dx[2] ** 2 + dx[3] ** 2 + dx[4] ** 2 + dx[5] ** 2)
        for c in range(6):
            dx[c] *= min(1.0, MAX_STEP_RAD / max(size, 1e-12))
        bent = knee_bend_after(p_hip, p_knee, p_ankle, hinge, dx[3])
        locked = bent < 0.0
        apply_leg_step(foot, dx, 0.0 if locked else dx[3], hinge, p_ankle, p_toe, above_hip, W_hip, legs, scale, p_hip,
                 rotations)  # fmt: skip
        W_hip = multiply(above_hip, quaternion_at(rotations, hip))
        p_knee, _, W_knee = joint_in_world(knee, hip, p_hip, W_hip, legs, scale, rotations)
        p_ankle, _, W_ankle = joint_in_world(ankle, knee, p_knee, W_knee, legs, scale, rotations)
        p_toe, _, _ = joint_in_world(toe, ankle, p_ankle, W_ankle, legs, scale, rotations)
    return p_ankle, norm(subtract3(p_ankle, target))


@kernel
def knee_bend_after(hip: Vector, knee: Vector, ankle: Vector, hinge: Vector, angle: float) -> float:
    """Sine of the knee's bend about its hinge after a further turn; negative for a knee bent the wrong way."""
    k, s = unit(subtract3(knee, hip)), unit(subtract3(ankle, knee))
    s = rotate(exp(scale3(angle, hinge)), s)
    return -dot(cross(k, s), hinge)


@kernel
def apply_leg_step(
    foot: int, dx: FloatArray, bend: float, hinge: Vector, p_ankle: Vector, p_toe: Vector, above_hip: Quaternion,
    W_hip: Quaternion, legs: LegArrays, scale: float, p_hip: Vector, rotations: FloatArray,
) -> None:  # fmt: skip
    """Turn hip, knee and ankle by a step."""
    hip, knee, ankle = legs.joints[foot, 0], legs.joints[foot, 1], legs.joints[foot, 2]
    p_knee, above_knee, W_knee = joint_in_world(knee, hip, p_hip, W_hip, legs, scale, rotations)
    _, above_ankle, W_ankle = joint_in_world(ankle, knee, p_knee, W_knee, legs, scale, rotations)
    along = unit(subtract3(p_toe, p_ankle))
    side = perpendicular(along)
    upper = exp((dx[0], dx[1], dx[2]))
    lower = multiply(upper, exp(scale3(bend, hinge)))
    aim = multiply(lower, exp(add3(scale3(dx[4], side), scale3(dx[5], cross(along, side)))))
    write_unit_quaternion(rotations, hip, multiply(conjugate(above_hip), multiply(upper, W_hip)))
    write_unit_quaternion(rotations, knee, multiply(conjugate(multiply(upper, above_knee)), multiply(lower, W_knee)))
    write_unit_quaternion(rotations, ankle, multiply(conjugate(multiply(lower, above_ankle)), multiply(aim, W_ankle)))


@kernel
def plant_step_priority(
    dt: float, planted: BoolArray, until_s: FloatArray, landing: FloatArray, options: PlantOptions, floor_y: float,
    scale: float, legs: LegArrays, state: FloatArray, root_position: FloatArray, rotations: FloatArray,
) -> int:  # fmt: skip
    """Do what ``plant_step`` does, with damped least squares in two priorities instead of the closed form."""
    update_feet(dt, planted, until_s, landing, options, floor_y, scale, legs, state, root_position, rotations)
    flags = 0
    for foot in range(2):
        row = state[foot]
        turn, ground = get4(row, TURN), floor_y + row[LEVEL]
        ankle, miss = pose_leg_priority(row, foot, get3(row, TARGET), turn, scale, legs, rotations)
        bend_toes(row, foot, ankle, turn, ground, dt, scale, legs, rotations)
        flags |= encode_foot_flags(row, foot, ankle, miss)
    return flags


@kernel
def plant_clip_priority(
    dt: float, planted: BoolArray, until_s: FloatArray, landing: FloatArray, shifts: FloatArray, toe_in: FloatArray,
    options: PlantOptions, floor_y: float, legs: LegArrays, state: FloatArray, roots: FloatArray, rotations: FloatArray,
) -> IntArray:  # fmt: skip
    """Do what ``plant_clip`` does, by damped least squares."""
    flags = np.empty(len(roots), dtype=np.int64)
    for f in range(len(roots)):
        copy_frame_edits(options, shifts, toe_in, f)
        flags[f] = plant_step_priority(
            dt, planted[f], until_s[f], landing[f], options, floor_y, 1.0, legs, state, roots[f], rotations[f]
        )
    return flags
