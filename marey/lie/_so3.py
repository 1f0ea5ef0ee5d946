"""Batches of rotations, stored as unit quaternions with the scalar first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from marey.base import EPS, FloatArray, InputError, frozen

UNIT_TOL = 8 * EPS  # [-] a norm this near to one is left alone, so that normalising twice changes nothing


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SO3:
    """A batch of rotations; ``q`` and ``-q`` are the same rotation.

    ``R_a_b @ R_b_c`` composes and ``R_a_b @ points_b`` maps points ``(..., 3)``; batches broadcast.
    """

    wxyz: FloatArray  # (..., 4) unit quaternions

    def __post_init__(self) -> None:
        wxyz = frozen(self.wxyz, name="wxyz")
        if wxyz.ndim == 0 or wxyz.shape[-1] != 4:
            raise InputError(f"wxyz has shape {wxyz.shape}, expected (..., 4)")
        norms = np.sqrt(np.einsum("...i,...i->...", wxyz, wxyz))
        if norms.size and norms.min() == 0.0:
            where = tuple(int(i) for i in np.argwhere(norms == 0.0)[0])
            raise InputError(f"quaternion {where} is zero, so it is no rotation", "Write (1, 0, 0, 0) for none")
        if norms.size and np.abs(norms - 1.0).max() > UNIT_TOL:
            wxyz = wxyz / norms[..., None]
            wxyz.setflags(write=False)
        object.__setattr__(self, "wxyz", wxyz)

    @classmethod
    def identity(cls, *shape: int) -> SO3:
        """Return a batch of rotations by nothing."""
        wxyz = np.zeros((*shape, 4))
        wxyz[..., 0] = 1.0
        return cls(wxyz)

    @classmethod
    def exp(cls, vectors: ArrayLike) -> SO3:
        r"""Rotation by :math:`\|v\|` [rad] about :math:`v`: :math:`q = (\cos\frac{\|v\|}2, \frac12\,\mathrm{sinc}\,v)`."""
        v = np.asarray(vectors, dtype=np.float64)
        angle = _norm(v)[..., None]
        return cls(np.concatenate([np.cos(0.5 * angle), 0.5 * np.sinc(angle / (2.0 * np.pi)) * v], axis=-1))

    @classmethod
    def from_axis_angle(cls, axis: ArrayLike, angle_rad: ArrayLike) -> SO3:
        """Rotate by ``angle_rad`` about ``axis`` (any length but zero)."""
        unit = np.asarray(axis, dtype=np.float64)
        half = 0.5 * np.asarray(angle_rad, dtype=np.float64)[..., None]
        unit = unit / np.linalg.norm(unit, axis=-1, keepdims=True)
        xyz = np.sin(half) * unit
        return cls(np.concatenate([np.broadcast_to(np.cos(half), (*xyz.shape[:-1], 1)), xyz], axis=-1))

    @classmethod
    def from_matrix(cls, matrices: ArrayLike) -> SO3:
        """Convert rotation matrices ``(..., 3, 3)`` by the largest of the four quaternion components."""
        m = np.asarray(matrices, dtype=np.float64)
        x, y, z = m[..., 0, 0], m[..., 1, 1], m[..., 2, 2]
        squares = np.stack([1 + x + y + z, 1 + x - y - z, 1 - x + y - z, 1 - x - y + z], axis=-1)
        a, b, c = m[..., 2, 1], m[..., 0, 2], m[..., 1, 0]
        d, e, f = m[..., 1, 2], m[..., 2, 0], m[..., 0, 1]
        rows = np.stack(
            [
                np.stack([squares[..., 0], a - d, b - e, c - f], axis=-1),
                np.stack([a - d, squares[..., 1], c + f, b + e], axis=-1),
                np.stack([b - e, c + f, squares[..., 2], a + d], axis=-1),
                np.stack([c - f, b + e, a + d, squares[..., 3]], axis=-1),
            ],
            axis=-2,
        )
        best = np.argmax(squares, axis=-1)[..., None, None]
        return cls(np.take_along_axis(rows, best, axis=-2)[..., 0, :])

    @classmethod
    def stack(cls, rotations: Sequence[SO3], axis: int = 0) -> SO3:
        """Join batches of one shape along a new batch axis."""
        return cls(np.stack([r.wxyz for r in rotations], axis=axis if axis >= 0 else axis - 1))

    @classmethod
    def concatenate(cls, rotations: Sequence[SO3], axis: int = 0) -> SO3:
        """Join batches along a batch axis that exists."""
        return cls(np.concatenate([r.wxyz for r in rotations], axis=axis if axis >= 0 else axis - 1))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the batch, without the four components."""
        return self.wxyz.shape[:-1]

    def reshape(self, *shape: int) -> SO3:
        """Same rotations, batch axes arranged anew."""
        return SO3(self.wxyz.reshape(*shape, 4))

    def inverse(self) -> SO3:
        """Return the rotations undone."""
        return SO3(self.wxyz * np.array([1.0, -1.0, -1.0, -1.0]))

    def log(self) -> FloatArray:
        r"""Rotation vector ``(..., 3)`` [rad], :math:`\|v\| \le \pi`, of the nearer of :math:`q` and :math:`-q`."""
        w, xyz = self.wxyz[..., :1], self.wxyz[..., 1:]
        sine = _norm(xyz)[..., None]
        angle = 2.0 * np.arctan2(sine, np.abs(w))
        safe = np.where(sine == 0.0, 1.0, sine)
        factor = np.where(sine == 0.0, 2.0, angle / safe)
        return np.copysign(1.0, w) * factor * xyz

    def angle(self) -> FloatArray:
        """Angle of each rotation [rad], between 0 and π."""
        return 2.0 * np.arctan2(_norm(self.wxyz[..., 1:]), np.abs(self.wxyz[..., 0]))

    def matrix(self) -> FloatArray:
        """Return rotation matrices ``(..., 3, 3)``; columns are the turned axes."""
        w, x, y, z = np.moveaxis(self.wxyz, -1, 0)
        rows = [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
        return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)

    @overload
    def __matmul__(self, other: SO3) -> SO3: ...
    @overload
    def __matmul__(self, other: FloatArray | Sequence[float]) -> FloatArray: ...
    def __matmul__(self, other: SO3 | FloatArray | Sequence[float]) -> SO3 | FloatArray:
        if isinstance(other, SO3):
            return SO3(_multiply(self.wxyz, other.wxyz))
        points = np.asarray(other, dtype=np.float64)
        w, u = self.wxyz[..., :1], self.wxyz[..., 1:]
        t = 2.0 * np.cross(u, points)
        return points + w * t + np.cross(u, t)

    def __getitem__(self, index: Any) -> SO3:
        if not isinstance(index, tuple):
            index = (index,)
        return SO3(self.wxyz[(*index, slice(None))] if Ellipsis in index else self.wxyz[index])

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[SO3]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"SO3(batch {self.shape})"


def _norm(vectors: FloatArray) -> FloatArray:
    return np.sqrt(np.einsum("...i,...i->...", vectors, vectors))


def _multiply(p: FloatArray, q: FloatArray) -> FloatArray:
    pw, px, py, pz = np.moveaxis(p, -1, 0)
    qw, qx, qy, qz = np.moveaxis(q, -1, 0)
    return np.stack(
        [
            pw * qw - px * qx - py * qy - pz * qz,
            pw * qx + px * qw + py * qz - pz * qy,
            pw * qy - px * qz + py * qw + pz * qx,
            pw * qz + px * qy - py * qx + pz * qw,
        ],
        axis=-1,
    )


def geodesic_distance(a: SO3, b: SO3) -> FloatArray:
    """Angle of the rotation from ``a`` to ``b`` [rad], in ``[0, π]``; batches broadcast."""
    return (a.inverse() @ b).angle()
