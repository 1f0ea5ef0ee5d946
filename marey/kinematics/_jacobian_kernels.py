"""Compiled point Jacobians."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray, kernel


@kernel
def _rotation_axes(q: FloatArray) -> FloatArray:
    """Columns of a unit quaternion's rotation matrix, as rows."""
    w, x, y, z = q[0], q[1], q[2], q[3]
    m = np.empty((3, 3))
    m[0, 0], m[0, 1], m[0, 2] = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)
    m[1, 0], m[1, 1], m[1, 2] = 2.0 * (x * y - w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + w * x)
    m[2, 0], m[2, 1], m[2, 2] = 2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)
    return m


@kernel
def write_jacobians(
    parents: IntArray, positions: FloatArray, wxyz: FloatArray, joint: int, offset: FloatArray
) -> FloatArray:
    """Jacobians ``(F, 3, 3 + 3 J)`` of a point at ``offset`` from ``joint``, from world positions and quaternions."""
    frames, joints = positions.shape[0], positions.shape[1]
    result = np.zeros((frames, 3, 3 + 3 * joints))
    for f in range(frames):
        axes = _rotation_axes(wxyz[f, joint])
        point = positions[f, joint].copy()
        for i in range(3):
            result[f, i, i] = 1.0
            for k in range(3):
                point[i] += axes[k, i] * offset[k]
        j = joint
        while j >= 0:
            axes = _rotation_axes(wxyz[f, j])
            d0, d1, d2 = point[0] - positions[f, j, 0], point[1] - positions[f, j, 1], point[2] - positions[f, j, 2]
            for k in range(3):
                a0, a1, a2 = axes[k, 0], axes[k, 1], axes[k, 2]
                c = 3 + 3 * j + k
                result[f, 0, c] = a1 * d2 - a2 * d1
                result[f, 1, c] = a2 * d0 - a0 * d2
                result[f, 2, c] = a0 * d1 - a1 * d0
            j = parents[j]
    return result
