r"""The root's orientation as three numbers that follow a turning body: tilt about x, yaw, tilt about z.

.. math:: R = \exp(\psi\,e_y)\,\exp\big((s_x, 0, s_z)\big)
"""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray
from marey.lie import SO3, right_jacobian
from marey.motion import Motion, headings

UP = np.array([0.0, 1.0, 0.0])
LEVEL = np.array([1.0, 0.0, 1.0])


def root_triples(motion: Motion) -> FloatArray:
    """Tilt, yaw, tilt ``(F, 3)`` [rad] of a clip turned so that it faces +Z on its first frame.

    The yaw is continuous in time: a full turn ends at 2π, not at zero. [Safonova2006]_ §3.1.1.
    """
    facing = float(headings(motion)[0])
    turned = SO3.exp(-facing * UP) @ motion.rotations[:, 0]
    yaw = np.unwrap(turned.twist_angle(UP))
    tilt = (SO3.exp(-yaw[:, None] * UP) @ turned).log()
    return np.stack([tilt[:, 0], yaw, tilt[:, 2]], axis=-1)


def root_from_triples(triples: FloatArray) -> SO3:
    """Root rotations of triples ``(..., 3)`` [rad]."""
    return SO3.exp(triples[..., 1, None] * UP) @ SO3.exp(triples * LEVEL)


def root_jacobian(triples: FloatArray) -> FloatArray:
    r"""Body angular velocity ``(..., 3, 3)`` per change of each number: :math:`J_r(s)`, :math:`e^{-s} e_y` for yaw."""
    tilt = triples * LEVEL
    columns = right_jacobian(tilt)
    columns[..., :, 1] = SO3.exp(-tilt) @ UP
    return columns
