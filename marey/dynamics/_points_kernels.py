"""Compiled motion of points of a tree and of its centre of mass, with their linear-time Jacobians."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.dynamics._spatial_kernels import Vector, cross, minus, plus, put3, row3, times, turn
from marey.dynamics._states import States
from marey.dynamics._tree import PRISMATIC
from marey.dynamics._tree_kernels import TreeArrays, clear, place_links

# of one frame: R (D+3, 3, 3); P, its velocity and acceleration, angular velocity and acceleration, axis and its first
# and second derivative, each (D+1, 3)
Links = tuple[FloatArray, ...]


@kernel
def links_for(D: int) -> Links:
    """Room for one frame of a tree of ``D`` joints; all of the world's row is at rest."""
    z = np.zeros((9, D + 1, 3))
    return np.empty((D + 3, 3, 3)), z[0], z[1], z[2], z[3], z[4], z[5], z[6], z[7]


@kernel
def spun(w: Vector, wd: Vector, r: Vector) -> tuple[Vector, Vector]:
    r"""First and second derivative of a vector fixed to a frame: :math:`\omega r,\; \dot\omega r + \omega\omega r`."""
    rd = cross(w, r)
    return rd, plus(cross(wd, r), cross(w, rd))


@kernel
def move_frames(tree: TreeArrays, states: States, f: int, links: Links) -> None:
    """Velocities and accelerations of all links and joint axes at frame ``f``, in world axes, without gravity."""
    parents, kinds, geometry = tree[0], tree[1], tree[3]
    q, qd, qdd = states
    R, P, Pd, Pdd, w, wd, s, sd, sdd = links
    place_links(parents, kinds, tree[2], geometry, q, f, R, P)
    for i in range(parents.shape[0]):
        k = parents[i]
        axis = turn(R, i, (geometry[i, 0], geometry[i, 1], geometry[i, 2]))
        wk, wdk = row3(w, k), row3(wd, k)
        rate, bend = spun(wk, wdk, axis)
        arm, arm2 = spun(wk, wdk, minus(row3(P, i), row3(P, k)))
        put3(s, i, axis)
        put3(sd, i, rate)
        put3(sdd, i, bend)
        if kinds[i] == PRISMATIC:
            arm = plus(arm, times(qd[f, i], axis))
            arm2 = plus(arm2, plus(times(qdd[f, i], axis), times(2.0 * qd[f, i], rate)))
        else:
            wk = plus(wk, times(qd[f, i], axis))
            wdk = plus(wdk, plus(times(qdd[f, i], axis), times(qd[f, i], rate)))
        put3(w, i, wk)
        put3(wd, i, wdk)
        put3(Pd, i, plus(row3(Pd, k), arm))
        put3(Pdd, i, plus(row3(Pdd, k), arm2))


@kernel
def put_columns(
    links: Links, kinds: IntArray, i: int, share: float, o: tuple[Vector, Vector, Vector], J: FloatArray
) -> None:
    r"""Column ``i`` of the Jacobian and of its first two derivatives ``J (3, 3, D)``, in constant time.

    .. math:: J_i = \hat s_i\times(o-P_i),\quad \dot J_i,\; \ddot J_i \text{ by the product rule}

    [Fang2003]_ §5.2. A column is multiplied by ``share``: the centre of mass takes the sub-tree's share of the mass.
    """
    _, P, Pd, Pdd, _, _, s, sd, sdd = links
    a, ad, add = row3(s, i), row3(sd, i), row3(sdd, i)
    if kinds[i] != PRISMATIC:
        r, rd, rdd = minus(o[0], row3(P, i)), minus(o[1], row3(Pd, i)), minus(o[2], row3(Pdd, i))
        add = plus(plus(cross(add, r), times(2.0, cross(ad, rd))), cross(a, rdd))
        ad = plus(cross(ad, r), cross(a, rd))
        a = cross(a, r)
    for c in range(3):
        J[0, c, i] = share * a[c]
        J[1, c, i] = share * ad[c]
        J[2, c, i] = share * add[c]


@kernel
def move_points(tree: TreeArrays, states: States, dofs: IntArray, points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Position, velocity, acceleration ``(F, P, 3, 3)`` and their Jacobians J, Jd, Jdd ``(F, P, 3, 3, D)``."""
    parents = tree[0]
    frames, D = states[0].shape
    moved, J = np.empty((frames, dofs.shape[0], 3, 3)), np.zeros((frames, dofs.shape[0], 3, 3, D))
    links = links_for(D)
    for f in range(frames):
        move_frames(tree, states, f, links)
        R, P, Pd, Pdd, w, wd = links[0], links[1], links[2], links[3], links[4], links[5]
        for n in range(dofs.shape[0]):
            i = int(dofs[n])
            r = turn(R, i, row3(points, n))
            rd, rdd = spun(row3(w, i), row3(wd, i), r)
            o = (plus(row3(P, i), r), plus(row3(Pd, i), rd), plus(row3(Pdd, i), rdd))
            for c in range(3):
                put3(moved[f, n], c, o[c])
            while i < D:
                put_columns(links, tree[1], i, 1.0, o, J[f, n])
                i = int(parents[i])
    return moved, J


@kernel
def move_com(tree: TreeArrays, states: States) -> tuple[FloatArray, FloatArray]:
    """Centre of mass: position, velocity, acceleration ``(F, 3, 3)`` and Jacobians ``(F, 3, 3, D)``."""
    parents, inertias = tree[0], tree[4]
    frames, D = states[0].shape
    moved, J = np.empty((frames, 3, 3)), np.zeros((frames, 3, 3, D))
    links = links_for(D)
    masses, sums = np.empty(D + 1), np.empty((D + 1, 9))
    for f in range(frames):
        move_frames(tree, states, f, links)
        R, P, Pd, Pdd, w, wd = links[0], links[1], links[2], links[3], links[4], links[5]
        clear(sums)
        for i in range(D + 1):
            masses[i] = 0.0
        for i in range(D - 1, -1, -1):
            m = inertias[i, 0]
            h = turn(R, i, (inertias[i, 1], inertias[i, 2], inertias[i, 3]))
            hd, hdd = spun(row3(w, i), row3(wd, i), h)
            masses[i] += m
            for c in range(3):
                sums[i, c] += m * P[i, c] + h[c]
                sums[i, 3 + c] += m * Pd[i, c] + hd[c]
                sums[i, 6 + c] += m * Pdd[i, c] + hdd[c]
            masses[parents[i]] += masses[i]
            for c in range(9):
                sums[parents[i], c] += sums[i, c]
        for i in range(D):
            if masses[i] > 0.0:
                x = sums[i]
                per = 1.0 / masses[i]
                o = (
                    (per * x[0], per * x[1], per * x[2]),
                    (per * x[3], per * x[4], per * x[5]),
                    (per * x[6], per * x[7], per * x[8]),
                )
                put_columns(links, tree[1], i, masses[i] / masses[D], o, J[f])
        for c in range(9):
            moved[f, c // 3, c % 3] = sums[D, c] / masses[D]
    return moved, J
