"""Compiled differences of quaternions."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, kernel


@kernel
def quaternion_rates(wxyz: FloatArray, first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Angular velocities and accelerations ``(F, J, 3)``, each in its own turning frame.

    .. math:: \omega = 2\,\mathrm{vec}(\bar q\,\dot q), \qquad \dot\omega = 2\,\mathrm{vec}(\bar q\,\ddot q)

    Args:
        wxyz: ``(F + 4, J, 4)`` of continuous sign, two frames more at either end.
        first: ``(5,)`` stencil of the first derivative, over the time between frames.
        second: ``(5,)`` stencil of the second derivative, over its square.
    """
    frames, joints = wxyz.shape[0] - 4, wxyz.shape[1]
    rates, changes = np.empty((frames, joints, 3)), np.empty((frames, joints, 3))
    for f in range(frames):
        for j in range(joints):
            for stencil, out in ((first, rates), (second, changes)):
                dw, dx, dy, dz = 0.0, 0.0, 0.0, 0.0
                for k in range(5):
                    dw += stencil[k] * wxyz[f + k, j, 0]
                    dx += stencil[k] * wxyz[f + k, j, 1]
                    dy += stencil[k] * wxyz[f + k, j, 2]
                    dz += stencil[k] * wxyz[f + k, j, 3]
                w, x, y, z = wxyz[f + 2, j, 0], wxyz[f + 2, j, 1], wxyz[f + 2, j, 2], wxyz[f + 2, j, 3]
                out[f, j, 0] = 2.0 * (w * dx - x * dw - y * dz + z * dy)
                out[f, j, 1] = 2.0 * (w * dy - y * dw - z * dx + x * dz)
                out[f, j, 2] = 2.0 * (w * dz - z * dw - x * dy + y * dx)
    return rates, changes
