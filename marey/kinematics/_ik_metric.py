"""The kinetic metric of a reduced space: light limbs move before the whole body does."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray
from marey.kinematics._ik_mass import mass_points
from marey.kinematics._ik_run import Guess
from marey.kinematics._jacobian import point_jacobian
from marey.lie import SO3
from marey.models import PoseModel
from marey.skeleton import Pose, Skeleton


def kinetic_metric(skeleton: Skeleton, model: PoseModel, guess: Guess) -> FloatArray:
    r"""Mass matrix ``(6 + k, 6 + k)`` of the body's mass points, scaled to trace n.

    .. math:: M = \sum_i m_i J_i^T J_i

    with the points and masses of the centre of mass ([DeLeva1996]_), in the order root place, root turn, coordinates;
    the step metric of [Tournier2011]_ §8.2.3. Points carry no inertia of their own, so the diagonal gets a little.
    """
    pose = Pose(skeleton, guess.root, SO3(guess.wxyz))
    columns = model.jacobian(guess.x[None])[0]
    size = 6 + len(guess.x)
    metric = np.zeros((size, size))
    for joint, point, mass in zip(*mass_points(skeleton), strict=True):
        full = point_jacobian(pose, joint, point)
        turns = full[:, 6:].reshape(3, -1, 3)
        reduced = np.concatenate([full[:, :6], np.einsum("rjc,jck->rk", turns, columns[1:])], axis=1)
        metric += mass * reduced.T @ reduced
    metric += 1e-4 * np.trace(metric) / size * np.eye(size)
    return metric * (size / np.trace(metric))
