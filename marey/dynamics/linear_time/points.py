"""Points of a tree and its centre of mass: where they are, how they move, and how that depends on the coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, frozen, frozen_ints, kernel
from marey.dynamics.joint_tree import reduce_jacobian
from marey.dynamics.linear_time.passes import (
    AnyTree,
    TreeStates,
    compute_link_frames,
    expand_states,
    fill_zero,
    full_tree,
)
from marey.dynamics.spatial import PRISMATIC, TreeArrays, rotate
from marey.lie.kernels import Vector, add3, cross, put3, row3, scale3, subtract3


class LinkMotion(NamedTuple):
    """Room for the motion of all links of D joints at one frame, in world axes; all of the world's row is at rest."""

    R: FloatArray  # (D + 3, 3, 3) rotations, and two matrices to work in
    P: FloatArray  # (D + 1, 3) [m] origins
    Pd: FloatArray  # (D + 1, 3) their velocities
    Pdd: FloatArray  # (D + 1, 3) and accelerations
    w: FloatArray  # (D + 1, 3) angular velocities
    wd: FloatArray  # (D + 1, 3) and accelerations
    s: FloatArray  # (D + 1, 3) joint axes
    sd: FloatArray  # (D + 1, 3) their first
    sdd: FloatArray  # (D + 1, 3) and second derivatives


@kernel
def allocate_links(D: int) -> LinkMotion:
    """Room for a tree of ``D`` joints."""
    z = np.zeros((8, D + 1, 3))
    return LinkMotion(np.empty((D + 3, 3, 3)), z[0], z[1], z[2], z[3], z[4], z[5], z[6], z[7])


@kernel
def vector_derivatives(w: Vector, wd: Vector, r: Vector) -> tuple[Vector, Vector]:
    r"""First and second derivative of a vector fixed to a frame: :math:`\omega r,\; \dot\omega r + \omega\omega r`."""
    rd = cross(w, r)
    return rd, add3(cross(wd, r), cross(w, rd))


@kernel
def compute_frame_motion(tree: TreeArrays, states: TreeStates, f: int, links: LinkMotion) -> None:
    """Velocities and accelerations of all links and joint axes at frame ``f``, in world axes, without gravity."""
    parents, kinds, geometry = tree.parents, tree.kinds, tree.geometry
    q, qd, qdd = states
    R, P, Pd, Pdd, w, wd, s, sd, sdd = links
    compute_link_frames(parents, kinds, tree.rests, geometry, q, f, R, P)
    for i in range(parents.shape[0]):
        k = parents[i]
        axis = rotate(R, i, (geometry[i, 0], geometry[i, 1], geometry[i, 2]))
        # The axis and the arm are carried by the parent: their derivatives come from its rotation
        wk, wdk = row3(w, k), row3(wd, k)
        rate, bend = vector_derivatives(wk, wdk, axis)
        arm, arm2 = vector_derivatives(wk, wdk, subtract3(row3(P, i), row3(P, k)))
        put3(s, i, axis)
        put3(sd, i, rate)
        put3(sdd, i, bend)
        # A prismatic joint lengthens the arm, with a Coriolis term; a revolute one adds to the rotation
        if kinds[i] == PRISMATIC:
            arm = add3(arm, scale3(qd[f, i], axis))
            arm2 = add3(arm2, add3(scale3(qdd[f, i], axis), scale3(2.0 * qd[f, i], rate)))
        else:
            wk = add3(wk, scale3(qd[f, i], axis))
            wdk = add3(wdk, add3(scale3(qdd[f, i], axis), scale3(qd[f, i], rate)))
        put3(w, i, wk)
        put3(wd, i, wdk)
        put3(Pd, i, add3(row3(Pd, k), arm))
        put3(Pdd, i, add3(row3(Pdd, k), arm2))


@kernel
def put_point_jacobian_column(
    links: LinkMotion, kinds: IntArray, i: int, share: float, o: tuple[Vector, Vector, Vector], J: FloatArray
) -> None:
    r"""Column ``i`` of the Jacobian and of its first two derivatives ``J (3, 3, D)``, in constant time.

    .. math:: J_i = \hat s_i\times(o-P_i),\quad \dot J_i,\; \ddot J_i \text{ by the product rule}

    [Fang2003]_ §5.2. A column is multiplied by ``share``: the centre of mass takes the sub-tree's share of the mass.
    """
    a, ad, add = row3(links.s, i), row3(links.sd, i), row3(links.sdd, i)
    if kinds[i] != PRISMATIC:
        r, rd = subtract3(o[0], row3(links.P, i)), subtract3(o[1], row3(links.Pd, i))
        rdd = subtract3(o[2], row3(links.Pdd, i))
        add = add3(add3(cross(add, r), scale3(2.0, cross(ad, rd))), cross(a, rdd))
        ad = add3(cross(ad, r), cross(a, rd))
        a = cross(a, r)
    for c in range(3):
        J[0, c, i] = share * a[c]
        J[1, c, i] = share * ad[c]
        J[2, c, i] = share * add[c]


@kernel
def compute_point_jacobians(
    tree: TreeArrays, states: TreeStates, dofs: IntArray, points: FloatArray, width: int
) -> tuple[FloatArray, FloatArray]:
    """Position, velocity, acceleration ``(F, P, 3, 3)`` and Jacobians J, Jd, Jdd ``(F, P, 3, 3, width)``: D or none."""
    parents = tree.parents
    frames, D = states[0].shape
    moved, J = np.empty((frames, dofs.shape[0], 3, 3)), np.zeros((frames, dofs.shape[0], 3, 3, width))
    links = allocate_links(D)
    for f in range(frames):
        compute_frame_motion(tree, states, f, links)
        R, P, Pd, Pdd, w, wd = links.R, links.P, links.Pd, links.Pdd, links.w, links.wd
        for n in range(dofs.shape[0]):
            i = int(dofs[n])
            # Position, velocity and acceleration of the point on its link
            r = rotate(R, i, row3(points, n))
            rd, rdd = vector_derivatives(row3(w, i), row3(wd, i), r)
            o = (add3(row3(P, i), r), add3(row3(Pd, i), rd), add3(row3(Pdd, i), rdd))
            for c in range(3):
                put3(moved[f, n], c, o[c])
            # One column for every joint between the point and the root
            while i < width:
                put_point_jacobian_column(links, tree.kinds, i, 1.0, o, J[f, n])
                i = int(parents[i])
    return moved, J


@kernel
def compute_com_jacobians(tree: TreeArrays, states: TreeStates, width: int) -> tuple[FloatArray, FloatArray]:
    """Centre of mass: position, velocity, acceleration ``(F, 3, 3)`` and Jacobians ``(F, 3, 3, width)``: D or none."""
    parents, inertias = tree.parents, tree.inertias
    frames, D = states[0].shape
    moved, J = np.empty((frames, 3, 3)), np.zeros((frames, 3, 3, width))
    links = allocate_links(D)
    masses, sums = np.empty(D + 1), np.empty((D + 1, 9))
    for f in range(frames):
        compute_frame_motion(tree, states, f, links)
        R, P, Pd, Pdd, w, wd = links.R, links.P, links.Pd, links.Pdd, links.w, links.wd
        fill_zero(sums)
        for i in range(D + 1):
            masses[i] = 0.0
        for i in range(D - 1, -1, -1):
            # Leaf to base: mass, first moment and its two derivatives of every sub-tree
            m = inertias[i, 0]
            h = rotate(R, i, (inertias[i, 1], inertias[i, 2], inertias[i, 3]))
            hd, hdd = vector_derivatives(row3(w, i), row3(wd, i), h)
            masses[i] += m
            for c in range(3):
                sums[i, c] += m * P[i, c] + h[c]
                sums[i, 3 + c] += m * Pd[i, c] + hd[c]
                sums[i, 6 + c] += m * Pdd[i, c] + hdd[c]
            masses[parents[i]] += masses[i]
            for c in range(9):
                sums[parents[i], c] += sums[i, c]
        for i in range(width):
            # A joint moves the centre of its sub-tree, which counts by its share of the mass
            if masses[i] > 0.0:
                x = sums[i]
                per = 1.0 / masses[i]
                o = (
                    (per * x[0], per * x[1], per * x[2]),
                    (per * x[3], per * x[4], per * x[5]),
                    (per * x[6], per * x[7], per * x[8]),
                )
                put_point_jacobian_column(links, tree.kinds, i, masses[i] / masses[D], o, J[f])
        for c in range(9):
            moved[f, c // 3, c % 3] = sums[D, c] / masses[D]
    return moved, J


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
    tree: AnyTree,
    q: ArrayLike,
    qd: ArrayLike,
    qdd: ArrayLike,
    dofs: ArrayLike,
    points: ArrayLike,
    *,
    jacobians: bool = True,
) -> PointMotion:
    """Motion of points fixed to links, with Jacobians at a constant cost for each joint ([Fang2003]_ §5.2).

    Args:
        tree: the body.
        q: coordinates ``(F, D)``.
        qd: their velocities.
        qdd: their accelerations.
        dofs: link of each point ``(P,)``.
        points: place in the link's frame ``(P, 3)`` [m].
        jacobians: whether they are asked for; else they have no columns.

    Raises:
        InputError: states of other shapes, or a link that the tree does not have.
    """
    links = frozen_ints(dofs, None, name="dofs")
    places = frozen(points, len(links), 3, name="points")
    base = full_tree(tree)
    if len(links) and not (links.min() >= 0 and links.max() < base.num_dofs):
        outside = links[(links < 0) | (links >= base.num_dofs)]
        raise InputError(f"a point is on link {outside[0]}", f"The tree has links 0 to {base.num_dofs - 1}")
    states, width = expand_states(tree, q, qd, qdd), base.num_dofs if jacobians else 0
    moved, blocks = compute_point_jacobians(base.arrays, states, links.copy(), places.copy(), width)
    J = reduce_jacobian(tree, blocks) if jacobians else blocks
    return PointMotion(moved[:, :, 0], moved[:, :, 1], moved[:, :, 2], J[:, :, 0], J[:, :, 1], J[:, :, 2])


def compute_point_positions(tree: AnyTree, q: FloatArray, dofs: ArrayLike, points: ArrayLike) -> FloatArray:
    """Positions ``(F, P, 3)`` [m] of points fixed to links ``dofs (P,)``, at ``points (P, 3)`` there."""
    still = np.zeros_like(q)
    return compute_points_motion(tree, q, still, still, dofs, points, jacobians=False).position


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


def compute_com_motion(
    tree: AnyTree, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, *, jacobians: bool = True
) -> PointMotion:
    """Motion of the centre of mass: each column is the sub-tree's, times its share of the mass."""
    base = full_tree(tree)
    width = base.num_dofs if jacobians else 0
    moved, blocks = compute_com_jacobians(base.arrays, expand_states(tree, q, qd, qdd), width)
    J = reduce_jacobian(tree, blocks) if jacobians else blocks
    return PointMotion(moved[:, 0], moved[:, 1], moved[:, 2], J[:, 0], J[:, 1], J[:, 2])
