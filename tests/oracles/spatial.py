"""Spatial algebra in matrices, for any batch, written as in the thesis ([Fang2003]_ app. A).

A twist is (angular, linear), a wrench (force, moment): the half that no shift of origin changes is on top in both, so
one and the same matrix serves both. The product computes with tuples of numbers: ``marey.dynamics.spatial``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray
from marey.lie import hat


def spatial_cross(v: ArrayLike) -> FloatArray:
    r"""Matrix ``(..., 6, 6)`` of the spatial cross product with a twist ``(..., 6)``, (A.7).

    .. math:: \tilde v = \begin{bmatrix}\tilde v_a & 0\\ \tilde v_b & \tilde v_a\end{bmatrix}
    """
    v = np.asarray(v, dtype=np.float64)
    return _stack_blocks(hat(v[..., :3]), np.zeros((*v.shape[:-1], 3, 3)), hat(v[..., 3:]), hat(v[..., :3]))


def spatial_transform(R: ArrayLike, r: ArrayLike) -> FloatArray:
    r"""Matrix ``(..., 6, 6)`` that takes twists and wrenches of frame i to its parent, (A.8).

    .. math:: X_i^\lambda = \begin{bmatrix}R & 0\\ \tilde r R & R\end{bmatrix}

    Args:
        R: rotation from frame i to its parent ``(..., 3, 3)``.
        r: origin of frame i in its parent ``(..., 3)`` [m].
    """
    turn, arm = np.asarray(R, dtype=np.float64), hat(np.asarray(r, dtype=np.float64))
    return _stack_blocks(turn, np.zeros_like(turn), arm @ turn, turn)


def inverse_transform(X: FloatArray) -> FloatArray:
    """Inverse of a spatial transform, for free: each 3x3 block is transposed where it stands."""
    a, b, c, d = X[..., :3, :3], X[..., :3, 3:], X[..., 3:, :3], X[..., 3:, 3:]
    return _stack_blocks(*(np.swapaxes(block, -1, -2) for block in (a, b, c, d)))


def spatial_inertia(mass: ArrayLike, centre: ArrayLike, inertia: ArrayLike) -> FloatArray:
    r"""Matrix ``(..., 6, 6)`` that takes a twist to a momentum about the frame's origin.

    .. math:: I = \begin{bmatrix}-m\tilde c & mE\\ I^c - m\tilde c\tilde c & m\tilde c\end{bmatrix}

    (A.16); as printed it loses a factor m and has the wrong sign.

    Args:
        mass: ``(...)`` [kg].
        centre: centre of mass ``(..., 3)`` [m].
        inertia: about the centre ``(..., 3, 3)`` [kg m^2].
    """
    m = np.asarray(mass, dtype=np.float64)[..., None, None]
    c = hat(np.asarray(centre, dtype=np.float64))
    return _stack_blocks(-m * c, m * np.broadcast_to(np.eye(3), c.shape), np.asarray(inertia) - m * c @ c, m * c)


def spatial_power(twist: ArrayLike, wrench: ArrayLike) -> FloatArray:
    """Power ``(...)`` of a wrench along a twist: halves are swapped, (A.18)."""
    v, f = np.asarray(twist, dtype=np.float64), np.asarray(wrench, dtype=np.float64)
    return np.einsum("...i,...i->...", v[..., :3], f[..., 3:]) + np.einsum("...i,...i->...", v[..., 3:], f[..., :3])


def _stack_blocks(a: FloatArray, b: FloatArray, c: FloatArray, d: FloatArray) -> FloatArray:
    return np.concatenate([np.concatenate([a, b], axis=-1), np.concatenate([c, d], axis=-1)], axis=-2)
