"""The model that principal component analysis of angles gives."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, frozen
from marey.lie import SO3
from marey.models._arrays import EULER_LINEAR, LOG_LINEAR, ModelArrays
from marey.models._bodies import check_body
from marey.models._charts import SPACES, to_chart
from marey.models._contract import PoseModel
from marey.models._facing import root_from_triples, root_jacobian, root_triples
from marey.models._geodesic import check_name
from marey.motion import Motion
from marey.skeleton import Skeleton


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LinearModel(PoseModel):
    r"""A flat space of angles: :math:`Q = Q_m + B x`, (3.1) of [Safonova2006]_.

    The angles are rotation vectors or Euler angles of the joints below the root and, if the model covers it, the tilt
    and yaw of the root after the clip was turned to face +Z.
    """

    skeleton: Skeleton
    space: str  # "exponential" or "euler"
    centre: FloatArray  # (J, 3) [rad]; the root's row is its tilt, yaw, tilt, zero unless covered
    full_basis: FloatArray  # (J, 3, k) orthonormal over all rows; the root's row is zero unless covered
    reference: FloatArray  # (J, 3) [rad] of the triples of a rotation, the one nearest to this is meant
    covers_root: bool
    explained: FloatArray
    deviations: FloatArray
    residual_variance: float  # [rad^2] mean variance of an angle outside the space, for priors
    root_position: FloatArray
    rate_hz: float
    _arrays: ModelArrays = field(init=False)

    def __post_init__(self) -> None:
        joints, count = self.skeleton.num_joints, len(self.explained)
        check_name("space", self.space, SPACES)
        shapes = {
            "centre": (joints, 3),
            "reference": (joints, 3),
            "full_basis": (joints, 3, count),
            "explained": (count,),
        }
        shapes |= {"deviations": (count,), "root_position": (3,)}
        for name, shape in shapes.items():
            object.__setattr__(self, name, frozen(getattr(self, name), *shape, name=name))
        object.__setattr__(self, "_arrays", self._below_root())

    def _below_root(self) -> ModelArrays:
        centre = np.zeros((len(self.centre), 4))
        centre[1:, 1:] = self.centre[1:]
        basis = self.full_basis.copy()
        basis[0] = 0.0
        code = EULER_LINEAR if self.space == "euler" else LOG_LINEAR
        return ModelArrays(code, frozen(centre, name="centre"), frozen(basis, name="basis"))

    def arrays(self) -> ModelArrays:
        """Return the centre and the directions of the joints below the root."""
        return self._arrays

    def angles(self, motion: Motion) -> FloatArray:
        """Angles ``(F, J, 3)`` [rad] of a clip in this space, those nearest to the reference."""
        check_body(self.skeleton, motion.skeleton, f"the clip '{motion.name}'")
        angles = to_chart(self.space, motion.rotations, self.reference)
        angles[:, 0] = root_triples(motion) if self.covers_root else 0.0
        return angles

    def angles_at(self, coordinates: ArrayLike) -> FloatArray:
        """Angles ``(..., J, 3)`` [rad] of coordinates ``(..., k)``."""
        return self.centre + np.einsum("jck,...k->...jc", self.full_basis, self._checked(coordinates))

    def encode(self, motion: Motion) -> FloatArray:
        r"""Coordinates ``(F, k)``: :math:`B^T(Q - Q_m)`."""
        return np.einsum("jck,fjc->fk", self.full_basis, self.angles(motion) - self.centre)

    def root_rotations(self, coordinates: ArrayLike) -> SO3:
        """Turn of the root, batch ``(...)``, for a body that faces +Z when its yaw is zero."""
        return root_from_triples(self._root_triples(coordinates))

    def root_jacobian(self, coordinates: ArrayLike) -> FloatArray:
        """How the root turns with each coordinate, in its own frame: ``(..., 3, k)``; zero unless it is covered."""
        return root_jacobian(self._root_triples(coordinates)) @ self.full_basis[0]

    def truncate(self, count: int) -> LinearModel:
        """Return the model of the first ``count`` components."""
        k = self._count_to_keep(count)
        basis, shares = self.full_basis[..., :k], self.explained[:k]
        return replace(self, full_basis=basis, explained=shares, deviations=self.deviations[:k])

    def _root_triples(self, coordinates: ArrayLike) -> FloatArray:
        return self.centre[0] + self._checked(coordinates) @ self.full_basis[0].T

    def __repr__(self) -> str:
        share = float(np.sum(self.explained))
        return f"LinearModel({self.num_components} components, {100 * share:.1f} %, {self.space} angles)"
