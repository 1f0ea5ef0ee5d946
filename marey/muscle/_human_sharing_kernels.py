"""Compiled sharing of joint torques among muscles."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, kernel
from marey.muscle._hill_kernels import groote_length, groote_passive, groote_speed

MAX_NEWTON_STEPS = 60
SLOPE_TOL = 1e-9  # [-] largest projected slope
ARMIJO = 1e-4
MIN_FIBRE_LENGTH, MAX_FIBRE_LENGTH = (
    0.45,
    1.55,
)  # [-] of the best fibre length: stiff tendons would stretch fibres further than real ones
LENGTHS_PER_S = 10.0  # fastest shortening, in best fibre lengths a second
MIN_CAPACITY = 0.05  # [-] of the largest force that is left at bad lengths and speeds


@kernel
def share_torques(
    turning: FloatArray, wanted: FloatArray, weight: float, power: float, start: float
) -> tuple[FloatArray, FloatArray]:
    r"""Least activations that turn each joint as wanted, frame after frame ([Crowninshield1981]_).

    .. math:: \min_{0\le a\le1}\ \sum_m a_m^p/p + \tfrac w2|Ba-b|^2

    by projected Newton steps, each frame begun where the last one ended.

    Args:
        turning: ``(F, A, M)`` B, torque of each axis at full activation over the size of a reserve.
        wanted: ``(F, A)`` b, torque wanted, in the same measure.
        weight: w of what is not met.
        power: p, two or more.
        start: activation that the first frame begins with.

    Returns:
        activations ``(F, M)`` and the largest slope left ``(F,)``.
    """
    frames, _, muscles = turning.shape
    out = np.empty((frames, muscles))
    left = np.empty(frames)
    a = np.full(muscles, start)
    for f in range(frames):
        B = np.ascontiguousarray(turning[f])
        normal = weight * (B.T @ B)
        pull = weight * (B.T @ wanted[f])
        left[f] = _minimise_frame(normal, pull, power, a)
        out[f] = a
    return out, left


@kernel
def _minimise_frame(normal: FloatArray, pull: FloatArray, power: float, a: FloatArray) -> float:
    """Minimise in place; returns the largest projected slope."""
    count = len(a)
    slope = _cost_gradient(normal, pull, power, a)
    worst = _projected_gradient_norm(slope, a)
    for _ in range(MAX_NEWTON_STEPS):
        if worst < SLOPE_TOL:
            break
        free = np.empty(count, dtype=np.int64)
        inside = 0
        for m in range(count):
            if not ((a[m] <= 0.0 and slope[m] > 0.0) or (a[m] >= 1.0 and slope[m] < 0.0)):
                free[inside] = m
                inside += 1
        H = np.empty((inside, inside))
        g = np.empty(inside)
        for i in range(inside):
            g[i] = -slope[free[i]]
            for j in range(inside):
                H[i, j] = normal[free[i], free[j]]
            H[i, i] += max((power - 1.0) * max(a[free[i]], 0.0) ** (power - 2.0), 1e-6)
        step = np.linalg.solve(H, g)
        value = _cost_value(normal, pull, power, a)
        length = 1.0
        tried = a.copy()
        for _ in range(30):
            promised = 0.0
            for m in range(count):
                tried[m] = a[m]
            for i in range(inside):
                tried[free[i]] = min(max(a[free[i]] + length * step[i], 0.0), 1.0)
                promised += slope[free[i]] * (tried[free[i]] - a[free[i]])
            if _cost_value(normal, pull, power, tried) <= value + ARMIJO * promised:
                break
            length *= 0.5
        for m in range(count):
            a[m] = tried[m]
        slope = _cost_gradient(normal, pull, power, a)
        worst = _projected_gradient_norm(slope, a)
    return worst


@kernel
def _cost_gradient(normal: FloatArray, pull: FloatArray, power: float, a: FloatArray) -> FloatArray:
    slope = normal @ a - pull
    for m in range(len(a)):
        slope[m] += a[m] ** (power - 1.0)
    return slope


@kernel
def _cost_value(normal: FloatArray, pull: FloatArray, power: float, a: FloatArray) -> float:
    value = 0.5 * np.dot(a, normal @ a) - np.dot(pull, a)
    for m in range(len(a)):
        value += a[m] ** power / power
    return value


@kernel
def _projected_gradient_norm(slope: FloatArray, a: FloatArray) -> float:
    worst = 0.0
    for m in range(len(a)):
        moved = min(max(a[m] - slope[m], 0.0), 1.0) - a[m]
        worst = max(worst, abs(moved))
    return worst


@kernel
def compute_capacities(
    lengths: FloatArray, speeds: FloatArray, rest: FloatArray, fibres: FloatArray, largest: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Tension at full activation, and passive tension ``(F, M)`` [N], of fibres on stiff tendons.

    Fibres have their best length where the muscle has its length at rest; what the muscle gains, its fibres gain.
    """
    frames, muscles = lengths.shape
    active = np.empty((frames, muscles))
    passive = np.empty((frames, muscles))
    for f in range(frames):
        for m in range(muscles):
            x = min(max(1.0 + (lengths[f, m] - rest[m]) / fibres[m], MIN_FIBRE_LENGTH), MAX_FIBRE_LENGTH)
            v = min(max(speeds[f, m] / (fibres[m] * LENGTHS_PER_S), -1.0), 1.0)
            active[f, m] = largest[m] * max(groote_length(x) * groote_speed(v), MIN_CAPACITY)
            passive[f, m] = largest[m] * groote_passive(x)
    return active, passive
