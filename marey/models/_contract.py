"""What every pose model offers, and what it is made of."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from math import prod

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError
from marey.lie import SO3
from marey.models._arrays import ModelArrays
from marey.models._bodies import check_body
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
        from marey.models._model_kernels import batch_rotations

        x = self._checked(coordinates)
        a = self.arrays()
        wxyz = batch_rotations(a.kind, a.mean_wxyz, a.basis, _flat(x))
        return SO3(wxyz.reshape(*x.shape[:-1], self.skeleton.num_joints, 4))

    def jacobian(self, coordinates: ArrayLike) -> FloatArray:
        r"""How each joint turns with each coordinate: ``(..., J, 3, k)`` for coordinates ``(..., k)``.

        Column i of joint j is the angular velocity of its local rotation in its own frame,
        :math:`r_j^{-1}\,\partial r_j / \partial x_i`, in :math:`O(kn)`; [Tournier2011]_ §8.2.2 with (8.12) corrected.
        """
        from marey.models._model_kernels import batch_jacobians

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
        body = self.skeleton if skeleton is None else check_body(self.skeleton, skeleton, "the skeleton")
        wxyz = np.array(self._full_rotations(x).wxyz)
        if root_rotations is not None:
            wxyz[:, 0] = _rows(root_rotations.wxyz, len(x), 4, "root_rotations")
        places = self.root_position if root_positions is None else np.asarray(root_positions, dtype=np.float64)
        rate = self.rate_hz if rate_hz is None else rate_hz
        return Motion(body, rate, _rows(places, len(x), 3, "root_positions"), SO3(wxyz), name="decoded")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a `.safetensors` file that ``load_model`` reads."""
        from marey.models._store import write_model

        write_model(self, path)

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
        return check_coordinates(coordinates, self.num_components)


def check_coordinates(coordinates: ArrayLike, count: int) -> FloatArray:
    """Float64 coordinates ``(..., count)``, all finite.

    Raises:
        InputError: another width, or a value that is not finite.
    """
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
