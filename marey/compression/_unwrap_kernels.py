"""Rotation vectors without jumps."""

from __future__ import annotations

from math import atan2, pi, sqrt

import numpy as np

from marey.base import FloatArray, kernel


@kernel
def unwrap_rotation_vectors(wxyz: FloatArray) -> FloatArray:
    """Rotation vectors ``(F, 3)`` [rad] of ``(F, 4)``, each the one of its rotation that is nearest to the one before.

    Adding whole turns about the axis gives the same rotation; the vectors may grow longer than π.
    """
    out = np.zeros((wxyz.shape[0], 3))
    for t in range(wxyz.shape[0]):
        w, x, y, z = wxyz[t, 0], wxyz[t, 1], wxyz[t, 2], wxyz[t, 3]
        sine = sqrt(x * x + y * y + z * z)
        if sine < 1e-12:
            continue
        if w < 0.0:
            w, x, y, z = -w, -x, -y, -z
        angle = 2.0 * atan2(sine, w)
        x, y, z = x / sine, y / sine, z / sine
        along = out[t - 1, 0] * x + out[t - 1, 1] * y + out[t - 1, 2] * z if t > 0 else angle
        angle += 2.0 * pi * np.rint((along - angle) / (2.0 * pi))
        out[t, 0], out[t, 1], out[t, 2] = angle * x, angle * y, angle * z
    return out
