"""Compiled forward kinematics."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray, kernel


@kernel
def forward_kinematics(
    parents: IntArray, offsets: FloatArray, root_positions: FloatArray, wxyz: FloatArray
) -> tuple[FloatArray, FloatArray]:
    r"""World positions ``(F, J, 3)`` and world quaternions ``(F, J, 4)`` of every joint.

    .. math:: R_j = R_{p(j)} L_j, \qquad x_j = x_{p(j)} + R_{p(j)} o_j

    ``offsets`` is ``(1, J, 3)`` for rigid bones or ``(F, J, 3)`` for bones that change length.
    """
    frames, joints = wxyz.shape[0], wxyz.shape[1]
    step = 0 if offsets.shape[0] == 1 else 1
    positions = np.empty((frames, joints, 3))
    world = np.empty((frames, joints, 4))
    for f in range(frames):
        positions[f, 0, 0] = root_positions[f, 0]
        positions[f, 0, 1] = root_positions[f, 1]
        positions[f, 0, 2] = root_positions[f, 2]
        for c in range(4):
            world[f, 0, c] = wxyz[f, 0, c]
        for j in range(1, joints):
            p = parents[j]
            w, x, y, z = world[f, p, 0], world[f, p, 1], world[f, p, 2], world[f, p, 3]
            a, b, c_ = offsets[f * step, j, 0], offsets[f * step, j, 1], offsets[f * step, j, 2]
            u = 2.0 * (y * c_ - z * b)
            v = 2.0 * (z * a - x * c_)
            t = 2.0 * (x * b - y * a)
            positions[f, j, 0] = positions[f, p, 0] + a + w * u + (y * t - z * v)
            positions[f, j, 1] = positions[f, p, 1] + b + w * v + (z * u - x * t)
            positions[f, j, 2] = positions[f, p, 2] + c_ + w * t + (x * v - y * u)
            lw, lx, ly, lz = wxyz[f, j, 0], wxyz[f, j, 1], wxyz[f, j, 2], wxyz[f, j, 3]
            world[f, j, 0] = w * lw - x * lx - y * ly - z * lz
            world[f, j, 1] = w * lx + x * lw + y * lz - z * ly
            world[f, j, 2] = w * ly - x * lz + y * lw + z * lx
            world[f, j, 3] = w * lz + x * ly - y * lx + z * lw
    return positions, world
