"""Quantities along a motion with their derivatives by angles, speeds and accelerations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray, IntArray

_NEXT, _LAST = np.array([1, 2, 0]), np.array([2, 0, 1])


@dataclass(frozen=True, slots=True, eq=False)
class Jet:
    r"""Values :math:`y(q, \dot q, \ddot q)` at instants, and :math:`\partial y / \partial(q, \dot q, \ddot q)`."""

    value: FloatArray  # (n, m)
    partials: FloatArray  # (3, n, m, D) by q, qd, qdd

    def __add__(self, other: Jet | FloatArray) -> Jet:
        if isinstance(other, Jet):
            return Jet(self.value + other.value, self.partials + other.partials)
        return Jet(self.value + other, self.partials)

    def __sub__(self, other: Jet | FloatArray) -> Jet:
        if isinstance(other, Jet):
            return Jet(self.value - other.value, self.partials - other.partials)
        return Jet(self.value - other, self.partials)

    def __mul__(self, factor: float) -> Jet:
        return Jet(self.value * factor, self.partials * factor)

    def at(self, instants: IntArray) -> Jet:
        """Only some instants."""
        return Jet(self.value[instants], self.partials[:, instants])

    def columns(self, components: IntArray) -> Jet:
        """Only some components."""
        return Jet(self.value[:, components], self.partials[:, :, components])

    def mapped(self, matrix: FloatArray) -> Jet:
        """Apply a constant matrix ``(r, m)``."""
        return Jet(self.value @ matrix.T, matrix @ self.partials)

    def dotted(self, directions: FloatArray) -> Jet:
        """Component along a direction ``(n, m)`` of each instant."""
        value = np.einsum("ni,ni->n", directions, self.value)[:, None]
        return Jet(value, np.einsum("ni,pnid->pnd", directions, self.partials)[:, :, None])

    def cross(self, other: Jet) -> Jet:
        """Vector product of two jets of three components."""
        partials = skew(self.value) @ other.partials - skew(other.value) @ self.partials
        return Jet(cross(self.value, other.value), partials)

    @staticmethod
    def stack(jets: list[Jet]) -> Jet:
        """Components of several jets side by side."""
        return Jet(np.concatenate([j.value for j in jets], 1), np.concatenate([j.partials for j in jets], 2))


def cross(a: FloatArray, b: FloatArray) -> FloatArray:
    """Vector products of rows ``(n, 3)``, without the checks that make NumPy's slow on few of them."""
    return a[:, _NEXT] * b[:, _LAST] - a[:, _LAST] * b[:, _NEXT]


def skew(vectors: FloatArray) -> FloatArray:
    """Matrices ``(n, 3, 3)`` of the vector product with ``(n, 3)``."""
    matrices = np.zeros((*vectors.shape, 3))
    matrices[..., 0, 1], matrices[..., 0, 2] = -vectors[..., 2], vectors[..., 1]
    matrices[..., 1, 0], matrices[..., 1, 2] = vectors[..., 2], -vectors[..., 0]
    matrices[..., 2, 0], matrices[..., 2, 1] = -vectors[..., 1], vectors[..., 0]
    return matrices


def value_and_rates(J: FloatArray, Jd: FloatArray, Jdd: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Partials of a point's position, velocity and acceleration ``(3, n, m, D)`` each, from its Jacobian's rates.

    .. math:: \partial\ddot o = \ddot J\,\partial q + 2\dot J\,\partial\dot q + J\,\partial\ddot q
    """
    nothing = np.zeros_like(J)
    return np.stack([J, nothing, nothing]), np.stack([Jd, J, nothing]), np.stack([Jdd, 2.0 * Jd, J])
