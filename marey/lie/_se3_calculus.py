r"""Derivatives of the exponential of rigid motions, for twists ordered (angular, linear).

.. math:: J_l(\omega, v) = \begin{pmatrix} J_l(\omega) & 0 \\ Q(\omega, v) & J_l(\omega) \end{pmatrix}

[Barfoot2017]_ §7.1.5 prints Q for twists ordered (linear, angular); here its blocks change places.
"""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray
from marey.lie._calculus import hat, left_jacobian, left_jacobian_inverse
from marey.lie._coefficients import stumpff
from marey.lie._quaternions import norm


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
    WV, VW = W @ V, V @ W
    WVW = WV @ W
    symmetric = c3 * (WV + VW + WVW) + c4 * (W @ WV + VW @ W - 3.0 * WVW)
    return 0.5 * V + symmetric + 0.5 * (c4 - 3.0 * c5) * (WVW @ W + W @ WVW)
