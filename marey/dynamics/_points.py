"""Points of a tree and its centre of mass: where they are, how they move, and how that depends on the coordinates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen, frozen_ints
from marey.dynamics._states import AnyTree, expand_states, full_tree
from marey.dynamics._tree_simplified import reduce_jacobian


@dataclass(frozen=True, slots=True, eq=False)
class PointMotion:
    r"""A point, or several, through time; ``J`` and its rates give all derivatives.

    .. math:: \frac{\partial\dot o}{\partial q} = \dot J,\quad \frac{\partial\ddot o}{\partial q} = \ddot J,\quad
        \frac{\partial\ddot o}{\partial\dot q} = 2\dot J,\quad
        \frac{\partial o}{\partial q} = \frac{\partial\dot o}{\partial\dot q}
        = \frac{\partial\ddot o}{\partial\ddot q} = J
    """

    position: FloatArray  # (F, 3) [m] in world; (F, P, 3) for several points
    velocity: FloatArray  # [m/s] of the same shape
    acceleration: FloatArray  # [m/s^2]
    J: FloatArray  # (F, 3, D); (F, P, 3, D) for several points
    Jd: FloatArray  # its first rate
    Jdd: FloatArray  # its second rate


def compute_points_motion(
    tree: AnyTree, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, dofs: ArrayLike, points: ArrayLike
) -> PointMotion:
    """Motion of points fixed to links, with Jacobians at a constant cost for each joint ([Fang2003]_ §5.2).

    Args:
        tree: the body.
        q: coordinates ``(F, D)``.
        qd: their velocities.
        qdd: their accelerations.
        dofs: link of each point ``(P,)``.
        points: place in the link's frame ``(P, 3)`` [m].

    Raises:
        InputError: states of other shapes, or a link that the tree does not have.
    """
    from marey.dynamics._points_kernels import compute_point_jacobians

    links = frozen_ints(dofs, None, name="dofs")
    places = frozen(points, len(links), 3, name="points")
    base = full_tree(tree)
    if len(links) and not (links.min() >= 0 and links.max() < base.num_dofs):
        outside = links[(links < 0) | (links >= base.num_dofs)]
        raise InputError(f"a point is on link {outside[0]}", f"The tree has links 0 to {base.num_dofs - 1}")
    moved, blocks = compute_point_jacobians(base.arrays, expand_states(tree, q, qd, qdd), links.copy(), places.copy())
    J = reduce_jacobian(tree, blocks)
    return PointMotion(moved[:, :, 0], moved[:, :, 1], moved[:, :, 2], J[:, :, 0], J[:, :, 1], J[:, :, 2])


def compute_point_motion(
    tree: AnyTree, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, dof: int, point: ArrayLike
) -> PointMotion:
    """Motion of one point of link ``dof``; see :func:`points_motion`."""
    several = compute_points_motion(tree, q, qd, qdd, [dof], np.asarray(point, dtype=np.float64)[None])
    return PointMotion(
        several.position[:, 0],
        several.velocity[:, 0],
        several.acceleration[:, 0],
        several.J[:, 0],
        several.Jd[:, 0],
        several.Jdd[:, 0],
    )


def compute_com_motion(tree: AnyTree, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> PointMotion:
    """Motion of the centre of mass: each column is the sub-tree's, times its share of the mass."""
    from marey.dynamics._points_kernels import compute_com_jacobians

    moved, blocks = compute_com_jacobians(full_tree(tree).arrays, expand_states(tree, q, qd, qdd))
    J = reduce_jacobian(tree, blocks)
    return PointMotion(moved[:, 0], moved[:, 1], moved[:, 2], J[:, 0], J[:, 1], J[:, 2])
