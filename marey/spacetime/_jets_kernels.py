"""Replay of a tape of elementary operations on jets; see ``_jets``."""

from __future__ import annotations

import math

import numpy as np

from marey.base import FloatArray, IntArray, kernel

OP_LINEAR, OP_PRODUCT, OP_ROOT, OP_RECIPROCAL, OP_SINE, OP_COSINE, OP_ANGLE, OP_POSITIVE_ROOT = 0, 1, 2, 3, 4, 5, 6, 7


@kernel
def _multiply_jets(out: FloatArray, a: FloatArray, b: FloatArray) -> None:
    """Write the product of two jets: Leibniz in time, product rule in the variables."""
    a0, a1, a2 = a[0, 0], a[1, 0], a[2, 0]
    b0, b1, b2 = b[0, 0], b[1, 0], b[2, 0]
    for j in range(1, out.shape[1]):
        p0, p1, p2 = a[0, j], a[1, j], a[2, j]
        s0, s1, s2 = b[0, j], b[1, j], b[2, j]
        out[0, j] = a0 * s0 + b0 * p0
        out[1, j] = a1 * s0 + a0 * s1 + b1 * p0 + b0 * p1
        out[2, j] = a2 * s0 + 2.0 * a1 * s1 + a0 * s2 + b2 * p0 + 2.0 * b1 * p1 + b0 * p2
    out[0, 0] = a0 * b0
    out[1, 0] = a1 * b0 + a0 * b1
    out[2, 0] = a2 * b0 + 2.0 * a1 * b1 + a0 * b2


@kernel
def _compose_jet(out: FloatArray, a: FloatArray, f0: float, f1: float, f2: float, f3: float) -> None:
    """Write ``f(a)`` of a function with value ``f0`` and derivatives ``f1, f2, f3`` at ``a``."""
    r, s = a[1, 0], a[2, 0]
    for j in range(1, a.shape[1]):
        g0, g1, g2 = a[0, j], a[1, j], a[2, j]
        out[0, j] = f1 * g0
        out[1, j] = f2 * r * g0 + f1 * g1
        out[2, j] = (f2 * s + f3 * r * r) * g0 + 2.0 * f2 * r * g1 + f1 * g2
    out[0, 0] = f0
    out[1, 0] = f1 * r
    out[2, 0] = f1 * s + f2 * r * r


@kernel
def _elementary_derivatives(code: int, x: float, rounding: float) -> tuple[float, float, float, float]:
    """Value and three derivatives of an elementary function; ``rounding`` is the corner of the positive root."""
    if code == OP_ROOT:
        f = math.sqrt(x)
        return f, 0.5 / f, -0.25 / (f * x), 0.375 / (f * x * x)
    if code == OP_RECIPROCAL:
        f = 1.0 / x
        return f, -f * f, 2.0 * f * f * f, -6.0 * f * f * f * f
    if code == OP_POSITIVE_ROOT:
        w = math.sqrt(x * x + rounding)
        f = math.sqrt(0.5 * (w + x)) if x > 0.0 else math.sqrt(0.5 * rounding / (w - x))
        u = x / w
        return f, 0.5 * f / w, f * (0.25 - 0.5 * u) / w**2, f * (-0.375 - 0.75 * u + 1.5 * u * u) / w**3
    s, c = math.sin(x), math.cos(x)
    if code == OP_SINE:
        return s, c, -s, -c
    return c, -s, -c, s


@kernel
def _angle_jet(out: FloatArray, y: FloatArray, x: FloatArray, spare: FloatArray) -> None:
    """Write ``atan2(y, x)``: turned onto the first axis, where the arc tangent is ``t - t^3 / 3``."""
    turn = math.atan2(y[0, 0], x[0, 0])
    c, s = math.cos(turn), math.sin(turn)
    ahead = c * x[0, 0] + s * y[0, 0]
    for k in range(3):
        for j in range(out.shape[1]):
            spare[0, k, j] = c * x[k, j] + s * y[k, j]
            spare[1, k, j] = c * y[k, j] - s * x[k, j]
    f = 1.0 / ahead
    _compose_jet(spare[2], spare[0], f, -f * f, 2.0 * f * f * f, -6.0 * f * f * f * f)
    _multiply_jets(spare[0], spare[1], spare[2])
    _compose_jet(out, spare[0], turn, 1.0, 0.0, -2.0)


@kernel
def replay_tape(
    ops: IntArray, numbers: FloatArray, outputs: IntArray, z: FloatArray, data: FloatArray, nodes: IntArray,
    out: FloatArray,
) -> None:  # fmt: skip
    """Run a tape at the chosen nodes.

    Args:
        ops: code and two arguments of each operation ``(N, 3)``.
        numbers: constant and two factors of linear operations ``(N, 3)``; the rounding of positive roots.
        outputs: registers asked for ``(R,)``.
        z: variables with their rates and accelerations ``(F, 3, V)``.
        data: numbers of each node that do not move ``(F, C)``.
        nodes: which of the F nodes.
        out: jets ``(F, R, 3, 1 + V)``, or ``(F, R, 3, 1)`` without gradients, written at ``nodes``.
    """
    num_variables, num_data = z.shape[2], data.shape[1]
    first, columns = num_variables + num_data, out.shape[3]
    registers = np.zeros((first + len(ops), 3, columns))
    spare = np.zeros((3, 3, columns))
    for k in nodes:
        for i in range(num_variables):
            if columns > 1:
                registers[i, 0, i + 1] = 1.0
            for d in range(3):
                registers[i, d, 0] = z[k, d, i]
        for i in range(num_data):
            registers[num_variables + i, 0, 0] = data[k, i]
        for n in range(len(ops)):
            code, target = ops[n, 0], registers[first + n]
            a, b = registers[ops[n, 1]], registers[ops[n, 2]]
            if code == OP_LINEAR:
                for d in range(3):
                    for j in range(columns):
                        target[d, j] = numbers[n, 1] * a[d, j] + numbers[n, 2] * b[d, j]
                target[0, 0] += numbers[n, 0]
            elif code == OP_PRODUCT:
                _multiply_jets(target, a, b)
            elif code == OP_ANGLE:
                _angle_jet(target, a, b, spare)
            else:
                f0, f1, f2, f3 = _elementary_derivatives(code, a[0, 0], numbers[n, 0])
                _compose_jet(target, a, f0, f1, f2, f3)
        for i in range(len(outputs)):
            out[k, i] = registers[outputs[i]]
