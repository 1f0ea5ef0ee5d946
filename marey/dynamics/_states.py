"""States of a tree, checked where they enter."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen
from marey.dynamics._tree import JointTree
from marey.dynamics._tree_simplified import SimplifiedTree

AnyTree = JointTree | SimplifiedTree
TreeStates = tuple[FloatArray, FloatArray, FloatArray]  # q, qd, qdd, each (F, D)


def full_tree(tree: AnyTree) -> JointTree:
    """The body with all its coordinates."""
    return tree.tree if isinstance(tree, SimplifiedTree) else tree


def expand_states(tree: AnyTree, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> TreeStates:
    """Coordinates and their rates, each ``(F, D)`` of the whole body; fresh arrays, so that loops compile once."""
    d = tree.num_dofs
    states = frozen(q, None, d, name="q"), frozen(qd, None, d, name="qd"), frozen(qdd, None, d, name="qdd")
    if len({len(s) for s in states}) > 1:
        raise InputError(f"q, qd and qdd have {', '.join(str(len(s)) for s in states)} frames", "Give the same number")
    if isinstance(tree, SimplifiedTree):
        return tree.expand(states[0]), tree.expand(states[1]), tree.expand(states[2])
    return states[0].copy(), states[1].copy(), states[2].copy()


def gravity_vector(gravity: float) -> FloatArray:
    """Acceleration of free fall ``(3,)`` [m/s^2] in world."""
    if not np.isfinite(gravity):
        raise InputError(f"gravity is {gravity}", "Give a finite number, in m/s² along -Y")
    return np.array([0.0, -float(gravity), 0.0])
