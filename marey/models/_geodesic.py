"""The model that principal geodesic analysis gives."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, UnknownNameError, frozen
from marey.lie import SO3
from marey.models._arrays import GEODESIC_PRODUCT, LINEAR_TANGENT, ModelArrays
from marey.models._bodies import check_body
from marey.models._contract import PoseModel
from marey.motion import Motion
from marey.skeleton import Skeleton

KINDS = ("first", "second")
PROJECTIONS = ("linear", "exact")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GeodesicModel(PoseModel):
    r"""Principal geodesics through a mean pose, in canonical coordinates of the first or second kind.

    .. math:: f_1(x) = \mu \exp\Big(\sum_i x_i v_i\Big), \qquad f_2(x) = \mu \prod_i \exp(x_i v_i)

    [Tournier2011]_ §8.2.1.
    """

    skeleton: Skeleton
    centre: SO3  # batch (J,): the mean; the root's entry is the identity
    basis: FloatArray  # (J, 3, k) [rad]: sum_j metric_j B_j^T B_j is the identity; the root's rows are zero
    metric: FloatArray  # (J,) squared weight of each joint in the distance between poses
    explained: FloatArray
    deviations: FloatArray
    root_position: FloatArray
    rate_hz: float
    kind: str = "first"
    projection: str = "linear"  # how `encode` projects unless told
    _arrays: ModelArrays = field(init=False)

    def __post_init__(self) -> None:
        joints, count = self.skeleton.num_joints, len(self.explained)
        check_name("kind", self.kind, KINDS)
        check_name("projection", self.projection, PROJECTIONS)
        for name, shape in (("basis", (joints, 3, count)), ("metric", (joints,)), ("explained", (count,))):
            object.__setattr__(self, name, frozen(getattr(self, name), *shape, name=name))
        object.__setattr__(self, "deviations", frozen(self.deviations, count, name="deviations"))
        object.__setattr__(self, "root_position", frozen(self.root_position, 3, name="root_position"))
        code = LINEAR_TANGENT if self.kind == "first" else GEODESIC_PRODUCT
        object.__setattr__(self, "_arrays", ModelArrays(code, self.centre.wxyz, self.basis))

    def arrays(self) -> ModelArrays:
        """Return the mean and the principal directions."""
        return self._arrays

    def encode(self, motion: Motion, *, projection: str | None = None) -> FloatArray:
        r"""Coordinates ``(F, k)`` of a clip.

        Args:
            motion: a clip with the joints of the model.
            projection: ``"linear"`` takes :math:`x_i = \langle v_i, \log(\mu^{-1} q)\rangle` (for the second kind, one
                geodesic after the other); ``"exact"`` goes on from there to the nearest pose of the model, by
                Gauss-Newton steps on the geodesic distance. The model's own by default.
        """
        chosen = check_name("projection", projection or self.projection, PROJECTIONS)
        check_body(self.skeleton, motion.skeleton, f"the clip '{motion.name}'")
        from marey.models._projection import project_poses

        return project_poses(self._arrays, self.metric, motion.rotations.wxyz, is_exact=chosen == "exact")

    def root_rotations(self, coordinates: ArrayLike) -> SO3:
        """Return the identity: the root stands outside this model."""
        return SO3.identity(*self._checked(coordinates).shape[:-1])

    def truncate(self, count: int) -> GeodesicModel:
        """Return the model of the first ``count`` geodesics."""
        k = self._count_to_keep(count)
        basis, shares = self.basis[..., :k], self.explained[:k]
        return replace(self, basis=basis, explained=shares, deviations=self.deviations[:k])

    def __repr__(self) -> str:
        share = float(np.sum(self.explained))
        return f"GeodesicModel({self.num_components} geodesics, {100 * share:.1f} %, {self.kind} kind)"


def check_name(kind: str, name: str, known: tuple[str, ...]) -> str:
    """Return a name that is known.

    Raises:
        UnknownNameError: it is not.
    """
    if name not in known:
        raise UnknownNameError(kind, name, "marey.models", known)
    return name
