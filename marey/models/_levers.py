"""How far each joint moves the body: weights for the distance between poses."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.models._samples import Samples
from marey.motion import Motion
from marey.skeleton import Skeleton


def lever_arms(samples: Samples) -> FloatArray:
    r"""Lever arm ``(J,)`` [m] of each joint: how far what it carries moves when it turns by a small angle.

    .. math:: w_j^2 = \tfrac23\,\mathrm{mean}_t \sum_{d \in \mathrm{desc}(j)} \|p_d(t) - p_j(t)\|^2

    over the joints and bone tips below it; the factor is the mean of :math:`\sin^2` over all axes. A joint that carries
    nothing weighs nothing.
    """
    total = np.zeros(samples.skeleton.num_joints)
    for motion in samples.motions:
        total += _squared_reach(motion)
    return np.sqrt(2.0 / 3.0 * total / samples.count)


def _squared_reach(motion: Motion) -> FloatArray:
    """Squared distances to all that hangs on a joint ``(J,)`` [m^2], summed over the frames."""
    positions, frames = motion.joint_frames()
    tipped = np.flatnonzero(np.linalg.norm(motion.skeleton.tips, axis=1) > 0.0)
    tips = positions[:, tipped] + frames[:, tipped] @ motion.skeleton.tips[tipped]
    points = np.concatenate([positions, tips], axis=1)
    below = _carries(motion.skeleton)
    carried = np.concatenate([below, below[:, tipped]], axis=1)
    return np.array([((points[:, own] - positions[:, j, None]) ** 2).sum() for j, own in enumerate(carried)])


def _carries(skeleton: Skeleton) -> BoolArray:
    """Whether a joint ``(row)`` carries another or itself ``(column)``."""
    carried = np.eye(skeleton.num_joints, dtype=np.bool_)
    for joint in range(skeleton.num_joints - 1, 0, -1):
        carried[skeleton.parents[joint]] |= carried[joint]
    return carried
