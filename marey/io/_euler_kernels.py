"""Compiled conversions between Euler angles in degrees and quaternions."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray, kernel

HALF_RADIANS = np.pi / 360.0  # half of an angle in degrees, as radians


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
        quarter = turn - 4.0 * np.floor(turn * 0.25)
        odd = quarter == 1.0 or quarter == 3.0
        sines[i] = (c if odd else s) * (-1.0 if quarter >= 2.0 else 1.0)
        cosines[i] = (s if odd else c) * (-1.0 if quarter == 1.0 or quarter == 2.0 else 1.0)


@kernel
def compose(channels: FloatArray, axes: IntArray, columns: IntArray) -> FloatArray:
    """Quaternions ``(F, J, 4)`` of the rotations that each joint's channels multiply, first channel leftmost."""
    frames, joints = channels.shape[0], axes.shape[0]
    wxyz = np.empty((frames, joints, 4))
    sines, cosines = np.empty(channels.shape[1]), np.empty(channels.shape[1])
    for f in range(frames):
        half_sincos(channels[f], sines, cosines)
        for j in range(joints):
            w, x, y, z = 1.0, 0.0, 0.0, 0.0
            for k in range(3):
                axis = axes[j, k]
                if axis < 0:
                    break
                s, c = sines[columns[j, k]], cosines[columns[j, k]]
                if axis == 0:
                    w, x, y, z = w * c - x * s, x * c + w * s, y * c + z * s, z * c - y * s
                elif axis == 1:
                    w, x, y, z = w * c - y * s, x * c - z * s, y * c + w * s, z * c + x * s
                else:
                    w, x, y, z = w * c - z * s, x * c + y * s, y * c - x * s, z * c + w * s
            wxyz[f, j, 0], wxyz[f, j, 1], wxyz[f, j, 2], wxyz[f, j, 3] = w, x, y, z
    return wxyz
