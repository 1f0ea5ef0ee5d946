r"""Kinetic energy of a body of rods, as a metric of poses: what is heavy is far away.

One rod stands for each joint, from it to the mean of its children, its mass in proportion to its length.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.lie.kernels import Vector, multiply, quaternion_at, rotate, row3
from marey.skeleton import Pose, Skeleton

MIN_ROD_M: Final = 0.05  # [m] bones shorter than this count as so long
ROD_RADIUS_M: Final = 0.06  # [m] of the rods that stand for limbs
METRIC_FLOOR: Final = 1e-4  # [-] of the mean diagonal, added to it: modes that move nothing heavy stay within bounds


class RodBody(NamedTuple):
    """The skeleton, J joints, and the rods that stand for its limbs."""

    parents: IntArray  # (J,)
    offsets: FloatArray  # (J, 3) [m]
    rods: FloatArray  # (J, 3) [m] end of each joint's rod in its frame


def list_rods(skeleton: Skeleton) -> FloatArray:
    """Where each joint's rod ends ``(J, 3)`` [m] in its frame: the mean of its children, or its tip."""
    parents = skeleton.parents[1:]
    counts = np.bincount(parents, minlength=skeleton.num_joints)[:, None]
    sums = np.zeros((skeleton.num_joints, 3))
    np.add.at(sums, parents, skeleton.offsets[1:])
    return np.where(counts > 0, sums / np.maximum(counts, 1), skeleton.tips)


def pose_mass_matrix(pose: Pose) -> FloatArray:
    """Mass matrix ``(3 J - 3, 3 J - 3)`` of the turns of the joints below the root, in their own axes, to a factor."""
    skeleton, size = pose.skeleton, 3 * pose.skeleton.num_joints - 3
    columns = np.zeros((skeleton.num_joints, 3, size))
    columns[1:] = np.eye(size).reshape(-1, 3, size)
    metric = np.zeros((6 + size, 6 + size))
    body = RodBody(skeleton.parents.copy(), skeleton.offsets.copy(), list_rods(skeleton))
    write_kinetic_metric(body, pose.rotations.wxyz.copy(), columns, metric)
    return metric[6:, 6:]


@kernel
def write_kinetic_metric(body: RodBody, wxyz: FloatArray, columns: FloatArray, metric: FloatArray) -> None:
    r"""Write the mass matrix ``(6 + k, 6 + k)`` of a pose, scaled to trace n: root place, root turn, coordinates.

    .. math:: M = \sum_i m_i J_{v,i}^T J_{v,i} + J_{\omega,i}^T I_i J_{\omega,i}

    The step metric of [Tournier2011]_ §8.2.3: a hand moves by the arm, not by the whole body. One pass over the tree,
    :math:`O(n k^2)`. ``columns`` ``(J, 3, k)`` is how each joint turns with each coordinate, in its own axes.
    """
    joints, size = body.parents.shape[0], metric.shape[0]
    # J_v of each joint's origin, J_omega of each joint, and seven rows of a rod, all in world axes
    moves, turns, rows = np.zeros((joints, 3, size)), np.zeros((joints, 3, size)), np.zeros((7, size))
    world = np.zeros((joints, 4))
    metric[:] = 0.0
    for j in range(joints):
        p = body.parents[j]
        if j == 0:
            q = quaternion_at(wxyz, 0)
            for c in range(3):
                axis = (1.0 if c == 0 else 0.0, 1.0 if c == 1 else 0.0, 1.0 if c == 2 else 0.0)
                moves[0, c, c] = 1.0
                turns[0, 0, 3 + c], turns[0, 1, 3 + c], turns[0, 2, 3 + c] = rotate(q, axis)
        else:
            q = multiply(quaternion_at(world, p), quaternion_at(wxyz, j))
            lever = rotate(quaternion_at(world, p), row3(body.offsets, j))
            add_turns(moves[p], turns[p], lever, moves[j])
            turns[j] = turns[p]
            for k in range(size - 6):
                x, y, z = rotate(q, (columns[j, 0, k], columns[j, 1, k], columns[j, 2, k]))
                turns[j, 0, 6 + k] += x
                turns[j, 1, 6 + k] += y
                turns[j, 2, 6 + k] += z
        world[j, 0], world[j, 1], world[j, 2], world[j, 3] = q
        # The middle of the rod moves, the rod turns; along it its inertia is that of a cylinder
        x, y, z = rotate(q, row3(body.rods, j))
        long = np.sqrt(x * x + y * y + z * z)
        mass = max(long, MIN_ROD_M)
        across, along = mass**2 / 12.0 + ROD_RADIUS_M**2 / 4.0, ROD_RADIUS_M**2 / 2.0
        add_turns(moves[j], turns[j], (0.5 * x, 0.5 * y, 0.5 * z), rows[:3])
        for n in range(size):
            rows[6, n] = (x * turns[j, 0, n] + y * turns[j, 1, n] + z * turns[j, 2, n]) / max(long, 1e-9)
            for c in range(3):
                rows[3 + c, n] = turns[j, c, n]
        for r in range(7):
            weight = mass if r < 3 else mass * across if r < 6 else mass * (along - across)
            for n in range(size):
                f = weight * rows[r, n]
                if f != 0.0:
                    for m in range(n, size):
                        metric[n, m] += f * rows[r, m]
    trace = 0.0
    for n in range(size):
        trace += metric[n, n]
    factor = 1.0 / (trace / size * (1.0 + METRIC_FLOOR))
    for n in range(size):
        metric[n, n] += METRIC_FLOOR * trace / size
        for m in range(n, size):
            metric[n, m] *= factor
            metric[m, n] = metric[n, m]


@kernel
def add_turns(moves: FloatArray, turns: FloatArray, lever: Vector, out: FloatArray) -> None:
    r"""Write the velocity :math:`v + \omega \times l` of a point, column by column ``(3, n)``."""
    x, y, z = lever
    for n in range(out.shape[1]):
        a, b, c = turns[0, n], turns[1, n], turns[2, n]
        out[0, n] = moves[0, n] + b * z - c * y
        out[1, n] = moves[1, n] + c * x - a * z
        out[2, n] = moves[2, n] + a * y - b * x
