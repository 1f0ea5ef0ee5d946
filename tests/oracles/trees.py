"""Random trees of joints, and how near a motion comes to gimbal lock: for checks of the recursions over trees."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray
from marey.dynamics import PRISMATIC, REVOLUTE, JointTree
from marey.dynamics.tree_plans import TreeDraft
from marey.lie import SO3


def random_tree(rng: np.random.Generator, num_dofs: int, *, massless: float = 0.25) -> JointTree:
    """Tree with joints of both kinds, a share of its links ``massless``; it has no skeleton.

    Each joint hangs on the one before it or on a near ancestor of that; the last link has mass.
    """
    draft = TreeDraft()
    for i in range(num_dofs):
        axis, parent = rng.normal(size=3), i - 1
        for _ in range(int(rng.integers(0, 4)) if i > 1 else 0):
            parent = max(draft.parents[parent], 0)
        kind = PRISMATIC if rng.random() < 0.3 else REVOLUTE
        offset, turn = 0.4 * rng.normal(size=3), SO3.random(rng).wxyz
        unit = axis / np.linalg.norm(axis)
        draft.add(f"q{i}", parent, unit, group=f"q{i}", kind=kind, offset=offset, orientation=turn)
        if i == num_dofs - 1 or rng.random() >= massless:
            corners = 0.2 * rng.normal(size=(8, 3))  # a solid: eight points, so that its moments are possible
            for corner in corners:
                draft.weigh(i, float(rng.uniform(0.1, 0.5)), corner, np.zeros((3, 3)))
    return JointTree(**draft.build(None, {}))


def gimbal_margins(tree: JointTree, q: FloatArray) -> dict[str, float]:
    """Least angle [rad] between each joint of three turns and its gimbal lock, over frames ``q (F, D)``."""
    margins: dict[str, float] = {}
    for group in dict.fromkeys(tree.groups):
        turns = [i for i in range(tree.num_dofs) if tree.groups[i] == group and tree.kinds[i] == REVOLUTE]
        if len(turns) == 3:
            # Gimbal lock is where the middle turn is a right angle
            margins[group] = float(0.5 * np.pi - np.arcsin(np.abs(np.sin(q[:, turns[1]])).max()))
    return margins
