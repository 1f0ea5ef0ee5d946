"""The same tree in Pinocchio: an independent answer, and a second engine for derivatives.

Only joints with one degree of freedom are used: the derivatives of its spherical joints are wrong in spline
coordinates ([Fang2003]_ specification, §2.7).
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from marey.base import FloatArray, InputError, IntArray, MissingExtraError
from marey.dynamics._body import GRAVITY
from marey.dynamics._states import TreeStates, gravity_vector
from marey.dynamics._tree import JointTree
from marey.dynamics._tree_motion import REVOLUTE, WORLD
from marey.lie import SO3, hat


def import_pinocchio() -> Any:
    """The library, or a sentence that says how to get it."""
    try:
        return import_module("pinocchio")
    except ImportError:
        raise MissingExtraError("derivatives by Pinocchio", "physics") from None


@lru_cache(maxsize=32)
def pinocchio_model(tree: JointTree) -> Any:
    """Pinocchio model of a tree, joints numbered as ours plus one, gravity along -Y; built once and kept.

    Raises:
        InputError: a sub-tree is not in one piece; Pinocchio's derivatives would be wrong without a word.
    """
    pin = import_pinocchio()
    for i in range(tree.num_dofs):
        beyond = tree.subtree(i)
        if beyond[-1] - i + 1 != len(beyond):
            raise InputError(f"joints beyond '{tree.names[i]}' are not in one piece", "Number joints depth first")
    model: Any = pin.Model()
    model.gravity.linear = gravity_vector(GRAVITY)
    turns = SO3(tree.orientations).matrix()
    for i, name in enumerate(tree.names):
        kind = pin.JointModelRevoluteUnaligned if tree.kinds[i] == REVOLUTE else pin.JointModelPrismaticUnaligned
        parent = 0 if tree.parents[i] == WORLD else int(tree.parents[i]) + 1
        joint = model.addJoint(parent, kind(tree.axes[i]), pin.SE3(turns[i], tree.offsets[i]), name)
        inertia = pin.Inertia(float(tree.masses[i]), tree.centres[i], tree.inertias[i])
        model.appendBodyToJoint(joint, inertia, pin.SE3.Identity())
    return model


def pinocchio_aggregate_blocks(
    tree: JointTree, states: TreeStates, gravity: FloatArray
) -> tuple[FloatArray, FloatArray]:
    r"""Momentum and force ``(2, F, 6)``, and dp/dq, dp/dqd, df/dq, df/dqd ``(4, F, 6, D)``, frame by frame.

    Pinocchio's momentum :math:`h_G` and its rate are about the centre of mass c, without gravity:

    .. math:: f^a = \dot h^a_G - m g,\qquad f^b = \dot h^b_G + c\times f^a
    """
    pin, model = import_pinocchio(), pinocchio_model(tree)
    data: Any = model.createData()
    frames, D = states[0].shape
    totals, blocks = np.empty((2, frames, 6)), np.empty((4, frames, 6, D))
    for f in range(frames):
        q, v, a = states[0][f], states[1][f], states[2][f]
        dh_dq, df_dq, df_dqd, dh_dqd = pin.computeCentroidalDynamicsDerivatives(model, data, q, v, a)
        J_com = dh_dqd[:3] / tree.mass
        p, w = data.hg.vector.copy(), data.dhg.vector.copy()
        w[:3] -= tree.mass * gravity
        c = hat(data.com[0])
        for n, total in enumerate((p, w)):
            totals[n, f] = total
            totals[n, f, 3:] += c @ total[:3]
        for n, (block, force) in enumerate(((dh_dq, p), (dh_dqd, None), (df_dq, w), (df_dqd, None))):
            blocks[n, f] = block
            blocks[n, f, 3:] += c @ block[:3]
            if force is not None:
                blocks[n, f, 3:] -= hat(force[:3]) @ J_com
    return totals, blocks


def pinocchio_torque_blocks(tree: JointTree, states: TreeStates, gravity: FloatArray, joints: IntArray) -> FloatArray:
    """Derivatives ``(3, F, k, D)`` of the torques of ``joints`` by q, qd and qdd, frame by frame."""
    pin, model = import_pinocchio(), pinocchio_model(tree).copy()
    model.gravity.linear = gravity
    data: Any = model.createData()
    frames, D = states[0].shape
    out = np.empty((3, frames, len(joints), D))
    for f in range(frames):
        blocks = pin.computeRNEADerivatives(model, data, states[0][f], states[1][f], states[2][f])
        for n, block in enumerate(blocks):
            full = np.triu(block) + np.triu(block, 1).T if n == 2 else block
            out[n, f] = full[joints]
    return out
