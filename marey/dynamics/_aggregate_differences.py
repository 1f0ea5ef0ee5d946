"""Jacobians of the aggregates by finite differences: the baselines that Fang measured."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.dynamics._states import TreeStates
from marey.dynamics._tree import JointTree

# [rad], [m] and per second: where the error measured on Fang's 22 coordinates is near its least
DIFFERENCE_STEPS: Final = {"forward": 1e-7, "central": 1e-5, "richardson": 3e-2}


def difference_blocks(
    tree: JointTree, states: TreeStates, gravity: FloatArray, scheme: str, step: float | None = None
) -> tuple[FloatArray, FloatArray]:
    """Momentum and force ``(2, F, 6)``, and dp/dq, dp/dqd, df/dq, df/dqd ``(4, F, 6, D)``, numerically.

    Each coordinate, velocity and acceleration is moved in turn, as a method that knows no structure would do it;
    df/dqdd is measured too, though dp/dqd is what is returned for it.
    """
    from marey.dynamics._aggregate_kernels import newton_euler_aggregate

    h = DIFFERENCE_STEPS[scheme] if step is None else step
    totals = newton_euler_aggregate(tree.arrays, states, gravity)[0]
    D = tree.num_dofs
    slopes = np.empty((3, 2, *states[0].shape[:1], 6, D))
    for n in range(3):
        for i in range(D):
            slopes[n, ..., i] = _difference_quotient(tree, states, gravity, (n, i), totals, scheme, h)
    return totals, np.stack([slopes[0, 0], slopes[1, 0], slopes[0, 1], slopes[1, 1]])


def _difference_quotient(
    tree: JointTree,
    states: TreeStates,
    gravity: FloatArray,
    which: tuple[int, int],
    here: FloatArray,
    scheme: str,
    h: float,
) -> FloatArray:
    r"""Derivative of both aggregates by one number.

    Richardson: central differences at h, h/2, h/4 with errors in :math:`h^2, h^4` eliminated, so order six.
    """
    from marey.dynamics._aggregate_kernels import newton_euler_aggregate

    def at(shift: float) -> FloatArray:
        moved = [s.copy() if n == which[0] else s for n, s in enumerate(states)]
        moved[which[0]][:, which[1]] += shift
        return newton_euler_aggregate(tree.arrays, (moved[0], moved[1], moved[2]), gravity)[0]

    def central(step: float) -> FloatArray:
        return (at(step) - at(-step)) / (2.0 * step)

    if scheme == "forward":
        return (at(h) - here) / h
    if scheme == "central":
        return central(h)
    first, second, third = central(h), central(h / 2), central(h / 4)
    left, right = (4.0 * second - first) / 3.0, (4.0 * third - second) / 3.0
    return (16.0 * right - left) / 15.0
