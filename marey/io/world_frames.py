r"""A skeleton from the world positions and world rotations of its joints.

Formats of suits and generators keep no offsets. Bones are rigid, so every frame has them:

.. math:: L_j = R_{p(j)}^\top R_j, \qquad o_j = \frac1F \sum_f R_{p(j)}^\top (x_j - x_{p(j)})
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray, IntArray
from marey.lie import SO3


@dataclass(frozen=True, slots=True, eq=False)
class LocalFrames:
    """Joints seen from their parents."""

    rotations: SO3  # batch (F, J), R_parent_joint
    bones: FloatArray  # (F, J, 3) [m] joint origin in its parent's frame; zero for the root
    offsets: FloatArray  # (J, 3) [m] mean of the bones
    stretch_m: float  # largest distance of a bone's end from its mean

    def translations(self, tolerance_m: float) -> FloatArray | None:
        """Bones frame by frame, where they change by more than the tolerance; else nothing: they are rigid."""
        return self.bones if self.stretch_m > tolerance_m else None


def localise_frames(world: SO3, positions: FloatArray, parents: IntArray) -> LocalFrames:
    """Turn world rotations, batch (F, J), and positions (F, J, 3) [m] into those of joints in their parents' frames."""
    above = parents[1:]
    inverse = world[:, above].inverse()
    bones = np.zeros_like(positions)
    bones[:, 1:] = inverse @ (positions[:, 1:] - positions[:, above])
    offsets = bones.mean(axis=0)
    rotations = SO3.concatenate([world[:, :1], inverse @ world[:, 1:]], axis=1)
    stretch_m = float(np.linalg.norm(bones - offsets, axis=-1).max())
    return LocalFrames(rotations, bones, offsets, stretch_m)
