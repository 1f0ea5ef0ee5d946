r"""Three numbers for a rotation: rotation vectors, Euler angles, or the tilt and yaw of a root.

Rotation vectors and Euler angles (about x, then y, then z) tear somewhere, so a rotation has several triples; the one
nearest to a reference is taken. Euler angles serve the comparison with methods that used them ([Safonova2006]_
§3.1.1) and never leave this room. The root's triple follows a turning body: tilt about x, yaw, tilt about z,

.. math:: R = \exp(\psi\,e_y)\,\exp\big((s_x, 0, s_z)\big)
"""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray
from marey.lie import SO3
from marey.motion import Motion, headings

SPACES = ("exponential", "euler")
FULL_TURN = 2.0 * np.pi


def to_chart(space: str, rotations: SO3, near: FloatArray | None = None) -> FloatArray:
    """Triples ``(..., 3)`` [rad] of rotations, those nearest to ``near``, which broadcasts; the shortest without it."""
    one = euler_angles(rotations) if space == "euler" else rotations.log()
    if near is None:
        return one
    if space == "euler":
        # The other triple of the same rotation, and full turns of both
        two = np.stack([one[..., 0] + np.pi, np.pi - one[..., 1], one[..., 2] + np.pi], axis=-1)
        one, two = near + _wrap_angles(one - near), near + _wrap_angles(two - near)
    else:
        # The same rotation the other way around
        length = np.linalg.norm(one, axis=-1, keepdims=True)
        two = one * (1.0 - FULL_TURN / np.where(length > 0.0, length, np.inf))
    is_nearer = np.sum((two - near) ** 2, axis=-1) < np.sum((one - near) ** 2, axis=-1)
    return np.where(is_nearer[..., None], two, one)


def euler_angles(rotations: SO3) -> FloatArray:
    r"""Angles ``(..., 3)`` about (x, y, z) with :math:`R = R_z R_y R_x`, from half-angle sums; [Bernardes2022]_.

    At a middle angle of a quarter turn only the sum or difference of the others is determined; any pair will do.
    """
    # Half sums and differences of the outer angles
    w, x, y, z = np.moveaxis(rotations.wxyz, -1, 0)
    a, b, c, d = w - y, x + z, y + w, z - x
    plus, minus = np.arctan2(b, a), np.arctan2(d, c)
    middle = 2.0 * np.arctan2(np.hypot(c, d), np.hypot(a, b)) - np.pi / 2
    return np.stack([_wrap_angles(plus - minus), middle, _wrap_angles(plus + minus)], axis=-1)


def _wrap_angles(angles: FloatArray) -> FloatArray:
    return (angles + np.pi) % FULL_TURN - np.pi


UP = np.array([0.0, 1.0, 0.0])
LEVEL = np.array([1.0, 0.0, 1.0])


def root_triples(motion: Motion) -> FloatArray:
    """Tilt, yaw, tilt ``(F, 3)`` [rad] of a clip turned so that it faces +Z on its first frame.

    The yaw is continuous in time: a full turn ends at 2π, not at zero. [Safonova2006]_ §3.1.1.
    """
    # The clip faces +Z on its first frame; the twist about the vertical is the yaw, what is left the tilt
    facing = float(headings(motion)[0])
    turned = SO3.exp(-facing * UP) @ motion.rotations[:, 0]
    yaw = np.unwrap(turned.twist_angle(UP))
    tilt = (SO3.exp(-yaw[:, None] * UP) @ turned).log()
    return np.stack([tilt[:, 0], yaw, tilt[:, 2]], axis=-1)


def root_from_triples(triples: FloatArray) -> SO3:
    """Root rotations of triples ``(..., 3)`` [rad]."""
    return SO3.exp(triples[..., 1, None] * UP) @ SO3.exp(triples * LEVEL)
