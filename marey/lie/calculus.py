r"""Derivatives of the exponential of rotations and of rigid motions.

:math:`J_l` and :math:`J_r` map the rate of a rotation vector to angular velocity: it is
:math:`\omega = J_l(v)\,\dot v` in the outer frame and :math:`J_r(v)\,\dot v` in the body frame. [Tournier2011]_ §6.

Twists of rigid motions are ordered (angular, linear):

.. math:: J_l(\omega, v) = \begin{pmatrix} J_l(\omega) & 0 \\ Q(\omega, v) & J_l(\omega) \end{pmatrix}

[Barfoot2017]_ §7.1.5 prints Q for twists ordered (linear, angular); here its blocks change places.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray
from marey.lie.quaternions import half_cotangent_remainder, norm, one_minus_cos_over_square, stumpff
from marey.lie.so3 import check_vectors


def hat(v: ArrayLike) -> FloatArray:
    r"""Cross-product matrices ``(..., 3, 3)`` of vectors ``(..., 3)``: :math:`\hat v\,x = v \times x`."""
    x, y, z = np.moveaxis(check_vectors(v, 3, name="v"), -1, 0)
    out = np.zeros((*x.shape, 3, 3))
    out[..., 0, 1], out[..., 0, 2], out[..., 1, 2] = -z, y, -x
    out[..., 1, 0], out[..., 2, 0], out[..., 2, 1] = z, -y, x
    return out


def left_jacobian(v: ArrayLike) -> FloatArray:
    r"""Left Jacobian ``(..., 3, 3)`` of rotation vectors ``(..., 3)`` [rad], to a few ulp.

    .. math:: J_l = I + \frac{1-\cos\theta}{\theta^2}\hat v + \frac{\theta-\sin\theta}{\theta^3}\hat v^2
    """
    v = check_vectors(v, 3, name="rotation vectors")
    theta = norm(v)
    return _in_powers_of_hat(v, one_minus_cos_over_square(theta), stumpff(3, theta))


def left_jacobian_inverse(v: ArrayLike) -> FloatArray:
    r"""Inverse of :func:`left_jacobian`, to a few ulp up to π; it exists below 2π.

    .. math:: J_l^{-1} = I - \tfrac12\hat v + \frac{1 - \frac\theta2\cot\frac\theta2}{\theta^2}\hat v^2
    """
    v = check_vectors(v, 3, name="rotation vectors")
    theta = norm(v)
    return _in_powers_of_hat(v, np.full_like(theta, -0.5), half_cotangent_remainder(theta))


def right_jacobian(v: ArrayLike) -> FloatArray:
    """Right Jacobian, the transpose of the left one: the angular velocity in the body frame."""
    return np.swapaxes(left_jacobian(v), -1, -2)


def _in_powers_of_hat(v: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    r"""Return :math:`I + a\hat v + b\hat v^2`, where :math:`\hat v^2 = v v^T - \|v\|^2 I`."""
    x, y, z = np.moveaxis(v, -1, 0)
    ax, ay, az = first * x, first * y, first * z
    bxy, byz, bzx = second * x * y, second * y * z, second * z * x
    out = np.empty((*v.shape[:-1], 3, 3))
    out[..., 0, 0], out[..., 0, 1], out[..., 0, 2] = 1.0 - second * (y * y + z * z), bxy - az, bzx + ay
    out[..., 1, 0], out[..., 1, 1], out[..., 1, 2] = bxy + az, 1.0 - second * (z * z + x * x), byz - ax
    out[..., 2, 0], out[..., 2, 1], out[..., 2, 2] = bzx - ay, byz + ax, 1.0 - second * (x * x + y * y)
    return out


def twist_jacobian(twists: FloatArray) -> FloatArray:
    """Left Jacobian ``(..., 6, 6)`` of twists ``(..., 6)``."""
    rotation = left_jacobian(twists[..., :3])
    return lower_blocks(rotation, _coupling(twists))


def twist_jacobian_inverse(twists: FloatArray) -> FloatArray:
    """Inverse of :func:`twist_jacobian`, block by block."""
    inverse = left_jacobian_inverse(twists[..., :3])
    return lower_blocks(inverse, -inverse @ _coupling(twists) @ inverse)


def lower_blocks(diagonal: FloatArray, below: FloatArray) -> FloatArray:
    """Matrices ``(..., 6, 6)`` with twice the same block on the diagonal and zero above it."""
    out = np.zeros((*diagonal.shape[:-2], 6, 6))
    out[..., :3, :3] = out[..., 3:, 3:] = diagonal
    out[..., 3:, :3] = below
    return out


def _coupling(twists: FloatArray) -> FloatArray:
    r"""Return how the rotation part moves the linear part, ``(..., 3, 3)``.

    .. math::
        Q = \tfrac12 V + c_3 (WV + VW + WVW) + c_4 (W^2V + VW^2 - 3WVW)
            + \tfrac12 (c_4 - 3c_5)(WVW^2 + W^2VW)

    with :math:`W = \hat\omega`, :math:`V = \hat v` and the Stumpff functions of :math:`\|\omega\|`; the last factor is
    :math:`(2\theta - 3\sin\theta + \theta\cos\theta)/(2\theta^5)` without its cancellation.
    """
    W, V = hat(twists[..., :3]), hat(twists[..., 3:])
    theta = norm(twists[..., :3])[..., None, None]
    c3, c4, c5 = (stumpff(order, theta) for order in (3, 4, 5))
    # Products of the cross-product matrices, each made once
    WV, VW = W @ V, V @ W
    WVW = WV @ W
    symmetric = c3 * (WV + VW + WVW) + c4 * (W @ WV + VW @ W - 3.0 * WVW)
    return 0.5 * V + symmetric + 0.5 * (c4 - 3.0 * c5) * (WVW @ W + W @ WVW)
