"""Numbers that carry their first two time derivatives and the gradients of all three, recorded once and replayed.

A jet is an array ``(3, 1 + V)``: row ``k`` is the time derivative of order ``k``, column 0 its value and the other
columns its derivative with respect to ``V`` variables. Time derivatives and gradients commute, so that the derivative
of ``d/dt f(z)`` by ``z`` is the time derivative of ``df/dz``: one pass over a tape of operations gives ``G = df/dz``,
``dG/dt`` and ``d2G/dt2`` exactly, which is all that the motion of ``q = f(z(t))`` needs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from marey.base import FloatArray, IntArray

LINEAR, PRODUCT, ROOT, RECIPROCAL, SINE, COSINE, ANGLE, POSITIVE_ROOT = range(8)


class Tape:
    """Operations in the order in which they were written down."""

    def __init__(self, num_variables: int, num_data: int) -> None:
        self.num_variables, self.num_data = num_variables, num_data
        self._ops: list[tuple[int, int, int]] = []
        self._numbers: list[tuple[float, float, float]] = []

    def variables(self) -> list[Jet]:
        """Jets of what moves."""
        return [Jet(self, i) for i in range(self.num_variables)]

    def data(self) -> list[Jet]:
        """Jets of what differs between nodes and does not move."""
        return [Jet(self, self.num_variables + i) for i in range(self.num_data)]

    def append(self, code: int, a: int, b: int, numbers: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Jet:
        """Write an operation down and return its result."""
        self._ops.append((code, a, b))
        self._numbers.append(numbers)
        return Jet(self, self.num_variables + self.num_data + len(self._ops) - 1)

    def finish(self, outputs: Sequence[Jet]) -> JetFunction:
        """Return the function that gives these outputs."""
        registers = np.array([jet.register for jet in outputs], dtype=np.int64)
        ops = np.array(self._ops, dtype=np.int64).reshape(-1, 3)
        return JetFunction(ops, np.array(self._numbers).reshape(-1, 3), registers, self.num_variables)


class Jet:
    """A number on a tape."""

    __slots__ = ("register", "tape")

    def __init__(self, tape: Tape, register: int) -> None:
        self.tape, self.register = tape, register

    def __add__(self, other: Jet | float) -> Jet:
        if isinstance(other, Jet):
            return self.tape.append(LINEAR, self.register, other.register, (0.0, 1.0, 1.0))
        return self.tape.append(LINEAR, self.register, self.register, (float(other), 1.0, 0.0))

    def __mul__(self, other: Jet | float) -> Jet:
        if isinstance(other, Jet):
            return self.tape.append(PRODUCT, self.register, other.register)
        return self.tape.append(LINEAR, self.register, self.register, (0.0, float(other), 0.0))

    def __sub__(self, other: Jet | float) -> Jet:
        if isinstance(other, Jet):
            return self.tape.append(LINEAR, self.register, other.register, (0.0, 1.0, -1.0))
        return self + (-other)

    def __neg__(self) -> Jet:
        return self * -1.0

    __radd__, __rmul__ = __add__, __mul__

    def root(self) -> Jet:
        """Square root."""
        return self.tape.append(ROOT, self.register, self.register)

    def positive_root(self, rounding: float) -> Jet:
        r"""Square root of the positive part, with a round corner: :math:`\sqrt{(x + \sqrt{x^2 + \epsilon})/2}`."""
        return self.tape.append(POSITIVE_ROOT, self.register, self.register, (rounding, 0.0, 0.0))

    def reciprocal(self) -> Jet:
        """One over it."""
        return self.tape.append(RECIPROCAL, self.register, self.register)

    def sine(self) -> Jet:
        """Sine of an angle [rad]."""
        return self.tape.append(SINE, self.register, self.register)

    def cosine(self) -> Jet:
        """Cosine of an angle [rad]."""
        return self.tape.append(COSINE, self.register, self.register)


Vector = list[Jet]
Columns = list[Vector]  # a matrix of jets: where each of three axes goes


class JetFunction:
    """A finished tape."""

    def __init__(self, ops: IntArray, numbers: FloatArray, outputs: IntArray, num_variables: int) -> None:
        self._tape = (ops, numbers, outputs)
        self.num_outputs, self.num_variables = len(outputs), num_variables

    def __call__(
        self, z: FloatArray, data: FloatArray, nodes: IntArray | None = None, out: FloatArray | None = None
    ) -> FloatArray:
        """Jets ``(F, R, 3, 1 + V)`` for variables ``z (F, 3, V)`` and data ``(F, C)``, at ``nodes`` or at all.

        An ``out`` with one column is filled without gradients.
        """
        from marey.spacetime._jets_kernels import replay_tape

        chosen = np.arange(len(z)) if nodes is None else nodes
        jets = np.zeros((len(z), self.num_outputs, 3, 1 + self.num_variables)) if out is None else out
        replay_tape(*self._tape, np.ascontiguousarray(z), np.ascontiguousarray(data), chosen, jets)
        return jets


def angle_of_vector(y: Jet, x: Jet) -> Jet:
    """``atan2(y, x)`` [rad]."""
    return y.tape.append(ANGLE, y.register, x.register)


def sum_jets(terms: Sequence[Jet]) -> Jet:
    """Sum of jets."""
    result = terms[0]
    for term in terms[1:]:
        result = result + term
    return result


def weight_jets(weights: FloatArray, terms: Sequence[Jet]) -> Jet:
    """Sum of jets times constants; terms of weight zero are left out."""
    kept = [float(w) * term for w, term in zip(weights, terms, strict=True) if w != 0.0]
    return sum_jets(kept) if kept else terms[0] * 0.0


def dot(a: Vector, b: Vector) -> Jet:
    """Inner product."""
    return sum_jets([x * y for x, y in zip(a, b, strict=True)])


def cross(a: Vector, b: Vector) -> Vector:
    """Vector product."""
    return [a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3] for i in range(3)]


def scale_vector(a: Vector, factor: Jet) -> Vector:
    """Vector times a number."""
    return [x * factor for x in a]


def scale_vector_constant(a: Vector, factor: float) -> Vector:
    """Vector times a constant."""
    return [x * factor for x in a]


def add_vectors(a: Vector, b: Vector) -> Vector:
    """Sum of two vectors."""
    return [x + y for x, y in zip(a, b, strict=True)]


def normalise(a: Vector) -> Vector:
    """Vector divided by its length."""
    return scale_vector(a, dot(a, a).root().reciprocal())


def matrix_times_constant(columns: Columns, vector: FloatArray) -> Vector:
    """Matrix of jets times a constant vector."""
    return [weight_jets(vector, [column[i] for column in columns]) for i in range(3)]


def matrix_times_vector(columns: Columns, vector: Vector) -> Vector:
    """Matrix of jets times a vector of jets."""
    return [sum_jets([column[i] * x for column, x in zip(columns, vector, strict=True)]) for i in range(3)]


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
        column = add_vectors(scale_vector(moved, c), scale_vector(matrix_times_constant(columns, np.cross(axis, e)), s))
        result.append(add_vectors(column, matrix_times_constant(columns, still)) if axis[j] != 0.0 else column)
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
