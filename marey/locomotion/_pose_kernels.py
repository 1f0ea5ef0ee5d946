"""Compiled poses: from columns of a unit to a placed body, and the four points of its feet."""

from __future__ import annotations

from math import cos, floor, sin
from typing import NamedTuple

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.lie._rotation_kernels import (
    Quaternion,
    conjugate,
    exp,
    log,
    multiply,
    quaternion_at,
    rotate,
    write_rotation,
)
from marey.locomotion._model import GaitArrays
from marey.locomotion._synthesis_kernels import add_unit_rows, unit_at


class Build(NamedTuple):
    """What all characters of a model share."""

    offsets: FloatArray  # (J, 3) [m] of the model's own skeleton
    legs: IntArray  # (2, 4) hip, knee, ankle and toe joints of the right and the left leg
    num_low: int  # joints up to the last ankle: what feet hang on
    own_leg: float  # [m] leg length of the model's own skeleton
    froude: bool  # scaling of speed and tempo by pendulum law, or by leg length alone
    cubic: bool  # between the frames of a unit: cubic curves, or slerp


class Placing(NamedTuple):
    """Where and how one body is shown."""

    s_n: float  # [1/s] normalised speed of the posture
    run: float
    phase: float
    x: float  # [m] the carriage's place
    z: float
    heading: float  # [rad]
    leg: float  # [m] leg length


@kernel
def write_pose(
    gaits: GaitArrays,
    build: Build,
    weights: FloatArray,
    at: Placing,
    root: FloatArray,
    rotations: FloatArray,
) -> None:
    """Fill ``root`` ``(3,)`` [m] and the first rows of ``rotations`` ``(J, 4)``, as many as are given."""
    joints = rotations.shape[0]
    columns = np.empty(3 + 3 * joints)
    if build.cubic:
        unit_at(gaits, at.s_n, at.run, weights, at.phase, columns)
        for j in range(joints):
            v = (columns[3 + 3 * j], columns[4 + 3 * j], columns[5 + 3 * j])
            write_rotation(rotations[j], multiply(quaternion_at(gaits.means, j), exp(v)))
    else:
        write_slerp(gaits, weights, at, columns, rotations)
    turn = (cos(0.5 * at.heading), 0.0, sin(0.5 * at.heading), 0.0)
    write_rotation(rotations[0], multiply(turn, quaternion_at(rotations, 0)))
    p = rotate(turn, (columns[0] * at.leg, columns[1] * at.leg, columns[2] * at.leg))
    root[0], root[1], root[2] = at.x + p[0], p[1], at.z + p[2]


@kernel
def write_slerp(
    gaits: GaitArrays, weights: FloatArray, at: Placing, columns: FloatArray, rotations: FloatArray
) -> None:
    """The thesis's way between two frames: SLERP of joints, straight lines for the root ([Glardon2005]_ III.1.16)."""
    count = gaits.base.shape[2]
    place = (at.phase - floor(at.phase)) * count
    i = int(place) % count
    u = place - int(place)
    after = np.zeros(columns.shape[0])
    columns[:] = 0.0
    add_unit_rows(gaits, at.s_n, at.run, weights, i, 1.0, columns)
    add_unit_rows(gaits, at.s_n, at.run, weights, (i + 1) % count, 1.0, after)
    for j in range(rotations.shape[0]):
        a = exp((columns[3 + 3 * j], columns[4 + 3 * j], columns[5 + 3 * j]))
        b = exp((after[3 + 3 * j], after[4 + 3 * j], after[5 + 3 * j]))
        v = log(multiply(conjugate(a), b))
        between = multiply(a, exp((u * v[0], u * v[1], u * v[2])))
        write_rotation(rotations[j], multiply(quaternion_at(gaits.means, j), between))
    for c in range(3):
        columns[c] += u * (after[c] - columns[c])


@kernel
def write_feet(build: Build, scale: float, root: FloatArray, rotations: FloatArray, out: FloatArray) -> None:
    """Positions ``(4, 3)`` [m] of ankles and toes, from local rotations: a walk down each leg."""
    for side in range(2):
        q = quaternion_at(rotations, 0)
        p = (root[0], root[1], root[2])
        for part in range(4):
            j = build.legs[side, part]
            o = (build.offsets[j, 0] * scale, build.offsets[j, 1] * scale, build.offsets[j, 2] * scale)
            step = rotate(q, o)
            p = (p[0] + step[0], p[1] + step[1], p[2] + step[2])
            if part < 3:
                q = multiply(q, quaternion_at(rotations, j))
            if part >= 2:
                row = 2 * side + part - 2
                out[row, 0], out[row, 1], out[row, 2] = p


@kernel
def lift_leg(build: Build, side: int, angle: float, rotations: FloatArray) -> None:
    """Raise a foot under its hip: thigh forward, shank back, the foot level, all about the hips' own axis."""
    q_hip = quaternion_at(rotations, build.legs[side, 0])
    q_knee = quaternion_at(rotations, build.legs[side, 1])
    q_ankle = quaternion_at(rotations, build.legs[side, 2])
    forth, back = (cos(0.5 * angle), -sin(0.5 * angle), 0.0, 0.0), (cos(angle), sin(angle), 0.0, 0.0)
    write_rotation(rotations[build.legs[side, 0]], multiply(forth, q_hip))
    write_rotation(rotations[build.legs[side, 1]], multiply(q_knee, about(q_hip, q_knee, back)))
    write_rotation(rotations[build.legs[side, 2]], multiply(about(q_hip, q_knee, forth), q_ankle))


@kernel
def about(q_hip: Quaternion, q_knee: Quaternion, turn: Quaternion) -> Quaternion:
    """A turn about the pelvis's axis, in the frame of the shank."""
    q = multiply(q_hip, q_knee)
    return multiply(multiply(conjugate(q), turn), q)
