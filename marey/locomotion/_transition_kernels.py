"""Compiled frames of jumps and mixtures of two poses."""

from __future__ import annotations

from math import acos, cos, sin, sqrt

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.lie._rotation_kernels import exp, multiply, quaternion_at, rotate, write_rotation


@kernel
def interpolate_row(rows: FloatArray, phase: float) -> FloatArray:
    """Catmull-Rom between the rows ``(N, D)`` of a clip that runs once, phase 0 to 1; the ends hold."""
    last = rows.shape[0] - 1
    place = min(max(phase, 0.0), 1.0) * last
    i = min(int(place), last - 1)
    u = place - i
    out = np.empty(rows.shape[1])
    for k in range(rows.shape[1]):
        start, stop = rows[i, k], rows[i + 1, k]
        before = rows[i - 1, k] if i > 0 else 3.0 * rows[0, k] - 3.0 * rows[1, k] + rows[2, k]
        after = rows[i + 2, k] if i + 2 <= last else 3.0 * stop - 3.0 * start + rows[i - 1, k]
        slope, end_slope, rise = 0.5 * (stop - before), 0.5 * (after - start), stop - start
        cubic = slope + end_slope - 2.0 * rise
        out[k] = start + u * (slope + u * (3.0 * rise - 2.0 * slope - end_slope + u * cubic))
    return out


@kernel
def write_jump_frame(
    rows: FloatArray,
    means: FloatArray,
    opposite: IntArray,
    is_mirrored: bool,
    leg: float,
    phase: float,
    root: FloatArray,
    rotations: FloatArray,
) -> None:
    """Fill ``root`` ``(3,)`` [m] and ``rotations`` ``(J, 4)`` of a jump in its own frame.

    A mirrored jump has left and right exchanged, ``S R S`` with ``S = diag(-1, 1, 1)``.
    """
    row = interpolate_row(rows, phase)
    for j in range(rotations.shape[0]):
        k = opposite[j] if is_mirrored else j
        w, x, y, z = multiply(quaternion_at(means, k), exp((row[3 + 3 * k], row[4 + 3 * k], row[5 + 3 * k])))
        write_rotation(rotations[j], (w, x, -y, -z) if is_mirrored else (w, x, y, z))
    root[0], root[1], root[2] = -leg * row[0] if is_mirrored else leg * row[0], leg * row[1], leg * row[2]


@kernel
def transform_to_world(root: FloatArray, rotations: FloatArray, position: FloatArray, heading: float) -> None:
    """Carry a pose from its own ground frame to the point ``(x, z)`` of the world, turned by the heading [rad]."""
    turn = (cos(0.5 * heading), 0.0, sin(0.5 * heading), 0.0)
    x, y, z = rotate(turn, (root[0], root[1], root[2]))
    root[0], root[1], root[2] = position[0] + x, y, position[1] + z
    write_rotation(rotations[0], multiply(turn, quaternion_at(rotations, 0)))


@kernel
def blend_poses_in_place(
    root: FloatArray, rotations: FloatArray, to_root: FloatArray, to: FloatArray, weight: float
) -> None:
    """Move a pose a part of the way to another one: the root straight, every joint along the shorter arc."""
    for c in range(3):
        root[c] += weight * (to_root[c] - root[c])
    for j in range(rotations.shape[0]):
        a, b = quaternion_at(rotations, j), quaternion_at(to, j)
        cosine = a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]
        sign = -1.0 if cosine < 0.0 else 1.0
        sine = sqrt(max(1.0 - cosine * cosine, 0.0))
        first, second = 1.0 - weight, weight
        if sine > 1e-6:  # a straight line is exact to rounding below
            angle = acos(min(abs(cosine), 1.0))
            first, second = sin(first * angle) / sine, sin(second * angle) / sine
        second *= sign
        w, x = first * a[0] + second * b[0], first * a[1] + second * b[1]
        y, z = first * a[2] + second * b[2], first * a[3] + second * b[3]
        norm = sqrt(w * w + x * x + y * y + z * z)
        write_rotation(rotations[j], (w / norm, x / norm, y / norm, z / norm))
