"""The poses of a behaviour: a few coordinates learnt from a few clips."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray, UnknownNameError, frozen, frozen_ints
from marey.dynamics import JointTree
from marey.motion import Motion

VARIANCE_FRACTION: Final = 0.9  # of the variance, [Safonova2006]_ (3.2)
MIN_DIMENSION: Final = 7
MAX_DIMENSION: Final = 10
VARIANCE_FLOOR: Final = 1e-6  # [rad^2] a coordinate that never moved has no say

AnyPath = str | os.PathLike[str]


@dataclass(frozen=True, slots=True, eq=False)
class ContactBorder:
    """How a coordinate usually is where a contact begins or ends."""

    mean: FloatArray  # (D,)
    deviation: FloatArray  # (D,)


@dataclass(frozen=True, slots=True, eq=False)
class BehaviourPose:
    """A pose with its velocity, as a start or an end."""

    q: FloatArray  # (D,)
    qd: FloatArray  # (D,)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BehaviourSpace:
    r"""Poses :math:`q = \bar q + \sum_i B_i A_i` near a few clips of one behaviour ([Safonova2006]_ §3.1.1).

    Position and yaw of the root are not in it: what a body does in a jump does not depend on where it faces. The
    variance outside the space, per coordinate, is kept as ``residual_variance``.
    """

    tree: JointTree
    columns: IntArray  # (n,) coordinates that the space speaks of
    mean: FloatArray  # (n,)
    basis: FloatArray  # (n, d) orthonormal
    variances: FloatArray  # (d,) [rad^2]
    residual_variance: float  # [rad^2]
    explained: float  # share of the variance
    lower: FloatArray  # (D,) [rad] range of the clips with a margin
    upper: FloatArray
    borders: Mapping[str, ContactBorder] = field(default_factory=dict[str, ContactBorder])
    """by leg and event: left_lift, left_land, right_lift, right_land"""
    poses: Mapping[str, BehaviourPose] = field(default_factory=dict[str, BehaviourPose])  # "start", "end", ...
    accel_scale: float = 5.06e4  # [rad^2/s^3] square acceleration over a clip, the measure of smoothness
    trials: tuple[str, ...] = ()
    name: str = "behaviour"
    report: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        n, d = len(self.columns), self.basis.shape[-1]
        set_ = object.__setattr__
        set_(self, "columns", frozen_ints(self.columns, n, name="columns"))
        set_(self, "mean", frozen(self.mean, n, name="mean"))
        set_(self, "basis", frozen(self.basis, n, d, name="basis"))
        set_(self, "variances", frozen(self.variances, d, name="variances"))
        for name in ("lower", "upper"):
            set_(self, name, frozen(getattr(self, name), self.tree.num_dofs, name=name))
        if n == 0 or d == 0:
            raise InputError("an empty behaviour", "Fit it to at least one clip")
        if (self.variances <= 0.0).any() or not self.residual_variance > 0.0:
            raise InputError("variances must be positive")
        if len(set(self.columns.tolist())) < n or self.columns.min() < 0 or self.columns.max() >= self.tree.num_dofs:
            raise InputError(f"columns that are not {n} of the body's {self.tree.num_dofs} coordinates")
        for kind, known in (("border", self.borders), ("pose", self.poses)):
            for name, value in known.items():
                for part in value.__slots__:
                    frozen(getattr(value, part), self.tree.num_dofs, name=f"{part} of {kind} '{name}'")

    @classmethod
    def fit(
        cls,
        motions: Sequence[Motion],
        *,
        dimension: int | None = None,
        energy: float = VARIANCE_FRACTION,
        root_order: str = "yxz",
        free_root: str = "y",
        mass_kg: float | None = None,
        window: str | None = None,
        name: str = "behaviour",
    ) -> BehaviourSpace:
        """Learn a behaviour from clips; those of other bodies are first put on the first one's.

        Args:
            motions: clips of one behaviour, three or more for a space that is not too narrow.
            dimension: how many coordinates; by default enough for ``energy``, between 7 and 10.
            energy: share of the variance.
            root_order: order of the root's turns; ``"xyz"`` keeps somersaults regular.
            free_root: letters of the root's turns that are left out: yaw; also pitch where the body turns over.
            mass_kg: of the body; by its height if left out.
            window: ``"flight"`` keeps 0.95 s before to 0.75 s after the longest flight of each clip; None all.
            name: of the behaviour.

        Raises:
            InputError: no clip, or a clip without what ``window`` asks for.
        """
        from marey.spacetime._behaviour_fit import fit_behaviour

        return fit_behaviour(motions, dimension, energy, root_order, free_root, mass_kg, window, name)

    @staticmethod
    def load(path: AnyPath) -> BehaviourSpace:
        """Read a behaviour written by :meth:`save`."""
        from marey.spacetime._behaviour_files import read_behaviour

        return read_behaviour(Path(path))

    def save(self, path: AnyPath) -> None:
        """Write the behaviour, its body included, to a ``.safetensors`` file."""
        from marey.spacetime._behaviour_files import write_behaviour

        write_behaviour(self, Path(path))

    @property
    def dimension(self) -> int:
        """How many coordinates the space has."""
        return len(self.variances)

    @property
    def deviations(self) -> FloatArray:
        """Standard deviation of each coordinate ``(d,)`` [rad]."""
        return np.sqrt(self.variances)

    def encode(self, q: FloatArray) -> FloatArray:
        """Amplitudes of unit variance ``(F, d)`` of poses ``(F, D)``: their projection."""
        return (q[..., self.columns] - self.mean) @ self.basis / self.deviations

    def decode(self, amplitudes: FloatArray) -> FloatArray:
        """Coordinates ``(F, n)`` of the columns from amplitudes ``(F, d)``."""
        return self.mean + (amplitudes * self.deviations) @ self.basis.T

    def residuals(self, q: FloatArray) -> FloatArray:
        """Square distance [rad^2] of poses ``(F, D)`` from the space, mean over the columns, ``(F,)``."""
        off = q[..., self.columns] - self.decode(self.encode(q))
        return np.asarray((off * off).mean(axis=-1))

    def distance(self, q: FloatArray) -> FloatArray:
        """Square Mahalanobis distance ``(F,)`` of poses ``(F, D)`` from the data, outside the space included."""
        a = self.encode(q)
        outside = self.residuals(q) * len(self.columns) / self.residual_variance
        return np.asarray((a * a).sum(axis=-1) + outside)

    def pose(self, name: str) -> BehaviourPose:
        """Return a pose by name."""
        if name not in self.poses:
            raise UnknownNameError("pose", name, f"behaviour '{self.name}'", self.poses)
        return self.poses[name]

    def with_energy(self, energy: float = VARIANCE_FRACTION) -> BehaviourSpace:
        """Return the space with enough coordinates for a share of the variance, between 7 and 10 of those there."""
        rest = self.residual_variance * (len(self.columns) - self.dimension)
        shares = np.cumsum(self.variances) / (float(self.variances.sum()) + rest)
        enough = int(np.searchsorted(shares, energy - 1e-12)) + 1
        return self.truncate(min(int(np.clip(enough, MIN_DIMENSION, MAX_DIMENSION)), self.dimension))

    def truncate(self, dimension: int) -> BehaviourSpace:
        """Return the space with fewer coordinates; the variance left out goes to the residual."""
        from dataclasses import replace

        if not 1 <= dimension <= self.dimension:
            raise InputError(f"dimension {dimension} of {self.dimension}", "It is at least 1 and at most what is there")
        rest = len(self.columns) - self.dimension
        spread = self.residual_variance * rest + float(self.variances[dimension:].sum())
        total = float(self.variances.sum()) + self.residual_variance * rest
        return replace(
            self,
            basis=self.basis[:, :dimension],
            variances=self.variances[:dimension],
            residual_variance=max(spread / max(len(self.columns) - dimension, 1), VARIANCE_FLOOR),
            explained=float(self.variances[:dimension].sum()) / total,
        )

    def __repr__(self) -> str:
        size = f"{self.dimension} of {len(self.columns)} coordinates"
        return f"BehaviourSpace('{self.name}', {size}, {len(self.trials)} clips)"
