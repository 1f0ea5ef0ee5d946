"""Root motion relative to the frame before, as motion graphs store it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray
from marey.lie import SO3
from marey.motion._motion import Motion
from marey.motion._place import UP


@dataclass(frozen=True, slots=True, eq=False)
class RelativeRoot:
    """Root motion of a clip with the ground path taken relative to the frame before ([Safonova2006]_ §4.2)."""

    tilts: SO3  # (F,) root rotation without its yaw
    heights: FloatArray  # (F,) [m]
    steps: FloatArray  # (F, 2) [m] ground displacement (x, z) in the heading of the frame before; first row zero
    turns: FloatArray  # (F,) [rad] yaw change since the frame before; first zero


def encode_relative_root(motion: Motion) -> RelativeRoot:
    r"""Take the root apart: tilt, height, and ground step and turn relative to the frame before.

    .. math:: \Delta\psi_t = \mathrm{wrap}(\psi_t - \psi_{t-1}), \qquad \Delta x_t = R(-\psi_{t-1})(x_t - x_{t-1})

    The yaw :math:`\psi` is the twist of the root rotation about the vertical, not an Euler angle, so it is well
    defined unless the root is upside down, where the yaw of the frame before is kept. [Safonova2006]_ §4.2 only says
    "relative to the previous pose"; the formulas above make it exact.
    """
    yaw = _twist_angles(motion.rotations[:, 0])
    turns = np.concatenate([[0.0], _wrap(np.diff(yaw))])
    ground = np.diff(motion.root_positions[:, [0, 2]], axis=0)
    steps = np.concatenate([np.zeros((1, 2)), _turn(ground, -yaw[:-1])])
    tilts = SO3.exp(-yaw[:, None] * UP) @ motion.rotations[:, 0]
    return RelativeRoot(tilts, motion.root_positions[:, 1], steps, turns)


def decode_relative_root(
    relative: RelativeRoot, position: Sequence[float] = (0.0, 0.0), yaw: float = 0.0
) -> tuple[FloatArray, SO3]:
    """Root positions ``(F, 3)`` [m] and rotations ``(F,)`` again, from where and how turned the first frame is."""
    yaws = yaw + np.cumsum(relative.turns)
    before = np.concatenate([[yaw], yaws[:-1]])
    ground = np.cumsum(_turn(relative.steps, before), axis=0) + np.asarray(position, dtype=np.float64)
    positions = np.stack([ground[:, 0], relative.heights, ground[:, 1]], axis=-1)
    return positions, SO3.exp(yaws[:, None] * UP) @ relative.tilts


def _twist_angles(rotations: SO3) -> FloatArray:
    w, y = rotations.wxyz[:, 0], rotations.wxyz[:, 2]
    known = np.hypot(w, y) > 1e-6
    frames = np.arange(len(w))
    if not known.any():
        return np.zeros(len(w))
    held = np.maximum.accumulate(np.where(known, frames, int(np.argmax(known))))
    return 2.0 * np.arctan2(y, w)[held]


def _wrap(angles: FloatArray) -> FloatArray:
    return (angles + np.pi) % (2.0 * np.pi) - np.pi


def _turn(vectors: FloatArray, yaw: FloatArray) -> FloatArray:
    """Turn ground vectors ``(F, 2)`` in (x, z) by ``yaw`` about +Y."""
    c, s = np.cos(yaw), np.sin(yaw)
    return np.stack([c * vectors[:, 0] + s * vectors[:, 1], -s * vectors[:, 0] + c * vectors[:, 1]], axis=-1)
