"""Compiled pieces of a step beside its linear solve: momentum of parts that nothing holds."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, kernel
from marey.muscle._mesh import IndexArray

MIN_INERTIA_DETERMINANT = (
    1e-12  # [-] determinant of an inertia over its trace cubed: below, the part is a line and keeps its turn
)


@kernel
def restore_momentum(
    parts: IndexArray, loose: BoolArray, m: FloatArray, x: FloatArray, before: FloatArray, impulse: FloatArray,
    decay: float, v: FloatArray,
) -> None:  # fmt: skip
    r"""Give every loose part the momentum that impulses leave it, by a rigid change of its velocities.

    The positions move along the new velocities, so that :math:`\sum m\,x \times v` is the same before and after.

    Args:
        parts: (V,) number of the part of each node.
        loose: (P,) nothing holds the part.
        m: masses (V,) [kg].
        x: positions (V, 3) [m] at the start.
        before: velocities (V, 3) [m/s] at the start.
        impulse: (V, 3) [N s] of all forces from outside.
        decay: factor of drag on momentum.
        v: new velocities (V, 3) [m/s], changed in place.
    """
    total = np.zeros((loose.shape[0], 10))
    for n in range(m.shape[0]):
        t = total[parts[n]]
        t[0] += m[n]
        for i in range(3):
            t[1 + i] += m[n] * x[n, i]
    for n in range(m.shape[0]):
        _add_momentum_defect(total[parts[n]], m[n], x[n], before[n], impulse[n], decay, v[n])
    inertia = _part_inertias(parts, total, m, x)
    turn = np.zeros((loose.shape[0], 3))
    for k in range(loose.shape[0]):
        if loose[k]:
            _angular_velocity(inertia[k], total[k], turn[k])
    for n in range(m.shape[0]):
        k = parts[n]
        if loose[k]:
            t, w = total[k], turn[k]
            a0, a1, a2 = x[n, 0] - t[1] / t[0], x[n, 1] - t[2] / t[0], x[n, 2] - t[3] / t[0]
            v[n, 0] += t[4] / t[0] + w[1] * a2 - w[2] * a1
            v[n, 1] += t[5] / t[0] + w[2] * a0 - w[0] * a2
            v[n, 2] += t[6] / t[0] + w[0] * a1 - w[1] * a0


@kernel
def _angular_velocity(a: FloatArray, t: FloatArray, out: FloatArray) -> None:
    """Write the angular velocity (3,) that a torque impulse in ``t`` gives an inertia (3, 3), by Cramer's rule."""
    c00 = a[1, 1] * a[2, 2] - a[1, 2] * a[1, 2]
    c01 = a[0, 2] * a[1, 2] - a[0, 1] * a[2, 2]
    c02 = a[0, 1] * a[1, 2] - a[0, 2] * a[1, 1]
    c11 = a[0, 0] * a[2, 2] - a[0, 2] * a[0, 2]
    c12 = a[0, 1] * a[0, 2] - a[0, 0] * a[1, 2]
    c22 = a[0, 0] * a[1, 1] - a[0, 1] * a[0, 1]
    det = a[0, 0] * c00 + a[0, 1] * c01 + a[0, 2] * c02
    trace = a[0, 0] + a[1, 1] + a[2, 2]
    if det > MIN_INERTIA_DETERMINANT * trace * trace * trace:
        out[0] = (c00 * t[7] + c01 * t[8] + c02 * t[9]) / det
        out[1] = (c01 * t[7] + c11 * t[8] + c12 * t[9]) / det
        out[2] = (c02 * t[7] + c12 * t[8] + c22 * t[9]) / det


@kernel
def _add_momentum_defect(
    t: FloatArray, m: float, x: FloatArray, before: FloatArray, impulse: FloatArray, decay: float, v: FloatArray
) -> None:
    a0, a1, a2 = x[0] - t[1] / t[0], x[1] - t[2] / t[0], x[2] - t[3] / t[0]
    d0 = decay * (m * before[0] + impulse[0]) - m * v[0]
    d1 = decay * (m * before[1] + impulse[1]) - m * v[1]
    d2 = decay * (m * before[2] + impulse[2]) - m * v[2]
    t[4] += d0
    t[5] += d1
    t[6] += d2
    t[7] += a1 * d2 - a2 * d1
    t[8] += a2 * d0 - a0 * d2
    t[9] += a0 * d1 - a1 * d0


@kernel
def _part_inertias(parts: IndexArray, total: FloatArray, m: FloatArray, x: FloatArray) -> FloatArray:
    out = np.zeros((total.shape[0], 3, 3))
    a = np.empty(3)
    for n in range(m.shape[0]):
        t, o = total[parts[n]], out[parts[n]]
        for i in range(3):
            a[i] = x[n, i] - t[1 + i] / t[0]
        square = a[0] * a[0] + a[1] * a[1] + a[2] * a[2]
        for i in range(3):
            o[i, i] += m[n] * square
            for j in range(3):
                o[i, j] -= m[n] * a[i] * a[j]
    return out
