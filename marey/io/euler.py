"""Euler angles: they live in files and die here, between channel values and quaternions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray, kernel

AXES: Final = "xyz"
NONE: Final = -1  # a joint has fewer than three channels of this kind


@dataclass(frozen=True, slots=True, eq=False)
class ChannelMap:
    """Map from the columns of the channel table ``(F, C)`` to joints.

    Rotations multiply in the order of their channels: ``Zrotation Yrotation Xrotation`` is ``Rz @ Ry @ Rx``.
    """

    names: tuple[tuple[str, ...], ...]  # (J,) channel names of each joint, "Xposition" .. "Zrotation"
    axes: IntArray  # (J, 3) rotation axis (0, 1, 2) in order, or NONE
    columns: IntArray  # (J, 3) column of each rotation, or NONE
    positions: IntArray  # (J, 3) column of the x, y and z position, or NONE

    @classmethod
    def from_names(cls, names: Sequence[Sequence[str]]) -> ChannelMap:
        """Number the channels of all joints one after the other, as BVH does; scales take a column and do nothing."""
        axes, columns, positions = (np.full((len(names), 3), NONE, dtype=np.int64) for _ in range(3))
        column = 0
        for joint, channels in enumerate(names):
            turns = 0
            for channel in channels:
                axis = AXES.index(channel[0].lower())
                if channel[1] == "p":
                    positions[joint, axis] = column
                elif channel[1] == "r":
                    axes[joint, turns], columns[joint, turns] = axis, column
                    turns += 1
                column += 1
        return cls(tuple(tuple(n) for n in names), axes, columns, positions)

    @property
    def num_channels(self) -> int:
        """How many columns the table has."""
        return sum(len(n) for n in self.names)


def channels_to_positions(channels: FloatArray, layout: ChannelMap, joint: int, default: FloatArray) -> FloatArray:
    """Position ``(F, 3)`` of one joint in file units; axes without a channel take ``default`` (3,)."""
    result = np.empty((len(channels), 3))
    for axis in range(3):
        column = layout.positions[joint, axis]
        result[:, axis] = default[axis] if column == NONE else channels[:, column]
    return result


DEGREE = np.pi / 180.0  # [rad]
HALF_RADIANS = np.pi / 360.0  # half of an angle in degrees, as radians
SAME_ROTATION = 1e-9  # [rad] what a file prints with four decimals differs by far more when it was edited
GIMBAL = 1e-10  # [-] half-angle sine below which two axes coincide; the error made is twice this, in radians


@kernel
def half_sincos(degrees: FloatArray, sines: FloatArray, cosines: FloatArray) -> None:
    r"""Sine and cosine of half of each angle [deg], to about one unit in the last place.

    The angle is first brought within 90 degrees of a multiple of 180, without rounding, then the minimax
    polynomials of fdlibm on :math:`|h| \le \pi/4` apply. No branch: the loop runs on vector registers.
    """
    for i in range(len(degrees)):
        turn = np.rint(degrees[i] * (1.0 / 180.0))
        h = (degrees[i] - 180.0 * turn) * HALF_RADIANS
        z = h * h
        # sin(h) and cos(h) by Horner's rule
        s = 1.58969099521155010221e-10
        s = -2.50507602534068634195e-08 + z * s
        s = 2.75573137070700676789e-06 + z * s
        s = -1.98412698298579493134e-04 + z * s
        s = 8.33333333332248946124e-03 + z * s
        s = h + h * z * (-1.66666666666666324348e-01 + z * s)
        c = -1.13596475577881948265e-11
        c = 2.08757232129817482790e-09 + z * c
        c = -2.75573143513906633035e-07 + z * c
        c = 2.48015872894767294178e-05 + z * c
        c = -1.38888888888741095749e-03 + z * c
        c = 1.0 - 0.5 * z + z * z * (4.16666666666666019037e-02 + z * c)
        # Back by quarter turns of the half angle: exchange and change signs
        quarter = turn - 4.0 * np.floor(turn * 0.25)
        odd = quarter == 1.0 or quarter == 3.0
        sines[i] = (c if odd else s) * (-1.0 if quarter >= 2.0 else 1.0)
        cosines[i] = (s if odd else c) * (-1.0 if quarter == 1.0 or quarter == 2.0 else 1.0)


@kernel
def compose_euler(channels: FloatArray, axes: IntArray, columns: IntArray) -> FloatArray:
    r"""Quaternions ``(F, J, 4)`` of the rotations that each joint's channels multiply, first channel leftmost.

    For axes :math:`i, k, m` and half-angle sines and cosines :math:`s, c` of the three angles

    .. math:: w = c_i c_k c_m - e\,s_i s_k s_m,\quad q_i = s_i c_k c_m + e\,c_i s_k s_m,\quad
              q_k = c_i s_k c_m - e\,s_i c_k s_m,\quad q_m = c_i c_k s_m + e\,s_i s_k c_m

    where :math:`e = \pm 1` is the handedness of the order. A joint with fewer channels turns by zero about the others.
    """
    frames, joints, width = channels.shape[0], axes.shape[0], channels.shape[1]
    # Where each joint's three axes stand in a quaternion, missing ones filled in, and the sign of their order
    places, signs = axes + 1, np.empty(len(axes))
    for j in range(len(axes)):
        for k in range(3):
            if places[j, k] == 0:
                place = 1
                while place == places[j, 0] or place == places[j, 1] or place == places[j, 2]:
                    place += 1
                places[j, k] = place
        a, b, c = places[j, 0], places[j, 1], places[j, 2]
        signs[j] = (a - b) * (b - c) * (c - a) // 2
    wxyz = np.empty((frames, joints, 4))
    sines, cosines = np.zeros(width + 1), np.ones(width + 1)  # the last entry, column -1, is not a rotation
    for f in range(frames):
        half_sincos(channels[f], sines, cosines)
        for j in range(joints):
            s0, s1, s2 = sines[columns[j, 0]], sines[columns[j, 1]], sines[columns[j, 2]]
            c0, c1, c2 = cosines[columns[j, 0]], cosines[columns[j, 1]], cosines[columns[j, 2]]
            cc, ss, cs, sc = c1 * c2, signs[j] * s1 * s2, signs[j] * c1 * s2, s1 * c2
            wxyz[f, j, 0] = c0 * cc - s0 * ss
            wxyz[f, j, places[j, 0]] = s0 * cc + c0 * ss
            wxyz[f, j, places[j, 1]] = c0 * sc - s0 * cs
            wxyz[f, j, places[j, 2]] = signs[j] * (c0 * cs + s0 * sc)
    return wxyz


@kernel
def decompose_euler(wxyz: FloatArray, axes: IntArray, given: FloatArray, is_given: bool) -> FloatArray:
    r"""Angles ``(F, J, 3)`` [deg] with :math:`R = R_{a_0}(\alpha) R_{a_1}(\beta) R_{a_2}(\gamma)`, smooth in time.

    Where ``given`` ``(F, J, 3)`` [deg] already makes the rotation to ``SAME_ROTATION``, it is kept. Elsewhere both
    families of angles and all their full turns are compared with the frame before, and the nearest is taken; at
    the gimbal the angle that is free stays where it was. Quaternion method of [Bernardes2022]_.

    ``axes`` ``(J, 3)`` holds three different axes for each joint.
    """
    frames, joints = wxyz.shape[0], wxyz.shape[1]
    result = np.empty((frames, joints, 3))
    for j in range(joints):
        i, k, m = axes[j, 0], axes[j, 1], axes[j, 2]
        sign = float((i - k) * (k - m) * (m - i) // 2)
        before = given[0, j].copy() if is_given else np.zeros(3)
        for f in range(frames):
            q = wxyz[f, j]
            if is_given and is_same_rotation(given[f, j], axes[j], q):
                before[:] = given[f, j]
            else:
                # Half-angle sums; R_i R_k R_m is the extrinsic sequence m, k, i, whose sign is the opposite
                a, b = q[0] - q[k + 1], q[m + 1] - sign * q[i + 1]
                c, d = q[k + 1] + q[0], -sign * q[i + 1] - q[m + 1]
                upper, lower = np.hypot(a, b), np.hypot(c, d)
                middle = 2.0 * np.arctan2(lower, upper) - 0.5 * np.pi
                half_sum, half_difference = np.arctan2(b, a), np.arctan2(d, c)
                # At the gimbal the last angle stays where it was
                if lower < GIMBAL:
                    half_difference = half_sum - before[2] * DEGREE
                elif upper < GIMBAL:
                    half_sum = half_difference + before[2] * DEGREE
                last = half_sum - half_difference
                first = -sign * (half_sum + half_difference)
                first, middle, last = first / DEGREE, middle / DEGREE, last / DEGREE
                # Of both families of angles, with their full turns, the one nearest to the frame before
                a0, b0 = unwrap_degrees(first, before[0]), unwrap_degrees(first + 180.0, before[0])
                a1, b1 = unwrap_degrees(middle, before[1]), unwrap_degrees(180.0 - middle, before[1])
                a2, b2 = unwrap_degrees(last, before[2]), unwrap_degrees(last + 180.0, before[2])
                way_a = (a0 - before[0]) ** 2 + (a1 - before[1]) ** 2 + (a2 - before[2]) ** 2
                way_b = (b0 - before[0]) ** 2 + (b1 - before[1]) ** 2 + (b2 - before[2]) ** 2
                if way_a <= way_b:
                    before[0], before[1], before[2] = a0, a1, a2
                else:
                    before[0], before[1], before[2] = b0, b1, b2
            result[f, j] = before
    return result


@kernel
def is_same_rotation(degrees: FloatArray, axes: IntArray, q: FloatArray) -> bool:
    """Tell whether Euler angles make the rotation ``q``, to ``SAME_ROTATION`` [rad]."""
    w, x, y, z = 1.0, 0.0, 0.0, 0.0
    for n in range(3):
        h = degrees[n] * HALF_RADIANS
        s, c = np.sin(h), np.cos(h)
        if axes[n] == 0:
            w, x, y, z = w * c - x * s, x * c + w * s, y * c + z * s, z * c - y * s
        elif axes[n] == 1:
            w, x, y, z = w * c - y * s, x * c - z * s, y * c + w * s, z * c + x * s
        else:
            w, x, y, z = w * c - z * s, x * c + y * s, y * c - x * s, z * c + w * s
    # Vector part of the rotation between both, about half its angle
    a = w * q[1] - x * q[0] + y * q[3] - z * q[2]
    b = w * q[2] - y * q[0] + z * q[1] - x * q[3]
    c_ = w * q[3] - z * q[0] + x * q[2] - y * q[1]
    return 2.0 * np.sqrt(a * a + b * b + c_ * c_) < SAME_ROTATION


@kernel
def unwrap_degrees(degrees: float, near: float) -> float:
    """Add full turns until the angle is within 180 degrees of ``near``."""
    return degrees - 360.0 * np.rint((degrees - near) / 360.0)
