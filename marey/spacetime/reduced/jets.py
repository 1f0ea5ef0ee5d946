"""Numbers that carry their first two time derivatives and the gradients of all three, recorded once and replayed.

A jet is an array ``(3, 1 + V)``: row ``k`` is the time derivative of order ``k``, column 0 its value and the other
columns its derivative with respect to ``V`` variables. Time derivatives and gradients commute, so that the derivative
of ``d/dt f(z)`` by ``z`` is the time derivative of ``df/dz``: one pass over a tape of operations gives ``G = df/dz``,
``dG/dt`` and ``d2G/dt2`` exactly, which is all that the motion of ``q = f(z(t))`` needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, IntArray, kernel

OP_LINEAR, OP_PRODUCT, OP_ROOT, OP_RECIPROCAL, OP_SINE, OP_COSINE, OP_ANGLE, OP_POSITIVE_ROOT = 0, 1, 2, 3, 4, 5, 6, 7


@kernel
def _multiply_jets(jets: FloatArray, out: int, a: int, b: int) -> None:
    """Write the product of two of the ``jets (R, 3, C)``: Leibniz in time, product rule in the variables."""
    a0, a1, a2 = jets[a, 0, 0], jets[a, 1, 0], jets[a, 2, 0]
    b0, b1, b2 = jets[b, 0, 0], jets[b, 1, 0], jets[b, 2, 0]
    for j in range(1, jets.shape[2]):
        p0, p1, p2 = jets[a, 0, j], jets[a, 1, j], jets[a, 2, j]
        s0, s1, s2 = jets[b, 0, j], jets[b, 1, j], jets[b, 2, j]
        jets[out, 0, j] = a0 * s0 + b0 * p0
        jets[out, 1, j] = a1 * s0 + a0 * s1 + b1 * p0 + b0 * p1
        jets[out, 2, j] = a2 * s0 + 2.0 * a1 * s1 + a0 * s2 + b2 * p0 + 2.0 * b1 * p1 + b0 * p2
    jets[out, 0, 0] = a0 * b0
    jets[out, 1, 0] = a1 * b0 + a0 * b1
    jets[out, 2, 0] = a2 * b0 + 2.0 * a1 * b1 + a0 * b2


@kernel
def _compose_jet(jets: FloatArray, out: int, a: int, f0: float, f1: float, f2: float, f3: float) -> None:
    """Write ``f(a)`` of a function with value ``f0`` and derivatives ``f1, f2, f3`` at a, one of ``jets (R, 3, C)``."""
    r, s = jets[a, 1, 0], jets[a, 2, 0]
    for j in range(1, jets.shape[2]):
        g0, g1, g2 = jets[a, 0, j], jets[a, 1, j], jets[a, 2, j]
        jets[out, 0, j] = f1 * g0
        jets[out, 1, j] = f2 * r * g0 + f1 * g1
        jets[out, 2, j] = (f2 * s + f3 * r * r) * g0 + 2.0 * f2 * r * g1 + f1 * g2
    jets[out, 0, 0] = f0
    jets[out, 1, 0] = f1 * r
    jets[out, 2, 0] = f1 * s + f2 * r * r


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


class TapeArrays(NamedTuple):
    """A finished tape of N operations and R outputs."""

    ops: IntArray  # (N, 3) code and two arguments
    numbers: FloatArray  # (N, 3) constant and two factors of linear operations; the rounding of positive roots
    outputs: IntArray  # (R,) registers asked for


@kernel
def replay_tape(tape: TapeArrays, z: FloatArray, data: FloatArray, nodes: IntArray, out: FloatArray) -> None:
    """Run a tape at the chosen nodes.

    Args:
        tape: what was recorded.
        z: variables with their rates and accelerations ``(F, 3, V)``.
        data: numbers of each node that do not move ``(F, C)``.
        nodes: which of the F nodes.
        out: jets ``(F, R, 3, 1 + V)``, or ``(F, R, 3, 1)`` without gradients, written at ``nodes``.
    """
    ops, numbers, outputs = tape.ops, tape.numbers, tape.outputs
    num_variables, num_data = z.shape[2], data.shape[1]
    first, columns = num_variables + num_data, out.shape[3]
    # Registers by number: views of them would cost more than most operations
    jets = np.zeros((first + len(ops) + 3, 3, columns))
    ahead, beside, spare = first + len(ops), first + len(ops) + 1, first + len(ops) + 2
    for k in nodes:
        # Variables with their rates and unit gradients, then the numbers of the node
        for i in range(num_variables):
            if columns > 1:
                jets[i, 0, i + 1] = 1.0
            for d in range(3):
                jets[i, d, 0] = z[k, d, i]
        for i in range(num_data):
            jets[num_variables + i, 0, 0] = data[k, i]
        # Operations in the order in which they were recorded
        for n in range(len(ops)):
            code, a, b, target = ops[n, 0], ops[n, 1], ops[n, 2], first + n
            if code == OP_LINEAR:
                for d in range(3):
                    for j in range(columns):
                        jets[target, d, j] = numbers[n, 1] * jets[a, d, j] + numbers[n, 2] * jets[b, d, j]
                jets[target, 0, 0] += numbers[n, 0]
            elif code == OP_PRODUCT:
                _multiply_jets(jets, target, a, b)
            elif code == OP_ANGLE:
                # atan2(a, b), turned onto the first axis, where the arc tangent is t - t^3 / 3
                turn = math.atan2(jets[a, 0, 0], jets[b, 0, 0])
                c, s = math.cos(turn), math.sin(turn)
                for i in range(3):
                    for j in range(columns):
                        jets[ahead, i, j] = c * jets[b, i, j] + s * jets[a, i, j]
                        jets[beside, i, j] = c * jets[a, i, j] - s * jets[b, i, j]
                f = 1.0 / jets[ahead, 0, 0]
                _compose_jet(jets, spare, ahead, f, -f * f, 2.0 * f * f * f, -6.0 * f * f * f * f)
                _multiply_jets(jets, ahead, beside, spare)
                _compose_jet(jets, target, ahead, turn, 1.0, 0.0, -2.0)
            else:
                f0, f1, f2, f3 = _elementary_derivatives(code, jets[a, 0, 0], numbers[n, 0])
                _compose_jet(jets, target, a, f0, f1, f2, f3)
        for i in range(len(outputs)):
            for d in range(3):
                for j in range(columns):
                    out[k, i, d, j] = jets[outputs[i], d, j]


class Tape:
    """Operations in the order in which they were written down."""

    def __init__(self, num_variables: int, num_data: int) -> None:
        jets = np.array([Jet(self, i) for i in range(num_variables + num_data)], dtype=np.object_)
        self.variables, self.data = jets[:num_variables], jets[num_variables:]  # what moves; what differs between nodes
        self._ops: list[tuple[int, int, int]] = []
        self._numbers: list[tuple[float, float, float]] = []

    def append(self, code: int, a: int, b: int, numbers: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Jet:
        """Write an operation down and return its result."""
        self._ops.append((code, a, b))
        self._numbers.append(numbers)
        return Jet(self, len(self.variables) + len(self.data) + len(self._ops) - 1)

    def finish(self, outputs: Sequence[Jet]) -> JetFunction:
        """Return the function that gives these outputs."""
        registers = np.array([jet.register for jet in outputs], dtype=np.int64)
        ops = np.array(self._ops, dtype=np.int64).reshape(-1, 3)
        return JetFunction(TapeArrays(ops, np.array(self._numbers).reshape(-1, 3), registers), len(self.variables))


class Jet:
    """A number on a tape."""

    __slots__ = ("register", "tape")

    def __init__(self, tape: Tape, register: int) -> None:
        self.tape, self.register = tape, register

    def __add__(self, other: Jet | float) -> Jet:
        if isinstance(other, Jet):
            return self.tape.append(OP_LINEAR, self.register, other.register, (0.0, 1.0, 1.0))
        return self.tape.append(OP_LINEAR, self.register, self.register, (float(other), 1.0, 0.0))

    def __mul__(self, other: Jet | float) -> Jet:
        if isinstance(other, Jet):
            return self.tape.append(OP_PRODUCT, self.register, other.register)
        return self.tape.append(OP_LINEAR, self.register, self.register, (0.0, float(other), 0.0))

    def __sub__(self, other: Jet | float) -> Jet:
        if isinstance(other, Jet):
            return self.tape.append(OP_LINEAR, self.register, other.register, (0.0, 1.0, -1.0))
        return self + (-other)

    def __neg__(self) -> Jet:
        return self * -1.0

    __radd__, __rmul__ = __add__, __mul__

    def root(self) -> Jet:
        """Square root."""
        return self.tape.append(OP_ROOT, self.register, self.register)

    def positive_root(self, rounding: float) -> Jet:
        r"""Square root of the positive part, with a round corner: :math:`\sqrt{(x + \sqrt{x^2 + \epsilon})/2}`."""
        return self.tape.append(OP_POSITIVE_ROOT, self.register, self.register, (rounding, 0.0, 0.0))

    def reciprocal(self) -> Jet:
        """One over it."""
        return self.tape.append(OP_RECIPROCAL, self.register, self.register)

    def sine(self) -> Jet:
        """Sine of an angle [rad]."""
        return self.tape.append(OP_SINE, self.register, self.register)

    def cosine(self) -> Jet:
        """Cosine of an angle [rad]."""
        return self.tape.append(OP_COSINE, self.register, self.register)


Vector = NDArray[np.object_]  # (3,) jets: sums, and products with a jet or a number, are those of numpy
Columns = list[Vector]  # a matrix of jets: where each of three axes goes


class JetFunction:
    """A finished tape."""

    def __init__(self, tape: TapeArrays, num_variables: int) -> None:
        self._tape, self.num_outputs, self.num_variables = tape, len(tape.outputs), num_variables

    def __call__(
        self, z: FloatArray, data: FloatArray, nodes: IntArray | None = None, out: FloatArray | None = None
    ) -> FloatArray:
        """Jets ``(F, R, 3, 1 + V)`` for variables ``z (F, 3, V)`` and data ``(F, C)``, at ``nodes`` or at all.

        An ``out`` with one column is filled without gradients.
        """
        chosen = np.arange(len(z)) if nodes is None else nodes
        jets = np.zeros((len(z), self.num_outputs, 3, 1 + self.num_variables)) if out is None else out
        replay_tape(self._tape, np.ascontiguousarray(z), np.ascontiguousarray(data), chosen, jets)
        return jets

    def replace_rounding(self, rounding: float) -> JetFunction:
        """The same function with another corner of its positive roots."""
        numbers = self._tape.numbers.copy()
        numbers[self._tape.ops[:, 0] == OP_POSITIVE_ROOT, 0] = rounding
        return JetFunction(self._tape._replace(numbers=numbers), self.num_variables)


def angle_of_vector(y: Jet, x: Jet) -> Jet:
    """``atan2(y, x)`` [rad]."""
    return y.tape.append(OP_ANGLE, y.register, x.register)


def weight_jets(weights: FloatArray, terms: Vector | Sequence[Jet]) -> Jet:
    """Sum of jets times constants; terms of weight zero are left out."""
    kept = [float(w) * term for w, term in zip(weights, terms, strict=True) if w != 0.0]
    return reduce(add, kept) if kept else terms[0] * 0.0


def dot(a: Vector, b: Vector) -> Jet:
    """Inner product."""
    return reduce(add, a * b)


def cross(a: Vector, b: Vector) -> Vector:
    """Vector product."""
    ahead, back = [1, 2, 0], [2, 0, 1]
    return a[ahead] * b[back] - a[back] * b[ahead]


def normalise(a: Vector) -> Vector:
    """Vector divided by its length."""
    return a * dot(a, a).root().reciprocal()


def matrix_times_constant(columns: Columns, vector: FloatArray) -> Vector:
    """Matrix of jets times a constant vector."""
    return np.array([weight_jets(vector, [column[i] for column in columns]) for i in range(3)])


def matrix_times_matrix(columns: Columns, matrix: FloatArray) -> Columns:
    """Matrix of jets times a constant matrix."""
    return [matrix_times_constant(columns, matrix[:, j]) for j in range(3)]


def rotate_columns(columns: Columns, axis: FloatArray, turn: Jet) -> Columns:
    r"""Matrix of jets times the rotation about a constant axis.

    .. math:: R v = v\cos\theta + (a \times v)\sin\theta + a\,(a \cdot v)(1 - \cos\theta)
    """
    c, s = turn.cosine(), turn.sine()
    result: Columns = []
    for j, e in enumerate(np.eye(3)):
        still = axis * axis[j]
        moved = matrix_times_constant(columns, e - still)
        column = moved * c + matrix_times_constant(columns, np.cross(axis, e)) * s
        result.append(column + matrix_times_constant(columns, still) if axis[j] != 0.0 else column)
    return result


def solve_euler_angles(axes: FloatArray, columns: Columns) -> tuple[Jet, Jet, Jet]:
    """Angles of successive turns about orthonormal ``axes`` (rows a, b, c) that make a rotation; the second is acute.

    With ``h = a . (b x c)``: ``R = Rot(a, u) Rot(b, v) Rot(c, w)`` has ``a.Rc = h sin v``, ``b.Rc = -h sin u cos v``,
    ``c.Rc = cos u cos v``, ``a.Rb = -h cos v sin w`` and ``a.Ra = cos v cos w``.
    """
    a, b, c = axes
    hand = float(a @ np.cross(b, c))
    to_a, to_b, to_c = (matrix_times_constant(columns, axis) for axis in axes)
    aa, ab, ac = weight_jets(a, to_a), weight_jets(a, to_b), weight_jets(a, to_c)
    bc, cc = weight_jets(b, to_c), weight_jets(c, to_c)
    level = (aa * aa + ab * ab).root()
    return angle_of_vector(-hand * bc, cc), angle_of_vector(hand * ac, level), angle_of_vector(-hand * ab, aa)
