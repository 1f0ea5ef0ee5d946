"""Points carried by a chain of hinges and their derivatives, compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marey.base import FloatArray, IntArray, kernel


class HingeChain(NamedTuple):
    """Hinges, parents first, and the points that bones carry."""

    bones: IntArray  # (H,) bone of each hinge
    axes: FloatArray  # (H, 3) at rest
    origins: FloatArray  # (H, 3) [m] at rest
    moves: FloatArray  # (B, H) one where a hinge moves a bone
    owners: IntArray  # (C,) bone of each point
    points: FloatArray  # (C, 3) [m] at rest


@kernel
def _axis_rotation(axis: FloatArray, angle: float, out: FloatArray) -> None:
    """Rotation matrix about a unit axis."""
    c, s = np.cos(angle), np.sin(angle)
    x, y, z = axis
    for i in range(3):
        for j in range(3):
            out[i, j] = (1.0 - c) * axis[i] * axis[j] + (c if i == j else 0.0)
    out[0, 1] -= s * z
    out[0, 2] += s * y
    out[1, 0] += s * z
    out[1, 2] -= s * x
    out[2, 0] -= s * y
    out[2, 1] += s * x


@kernel
def pose_chain(chain: HingeChain, angles: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Carried points ``(C, 3)``, their derivative ``(C, 3, H)`` and the axes of hinges ``(H, 3)``, in the world."""
    num, hinges, count = chain.moves.shape[0], len(chain.bones), len(chain.owners)
    rotations, shifts, one = np.zeros((num, 3, 3)), np.zeros((num, 3)), np.empty((3, 3))
    for k in range(num):
        for i in range(3):
            rotations[k, i, i] = 1.0
    axes, origins = np.empty((hinges, 3)), np.empty((hinges, 3))
    for h in range(hinges):
        k = chain.bones[h]
        axes[h] = rotations[k] @ chain.axes[h]
        origins[h] = rotations[k] @ chain.origins[h] + shifts[k]
        _axis_rotation(chain.axes[h], angles[h], one)
        turned = rotations[k] @ one
        shift = origins[h] - turned @ chain.origins[h]
        for b in range(num):
            if chain.moves[b, h] > 0.0:
                rotations[b] = turned
                shifts[b] = shift
    points, J = np.empty((count, 3)), np.zeros((count, 3, hinges))
    for p in range(count):
        b = chain.owners[p]
        for i in range(3):
            points[p, i] = shifts[b, i]
            for j in range(3):
                points[p, i] += rotations[b, i, j] * chain.points[p, j]
        for h in range(hinges):
            if chain.moves[b, h] > 0.0:
                x, y, z = points[p, 0] - origins[h, 0], points[p, 1] - origins[h, 1], points[p, 2] - origins[h, 2]
                J[p, 0, h] = axes[h, 1] * z - axes[h, 2] * y
                J[p, 1, h] = axes[h, 2] * x - axes[h, 0] * z
                J[p, 2, h] = axes[h, 0] * y - axes[h, 1] * x
    return points, J, axes
