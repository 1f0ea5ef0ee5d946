"""Pose models: what every one offers, the geodesic and the linear model, and their files.

A file holds every array of a model, bit for bit, in one `.safetensors` file that cannot run code.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Final, cast

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, MareyError, TensorFormat, Tensors, UnknownNameError, frozen
from marey.lie import SO3
from marey.models.projection import (
    EULER_LINEAR,
    GEODESIC_PRODUCT,
    LINEAR_TANGENT,
    LOG_LINEAR,
    ModelArrays,
    batch_jacobians,
    batch_rotations,
    project_poses,
)
from marey.models.samples import SPACES, check_body, root_from_triples, root_triples, to_chart
from marey.motion import Motion
from marey.skeleton import Pose, Skeleton


class PoseModel(ABC):
    r"""Few numbers for a whole pose: a smooth map from coordinates in :math:`R^k` to the rotations of all joints.

    A model covers the joints below the root, since where a body stands and faces says nothing about its pose
    ([Tournier2011]_ §8.2.1); the root's entry of :meth:`rotations` is the identity. Fitted models are made by settings
    such as ``PGA(explained=0.95).fit(walks)`` or by ``load_model(path)``.
    """

    __slots__ = ()

    skeleton: Skeleton
    explained: FloatArray  # (k,) share of the variance of the samples that each component carries, falling
    deviations: FloatArray  # (k,) standard deviation of each coordinate over the samples
    root_position: FloatArray  # (3,) [m] where the mean pose stands: above the origin, at the mean height
    rate_hz: float  # frames per second of the first clip of the fit

    @abstractmethod
    def arrays(self) -> ModelArrays:
        """Return the model as plain arrays for compiled loops; they cover the joints below the root."""

    @abstractmethod
    def encode(self, motion: Motion) -> FloatArray:
        """Coordinates ``(F, k)`` of the poses of the model that are nearest to those of a clip.

        Raises:
            InputError: the clip has another skeleton (sizes may differ, joints may not).
        """

    @abstractmethod
    def root_rotations(self, coordinates: ArrayLike) -> SO3:
        """Turn of the root, batch ``(...)``: the identity unless the model covers the root's orientation too."""

    @abstractmethod
    def truncate(self, count: int) -> PoseModel:
        """Return the model of the first ``count`` components."""

    @property
    def num_components(self) -> int:
        """How many coordinates a pose has."""
        return len(self.explained)

    @property
    def mean(self) -> Pose:
        """The pose whose coordinates are all zero."""
        zero = np.zeros(self.num_components)
        return Pose(self.skeleton, self.root_position, self._full_rotations(zero[None])[0])

    def rotations(self, coordinates: ArrayLike) -> SO3:
        """Local rotations, batch ``(..., J)``, of coordinates ``(..., k)``; the root's entry is the identity."""
        x = self._checked(coordinates)
        a = self.arrays()
        wxyz = batch_rotations(a.kind, a.mean_wxyz, a.basis, _flat(x))
        return SO3(wxyz.reshape(*x.shape[:-1], self.skeleton.num_joints, 4))

    def jacobian(self, coordinates: ArrayLike) -> FloatArray:
        r"""How each joint turns with each coordinate: ``(..., J, 3, k)`` for coordinates ``(..., k)``.

        Column i of joint j is the angular velocity of its local rotation in its own frame,
        :math:`r_j^{-1}\,\partial r_j / \partial x_i`, in :math:`O(kn)`; [Tournier2011]_ §8.2.2 with (8.12) corrected.
        """
        x = self._checked(coordinates)
        a = self.arrays()
        columns = batch_jacobians(a.kind, a.mean_wxyz, a.basis, _flat(x))
        return columns.reshape(*x.shape[:-1], *columns.shape[1:])

    def decode(
        self,
        coordinates: ArrayLike,
        *,
        root_positions: ArrayLike | None = None,
        root_rotations: SO3 | None = None,
        rate_hz: float | None = None,
        skeleton: Skeleton | None = None,
    ) -> Motion:
        """Make a clip of coordinates ``(F, k)``.

        Args:
            coordinates: one row a frame.
            root_positions: ``(F, 3)`` or ``(3,)`` [m]; where the mean pose stands by default.
            root_rotations: batch ``(F,)`` or ``()``; those of :meth:`root_rotations` by default.
            rate_hz: frames per second; those of the clips of the fit by default.
            skeleton: a body of other size with the same joints; the model's own by default.
        """
        x = np.atleast_2d(self._checked(coordinates))
        if x.ndim != 2:
            raise InputError(f"coordinates have shape {x.shape}, expected (F, {self.num_components})")
        # The root's own rotation and place, or those given
        body = self.skeleton if skeleton is None else check_body(self.skeleton, skeleton, "the skeleton")
        wxyz = np.array(self._full_rotations(x).wxyz)
        if root_rotations is not None:
            wxyz[:, 0] = _rows(root_rotations.wxyz, len(x), 4, "root_rotations")
        places = self.root_position if root_positions is None else np.asarray(root_positions, dtype=np.float64)
        rate = self.rate_hz if rate_hz is None else rate_hz
        return Motion(body, rate, _rows(places, len(x), 3, "root_positions"), SO3(wxyz), name="decoded")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a `.safetensors` file that ``load_model`` gives back bit for bit; the same model, the same bytes."""
        family = "geodesic" if isinstance(self, GeodesicModel) else "linear"
        arrays, settings = _OWN[family]
        skeleton = self.skeleton
        tensors: Tensors = {name: getattr(self, name) for name in (*_SHARED, *arrays)}
        tensors |= {"parents": skeleton.parents, "offsets": skeleton.offsets, "tips": skeleton.tips}
        if isinstance(self, GeodesicModel):
            tensors["centre"] = self.centre.wxyz
            if self.covectors is not None:
                tensors["covectors"] = self.covectors
        described = {name: getattr(self, name) for name in ("rate_hz", *settings)}
        described |= {"family": family, "skeleton": skeleton.name, "joints": list(skeleton.names)}
        MODEL_FILE.write(os.fspath(path), tensors, described)

    def _full_rotations(self, coordinates: FloatArray) -> SO3:
        """Local rotations ``(F, J)`` with the root's own entry."""
        wxyz = np.array(self.rotations(coordinates).wxyz)
        wxyz[:, 0] = self.root_rotations(coordinates).wxyz
        return SO3(wxyz)

    def _count_to_keep(self, count: int) -> int:
        if not 0 <= count <= self.num_components:
            raise InputError(f"{count} components of a model of {self.num_components}", "Ask for no more than it has")
        return count

    def _checked(self, coordinates: ArrayLike) -> FloatArray:
        """Coordinates as float64 ``(..., k)``, all finite."""
        count = self.num_components
        x = np.ascontiguousarray(coordinates, dtype=np.float64)
        if x.ndim == 0 or x.shape[-1] != count:
            raise InputError(f"coordinates have shape {x.shape}, expected (..., {count})", f"The model has {count}")
        if not np.isfinite(x).all():
            where = tuple(int(i) for i in np.argwhere(~np.isfinite(x))[0])
            raise InputError(f"coordinates hold {x[where]} at index {where}", "Give finite numbers")
        return x


def _flat(x: FloatArray) -> FloatArray:
    rows = x.reshape(prod(x.shape[:-1]), x.shape[-1])[:]
    rows.setflags(write=False)  # so that each kernel is compiled for one kind of array
    return rows


def _rows(values: FloatArray, count: int, width: int, name: str) -> FloatArray:
    if values.shape not in ((width,), (1, width), (count, width)):
        raise InputError(f"{name} has shape {values.shape}, expected ({count}, {width})", "One row a frame, or one row")
    return np.broadcast_to(values, (count, width))


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
    basis: FloatArray
    """(J, 3, k) [rad]: sum_j metric_j B_j^T B_j is the identity (of deflation: has a diagonal of ones); the root's rows
    are zero"""
    metric: FloatArray  # (J,) squared weight of each joint in the distance between poses
    explained: FloatArray
    deviations: FloatArray
    root_position: FloatArray
    rate_hz: float
    kind: str = "first"
    projection: str = "linear"  # default projection of `encode`
    covectors: FloatArray | None = None  # (J, 3, k) that measure tangents along the basis; None: metric times basis
    _arrays: ModelArrays = field(init=False)

    def __post_init__(self) -> None:
        joints, count = self.skeleton.num_joints, len(self.explained)
        if self.covectors is not None:
            object.__setattr__(self, "covectors", frozen(self.covectors, joints, 3, count, name="covectors"))
        check_name("kind", self.kind, KINDS)
        check_name("projection", self.projection, PROJECTIONS)
        shapes = {"basis": (joints, 3, count), "metric": (joints,), "root_position": (3,)}
        for name, shape in (*shapes.items(), ("explained", (count,)), ("deviations", (count,))):
            object.__setattr__(self, name, frozen(getattr(self, name), *shape, name=name))
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
        wxyz = motion.rotations.wxyz
        return project_poses(self._arrays, self.metric, wxyz, self.covectors, is_exact=chosen == "exact")

    def root_rotations(self, coordinates: ArrayLike) -> SO3:
        """Return the identity: the root stands outside this model."""
        return SO3.identity(*self._checked(coordinates).shape[:-1])

    def truncate(self, count: int) -> GeodesicModel:
        """Return the model of the first ``count`` geodesics."""
        k = self._count_to_keep(count)
        covectors = None if self.covectors is None else self.covectors[..., :k]
        return replace(
            self,
            basis=self.basis[..., :k],
            explained=self.explained[:k],
            deviations=self.deviations[:k],
            covectors=covectors,
        )

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
        triples, counted = ("centre", "reference"), ("explained", "deviations")
        shapes = dict.fromkeys(triples, (joints, 3)) | dict.fromkeys(counted, (count,))
        for name, shape in (*shapes.items(), ("full_basis", (joints, 3, count)), ("root_position", (3,))):
            object.__setattr__(self, name, frozen(getattr(self, name), *shape, name=name))
        # The arrays of compiled loops leave the root out
        centre, basis = np.zeros((joints, 4)), self.full_basis.copy()
        centre[1:, 1:] = self.centre[1:]
        basis[0] = 0.0
        code = EULER_LINEAR if self.space == "euler" else LOG_LINEAR
        arrays = ModelArrays(code, frozen(centre, name="centre"), frozen(basis, name="basis"))
        object.__setattr__(self, "_arrays", arrays)

    def arrays(self) -> ModelArrays:
        """Return the centre and the directions of the joints below the root."""
        return self._arrays

    def angles(self, motion: Motion) -> FloatArray:
        """Angles ``(F, J, 3)`` [rad] of a clip in this space, those nearest to the reference."""
        check_body(self.skeleton, motion.skeleton, f"the clip '{motion.name}'")
        angles = to_chart(self.space, motion.rotations, self.reference)
        angles[:, 0] = root_triples(motion) if self.covers_root else 0.0
        return angles

    def encode(self, motion: Motion) -> FloatArray:
        r"""Coordinates ``(F, k)``: :math:`B^T(Q - Q_m)`."""
        return np.einsum("jck,fjc->fk", self.full_basis, self.angles(motion) - self.centre)

    def root_rotations(self, coordinates: ArrayLike) -> SO3:
        """Turn of the root, batch ``(...)``, for a body that faces +Z when its yaw is zero."""
        return root_from_triples(self.centre[0] + self._checked(coordinates) @ self.full_basis[0].T)

    def truncate(self, count: int) -> LinearModel:
        """Return the model of the first ``count`` components."""
        k = self._count_to_keep(count)
        basis, shares = self.full_basis[..., :k], self.explained[:k]
        return replace(self, full_basis=basis, explained=shares, deviations=self.deviations[:k])

    def __repr__(self) -> str:
        share = float(np.sum(self.explained))
        return f"LinearModel({self.num_components} components, {100 * share:.1f} %, {self.space} angles)"


MODEL_FILE: Final = TensorFormat(
    "marey-pose-model", "pose model", 1, "Fit and save the model again.", version_key="model_version"
)


_SHARED: Final = ("explained", "deviations", "root_position")
_OWN: Final = {
    "geodesic": (("basis", "metric"), ("kind", "projection")),
    "linear": (("centre", "full_basis", "reference"), ("space", "covers_root", "residual_variance")),
}


def load_model(path: str | os.PathLike[str]) -> PoseModel:
    """Read a model written by ``PoseModel.save``, of this or any earlier version.

    Raises:
        MissingFileError: there is no such file.
        FormatError: the file is damaged, holds something else, or was written by a newer marey.
    """
    tensors, described = MODEL_FILE.read(os.fspath(path))
    try:
        # Every array is float64, as it was written
        family = str(described["family"])
        arrays, settings = _OWN[family]
        for name in (*_SHARED, *arrays, "centre", "offsets", "tips"):
            if tensors[name].dtype != np.float64:
                raise InputError(f"tensor '{name}' holds {tensors[name].dtype}, expected float64")
        joints = tuple(str(name) for name in cast(list[Any], described["joints"]))
        name = str(described["skeleton"])
        skeleton = Skeleton(joints, tensors["parents"], tensors["offsets"], tensors["tips"], name=name)
        parts: dict[str, Any] = {name: tensors[name] for name in (*_SHARED, *arrays)}
        parts |= {name: described[name] for name in settings}
        parts |= {"skeleton": skeleton, "rate_hz": float(described["rate_hz"])}
        if family == "linear":
            return LinearModel(**parts)
        return GeodesicModel(**parts, centre=SO3(tensors["centre"]), covectors=tensors.get("covectors"))
    except (MareyError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise MODEL_FILE.damage_error(os.fspath(path), error) from error
