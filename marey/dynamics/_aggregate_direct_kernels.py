"""Compiled direct differentiation of Newton-Euler: the quadratic baseline of Fang's linear-time method.

For each coordinate, tangents of all velocities, accelerations and forces that depend on it go through both loops, in
the links' own frames. Tangents that are zero by structure are never touched.
"""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, kernel
from marey.dynamics._aggregate_kernels import inertia_row
from marey.dynamics._spatial_kernels import (
    Spatial,
    Vector,
    add3,
    add6,
    cross,
    cross6,
    inertia_times,
    plus6,
    put6,
    rotate,
    rotate_back,
    row3,
    row6,
    scale3,
    scale6,
)
from marey.dynamics._states import TreeStates
from marey.dynamics._tree_kernels import TreeArrays, fill_zero, multiply_matrices, put_axis_rotation
from marey.dynamics._tree_motion import PRISMATIC

# one frame in the links' frames: rotation to the parent, arm from it, joint twist, velocity, acceleration, velocity and
# acceleration of the parent seen in the link's frame, momentum and force of the sub-tree; a matrix; flags of links
Frame = tuple[FloatArray, ...]


@kernel
def twist_to_child(R: FloatArray, r: FloatArray, i: int, x: Spatial) -> Spatial:
    """Twist of the parent's frame in frame ``i``, (A.8)."""
    return rotate_back(R, i, x[0]), rotate_back(R, i, add3(x[1], cross(x[0], row3(r, i))))


@kernel
def wrench_to_parent(R: FloatArray, r: FloatArray, i: int, x: Spatial) -> Spatial:
    """Wrench of frame ``i`` in the parent's frame, (A.8)."""
    force = rotate(R, i, x[0])
    return force, add3(rotate(R, i, x[1]), cross(row3(r, i), force))


@kernel
def put_link_transform(tree: TreeArrays, i: int, q: float, frame: Frame) -> Spatial:
    """Rotation and arm of link ``i`` from its parent; returns the joint's twist."""
    kinds, rests, geometry = tree[1], tree[2], tree[3]
    R, r, S, own = frame[0], frame[1], frame[2], frame[9]
    axis: Vector = (geometry[i, 0], geometry[i, 1], geometry[i, 2])
    arm: Vector = (geometry[i, 3], geometry[i, 4], geometry[i, 5])
    s: Spatial = (axis, (0.0, 0.0, 0.0))
    put_axis_rotation(axis, 0.0 if kinds[i] == PRISMATIC else q, own, 0)
    multiply_matrices(rests, i, own, 0, R, i)
    if kinds[i] == PRISMATIC:
        s = ((0.0, 0.0, 0.0), axis)
        arm = add3(arm, scale3(q, rotate(R, i, axis)))
    r[i, 0], r[i, 1], r[i, 2] = arm
    put6(S, i, s)
    return s


@kernel
def newton_euler_frame(tree: TreeArrays, states: TreeStates, f: int, frame: Frame) -> None:
    """Newton-Euler at frame ``f``, B.1-B.6: base to leaves, then leaves to base."""
    parents, inertias = tree[0], tree[4]
    q, qd, qdd = states
    R, r, _, V, A, VB, AB, p, w, _, _ = frame
    D = parents.shape[0]
    fill_zero(p)
    fill_zero(w)
    for i in range(D):
        k = parents[i]
        s = put_link_transform(tree, i, q[f, i], frame)
        moved = scale6(qd[f, i], s)
        vb, ab = twist_to_child(R, r, i, row6(V, k)), twist_to_child(R, r, i, row6(A, k))
        v = plus6(vb, moved)
        put6(VB, i, vb)
        put6(AB, i, ab)
        put6(V, i, v)
        put6(A, i, plus6(plus6(ab, scale6(qdd[f, i], s)), cross6(v, moved)))
    for i in range(D - 1, -1, -1):
        m, h, J = inertia_row(inertias, i)
        v = row6(V, i)
        own = inertia_times(m, h, J, v)
        add6(p, i, own)
        add6(w, i, plus6(inertia_times(m, h, J, row6(A, i)), cross6(v, own)))
        add6(p, parents[i], wrench_to_parent(R, r, i, row6(p, i)))
        add6(w, parents[i], wrench_to_parent(R, r, i, row6(w, i)))


@kernel
def tangent_row(T: FloatArray, i: int, n: int) -> Spatial:
    """Tangent ``n`` of five at link ``i``."""
    c = 6 * n
    return (T[i, c], T[i, c + 1], T[i, c + 2]), (T[i, c + 3], T[i, c + 4], T[i, c + 5])


@kernel
def put_tangent(T: FloatArray, i: int, n: int, x: Spatial) -> None:
    """Write tangent ``n`` of five at link ``i``."""
    c = 6 * n
    T[i, c], T[i, c + 1], T[i, c + 2] = x[0]
    T[i, c + 3], T[i, c + 4], T[i, c + 5] = x[1]


@kernel
def start_tangents(frame: Frame, j: int, rate: float, T: FloatArray) -> None:
    """Tangents ``T (D+1, 30)`` at joint ``j``: of velocity by q, qd, of acceleration by q, qd, qdd."""
    s, vb = row6(frame[2], j), row6(frame[5], j)
    vq = cross6(vb, s)
    put_tangent(T, j, 0, vq)
    put_tangent(T, j, 1, s)
    put_tangent(T, j, 2, plus6(cross6(row6(frame[6], j), s), scale6(rate, cross6(vq, s))))
    put_tangent(T, j, 3, cross6(row6(frame[3], j), s))
    put_tangent(T, j, 4, s)


@kernel
def propagate_tangents(frame: Frame, i: int, k: int, rate: float, T: FloatArray) -> None:
    """Tangents at link ``i`` from those at its parent ``k``."""
    R, r = frame[0], frame[1]
    moved = scale6(rate, row6(frame[2], i))
    for n in range(2):
        v = twist_to_child(R, r, i, tangent_row(T, k, n))
        put_tangent(T, i, n, v)
        put_tangent(T, i, 2 + n, plus6(twist_to_child(R, r, i, tangent_row(T, k, 2 + n)), cross6(v, moved)))
    put_tangent(T, i, 4, twist_to_child(R, r, i, tangent_row(T, k, 4)))


@kernel
def add_link_tangents(inertias: FloatArray, frame: Frame, i: int, T: FloatArray, U: FloatArray) -> None:
    """Add link ``i``'s own share to ``U (D+1, 30)``: tangents of momentum by q, qd, of force by q, qd, qdd."""
    m, h, J = inertia_row(inertias, i)
    if m == 0.0:
        return
    v = row6(frame[3], i)
    p = inertia_times(m, h, J, v)
    for n in range(2):
        dv = tangent_row(T, i, n)
        dp = inertia_times(m, h, J, dv)
        df = plus6(inertia_times(m, h, J, tangent_row(T, i, 2 + n)), plus6(cross6(dv, p), cross6(v, dp)))
        put_tangent(U, i, n, plus6(tangent_row(U, i, n), dp))
        put_tangent(U, i, 2 + n, plus6(tangent_row(U, i, 2 + n), df))
    put_tangent(U, i, 4, plus6(tangent_row(U, i, 4), inertia_times(m, h, J, tangent_row(T, i, 4))))


@kernel
def differentiate_by_coordinate(
    tree: TreeArrays, qd: FloatArray, f: int, frame: Frame, j: int, T: FloatArray, U: FloatArray
) -> None:
    """Tangents by coordinate ``j`` of all links beyond it, summed down to the world's row of ``U``."""
    parents, inertias, inside = tree[0], tree[4], frame[10]
    R, r = frame[0], frame[1]
    D = parents.shape[0]
    fill_zero(U)
    start_tangents(frame, j, qd[f, j], T)
    for i in range(D + 1):
        inside[i] = 1.0 if i == j or (j < i < D and inside[parents[i]] > 0.0) else 0.0
        if inside[i] > 0.0 and i > j:
            propagate_tangents(frame, i, parents[i], qd[f, i], T)
    for i in range(D - 1, j - 1, -1):
        if inside[i] > 0.0:
            add_link_tangents(inertias, frame, i, T, U)
            if i > j:
                for n in range(5):
                    up = wrench_to_parent(R, r, i, tangent_row(U, i, n))
                    put_tangent(U, parents[i], n, plus6(tangent_row(U, parents[i], n), up))
    s = row6(frame[2], j)
    put_tangent(U, j, 0, plus6(tangent_row(U, j, 0), cross6(s, row6(frame[7], j))))
    put_tangent(U, j, 2, plus6(tangent_row(U, j, 2), cross6(s, row6(frame[8], j))))
    i = j
    while i < D:
        for n in range(5):
            put_tangent(U, parents[i], n, wrench_to_parent(R, r, i, tangent_row(U, i, n)))
        i = parents[i]


@kernel
def direct_jacobians(tree: TreeArrays, states: TreeStates, gravity: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Momentum and force ``(2, F, 6)``, Jacobians ``(4, F, 6, D)`` (dp/dq, dp/dqd, df/dq, df/dqd)."""
    frames, D = states[0].shape
    z = np.zeros((7, D + 1, 6))
    R, r, own, inside = np.empty((D, 3, 3)), np.empty((D, 3)), np.empty((1, 3, 3)), np.zeros(D + 1)
    frame = R, r, z[0], z[1], z[2], z[3], z[4], z[5], z[6], own, inside
    T, U = np.zeros((D + 1, 30)), np.zeros((D + 1, 30))
    totals, blocks = np.empty((2, frames, 6)), np.empty((4, frames, 6, D))
    put6(frame[4], D, ((0.0, 0.0, 0.0), (-gravity[0], -gravity[1], -gravity[2])))
    for f in range(frames):
        newton_euler_frame(tree, states, f, frame)
        put6(totals[0], f, row6(frame[7], D))
        put6(totals[1], f, row6(frame[8], D))
        for j in range(D):
            differentiate_by_coordinate(tree, states[1], f, frame, j, T, U)
            for n in range(4):
                for c in range(6):
                    blocks[n, f, c, j] = U[D, 6 * n + c]
    return totals, blocks
