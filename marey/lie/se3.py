"""Batches of rigid motions: a rotation and a translation each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen
from marey.lie.calculus import (
    hat,
    left_jacobian,
    left_jacobian_inverse,
    lower_blocks,
    twist_jacobian,
    twist_jacobian_inverse,
)
from marey.lie.so3 import SO3, check_vectors, row_index


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SE3:
    """A batch of rigid motions; ``T_a_b`` maps coordinates in frame b to coordinates in frame a.

    ``T_a_b @ T_b_c`` composes and ``T_a_b @ points_b`` maps points ``(..., 3)``; batches broadcast. Twists are
    ``(angular, linear)`` [rad, m], body-fixed.
    """

    rotation: SO3  # batch (...)
    translation: FloatArray  # (..., 3) [m]

    def __post_init__(self) -> None:
        translation = frozen(self.translation, name="translation")
        if translation.ndim == 0 or translation.shape[-1] != 3:
            raise InputError(f"translation has shape {translation.shape}, expected (..., 3)")
        try:
            shape = np.broadcast_shapes(self.rotation.shape, translation.shape[:-1])
        except ValueError:
            batches = f"{self.rotation.shape} and {translation.shape[:-1]}"
            raise InputError(f"rotation and translation have batches {batches}") from None
        if self.rotation.shape != shape:
            object.__setattr__(self, "rotation", SO3(np.broadcast_to(self.rotation.wxyz, (*shape, 4))))
        if translation.shape[:-1] != shape:
            translation = frozen(np.broadcast_to(translation, (*shape, 3)), name="translation")
        object.__setattr__(self, "translation", translation)

    @classmethod
    def identity(cls, *shape: int) -> SE3:
        """Return a batch of motions by nothing."""
        return cls(SO3.identity(*shape), np.zeros((*shape, 3)))

    @classmethod
    def exp(cls, twists: ArrayLike) -> SE3:
        r"""Screw motion of twists ``(..., 6)``: :math:`\exp(\omega, v) = (\exp\omega,\ J_l(\omega)\,v)`."""
        twist = check_vectors(twists, 6, name="twists")
        return cls(SO3.exp(twist[..., :3]), _apply(left_jacobian(twist[..., :3]), twist[..., 3:]))

    @classmethod
    def from_matrix(cls, matrices: ArrayLike) -> SE3:
        """Convert homogeneous matrices ``(..., 4, 4)``, last row ``(0, 0, 0, 1)``."""
        m = frozen(matrices, name="matrices")
        if m.ndim < 2 or m.shape[-2:] != (4, 4):
            raise InputError(f"matrices have shape {m.shape}, expected (..., 4, 4)")
        if np.any(m[..., 3, :] != np.array([0.0, 0.0, 0.0, 1.0])):
            raise InputError("the last row of a homogeneous matrix is not (0, 0, 0, 1)", "Did you pass its transpose?")
        return cls(SO3.from_matrix(m[..., :3, :3]), m[..., :3, 3])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the batch."""
        return self.rotation.shape

    def log(self) -> FloatArray:
        r"""Twists ``(..., 6)``: :math:`(\omega,\ J_l(\omega)^{-1}\,t)` with :math:`\omega = \log R`."""
        angular = self.rotation.log()
        return np.concatenate([angular, _apply(left_jacobian_inverse(angular), self.translation)], axis=-1)

    def inverse(self) -> SE3:
        r"""Return the motions undone: :math:`(R^{-1}, -R^{-1} t)`."""
        back = self.rotation.inverse()
        return SE3(back, -(back @ self.translation))

    def matrix(self) -> FloatArray:
        """Return homogeneous matrices ``(..., 4, 4)``."""
        out = np.zeros((*self.shape, 4, 4))
        out[..., :3, :3] = self.rotation.matrix()
        out[..., :3, 3] = self.translation
        out[..., 3, 3] = 1.0
        return out

    def adjoint(self) -> FloatArray:
        r"""Matrices ``(..., 6, 6)`` that carry body twists to outer ones.

        .. math:: \mathrm{Ad} = \begin{pmatrix} R & 0 \\ \hat t R & R \end{pmatrix}, \qquad
            T \exp(\xi)\, T^{-1} = \exp(\mathrm{Ad}\,\xi)
        """
        R = self.rotation.matrix()
        return lower_blocks(R, hat(self.translation) @ R)

    def interpolate(self, other: SE3, t: ArrayLike) -> SE3:
        r"""Go the part ``t`` of the screw motion to ``other``: :math:`T_0 \exp(t \log(T_0^{-1} T_1))`."""
        part = check_vectors(np.asarray(t, dtype=np.float64)[..., None], 1, name="t")
        return self @ SE3.exp(part * (self.inverse() @ other).log())

    @staticmethod
    def left_jacobian(twists: ArrayLike) -> FloatArray:
        """Left Jacobian ``(..., 6, 6)`` of the exponential: outer velocity of a changing twist."""
        return twist_jacobian(check_vectors(twists, 6, name="twists"))

    @staticmethod
    def left_jacobian_inverse(twists: ArrayLike) -> FloatArray:
        """Inverse of :meth:`left_jacobian`; it exists below an angle of 2π."""
        return twist_jacobian_inverse(check_vectors(twists, 6, name="twists"))

    @staticmethod
    def right_jacobian(twists: ArrayLike) -> FloatArray:
        r"""Right Jacobian ``(..., 6, 6)``, :math:`J_r(\xi) = J_l(-\xi)`: body velocity of a changing twist."""
        return twist_jacobian(-check_vectors(twists, 6, name="twists"))

    @staticmethod
    def right_jacobian_inverse(twists: ArrayLike) -> FloatArray:
        """Inverse of :meth:`right_jacobian`."""
        return twist_jacobian_inverse(-check_vectors(twists, 6, name="twists"))

    @overload
    def __matmul__(self, other: SE3) -> SE3: ...
    @overload
    def __matmul__(self, other: FloatArray | Sequence[float]) -> FloatArray: ...
    def __matmul__(self, other: SE3 | FloatArray | Sequence[float]) -> SE3 | FloatArray:
        if isinstance(other, SE3):
            return SE3(self.rotation @ other.rotation, self.rotation @ other.translation + self.translation)
        return self.rotation @ other + self.translation

    def __getitem__(self, index: Any) -> SE3:
        return SE3(self.rotation[index], self.translation[row_index(index)])

    def __len__(self) -> int:
        return len(self.rotation)

    def __iter__(self) -> Iterator[SE3]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"SE3(batch {self.shape})"


def _apply(matrices: FloatArray, v: FloatArray) -> FloatArray:
    return np.einsum("...ij,...j->...i", matrices, v)
