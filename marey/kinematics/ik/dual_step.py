r"""Compiled linear algebra of one damped step, in the dual: one small system for all joints.

Joints that two tasks have in common are the only coupling between them, so the matrix is summed over lists of common
joints; no Jacobian is formed. With P half the gradient of the springs,

.. math:: (J G J^T + \lambda W^{-1})\,y = e + J G P / \lambda, \qquad \Delta = G (J^T y - P / \lambda)
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, inline_kernel, kernel
from marey.kinematics.ik.state import (
    COM,
    POINT,
    IKLayout,
    IKState,
    KinematicChains,
    LinearRows,
    PosePrior,
)
from marey.lie.kernels import Vector, row3


class StepBuffers(NamedTuple):
    """Scratch of one step; L joints have limits of their own, or may have: all of them or none."""

    torques: FloatArray  # (J + 1, 3) forces on the joints and on the root's place, world axes
    slopes: FloatArray  # (J + 1, 3) half the negative gradient, world axes
    ease: FloatArray  # (J + 1,) compliance of each joint
    eased: FloatArray  # (N, 3, 3) compliance times the rows of the blocks
    G: FloatArray  # (L, 3, 3) compliance of limited joints
    S: FloatArray  # (3 B, 3 B) matrix of the dual
    y: FloatArray  # (3 B,) its right-hand side, then its solution


@inline_kernel
def new_step_buffers(layout: IKLayout, limited: int) -> StepBuffers:
    """Room for a step."""
    joints, blocks = layout.tree.parents.shape[0], layout.blocks.kinds.shape[0]
    return StepBuffers(
        np.zeros((joints + 1, 3)),
        np.zeros((joints + 1, 3)),
        np.zeros(joints + 1),
        np.zeros((layout.lists.chain.shape[0], 3, 3)),
        np.zeros((limited, 3, 3)),
        np.zeros((3 * blocks, 3 * blocks)),
        np.zeros(3 * blocks),
    )


@kernel
def factor_cholesky(S: FloatArray) -> None:
    """Replace the upper triangle of a positive definite matrix by its Cholesky factor U, S = U^T U.

    Three rows at a time: systems of blocks are small, and short inner loops cost more to enter than to run.
    """
    n, k = S.shape[0], 0
    while k + 3 <= n:
        # The block on the diagonal, the three rows beside it, what they take from the rest
        a = sqrt(max(S[k, k], 1e-300))
        b, c = S[k, k + 1] / a, S[k, k + 2] / a
        d = sqrt(max(S[k + 1, k + 1] - b * b, 1e-300))
        e = (S[k + 1, k + 2] - b * c) / d
        f = sqrt(max(S[k + 2, k + 2] - c * c - e * e, 1e-300))
        S[k, k], S[k, k + 1], S[k, k + 2], S[k + 1, k + 1], S[k + 1, k + 2], S[k + 2, k + 2] = a, b, c, d, e, f
        p, q, r = 1.0 / a, 1.0 / d, 1.0 / f
        for j in range(k + 3, n):
            x = p * S[k, j]
            y = q * (S[k + 1, j] - b * x)
            S[k, j], S[k + 1, j], S[k + 2, j] = x, y, r * (S[k + 2, j] - c * x - e * y)
        for i in range(k + 3, n):
            u, v, w = S[k, i], S[k + 1, i], S[k + 2, i]
            for j in range(i, n):
                S[i, j] -= u * S[k, j] + v * S[k + 1, j] + w * S[k + 2, j]
        k += 3
    for k in range(n - n % 3, n):
        pivot = sqrt(max(S[k, k], 1e-300))
        for j in range(k, n):
            S[k, j] /= pivot
        for i in range(k + 1, n):
            for j in range(i, n):
                S[i, j] -= S[k, i] * S[k, j]


@kernel
def solve_cholesky(U: FloatArray, y: FloatArray) -> None:
    """Solve U^T U x = y in place."""
    n = U.shape[0]
    for i in range(n):
        f = y[i] / U[i, i]
        y[i] = f
        for j in range(i + 1, n):
            y[j] -= f * U[i, j]
    for i in range(n - 1, -1, -1):
        total = y[i]
        for j in range(i + 1, n):
            total -= U[i, j] * y[j]
        y[i] = total / U[i, i]


@inline_kernel
def assemble_dual_matrix(
    layout: IKLayout, boxed: BoolArray, damping: float, rows: LinearRows, step: StepBuffers
) -> None:
    r"""Write the upper triangle of :math:`J G J^T + \lambda W^{-1}` ``(3 B, 3 B)``."""
    kinds, softness, shifts, S = layout.blocks.kinds, layout.blocks.softness, rows.shifts, step.S
    g, pair, pair_start = step.ease[step.ease.shape[0] - 1], 0, layout.lists.pair_start
    for e in range(softness.shape[0]):
        for f in range(e + 1):
            both = (kinds[e] == POINT or kinds[e] == COM) and (kinds[f] == POINT or kinds[f] == COM)
            # What the root's place adds, and the damping. Rows of f, columns of e: f <= e is the upper triangle.
            for r in range(3):
                x, y, z = g * shifts[f, r, 0], g * shifts[f, r, 1], g * shifts[f, r, 2]
                for c in range(3):
                    total = x * shifts[e, c, 0] + y * shifts[e, c, 1] + z * shifts[e, c, 2]
                    S[3 * f + r, 3 * e + c] = total + (damping * softness[e, r, c] if e == f else 0.0)
            # What the joints j that both blocks have in common add: the sum of L_f G L_e^T
            if both:
                add_lever_products(layout.lists, boxed, pair, 3 * f, 3 * e, rows.turns, step)
            else:
                for k in range(pair_start[pair], pair_start[pair + 1]):
                    m, n = layout.lists.pair_first[k], layout.lists.pair_second[k]
                    add_joint_products(rows.turns, step.eased, m, n, 3 * f, 3 * e, S)
            pair += 1


@inline_kernel
def add_lever_products(
    lists: KinematicChains,
    boxed: BoolArray,
    pair: int,
    row: int,
    column: int,
    turns: FloatArray,
    step: StepBuffers,
) -> None:
    r"""Add :math:`\sum_j g_j [l_f]_\times [l_e]_\times^T` over common joints j.

    The product is :math:`(l_e \cdot l_f) I - l_e l_f^T`, except for joints with axes that are held.
    """
    firsts, seconds, chain, S = lists.pair_first, lists.pair_second, lists.chain, step.S
    a = b = c = d = e = f = h = i = j = 0.0
    # The nine entries are kept in registers while the common joints are summed
    for k in range(lists.pair_start[pair], lists.pair_start[pair + 1]):
        m, n = firsts[k], seconds[k]
        if step.G.shape[0] > 0 and boxed[chain[n]]:
            add_joint_products(turns, step.eased, m, n, row, column, S)
            continue
        g = step.ease[chain[n]]
        # The levers inside -[l]x
        x, y, z = turns[m, 1, 2], turns[m, 2, 0], turns[m, 0, 1]
        u, v, w = g * turns[n, 1, 2], g * turns[n, 2, 0], g * turns[n, 0, 1]
        a, b, c = a + y * v + z * w, b - x * v, c - x * w
        d, e, f = d - y * u, e + x * u + z * w, f - y * w
        h, i, j = h - z * u, i - z * v, j + x * u + y * v
    S[row, column] += a
    S[row, column + 1] += b
    S[row, column + 2] += c
    S[row + 1, column] += d
    S[row + 1, column + 1] += e
    S[row + 1, column + 2] += f
    S[row + 2, column] += h
    S[row + 2, column + 1] += i
    S[row + 2, column + 2] += j


@inline_kernel
def add_joint_products(
    turns: FloatArray, eased: FloatArray, m: int, n: int, row: int, column: int, S: FloatArray
) -> None:
    """Add what one joint, rows m and n of the chains, does to two blocks."""
    for r in range(3):
        x, y, z = turns[n, r, 0], turns[n, r, 1], turns[n, r, 2]
        for c in range(3):
            S[row + r, column + c] += x * eased[m, c, 0] + y * eased[m, c, 1] + z * eased[m, c, 2]


@inline_kernel
def apply_block_force(
    starts: IntArray, chain: IntArray, b: int, force: Vector, shifts: FloatArray, turns: FloatArray, out: FloatArray
) -> None:
    """Add what a force on block b does to every joint that moves it, and to the root's place."""
    last = out.shape[0] - 1
    x, y, z = force
    for c in range(3):
        out[last, c] += shifts[b, 0, c] * x + shifts[b, 1, c] * y + shifts[b, 2, c] * z
    for i in range(starts[b], starts[b + 1]):
        j = chain[i]
        for c in range(3):
            out[j, c] += turns[i, 0, c] * x + turns[i, 1, c] * y + turns[i, 2, c] * z


@kernel
def compute_descent(layout: IKLayout, state: IKState, rows: LinearRows, out: FloatArray) -> None:
    """Write half the negative gradient ``(J + 1, 3)`` in world axes: torques on the joints, the force on the root."""
    for j in range(out.shape[0]):
        for c in range(3):
            out[j, c] = -state.pulls[j, c]
    W, starts, chain = layout.blocks.weights, layout.lists.chain_start, layout.lists.chain
    for b in range(state.errors.shape[0]):
        u, v, w = row3(state.errors, b)
        x = W[b, 0, 0] * u + W[b, 0, 1] * v + W[b, 0, 2] * w
        y = W[b, 1, 0] * u + W[b, 1, 1] * v + W[b, 1, 2] * w
        z = W[b, 2, 0] * u + W[b, 2, 1] * v + W[b, 2, 2] * w
        apply_block_force(starts, chain, b, (x, y, z), rows.shifts, rows.turns, out)


@kernel
def predict_prior_change(
    prior: PosePrior,
    boxed: BoolArray,
    held: FloatArray,
    frames: FloatArray,
    pulls: FloatArray,
    step: StepBuffers,
) -> float:
    r"""Change of the springs that is expected: :math:`\sum_j 2 P_j \cdot \Delta_j + s_j |\Delta_j|^2`."""
    total, torques, G = 0.0, step.torques, step.G
    for j in range(torques.shape[0]):
        u, v, w = row3(torques, j)
        x, y, z = step.ease[j] * u, step.ease[j] * v, step.ease[j] * w
        if j < G.shape[0] and boxed[j]:
            # A limited joint: its compliance times the torque, and what is held
            a, b, c = row3(held, j)
            x = G[j, 0, 0] * u + G[j, 0, 1] * v + G[j, 0, 2] * w
            y = G[j, 1, 0] * u + G[j, 1, 1] * v + G[j, 1, 2] * w
            z = G[j, 2, 0] * u + G[j, 2, 1] * v + G[j, 2, 2] * w
            x += frames[j, 0, 0] * a + frames[j, 0, 1] * b + frames[j, 0, 2] * c
            y += frames[j, 1, 0] * a + frames[j, 1, 1] * b + frames[j, 1, 2] * c
            z += frames[j, 2, 0] * a + frames[j, 2, 1] * b + frames[j, 2, 2] * c
        total += 2.0 * (pulls[j, 0] * x + pulls[j, 1] * y + pulls[j, 2] * z)
        total += prior.stiffness[j] * (x * x + y * y + z * z)
    return total


@inline_kernel
def solve_dual(layout: IKLayout, damping: float, rows: LinearRows, pulls: FloatArray, step: StepBuffers) -> float:
    r"""Solve S x = y in place, write the torques ``(J + 1, 3)`` of the step, return the task part of what it expects.

    The residual that the linear model leaves is :math:`\lambda W^{-1} x`.
    """
    torques, y, V = step.torques, step.y, layout.blocks.softness
    starts, chain, shifts, turns = layout.lists.chain_start, layout.lists.chain, rows.shifts, rows.turns
    factor_cholesky(step.S)
    solve_cholesky(step.S, y)
    # The step is G (J^T y - P / lambda)
    for j in range(torques.shape[0]):
        for c in range(3):
            torques[j, c] = -pulls[j, c] / damping
    expected = 0.0
    for b in range(V.shape[0]):
        u, v, w = y[3 * b], y[3 * b + 1], y[3 * b + 2]
        apply_block_force(starts, chain, b, (u, v, w), shifts, turns, torques)
        expected += V[b, 0, 0] * u * u + V[b, 1, 1] * v * v + V[b, 2, 2] * w * w
        expected += 2.0 * (V[b, 0, 1] * u * v + V[b, 0, 2] * u * w + V[b, 1, 2] * v * w)
    return damping * damping * expected
