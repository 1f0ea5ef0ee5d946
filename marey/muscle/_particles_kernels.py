"""Springs between particles: forces, and their derivatives times vectors; any number of dimensions."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray, kernel

MIN_LENGTH_M = 1e-9  # [m] below, a spring has no direction and pulls nowhere


@kernel
def compute_spring_forces(
    x: FloatArray, v: FloatArray, springs: IntArray, rest: FloatArray, k: FloatArray, c: FloatArray
) -> FloatArray:
    """Forces of springs and their dampers on particles ``(V, D)``: positions, velocities, pairs, rest lengths."""
    forces = np.zeros_like(x)
    dim = x.shape[1]
    for s in range(springs.shape[0]):
        a, b = springs[s]
        square, dot = 0.0, 0.0
        for i in range(dim):
            e = x[a, i] - x[b, i]
            square += e * e
            dot += e * (v[a, i] - v[b, i])
        length = np.sqrt(square)
        if length < MIN_LENGTH_M:
            continue
        pull = -(k[s] * (length - rest[s]) + c[s] * dot / length) / length
        for i in range(dim):
            f = pull * (x[a, i] - x[b, i])
            forces[a, i] += f
            forces[b, i] -= f
    return forces


@kernel
def multiply_spring_transposes(
    x: FloatArray,
    v: FloatArray,
    springs: IntArray,
    rest: FloatArray,
    k: FloatArray,
    c: FloatArray,
    w: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    r"""Products :math:`(\partial f/\partial x)^T w` and :math:`(\partial f/\partial v)^T w`, each ``(V, D)``.

    With unit vector h, :math:`H = (I - hh^T)/l` and T the tension, the blocks of [Engell2012]_ §27 are
    :math:`-h(kh^T + c\,\Delta v^T H) - TH` and :math:`-c\,hh^T`.
    """
    to_x, to_v = np.zeros_like(x), np.zeros_like(x)
    dim = x.shape[1]
    h, across = np.zeros(dim), np.zeros(dim)
    for s in range(springs.shape[0]):
        a, b = springs[s]
        length = 0.0
        for i in range(dim):
            h[i] = x[a, i] - x[b, i]
            length += h[i] * h[i]
        length = np.sqrt(length)
        if length < MIN_LENGTH_M:
            continue
        rate, along = 0.0, 0.0
        for i in range(dim):
            h[i] /= length
            rate += h[i] * (v[a, i] - v[b, i])
            along += h[i] * (w[a, i] - w[b, i])
        for i in range(dim):
            across[i] = (v[a, i] - v[b, i] - rate * h[i]) / length
        tension = k[s] * (length - rest[s]) + c[s] * rate
        for i in range(dim):
            side = (w[a, i] - w[b, i] - along * h[i]) / length
            in_x = -(k[s] * h[i] + c[s] * across[i]) * along - tension * side
            in_v = -c[s] * h[i] * along
            to_x[a, i] += in_x
            to_x[b, i] -= in_x
            to_v[a, i] += in_v
            to_v[b, i] -= in_v
    return to_x, to_v


@kernel
def compute_spring_tangents(
    x: FloatArray, v: FloatArray, springs: IntArray, rest: FloatArray, k: FloatArray, c: FloatArray
) -> tuple[FloatArray, FloatArray]:
    r"""Blocks :math:`\partial f_a/\partial x_a` and :math:`\partial f_a/\partial v_a` per spring, ``(S, D, D)``.

    The force on b and the columns of b have the opposite sign.
    """
    num, dim = springs.shape[0], x.shape[1]
    in_x, in_v = np.zeros((num, dim, dim)), np.zeros((num, dim, dim))
    h, across = np.zeros(dim), np.zeros(dim)
    for s in range(num):
        a, b = springs[s]
        length = 0.0
        for i in range(dim):
            h[i] = x[a, i] - x[b, i]
            length += h[i] * h[i]
        length = np.sqrt(length)
        if length < MIN_LENGTH_M:
            continue
        rate = 0.0
        for i in range(dim):
            h[i] /= length
            rate += h[i] * (v[a, i] - v[b, i])
        for i in range(dim):
            across[i] = (v[a, i] - v[b, i] - rate * h[i]) / length
        tension = k[s] * (length - rest[s]) + c[s] * rate
        for i in range(dim):
            for j in range(dim):
                side = ((1.0 if i == j else 0.0) - h[i] * h[j]) / length
                in_x[s, i, j] = -h[i] * (k[s] * h[j] + c[s] * across[j]) - tension * side
                in_v[s, i, j] = -c[s] * h[i] * h[j]
    return in_x, in_v


@kernel
def multiply_spring_tangents(
    springs: IntArray, in_x: FloatArray, in_v: FloatArray, dx: FloatArray, dv: FloatArray
) -> FloatArray:
    """Change of the forces ``(V, D, n)`` for n changes of positions and velocities at once ``(V, D, n)``."""
    change = np.zeros_like(dx)
    dim, num = dx.shape[1], dx.shape[2]
    for s in range(springs.shape[0]):
        a, b = springs[s]
        for i in range(dim):
            for j in range(dim):
                p, q = in_x[s, i, j], in_v[s, i, j]
                for n in range(num):
                    d = p * (dx[a, j, n] - dx[b, j, n]) + q * (dv[a, j, n] - dv[b, j, n])
                    change[a, i, n] += d
                    change[b, i, n] -= d
    return change
