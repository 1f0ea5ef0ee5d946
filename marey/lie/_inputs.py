"""Checks at the border of the package: the shape and finiteness of what a caller hands in."""

from __future__ import annotations

import warnings
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen

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
    error = np.abs(np.swapaxes(m, -1, -2) @ m - np.eye(3)).max(axis=(-2, -1), initial=0.0)
    _raise_not_rotation(m, (error > REPAIR_TOL) | (np.linalg.det(m) < 0.0))
    if np.any(error > FLOAT32_TOL):
        worst = float(error.max())
        warnings.warn(f"rotation matrices off orthonormal by {worst:.1e} were repaired", stacklevel=3)
    if not np.any(error > ROUNDING_TOL):
        return m
    u, _, vt = np.linalg.svd(m)
    return u @ vt


def row_index(index: Any) -> tuple[Any, ...]:
    """Index of batch axes alone: the components of the last axis stay together."""
    parts = cast(tuple[Any, ...], index) if isinstance(index, tuple) else (index,)
    has_ellipsis = any(part is Ellipsis for part in parts)
    return (*parts, slice(None)) if has_ellipsis else (*parts, Ellipsis, slice(None))


def _raise_not_rotation(m: FloatArray, bad: np.ndarray) -> None:
    if np.any(bad):
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        det = float(np.linalg.det(m[where]))
        raise InputError(
            f"matrix {where} is no rotation (determinant {det:.6g})", "Its columns must be orthonormal and right-handed"
        )
