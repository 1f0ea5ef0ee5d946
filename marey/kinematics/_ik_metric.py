"""The kinetic metric of a reduced space: light limbs move before the whole body does."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.kinematics._ik_clips import Guess
from marey.kinematics._jacobian import point_jacobian
from marey.lie import SO3
from marey.models import PoseModel
from marey.skeleton import NO_PARENT, Pose, Skeleton

MIN_ROD_M: Final = 0.05  # [m] bones shorter than this count as so long
RADIUS_M: Final = 0.06  # [m] of the rods that stand for limbs
FLOOR: Final = 1e-4  # [-] of the mean diagonal, added to it: modes that move nothing heavy stay within bounds


def compute_kinetic_metric(skeleton: Skeleton, model: PoseModel, guess: Guess) -> FloatArray:
    r"""Mass matrix ``(6 + k, 6 + k)`` of the body, scaled to trace n: root place, root turn, coordinates.

    .. math:: M = \sum_i m_i J_{v,i}^T J_{v,i} + J_{\omega,i}^T I_i J_{\omega,i}

    One rod for each joint, from it to the mean of its children, its mass in proportion to its length. The step metric
    of [Tournier2011]_ §8.2.3: a hand moves by the arm, not by the whole body.
    """
    pose = Pose(skeleton, guess.root, SO3(guess.wxyz))
    turns, size = _rotation_columns(skeleton, model, guess), 6 + len(guess.x)
    columns = model.jacobian(guess.x[None])[0]
    metric = np.zeros((size, size))
    for j, rod in enumerate(_find_rod_ends(skeleton)):
        length = max(float(np.linalg.norm(rod)), MIN_ROD_M)
        full = point_jacobian(pose, j, 0.5 * rod)
        moves = np.concatenate(
            [full[:, :6], np.einsum("rjc,jck->rk", full[:, 6:].reshape(3, -1, 3), columns[1:])], axis=1
        )
        along = rod / max(float(np.linalg.norm(rod)), 1e-9)
        across = np.eye(3) - np.outer(along, along)
        inertia = across * (length**2 / 12.0 + RADIUS_M**2 / 4.0) + np.outer(along, along) * RADIUS_M**2 / 2.0
        metric += length * (moves.T @ moves + turns[j].T @ inertia @ turns[j])
    metric += FLOOR * np.trace(metric) / size * np.eye(size)
    return metric * (size / np.trace(metric))


def _find_rod_ends(skeleton: Skeleton) -> FloatArray:
    """Where each joint's rod ends ``(J, 3)`` [m] in its frame: the mean of its children, or its tip."""
    ends = skeleton.tips.copy()
    for j in range(skeleton.num_joints):
        below = skeleton.children(j)
        if len(below):
            ends[j] = skeleton.offsets[below].mean(axis=0)
    return ends


def _rotation_columns(skeleton: Skeleton, model: PoseModel, guess: Guess) -> FloatArray:
    """Angular velocity of each joint in its own frame for each coordinate: ``(J, 3, 6 + k)``."""
    local, columns = SO3(guess.wxyz).matrix(), model.jacobian(guess.x[None])[0]
    turns = np.zeros((skeleton.num_joints, 3, 6 + len(guess.x)))
    turns[0, :, 3:6] = np.eye(3)
    for j in range(1, skeleton.num_joints):
        parent = int(skeleton.parents[j])
        assert parent != NO_PARENT
        turns[j] = local[j].T @ turns[parent]
        turns[j, :, 6:] += columns[j]
    return turns
