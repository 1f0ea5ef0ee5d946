"""Batches of rotations, stored as unit quaternions with the scalar first."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast, overload

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen, split_blocks
from marey.lie import quaternions
from marey.lie.quaternions import UNIT_TOL

ROUNDING_TOL = 1e-12  # [-] nearer matrices are taken as they are
FLOAT32_TOL = 1e-6  # [-] rotation matrices stored as float32 are orthonormal to about this
REPAIR_TOL = 1e-3  # [-] beyond, a matrix is taken for something else than a rotation; [Tournier2011]_ §6


def check_vectors(values: ArrayLike, width: int, *, name: str) -> FloatArray:
    """Float64 array ``(..., width)`` whose norms are finite."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 0 or array.shape[-1] != width:
        raise InputError(f"{name} has shape {array.shape}, expected (..., {width})")
    if not np.isfinite(np.einsum("...i,...i->...", array, array)).all():
        frozen(array, name=name)  # names the index that is not finite
        raise InputError(f"{name} holds a vector too long to square", "Check its unit")
    return array


def normalise_directions(values: ArrayLike, *, name: str) -> FloatArray:
    """Unit vectors ``(..., 3)`` along vectors of any length but zero."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 0 or array.shape[-1] != 3:
        raise InputError(f"{name} has shape {array.shape}, expected (..., 3)")
    largest = np.abs(array).max(axis=-1, keepdims=True)
    if not np.isfinite(largest).all():
        frozen(array, name=name)
    if np.any(largest == 0.0):
        where = tuple(int(i) for i in np.argwhere(largest[..., 0] == 0.0)[0])
        raise InputError(f"{name} {where} is zero, so it has no direction", "Give any other vector")
    array = array / largest
    return array / np.sqrt(np.einsum("...i,...i->...", array, array))[..., None]


def check_rotation_matrices(values: ArrayLike) -> FloatArray:
    """Matrices ``(..., 3, 3)``, those slightly off orthonormal replaced by the nearest rotation.

    Raises:
        InputError: a matrix is off by more than ``REPAIR_TOL``, or is a reflection.
    """
    m = np.asarray(values, dtype=np.float64)
    if m.ndim < 2 or m.shape[-2:] != (3, 3):
        raise InputError(f"rotation matrices have shape {m.shape}, expected (..., 3, 3)")
    if not np.isfinite(m).all():
        frozen(m, name="rotation matrices")
    # How far R^T R is from the identity
    error = np.abs(np.swapaxes(m, -1, -2) @ m - np.eye(3)).max(axis=(-2, -1), initial=0.0)
    bad = (error > REPAIR_TOL) | (np.linalg.det(m) < 0.0)
    if np.any(bad):
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        det = float(np.linalg.det(m[where]))
        raise InputError(
            f"matrix {where} is no rotation (determinant {det:.6g})", "Its columns must be orthonormal and right-handed"
        )
    if np.any(error > FLOAT32_TOL):
        worst = float(error.max())
        warnings.warn(f"rotation matrices off orthonormal by {worst:.1e} were repaired", stacklevel=3)
    if not np.any(error > ROUNDING_TOL):
        return m
    # The nearest rotation, by the polar decomposition
    u, _, vt = np.linalg.svd(m)
    return u @ vt


def row_index(index: Any) -> tuple[Any, ...]:
    """Index of batch axes alone: the components of the last axis stay together."""
    parts = cast(tuple[Any, ...], index) if isinstance(index, tuple) else (index,)
    has_ellipsis = any(part is Ellipsis for part in parts)
    return (*parts, slice(None)) if has_ellipsis else (*parts, Ellipsis, slice(None))


SAFE_NORMS = (1e-140, 1e140)  # [-] squares of components outside may underflow or overflow


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SO3:
    """A batch of rotations; ``q`` and ``-q`` are the same rotation.

    ``R_a_b @ R_b_c`` composes and ``R_a_b @ points_b`` maps points ``(..., 3)``; batches broadcast.
    Quaternions of any length but zero are accepted and normalised.
    """

    wxyz: FloatArray  # (..., 4) unit quaternions

    def __post_init__(self) -> None:
        wxyz = frozen(self.wxyz, name="wxyz")
        if wxyz.ndim == 0 or wxyz.shape[-1] != 4:
            raise InputError(f"wxyz has shape {wxyz.shape}, expected (..., 4)")
        object.__setattr__(self, "wxyz", _normalise(wxyz))

    # Making

    @classmethod
    def identity(cls, *shape: int) -> SO3:
        """Return a batch of rotations by nothing."""
        wxyz = np.zeros((*shape, 4))
        wxyz[..., 0] = 1.0
        return wrap_unit(wxyz)

    @classmethod
    def random(cls, rng: np.random.Generator, *shape: int) -> SO3:
        """Draw rotations evenly over the whole group (normal deviates, normalised)."""
        return cls(rng.normal(size=(*shape, 4)))

    @classmethod
    def exp(cls, rotation_vectors: ArrayLike) -> SO3:
        r"""Rotate by :math:`\theta = \|v\|` [rad] about ``v``, a rotation vector ``(..., 3)``.

        .. math:: q = \big(\cos\tfrac\theta2,\ \tfrac12\,\mathrm{sinc}\tfrac\theta2\;v\big)
        """
        return _wrap_normalised(quaternions.exp(check_vectors(rotation_vectors, 3, name="rotation vectors")))

    @classmethod
    def from_axis_angle(cls, axis: ArrayLike, angle_rad: ArrayLike) -> SO3:
        """Rotate by ``angle_rad`` about ``axis`` (any length but zero)."""
        half = 0.5 * check_vectors(np.asarray(angle_rad, dtype=np.float64)[..., None], 1, name="angles")
        xyz = np.sin(half) * normalise_directions(axis, name="axis")
        return _wrap_normalised(np.concatenate([np.broadcast_to(np.cos(half), (*xyz.shape[:-1], 1)), xyz], axis=-1))

    @classmethod
    def from_matrix(cls, matrices: ArrayLike) -> SO3:
        """Convert rotation matrices ``(..., 3, 3)`` by the largest of the four quaternion components.

        Matrices slightly off orthonormal are replaced by the nearest rotation, with a warning when they are off by more
        than single precision explains. [Tournier2011]_ §6.

        Raises:
            InputError: a matrix is far from a rotation, or is a reflection; its index is in the message.
        """
        # Quaternions, not normalised, by the largest component
        m = check_rotation_matrices(matrices)
        x, y, z = m[..., 0, 0], m[..., 1, 1], m[..., 2, 2]
        squares = np.stack([1 + x + y + z, 1 + x - y - z, 1 - x + y - z, 1 - x - y + z], axis=-1)
        a, b, c = m[..., 2, 1], m[..., 0, 2], m[..., 1, 0]
        d, e, f = m[..., 1, 2], m[..., 2, 0], m[..., 0, 1]
        # Four times the products of one component with all, for each of the four
        rows = [
            np.stack([squares[..., 0], a - d, b - e, c - f], axis=-1),
            np.stack([a - d, squares[..., 1], c + f, b + e], axis=-1),
            np.stack([b - e, c + f, squares[..., 2], a + d], axis=-1),
            np.stack([c - f, b + e, a + d, squares[..., 3]], axis=-1),
        ]
        best = np.argmax(squares, axis=-1)[..., None, None]
        return _wrap_normalised(np.take_along_axis(np.stack(rows, axis=-2), best, axis=-2)[..., 0, :])

    @classmethod
    def from_two_vectors(cls, start: ArrayLike, end: ArrayLike) -> SO3:
        r"""Shortest rotation that turns the direction of ``start`` into that of ``end``, both ``(..., 3)``.

        For unit vectors, :math:`\cos\frac\theta2 = \frac12\|a+b\|` and :math:`\sin\frac\theta2 = \frac12\|a-b\|` keep
        all digits at both ends. Opposite vectors are turned by π about an axis across ``end``.
        """
        a, b = np.broadcast_arrays(normalise_directions(start, name="start"), normalise_directions(end, name="end"))
        # The axis, or any across `b` where both are parallel, made exactly perpendicular to `b`
        axis = np.cross(a, b)
        coordinate = np.eye(3)[np.argmin(np.abs(b), axis=-1)]
        axis = np.where(quaternions.norm(axis)[..., None] > 0.0, axis, np.cross(b, coordinate))
        axis = axis / quaternions.norm(axis)[..., None]
        axis = axis - quaternions.dot(axis, b)[..., None] * b
        axis = axis / quaternions.norm(axis)[..., None]
        w, sine = 0.5 * quaternions.norm(a + b), 0.5 * quaternions.norm(a - b)
        return _wrap_normalised(np.concatenate([w[..., None], sine[..., None] * axis], axis=-1))

    @classmethod
    def stack(cls, rotations: Sequence[SO3], axis: int = 0) -> SO3:
        """Join batches of one shape along a new batch axis."""
        return wrap_unit(np.stack([r.wxyz for r in rotations], axis=axis if axis >= 0 else axis - 1))

    @classmethod
    def concatenate(cls, rotations: Sequence[SO3], axis: int = 0) -> SO3:
        """Join batches along a batch axis that exists."""
        return wrap_unit(np.concatenate([r.wxyz for r in rotations], axis=axis if axis >= 0 else axis - 1))

    # Reading

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the batch, without the four components."""
        return self.wxyz.shape[:-1]

    def log(self) -> FloatArray:
        r"""Rotation vector ``(..., 3)`` [rad], :math:`\|v\| \le \pi`, of the nearer of :math:`q` and :math:`-q`.

        At exactly π both signs are right; the first component that is not zero is positive then.
        """
        return quaternions.log(self.wxyz)

    def angle(self) -> FloatArray:
        """Angle of each rotation [rad], between 0 and π."""
        return 2.0 * np.arctan2(quaternions.norm(self.wxyz[..., 1:]), np.abs(self.wxyz[..., 0]))

    def matrix(self) -> FloatArray:
        """Return rotation matrices ``(..., 3, 3)``; columns are the turned axes."""
        return quaternions.matrices(self.wxyz)

    def twist_angle(self, axis: ArrayLike) -> FloatArray:
        r"""Angle [rad] in :math:`(-\pi, \pi]` of the rotation about ``axis`` that is nearest to each rotation.

        .. math:: \alpha = 2\,\mathrm{atan2}(u \cdot a, w)

        The exact geodesic projection on one axis, [Tournier2011]_ §7.
        """
        along = quaternions.dot(self.wxyz[..., 1:], normalise_directions(axis, name="axis"))
        w = np.broadcast_to(self.wxyz[..., 0], along.shape)
        # q and -q give the same angle
        side = quaternions.leading_component(np.stack([w, along, 0.0 * along, 0.0 * along], axis=-1))
        return 2.0 * np.arctan2(np.copysign(1.0, side) * along, np.abs(w))

    # Changing

    def inverse(self) -> SO3:
        """Return the rotations undone."""
        return wrap_unit(quaternions.conjugate(self.wxyz))

    def power(self, t: ArrayLike) -> SO3:
        """Take the part ``t`` of each rotation about its own axis (one half, twice, minus once); ``t`` broadcasts."""
        return SO3.exp(np.asarray(t, dtype=np.float64)[..., None] * self.log())

    def slerp(self, other: SO3, t: ArrayLike) -> SO3:
        """Go the part ``t`` of the shortest way to ``other``, at constant speed; ``t`` and the batches broadcast.

        ``t = 0`` and ``t = 1`` give both ends exactly; other values go on along the same arc. Between rotations π
        apart the way is that of ``log``.
        """
        part = check_vectors(np.asarray(t, dtype=np.float64)[..., None], 1, name="t")[..., 0]
        return _wrap_normalised(quaternions.slerp(self.wxyz, other.wxyz, part))

    def swing_twist(self, axis: ArrayLike) -> tuple[SO3, SO3]:
        """Split ``R = swing @ twist``: the twist turns about ``axis``, the swing about an axis across it.

        A swing by π leaves the twist undefined; the twist is then the identity.
        """
        unit = normalise_directions(axis, name="axis")
        angle = self.twist_angle(unit)
        twist = SO3.exp(angle[..., None] * unit)
        return self @ twist.inverse(), twist

    def canonical(self) -> SO3:
        """Same rotations, each written with the quaternion whose first component that is not zero is positive."""
        return wrap_unit(np.copysign(1.0, quaternions.leading_component(self.wxyz))[..., None] * self.wxyz)

    def continuous(self, axis: int = 0) -> SO3:
        """Same rotations, quaternion signs chosen so that neighbours along a batch axis do not jump."""
        wxyz = np.moveaxis(self.wxyz, axis if axis >= 0 else axis - 1, 0)
        flips = np.copysign(1.0, quaternions.dot(wxyz[1:], wxyz[:-1]))
        signs = np.cumprod(np.concatenate([np.ones_like(wxyz[:1, ..., 0]), flips]), axis=0)
        return wrap_unit(np.moveaxis(signs[..., None] * wxyz, 0, axis if axis >= 0 else axis - 1))

    def reshape(self, *shape: int) -> SO3:
        """Same rotations, batch axes arranged anew."""
        return wrap_unit(self.wxyz.reshape(*shape, 4))

    @overload
    def __matmul__(self, other: SO3) -> SO3: ...
    @overload
    def __matmul__(self, other: FloatArray | Sequence[float]) -> FloatArray: ...
    def __matmul__(self, other: SO3 | FloatArray | Sequence[float]) -> SO3 | FloatArray:
        if isinstance(other, SO3):
            return wrap_unit(quaternions.multiply(self.wxyz, other.wxyz))
        points = np.asarray(other, dtype=np.float64)
        if points.ndim == 0 or points.shape[-1] != 3:
            raise InputError(f"points have shape {points.shape}, expected (..., 3)")
        return quaternions.rotate(self.wxyz, points)

    def __getitem__(self, index: Any) -> SO3:
        return wrap_unit(self.wxyz[row_index(index)])

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a single rotation has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[SO3]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"SO3(batch {self.shape})"


def geodesic_distance(a: SO3, b: SO3) -> FloatArray:
    """Angle of the rotation from ``a`` to ``b`` [rad], in ``[0, π]``, to a few ulp; batches broadcast."""
    return quaternions.distance(a.wxyz, b.wxyz)


def wrap_unit(wxyz: FloatArray) -> SO3:
    """Wrap quaternions that are known to be finite and of norm one: of a solver, or part of a checked batch."""
    wxyz = np.ascontiguousarray(wxyz)
    wxyz.setflags(write=False)
    rotations = object.__new__(SO3)
    object.__setattr__(rotations, "wxyz", wxyz)
    return rotations


def _wrap_normalised(wxyz: FloatArray) -> SO3:
    """Check and normalise an array of our own, without the copy that a caller's array needs."""
    wxyz.setflags(write=False)
    return SO3(wxyz)


def _normalise(wxyz: FloatArray) -> FloatArray:
    rows = wxyz.reshape(-1, 4)
    if all(np.abs(quaternions.norm(rows[part]) - 1.0).max() <= UNIT_TOL for part in split_blocks(len(rows), 1 << 14)):
        return wxyz
    norms = quaternions.norm(wxyz)
    # Scaled first where squares would underflow or overflow
    if norms.min() < SAFE_NORMS[0] or norms.max() > SAFE_NORMS[1]:
        largest = np.abs(wxyz).max(axis=-1)
        if largest.min() == 0.0:
            where = tuple(int(i) for i in np.argwhere(largest == 0.0)[0])
            raise InputError(f"quaternion {where} is zero, so it is no rotation", "Write (1, 0, 0, 0) for none")
        wxyz = wxyz / largest[..., None]
        norms = quaternions.norm(wxyz)
    unit = wxyz / np.where(np.abs(norms - 1.0) > UNIT_TOL, norms, 1.0)[..., None]
    unit.setflags(write=False)
    return unit
