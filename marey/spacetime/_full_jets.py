"""Quantities along a motion with their derivatives by angles, speeds and accelerations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray, IntArray

_NEXT_AXIS, _LAST_AXIS = np.array([1, 2, 0]), np.array([2, 0, 1])


@dataclass(frozen=True, slots=True, eq=False)
class StateJet:
    r"""Values :math:`y(q, \dot q, \ddot q)` at instants, and :math:`\partial y / \partial(q, \dot q, \ddot q)`."""

    value: FloatArray  # (n, m)
    partials: FloatArray  # (3, n, m, D) by q, qd, qdd

    def __add__(self, other: StateJet | FloatArray) -> StateJet:
        if isinstance(other, StateJet):
            return StateJet(self.value + other.value, self.partials + other.partials)
        return StateJet(self.value + other, self.partials)

    def __sub__(self, other: StateJet | FloatArray) -> StateJet:
        if isinstance(other, StateJet):
            return StateJet(self.value - other.value, self.partials - other.partials)
        return StateJet(self.value - other, self.partials)

    def __mul__(self, factor: float) -> StateJet:
        return StateJet(self.value * factor, self.partials * factor)

    def at(self, instants: IntArray) -> StateJet:
        """Only some instants."""
        return StateJet(self.value[instants], self.partials[:, instants])

    def columns(self, components: IntArray) -> StateJet:
        """Only some components."""
        return StateJet(self.value[:, components], self.partials[:, :, components])

    def apply_matrix(self, matrix: FloatArray) -> StateJet:
        """Apply a constant matrix ``(r, m)``."""
        return StateJet(self.value @ matrix.T, matrix @ self.partials)

    def component_along(self, directions: FloatArray) -> StateJet:
        """Component along a direction ``(n, m)`` of each instant."""
        value = np.einsum("ni,ni->n", directions, self.value)[:, None]
        return StateJet(value, np.einsum("ni,pnid->pnd", directions, self.partials)[:, :, None])

    def cross(self, other: StateJet) -> StateJet:
        """Vector product of two jets of three components."""
        partials = skew_matrices(self.value) @ other.partials - skew_matrices(other.value) @ self.partials
        return StateJet(cross_rows(self.value, other.value), partials)

    @staticmethod
    def stack(jets: list[StateJet]) -> StateJet:
        """Components of several jets side by side."""
        return StateJet(np.concatenate([j.value for j in jets], 1), np.concatenate([j.partials for j in jets], 2))


def cross_rows(a: FloatArray, b: FloatArray) -> FloatArray:
    """Vector products of rows ``(n, 3)``, without the checks that make NumPy's slow on few of them."""
    return a[:, _NEXT_AXIS] * b[:, _LAST_AXIS] - a[:, _LAST_AXIS] * b[:, _NEXT_AXIS]


def skew_matrices(vectors: FloatArray) -> FloatArray:
    """Matrices ``(n, 3, 3)`` of the vector product with ``(n, 3)``."""
    matrices = np.zeros((*vectors.shape, 3))
    matrices[..., 0, 1], matrices[..., 0, 2] = -vectors[..., 2], vectors[..., 1]
    matrices[..., 1, 0], matrices[..., 1, 2] = vectors[..., 2], -vectors[..., 0]
    matrices[..., 2, 0], matrices[..., 2, 1] = -vectors[..., 1], vectors[..., 0]
    return matrices


def point_partials(J: FloatArray, Jd: FloatArray, Jdd: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Partials of a point's position, velocity and acceleration ``(3, n, m, D)`` each, from its Jacobian's rates.

    .. math:: \partial\ddot o = \ddot J\,\partial q + 2\dot J\,\partial\dot q + J\,\partial\ddot q
    """
    nothing = np.zeros_like(J)
    return np.stack([J, nothing, nothing]), np.stack([Jd, J, nothing]), np.stack([Jdd, 2.0 * Jd, J])
