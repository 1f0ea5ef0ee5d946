"""Compiled sums of bumps over quaternion space."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.kinematics._limits_kernels import CheckArrays
from marey.lie._rotation_kernels import Vector, conjugate, multiply, quaternion_at, write_rotation

BISECTIONS = 40  # of the way to the nearest sample: below a double's rounding of an angle

INSIDE_MARGIN = 1e-12  # [-] kept above the level, against rounding; samples lie 1e-9 above it


@kernel
def log_density(samples: FloatArray, first: int, last: int, p: Vector, width: float) -> tuple[float, Vector, int]:
    """Logarithm of the sum of bumps at a point, its gradient, and the nearest sample."""
    nearest, least = first, np.inf
    for n in range(first, last):
        d = (samples[n, 0] - p[0]) ** 2 + (samples[n, 1] - p[1]) ** 2 + (samples[n, 2] - p[2]) ** 2
        if d < least:
            nearest, least = n, d
    scale = 0.5 / (width * width)
    total = gx = gy = gz = 0.0
    for n in range(first, last):
        a, b, c = samples[n, 0] - p[0], samples[n, 1] - p[1], samples[n, 2] - p[2]
        weight = np.exp(scale * (least - (a * a + b * b + c * c)))
        total += weight
        gx, gy, gz = gx + weight * a, gy + weight * b, gz + weight * c
    gain = 2.0 * scale / total
    return np.log(total) - scale * least, (gain * gx, gain * gy, gain * gz), nearest


@kernel
def check_quaternion_field(
    wxyz: FloatArray, centres: FloatArray, samples: FloatArray, starts: IntArray, widths: FloatArray, levels: FloatArray
) -> CheckArrays:
    """Project rotations ``(F, J, 4)`` on sets where a sum of bumps is above a level; see ``QuaternionFieldLimits``."""
    frames, joints = wxyz.shape[0], wxyz.shape[1]
    out, violation, gradient = wxyz.copy(), np.zeros((frames, joints)), np.zeros((frames, joints, 3))
    for j in range(joints):
        first, last, width, level = starts[j], starts[j + 1], widths[j], levels[j]
        if first == last:
            continue
        centre = quaternion_at(centres, j)
        for f in range(frames):
            q = multiply(conjugate(centre), quaternion_at(wxyz[f], j))
            sign = -1.0 if q[0] < 0.0 else 1.0
            w, p = sign * q[0], (sign * q[1], sign * q[2], sign * q[3])
            value, slope, nearest = log_density(samples, first, last, p, width)
            if value >= level:
                continue
            violation[f, j] = 2.0 * width * np.sqrt(2.0 * (level - value))
            k = -2.0 * width * width  # of half the squared violation, 4 width^2 (level - value), by half an angle
            g = (k * slope[0], k * slope[1], k * slope[2])
            gradient[f, j, 0] = w * g[0] + g[1] * p[2] - g[2] * p[1]
            gradient[f, j, 1] = w * g[1] + g[2] * p[0] - g[0] * p[2]
            gradient[f, j, 2] = w * g[2] + g[0] * p[1] - g[1] * p[0]
            goal = (samples[nearest, 0], samples[nearest, 1], samples[nearest, 2])
            low, high = 0.0, 1.0
            for _ in range(BISECTIONS):
                t = 0.5 * (low + high)
                at = (p[0] + t * (goal[0] - p[0]), p[1] + t * (goal[1] - p[1]), p[2] + t * (goal[2] - p[2]))
                if log_density(samples, first, last, at, width)[0] >= level + INSIDE_MARGIN:
                    high = t
                else:
                    low = t
            v = (p[0] + high * (goal[0] - p[0]), p[1] + high * (goal[1] - p[1]), p[2] + high * (goal[2] - p[2]))
            real = np.sqrt(max(0.0, 1.0 - v[0] * v[0] - v[1] * v[1] - v[2] * v[2]))
            write_rotation(out[f, j], multiply(centre, (real, v[0], v[1], v[2])))
    return out, violation, gradient
