"""Derivatives that the linear-time method is compared with: direct differentiation, finite differences, Pinocchio.

Direct differentiation of Newton-Euler is quadratic in the number of links. Pinocchio is an independent answer and a
second engine.

For each coordinate, tangents of all velocities, accelerations and forces that depend on it go through both loops, in
the links' own frames. Tangents that are zero by structure are never touched.

Only joints with one degree of freedom are used: the derivatives of its spherical joints are wrong in spline
coordinates ([Fang2003]_ specification, §2.7).
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any, Final, NamedTuple

import numpy as np

from marey.base import FloatArray, InputError, MissingExtraError, kernel
from marey.dynamics.bodies import GRAVITY
from marey.dynamics.joint_tree import JointTree
from marey.dynamics.linear_time.passes import (
    TreeStates,
    fill_zero,
    gravity_vector,
    inertia_row,
    multiply_matrices,
    newton_euler_aggregate,
    put_axis_rotation,
)
from marey.dynamics.spatial import (
    PRISMATIC,
    REVOLUTE,
    WORLD,
    Spatial,
    TreeArrays,
    add6,
    cross6,
    inertia_times,
    plus6,
    put6,
    rotate,
    rotate_back,
    row6,
    scale6,
)
from marey.lie import SO3, hat
from marey.lie.kernels import Vector, add3, cross, row3, scale3


class FrameScratch(NamedTuple):
    """One frame in the links' own frames; the last row of each is the world's."""

    R: FloatArray  # (D, 3, 3) rotation to the parent
    r: FloatArray  # (D, 3) [m] arm from it
    S: FloatArray  # (D + 1, 6) joint twist
    V: FloatArray  # (D + 1, 6) velocity
    A: FloatArray  # (D + 1, 6) acceleration
    VB: FloatArray  # (D + 1, 6) velocity of the parent, seen in the link's frame
    AB: FloatArray  # (D + 1, 6) acceleration of the parent, seen in the link's frame
    p: FloatArray  # (D + 1, 6) momentum of the sub-tree
    w: FloatArray  # (D + 1, 6) force of the sub-tree
    own_turn: FloatArray  # (1, 3, 3) a matrix to work in
    inside: FloatArray  # (D + 1,) flags of links


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
def newton_euler_frame(tree: TreeArrays, states: TreeStates, f: int, frame: FrameScratch) -> None:
    """Newton-Euler at frame ``f``, B.1-B.6: base to leaves, then leaves to base."""
    parents, kinds, rests, geometry, inertias, _ = tree
    q, qd, qdd = states
    R, r, S, V, A, VB, AB, p, w, own_turn, _ = frame
    D = parents.shape[0]
    fill_zero(p)
    fill_zero(w)
    for i in range(D):
        k = parents[i]
        # X from the parent to link i, and the joint's twist in its own frame
        axis: Vector = (geometry[i, 0], geometry[i, 1], geometry[i, 2])
        arm: Vector = (geometry[i, 3], geometry[i, 4], geometry[i, 5])
        s: Spatial = (axis, (0.0, 0.0, 0.0))
        put_axis_rotation(axis, 0.0 if kinds[i] == PRISMATIC else q[f, i], own_turn, 0)
        multiply_matrices(rests, i, own_turn, 0, R, i)
        if kinds[i] == PRISMATIC:
            s = ((0.0, 0.0, 0.0), axis)
            arm = add3(arm, scale3(q[f, i], rotate(R, i, axis)))
        r[i, 0], r[i, 1], r[i, 2] = arm
        put6(S, i, s)
        # B.1-B.4: v = v-bar + s qd, a = a-bar + s qdd + v x s qd
        moved = scale6(qd[f, i], s)
        vb, ab = twist_to_child(R, r, i, row6(V, k)), twist_to_child(R, r, i, row6(A, k))
        v = plus6(vb, moved)
        put6(VB, i, vb)
        put6(AB, i, ab)
        put6(V, i, v)
        put6(A, i, plus6(plus6(ab, scale6(qdd[f, i], s)), cross6(v, moved)))
    for i in range(D - 1, -1, -1):
        # B.5, B.6: momentum and force of the link, then both to its parent
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
def differentiate_by_coordinate(
    tree: TreeArrays, qd: FloatArray, f: int, frame: FrameScratch, j: int, T: FloatArray, U: FloatArray
) -> None:
    """Tangents by coordinate ``j`` of all links beyond it, summed down to the world's row of ``U``."""
    parents, inertias, inside = tree.parents, tree.inertias, frame.inside
    R, r = frame.R, frame.r
    D = parents.shape[0]
    fill_zero(U)
    # Tangents at joint j: of its velocity by q, qd, of its acceleration by q, qd, qdd
    rate = qd[f, j]
    s = row6(frame.S, j)
    vq = cross6(row6(frame.VB, j), s)
    put_tangent(T, j, 0, vq)
    put_tangent(T, j, 1, s)
    put_tangent(T, j, 2, plus6(cross6(row6(frame.AB, j), s), scale6(rate, cross6(vq, s))))
    put_tangent(T, j, 3, cross6(row6(frame.V, j), s))
    put_tangent(T, j, 4, s)
    for i in range(D + 1):
        inside[i] = 1.0 if i == j or (j < i < D and inside[parents[i]] > 0.0) else 0.0
        if inside[i] > 0.0 and i > j:
            # Tangents at link `i` from those at its parent `k`
            k = parents[i]
            moved = scale6(qd[f, i], row6(frame.S, i))
            for n in range(2):
                v = twist_to_child(R, r, i, tangent_row(T, k, n))
                put_tangent(T, i, n, v)
                a = plus6(twist_to_child(R, r, i, tangent_row(T, k, 2 + n)), cross6(v, moved))
                put_tangent(T, i, 2 + n, a)
            put_tangent(T, i, 4, twist_to_child(R, r, i, tangent_row(T, k, 4)))
    # Backward loop: tangents of momentum and force of all links beyond j
    for i in range(D - 1, j - 1, -1):
        if inside[i] > 0.0:
            # The link's own share: tangents of momentum by q, qd, of force by q, qd, qdd
            m, h, J = inertia_row(inertias, i)
            if m != 0.0:
                v = row6(frame.V, i)
                p = inertia_times(m, h, J, v)
                for n in range(2):
                    dv = tangent_row(T, i, n)
                    dp = inertia_times(m, h, J, dv)
                    df = plus6(inertia_times(m, h, J, tangent_row(T, i, 2 + n)), plus6(cross6(dv, p), cross6(v, dp)))
                    put_tangent(U, i, n, plus6(tangent_row(U, i, n), dp))
                    put_tangent(U, i, 2 + n, plus6(tangent_row(U, i, 2 + n), df))
                put_tangent(U, i, 4, plus6(tangent_row(U, i, 4), inertia_times(m, h, J, tangent_row(T, i, 4))))
            if i > j:
                for n in range(5):
                    up = wrench_to_parent(R, r, i, tangent_row(U, i, n))
                    put_tangent(U, parents[i], n, plus6(tangent_row(U, parents[i], n), up))
    # The sub-tree turns as a whole: s x p* and s x f*, then on to the world
    put_tangent(U, j, 0, plus6(tangent_row(U, j, 0), cross6(s, row6(frame.p, j))))
    put_tangent(U, j, 2, plus6(tangent_row(U, j, 2), cross6(s, row6(frame.w, j))))
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
    frame = FrameScratch(R, r, z[0], z[1], z[2], z[3], z[4], z[5], z[6], own, inside)
    T, U = np.zeros((D + 1, 30)), np.zeros((D + 1, 30))
    totals, blocks = np.empty((2, frames, 6)), np.empty((4, frames, 6, D))
    put6(frame.A, D, ((0.0, 0.0, 0.0), (-gravity[0], -gravity[1], -gravity[2])))
    for f in range(frames):
        newton_euler_frame(tree, states, f, frame)
        put6(totals[0], f, row6(frame.p, D))
        put6(totals[1], f, row6(frame.w, D))
        for j in range(D):
            differentiate_by_coordinate(tree, states[1], f, frame, j, T, U)
            for n in range(4):
                for c in range(6):
                    blocks[n, f, c, j] = U[D, 6 * n + c]
    return totals, blocks


# [rad], [m] and per second: where the error measured on Fang's 22 coordinates is near its least
DIFFERENCE_STEPS: Final = {"forward": 1e-7, "central": 1e-5, "richardson": 3e-2}


def difference_blocks(
    tree: JointTree, states: TreeStates, gravity: FloatArray, scheme: str, step: float | None = None
) -> tuple[FloatArray, FloatArray]:
    """Momentum and force ``(2, F, 6)``, and dp/dq, dp/dqd, df/dq, df/dqd ``(4, F, 6, D)``, numerically.

    Each coordinate, velocity and acceleration is moved in turn, as a method that knows no structure would do it;
    df/dqdd is measured too, though dp/dqd is what is returned for it.
    """
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
