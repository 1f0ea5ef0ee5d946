r"""Compiled joints of rigid bodies: multipliers from :math:`J M^{-1} J^T \lambda = b - J v^*`."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.simulate._solve_factor_kernels import solve_symmetric


@kernel
def joint_blocks(turns: FloatArray, arms: FloatArray, bodies: IntArray) -> FloatArray:
    r"""Blocks ``(N, 2, 3, 6)`` of the Jacobian of the gaps: :math:`\pm(-R\hat r, I)` of child and parent."""
    out = np.zeros((bodies.shape[0], 2, 3, 6))
    for n in range(bodies.shape[0]):
        for side in range(2):
            sign, b = 1.0 - 2.0 * side, bodies[n, side]
            x, y, z = arms[n, side, 0], arms[n, side, 1], arms[n, side, 2]
            for r in range(3):
                u, v, w = sign * turns[b, r, 0], sign * turns[b, r, 1], sign * turns[b, r, 2]
                out[n, side, r, 0], out[n, side, r, 1], out[n, side, r, 2] = w * y - v * z, u * z - w * x, v * x - u * y
                out[n, side, r, 3 + r] = sign
    return out


@kernel
def project_velocity(
    blocks: FloatArray, bodies: IntArray, inverse: FloatArray, free: FloatArray, target: FloatArray
) -> tuple[FloatArray, bool]:
    """Velocity ``(B, 6)`` nearest to a free one, in the metric of the masses, whose gaps ``(N, 3)`` close at a rate.

    Args:
        blocks: see ``joint_blocks``.
        bodies: child and parent ``(N, 2)`` of each joint.
        inverse: inverse inertia ``(B, 6, 6)`` of each body.
        free: velocity ``(B, 6)`` without joints.
        target: rate ``(N, 3)`` [m/s] of each gap.
    """
    count = bodies.shape[0]
    weighted = np.zeros(blocks.shape)
    rhs = target.copy().reshape(3 * count)
    for n in range(count):
        for side in range(2):
            b = bodies[n, side]
            for r in range(3):
                for i in range(6):
                    rhs[3 * n + r] -= blocks[n, side, r, i] * free[b, i]
                    for m in range(6):
                        weighted[n, side, r, i] += blocks[n, side, r, m] * inverse[b, m, i]
    multipliers, is_definite = solve_symmetric(_multiplier_matrix(blocks, weighted, bodies), rhs)
    out = free.copy()
    for n in range(count):
        for side in range(2):
            for r in range(3):
                for i in range(6):
                    out[bodies[n, side], i] += weighted[n, side, r, i] * multipliers[3 * n + r]
    return out, is_definite


@kernel
def _multiplier_matrix(blocks: FloatArray, weighted: FloatArray, bodies: IntArray) -> FloatArray:
    """Matrix ``(3 N, 3 N)`` of the multipliers; joints that share no body do not see one another."""
    count = bodies.shape[0]
    out = np.zeros((3 * count, 3 * count))
    for n in range(count):
        for m in range(count):
            for side in range(2):
                for other in range(2):
                    if bodies[n, side] != bodies[m, other]:
                        continue
                    for r in range(3):
                        for c in range(3):
                            for i in range(6):
                                out[3 * n + r, 3 * m + c] += weighted[n, side, r, i] * blocks[m, other, c, i]
    return out
