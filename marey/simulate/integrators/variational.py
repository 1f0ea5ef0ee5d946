"""Compiled implicit step: the variational integrator of [Tournier2011]_ §11.1.2, solved by Newton steps."""

from __future__ import annotations

from math import isfinite

import numpy as np

from marey.base import FloatArray, kernel
from marey.simulate.integrators.geometric import left_jacobian_inverse_times
from marey.simulate.mechanics import compute_quadratic_forces
from marey.simulate.mechanism import Mechanics

NEWTON_STEPS = 12
NEWTON_TOL = 1e-12  # of the largest momentum: what rounding leaves of a solved step
NEWTON_ACCEPTED = 1e-10  # the tolerance of [Tournier2011]_'s specification
DIFFERENCE_STEP = 1e-4  # [rad/s] of the Jacobian; the own forces are quadratic, so it has no error there


@kernel
def _evaluate_residual(
    here: Mechanics,
    h: float,
    v: FloatArray,
    inertia: FloatArray,
    carried: FloatArray,
    outer: FloatArray,
    coordinates: FloatArray,
) -> FloatArray:
    """Residual ``(d,)`` of (11.11) at the velocity ``v``."""
    force = outer + compute_quadratic_forces(here, coordinates, v)
    # (11.11): J_l^{-T}(h v) M v - J_r^{-T}(h v_k) p_k - h F; `carried` is the second term
    p = inertia @ v
    out = p - carried - h * force
    for n in range(1 + here.mechanism.joints.shape[0]):
        i = 0 if n == 0 else 6 + 3 * (n - 1)
        # J_l^{-T}(x) is J_l^{-1}(-x)
        a, b, c = left_jacobian_inverse_times(-h * v[i], -h * v[i + 1], -h * v[i + 2], p[i], p[i + 1], p[i + 2])
        out[i] += a - p[i]
        out[i + 1] += b - p[i + 1]
        out[i + 2] += c - p[i + 2]
    return out


@kernel
def solve_variational_step(
    here: Mechanics,
    h: float,
    start: FloatArray,
    inertia: FloatArray,
    carried: FloatArray,
    outer: FloatArray,
    coordinates: FloatArray,
) -> tuple[FloatArray, bool]:
    """Velocity ``(d,)`` that solves (11.11), by Newton steps with a Jacobian by differences; and whether it does."""
    v, size = start.copy(), start.shape[0]
    slope = np.empty((size, size))
    residual = _evaluate_residual(here, h, v, inertia, carried, outer, coordinates)
    worst, scale = np.abs(residual).max(), max(1.0, np.abs(carried).max())
    for n in range(NEWTON_STEPS):
        # Solved to rounding, or lost
        if not isfinite(worst) or worst <= NEWTON_TOL * scale:
            break
        # Jacobian by central differences, renewed in every third step
        if n % 3 == 0:
            for i in range(size):
                v[i] += DIFFERENCE_STEP
                ahead = _evaluate_residual(here, h, v, inertia, carried, outer, coordinates)
                v[i] -= 2.0 * DIFFERENCE_STEP
                slope[:, i] = ahead - _evaluate_residual(here, h, v, inertia, carried, outer, coordinates)
                v[i] += DIFFERENCE_STEP
            slope /= 2.0 * DIFFERENCE_STEP
            if not isfinite(slope.sum()):
                return v, False
        # Newton step
        v -= np.linalg.solve(slope, residual)
        residual = _evaluate_residual(here, h, v, inertia, carried, outer, coordinates)
        worst = np.abs(residual).max()
    return v, isfinite(worst) and worst <= NEWTON_ACCEPTED * scale
