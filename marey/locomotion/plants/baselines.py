"""Foot plants with the inverse kinematics of the source: the ankle task first, the toe task in its null space.

The default is the closed-form leg; this method is chosen by name.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, kernel
from marey.lie.kernels import (
    Quaternion,
    Vector,
    add3,
    conjugate,
    cross,
    dot,
    exp,
    multiply,
    norm,
    perpendicular,
    quaternion_at,
    rotate,
    row3,
    scale3,
    subtract3,
    unit,
    write_rotation,
)
from marey.locomotion.plants.hold import finish_foot, move_root, read_ticks, tick_weights
from marey.locomotion.plants.leg import (
    bend_direction,
    joint_in_world,
    leg_extension,
    saturate_length,
    set3,
)
from marey.locomotion.plants.state import (
    ANKLE,
    HIP,
    KNEE,
    TOE,
    FootState,
    LegArrays,
    PlantOptions,
    PlantState,
)

ITERATIONS = 20
CONVERGED_M = 1e-4  # [m] both tasks nearer than this
DAMPING = 0.01  # [m] of the damped inverses
STRAIGHT_LEG_DAMPING = 0.04  # [m] more of it on a leg that is straight
MAX_STEP_RAD = 0.5  # [rad] longest step


class LegPoints(NamedTuple):
    """World positions [m] of the joints of a leg."""

    hip: Vector
    knee: Vector
    ankle: Vector
    toe: Vector


@kernel
def solve_damped(A: FloatArray, damping: float, b: FloatArray, x: FloatArray) -> None:
    """Solve ``(A A^T + damping^2 I) y = b`` for a matrix ``(3, 6)`` and put ``A^T y`` into ``x``."""
    G = np.empty((3, 3))
    for i in range(3):
        for j in range(3):
            G[i, j] = damping * damping if i == j else 0.0
            for k in range(6):
                G[i, j] += A[i, k] * A[j, k]
    # Cramer's rule
    u, v, w = (G[0, 0], G[1, 0], G[2, 0]), (G[0, 1], G[1, 1], G[2, 1]), (G[0, 2], G[1, 2], G[2, 2])
    vw, r = cross(v, w), (b[0], b[1], b[2])
    det = dot(u, vw)
    y = (dot(r, vw) / det, dot(u, cross(r, w)) / det, dot(u, cross(v, r)) / det)
    for k in range(6):
        x[k] = A[0, k] * y[0] + A[1, k] * y[1] + A[2, k] * y[2]


@kernel
def step_leg(at: LegPoints, hinge: Vector, e1: Vector, e2: Vector, locked: bool, dx: FloatArray) -> None:
    r"""One step of hip (3), knee (1) and ankle (2) [rad] that brings the ankle, then the toe, nearer.

    .. math:: \Delta\theta = J_1^{\lambda+} e_1 + (J_2 P_1)^{\lambda+}(e_2 - J_2 J_1^{\lambda+} e_1)
    """
    J1, J2, J2P = np.zeros((3, 6)), np.zeros((3, 6)), np.zeros((3, 6))
    # Columns of both Jacobians: what a turn about an axis does to the ankle, and to the toe
    axes = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    for k in range(3):
        set3(J1[:, k], cross(axes[k], subtract3(at.ankle, at.hip)))
        set3(J2[:, k], cross(axes[k], subtract3(at.toe, at.hip)))
    if not locked:
        set3(J1[:, 3], cross(hinge, subtract3(at.ankle, at.knee)))
        set3(J2[:, 3], cross(hinge, subtract3(at.toe, at.knee)))
    foot = subtract3(at.toe, at.ankle)
    side = perpendicular(unit(foot))
    set3(J2[:, 4], cross(side, foot))
    set3(J2[:, 5], cross(cross(unit(foot), side), foot))
    # A straight leg is near a singularity of the ankle's task and gets more damping.
    thigh, shank = subtract3(at.knee, at.hip), subtract3(at.ankle, at.knee)
    straight = norm(subtract3(at.ankle, at.hip)) / (norm(thigh) + norm(shank))
    damping = DAMPING + STRAIGHT_LEG_DAMPING * max(0.0, (straight - 0.98) / 0.02) ** 2
    # First task: J1+ e1; what it leaves of the second: e2 - J2 J1+ e1
    first, second, rest = np.empty(6), np.empty(6), np.array([e2[0], e2[1], e2[2]])
    solve_damped(J1, damping, np.array([e1[0], e1[1], e1[2]]), first)
    for i in range(3):
        for k in range(6):
            rest[i] -= J2[i, k] * first[k]
    # J2 P1 = J2 (I - J1+ J1), row by row
    x, row = np.empty(6), np.empty(3)
    for i in range(3):
        for j in range(3):
            row[j] = 0.0
            for k in range(6):
                row[j] += J1[j, k] * J2[i, k]
        solve_damped(J1, 1e-6, row, x)
        for k in range(6):
            J2P[i, k] = J2[i, k] - x[k]
    solve_damped(J2P, damping, rest, second)
    for k in range(6):
        dx[k] = first[k] + second[k]


@kernel
def pose_leg_priority(
    foot: FootState, side: int, target: Vector, turn: Quaternion, legs: LegArrays, rotations: FloatArray
) -> tuple[Vector, float]:
    """Move the ankle to ``target`` and the toe to where ``turn`` puts it, by damped least squares in two priorities.

    The method of [Glardon2005]_ §III.2.4 with six degrees of freedom; starts from the raw pose. The knee is a hinge
    that stops before it is straight, and is then taken out. Returns the ankle reached and its miss [m].
    """
    hip, knee, ankle, toe = legs.joints[side, 0], legs.joints[side, 1], legs.joints[side, 2], legs.joints[side, 3]
    scale = foot.size
    p_hip, above_hip, W_hip = row3(foot.origin, HIP), quaternion_at(foot.above, HIP), quaternion_at(foot.world, HIP)
    p_knee, p_ankle, p_toe = row3(foot.origin, KNEE), row3(foot.origin, ANKLE), row3(foot.origin, TOE)
    above_knee, W_knee = quaternion_at(foot.above, KNEE), quaternion_at(foot.world, KNEE)
    above_ankle, W_ankle = quaternion_at(foot.above, ANKLE), quaternion_at(foot.world, ANKLE)
    # The knee's hinge, fixed in the frame of the hip
    k, a = subtract3(p_knee, p_hip), subtract3(p_ankle, p_hip)
    hinge = cross(unit(a), bend_direction(k, unit(a), norm(k), rotate(W_hip, row3(legs.pole, side))))
    hinge_hip = rotate(conjugate(W_hip), hinge)
    # The ankle's goal lies within reach; the toe's goal hangs on it.
    total, soft, limit = leg_extension(foot)
    far = norm(subtract3(target, p_hip))
    near = saturate_length(far, soft * total, limit * total) / max(far, 1e-12)
    goal = add3(p_hip, scale3(near, subtract3(target, p_hip)))
    reach = add3(goal, rotate(turn, subtract3(p_toe, p_ankle)))
    dx, locked = np.empty(6), False
    for _ in range(ITERATIONS):
        e1, e2 = subtract3(goal, p_ankle), subtract3(reach, p_toe)
        if dot(e1, e1) < CONVERGED_M * CONVERGED_M and dot(e2, e2) < CONVERGED_M * CONVERGED_M:
            break
        hinge = rotate(W_hip, hinge_hip)
        step_leg(LegPoints(p_hip, p_knee, p_ankle, p_toe), hinge, e1, e2, locked, dx)
        size = sqrt(dx[0] ** 2 + dx[1] ** 2 + dx[2] ** 2 + dx[3] ** 2 + dx[4] ** 2 + dx[5] ** 2)
        for c in range(6):
            dx[c] *= min(1.0, MAX_STEP_RAD / max(size, 1e-12))
        # A knee that would bend the wrong way (negative sine about its hinge) is locked.
        shank = rotate(exp(scale3(dx[3], hinge)), unit(subtract3(p_ankle, p_knee)))
        locked = -dot(cross(unit(subtract3(p_knee, p_hip)), shank), hinge) < 0.0
        # Turns of thigh, shank and foot in world, and from them the rotations of hip, knee and ankle
        along = unit(subtract3(p_toe, p_ankle))
        across = perpendicular(along)
        upper = exp((dx[0], dx[1], dx[2]))
        lower = multiply(upper, exp(scale3(0.0 if locked else dx[3], hinge)))
        aim = multiply(lower, exp(add3(scale3(dx[4], across), scale3(dx[5], cross(along, across)))))
        write_rotation(rotations[hip], multiply(conjugate(above_hip), multiply(upper, W_hip)))
        write_rotation(rotations[knee], multiply(conjugate(multiply(upper, above_knee)), multiply(lower, W_knee)))
        write_rotation(rotations[ankle], multiply(conjugate(multiply(lower, above_ankle)), multiply(aim, W_ankle)))
        # Where the leg is now
        W_hip = multiply(above_hip, quaternion_at(rotations, hip))
        p_knee, above_knee, W_knee = joint_in_world(knee, hip, p_hip, W_hip, legs, scale, rotations)
        p_ankle, above_ankle, W_ankle = joint_in_world(ankle, knee, p_knee, W_knee, legs, scale, rotations)
        p_toe, _, _ = joint_in_world(toe, ankle, p_ankle, W_ankle, legs, scale, rotations)
    return p_ankle, norm(subtract3(p_ankle, target))


@kernel
def hold_frame_priority(
    u: float, planted: BoolArray, options: PlantOptions, legs: LegArrays, state: PlantState, root: FloatArray,
    rotations: FloatArray,
) -> int:  # fmt: skip
    """Hold the feet of one character in one frame as :func:`hold_frame` does, by damped least squares."""
    flags, weights = 0, tick_weights(u)
    move = move_root(weights, options, legs, state, root, rotations)
    for side in range(2):
        foot = state.feet[side]
        target, turn, bend = read_ticks(foot, weights, move)
        ankle, miss = pose_leg_priority(foot, side, target, turn, legs, rotations)
        flags |= finish_foot(foot, side, planted, options, (ankle, miss, turn, bend), legs, rotations)
    return flags
