"""Joint torques of a tree, and how they depend on the motion."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, UnknownNameError, frozen, frozen_ints
from marey.dynamics._body import GRAVITY
from marey.dynamics._states import AnyTree, TreeStates, expand_states, full_tree, gravity_vector
from marey.dynamics._tree import JointTree
from marey.dynamics._tree_simplified import reduce_jacobian

TorqueMethod = Literal["sub-tree", "pinocchio"]


def compute_torques(
    tree: AnyTree,
    q: ArrayLike,
    qd: ArrayLike,
    qdd: ArrayLike,
    *,
    gravity: float = GRAVITY,
    external: ArrayLike | None = None,
) -> FloatArray:
    """Torques [N m] and forces [N] ``(F, D)`` along the coordinates of the whole body, by Newton-Euler.

    Args:
        tree: the body.
        q: coordinates ``(F, D)``.
        qd: their velocities.
        qdd: their accelerations.
        gravity: downward acceleration of free fall [m/s^2].
        external: wrenches ``(F, D, 6)`` of the world on the links, (force, moment) about the origin of the world and
            in its axes. The root's rows of the result are what is still missing, zero when they explain the motion.
    """
    from marey.dynamics._torques_kernels import newton_euler_torques

    states, body = expand_states(tree, q, qd, qdd), full_tree(tree)
    none = np.zeros((0, body.num_dofs, 6))
    frames = 0 if external is None else len(states[0])
    pushes = frozen(none if external is None else external, frames, body.num_dofs, 6, name="external")
    return newton_euler_torques(body.arrays, states, gravity_vector(gravity), pushes)


def compute_torque_jacobians(
    tree: AnyTree,
    q: ArrayLike,
    qd: ArrayLike,
    qdd: ArrayLike,
    *,
    joints: ArrayLike | None = None,
    gravity: float = GRAVITY,
    method: TorqueMethod = "sub-tree",
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Derivatives of torques by q, qd and qdd, each ``(F, k, D)``; without external wrenches.

    Args:
        tree: the body.
        q: coordinates ``(F, D)``.
        qd: their velocities.
        qdd: their accelerations.
        joints: the ``k`` coordinates whose torques are wanted, all by default.
        gravity: downward acceleration of free fall [m/s^2].
        method: ``"sub-tree"``, Fang's extension ([Fang2003]_ §8.2): aggregates of sub-trees, whose cost grows with the
            number of torques; or ``"pinocchio"``.
    """
    if method not in get_args(TorqueMethod):
        raise UnknownNameError("method", method, "torque_jacobians", get_args(TorqueMethod))
    states, body = expand_states(tree, q, qd, qdd), full_tree(tree)
    chosen = np.arange(body.num_dofs) if joints is None else frozen_ints(joints, None, name="joints")
    if len(chosen) and not (chosen.min() >= 0 and chosen.max() < body.num_dofs):
        raise InputError("a joint is out of range", f"The tree has coordinates 0 to {body.num_dofs - 1}")
    if method == "pinocchio":
        from marey.dynamics._tree_pinocchio import pinocchio_torque_blocks

        blocks = pinocchio_torque_blocks(body, states, gravity_vector(gravity), chosen)
    else:
        blocks = _subtree_torque_jacobians(body, states, gravity_vector(gravity), chosen)
    dq, dqd, dqdd = reduce_jacobian(tree, blocks)
    return dq, dqd, dqdd


def _subtree_torque_jacobians(body: JointTree, states: TreeStates, gravity: FloatArray, chosen: IntArray) -> FloatArray:
    """Derivatives ``(3, F, k, D)`` of the torques of chosen coordinates ``(k,)``, which may repeat."""
    from marey.dynamics._torques_kernels import linear_time_torque_jacobians

    once, places = np.unique(chosen, return_inverse=True)
    rows = np.full(body.num_dofs, -1)
    rows[once] = np.arange(len(once))
    blocks = linear_time_torque_jacobians(body.arrays, states, gravity, rows, len(once))
    return blocks if np.array_equal(once, chosen) else blocks[:, :, places]
