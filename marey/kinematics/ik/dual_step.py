r"""Compiled linear algebra of one damped step, in the dual: one small system for all joints.

Joints that two tasks have in common are the only coupling between them, so the matrix is summed over lists of common
joints; no Jacobian is formed. With P half the gradient of the springs,

.. math:: (J G J^T + \lambda W^{-1})\,y = e + J G P / \lambda, \qquad \Delta = G (J^T y - P / \lambda)
"""

from __future__ import annotations

from math import sqrt

from marey.base import BoolArray, FloatArray, kernel
from marey.kinematics.ik.state import COM, POINT, KinematicChains, PosePrior, RotationVectorBox, TaskBlocks


@kernel
def factor_cholesky(S: FloatArray) -> None:
    """Replace the upper triangle of a positive definite matrix by its Cholesky factor U, S = U^T U."""
    n = S.shape[0]
    for k in range(n):
        pivot = sqrt(max(S[k, k], 1e-300))
        S[k, k] = pivot
        inverse = 1.0 / pivot
        for j in range(k + 1, n):
            S[k, j] *= inverse
        for i in range(k + 1, n):
            f = S[k, i]
            for j in range(i, n):
                S[i, j] -= f * S[k, j]


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


@kernel
def compute_compliances(
    springs: PosePrior,
    box: RotationVectorBox,
    damping: float,
    frames: FloatArray,
    free: BoolArray,
    ease: FloatArray,
    G: FloatArray,
) -> None:
    r"""Write :math:`g_j = \lambda / (\lambda / m_j + s_j)` ``(J + 1,)`` and, for limited joints, F g F^T ``(J, 3, 3)``.

    ``frames`` F holds the world axes of their coordinates, and only the ``free`` ones count.
    """
    for j in range(ease.shape[0]):
        m = springs.mobility[j]
        ease[j] = damping * m / (damping + m * springs.stiffness[j])
    for j in range(G.shape[0]):
        if box.boxed[j]:
            for r in range(3):
                for c in range(3):
                    total = 0.0
                    for k in range(3):
                        if free[j, k]:
                            total += frames[j, r, k] * frames[j, c, k]
                    G[j, r, c] = ease[j] * total


@kernel
def multiply_compliance(
    lists: KinematicChains, boxed: BoolArray, turns: FloatArray, ease: FloatArray, G: FloatArray, eased: FloatArray
) -> None:
    """Write L G ``(N, 3, 3)``: how far each block goes for a unit torque on each joint that moves it."""
    for i in range(lists.chain.shape[0]):
        j = lists.chain[i]
        if G.shape[0] > 0 and boxed[j]:
            for r in range(3):
                x, y, z = turns[i, r, 0], turns[i, r, 1], turns[i, r, 2]
                for c in range(3):
                    eased[i, r, c] = x * G[j, 0, c] + y * G[j, 1, c] + z * G[j, 2, c]
        else:
            g = ease[j]
            for r in range(3):
                for c in range(3):
                    eased[i, r, c] = g * turns[i, r, c]


@kernel
def assemble_dual_matrix(
    blocks: TaskBlocks,
    lists: KinematicChains,
    damping: float,
    ease: FloatArray,
    is_limited: bool,
    shifts: FloatArray,
    turns: FloatArray,
    eased: FloatArray,
    S: FloatArray,
) -> None:
    r"""Write the upper triangle of :math:`J G J^T + \lambda W^{-1}` ``(3 B, 3 B)``."""
    kinds, softness, g, pair = blocks.kinds, blocks.softness, ease[ease.shape[0] - 1], 0
    for e in range(softness.shape[0]):
        for f in range(e + 1):
            both = (kinds[e] == POINT or kinds[e] == COM) and (kinds[f] == POINT or kinds[f] == COM)
            for r in range(3):  # rows of f, columns of e: f <= e, so this is the upper triangle
                x, y, z = g * shifts[f, r, 0], g * shifts[f, r, 1], g * shifts[f, r, 2]
                for c in range(3):
                    total = x * shifts[e, c, 0] + y * shifts[e, c, 1] + z * shifts[e, c, 2]
                    S[3 * f + r, 3 * e + c] = total + (damping * softness[e, r, c] if e == f else 0.0)
            if both and not is_limited:
                add_lever_products(lists, pair, 3 * f, 3 * e, ease, turns, S)
            else:
                add_jacobian_products(lists, pair, 3 * f, 3 * e, turns, eased, S)
            pair += 1


@kernel
def add_lever_products(
    lists: KinematicChains, pair: int, row: int, column: int, ease: FloatArray, turns: FloatArray, S: FloatArray
) -> None:
    r"""Add :math:`\sum_j g_j [l_f]_\times [l_e]_\times^T` over common joints j.

    The product is :math:`(l_e \cdot l_f) I - l_e l_f^T`.
    """
    firsts, seconds, chain = lists.pair_first, lists.pair_second, lists.chain
    a = b = c = d = e = f = h = i = j = 0.0
    for k in range(lists.pair_start[pair], lists.pair_start[pair + 1]):
        m, n = firsts[k], seconds[k]
        g = ease[chain[n]]
        x, y, z = turns[m, 1, 2], turns[m, 2, 0], turns[m, 0, 1]  # the lever inside -[l]x
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


@kernel
def add_jacobian_products(
    lists: KinematicChains, pair: int, row: int, column: int, turns: FloatArray, eased: FloatArray, S: FloatArray
) -> None:
    r"""Add :math:`\sum_j L_f G L_e^T` over common joints."""
    firsts, seconds = lists.pair_first, lists.pair_second
    for k in range(lists.pair_start[pair], lists.pair_start[pair + 1]):
        m, n = firsts[k], seconds[k]
        for r in range(3):
            x, y, z = turns[n, r, 0], turns[n, r, 1], turns[n, r, 2]
            for c in range(3):
                S[row + r, column + c] += x * eased[m, c, 0] + y * eased[m, c, 1] + z * eased[m, c, 2]


@kernel
def apply_block_force(
    lists: KinematicChains, b: int, x: float, y: float, z: float, shifts: FloatArray, turns: FloatArray, out: FloatArray
) -> None:
    """Add what a force ``(x, y, z)`` on block b does to every joint that moves it, and to the root's place."""
    chain, last = lists.chain, out.shape[0] - 1
    for c in range(3):
        out[last, c] += shifts[b, 0, c] * x + shifts[b, 1, c] * y + shifts[b, 2, c] * z
    for i in range(lists.chain_start[b], lists.chain_start[b + 1]):
        j = chain[i]
        for c in range(3):
            out[j, c] += turns[i, 0, c] * x + turns[i, 1, c] * y + turns[i, 2, c] * z


@kernel
def compute_descent(
    blocks: TaskBlocks,
    lists: KinematicChains,
    errors: FloatArray,
    shifts: FloatArray,
    turns: FloatArray,
    pulls: FloatArray,
    out: FloatArray,
) -> None:
    """Write half the negative gradient ``(J + 1, 3)`` in world axes: torques on the joints, the force on the root."""
    for j in range(out.shape[0]):
        for c in range(3):
            out[j, c] = -pulls[j, c]
    W = blocks.weights
    for b in range(errors.shape[0]):
        u, v, w = errors[b, 0], errors[b, 1], errors[b, 2]
        x = W[b, 0, 0] * u + W[b, 0, 1] * v + W[b, 0, 2] * w
        y = W[b, 1, 0] * u + W[b, 1, 1] * v + W[b, 1, 2] * w
        z = W[b, 2, 0] * u + W[b, 2, 1] * v + W[b, 2, 2] * w
        apply_block_force(lists, b, x, y, z, shifts, turns, out)


@kernel
def add_prior_shift(
    lists: KinematicChains,
    damping: float,
    shift_ease: float,
    shifts: FloatArray,
    eased: FloatArray,
    pulls: FloatArray,
    y: FloatArray,
) -> None:
    r"""Add :math:`J G P / \lambda` to y ``(3 B,)``: where the springs alone would take the blocks, undone."""
    last = pulls.shape[0] - 1
    for b in range(shifts.shape[0]):
        for r in range(3):
            total = 0.0
            for c in range(3):
                total += shift_ease * shifts[b, r, c] * pulls[last, c]
            for i in range(lists.chain_start[b], lists.chain_start[b + 1]):
                j = lists.chain[i]
                total += eased[i, r, 0] * pulls[j, 0] + eased[i, r, 1] * pulls[j, 1] + eased[i, r, 2] * pulls[j, 2]
            y[3 * b + r] += total / damping


@kernel
def predict_prior_change(
    springs: PosePrior,
    box: RotationVectorBox,
    ease: FloatArray,
    G: FloatArray,
    frames: FloatArray,
    held: FloatArray,
    pulls: FloatArray,
    torques: FloatArray,
) -> float:
    r"""Change of the springs that is expected: :math:`\sum_j 2 P_j \cdot \Delta_j + s_j |\Delta_j|^2`."""
    total = 0.0
    for j in range(torques.shape[0]):
        x, y, z = ease[j] * torques[j, 0], ease[j] * torques[j, 1], ease[j] * torques[j, 2]
        if j < G.shape[0] and box.boxed[j]:
            u, v, w = torques[j, 0], torques[j, 1], torques[j, 2]
            a, b, c = held[j, 0], held[j, 1], held[j, 2]
            x = G[j, 0, 0] * u + G[j, 0, 1] * v + G[j, 0, 2] * w
            y = G[j, 1, 0] * u + G[j, 1, 1] * v + G[j, 1, 2] * w
            z = G[j, 2, 0] * u + G[j, 2, 1] * v + G[j, 2, 2] * w
            x += frames[j, 0, 0] * a + frames[j, 0, 1] * b + frames[j, 0, 2] * c
            y += frames[j, 1, 0] * a + frames[j, 1, 1] * b + frames[j, 1, 2] * c
            z += frames[j, 2, 0] * a + frames[j, 2, 1] * b + frames[j, 2, 2] * c
        total += 2.0 * (pulls[j, 0] * x + pulls[j, 1] * y + pulls[j, 2] * z)
        total += springs.stiffness[j] * (x * x + y * y + z * z)
    return total


@kernel
def solve_dual_step(
    blocks: TaskBlocks,
    lists: KinematicChains,
    damping: float,
    shifts: FloatArray,
    turns: FloatArray,
    pulls: FloatArray,
    S: FloatArray,
    y: FloatArray,
    torques: FloatArray,
) -> float:
    r"""Solve S x = y in place, write the torques ``(J + 1, 3)`` of the step, return the task part of what it expects.

    The residual that the linear model leaves is :math:`\lambda W^{-1} x`.
    """
    factor_cholesky(S)
    solve_cholesky(S, y)
    for j in range(torques.shape[0]):
        for c in range(3):
            torques[j, c] = -pulls[j, c] / damping
    expected, V = 0.0, blocks.softness
    for b in range(V.shape[0]):
        u, v, w = y[3 * b], y[3 * b + 1], y[3 * b + 2]
        apply_block_force(lists, b, u, v, w, shifts, turns, torques)
        expected += V[b, 0, 0] * u * u + V[b, 1, 1] * v * v + V[b, 2, 2] * w * w
        expected += 2.0 * (V[b, 0, 1] * u * v + V[b, 0, 2] * u * w + V[b, 1, 2] * v * w)
    return damping * damping * expected
