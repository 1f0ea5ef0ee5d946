"""Compiled passes over a tree: motion of its links, aggregate momentum and force, and their linear-time Jacobians.

The tree comes as the arrays of ``JointTree.arrays``. Every array over links has one row more, the last, for the world:
it is the parent of the roots, so no loop has a special case.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, frozen, kernel
from marey.dynamics.joint_tree import JointTree, SimplifiedTree
from marey.dynamics.spatial import (
    PRISMATIC,
    Spatial,
    SymmetricMatrix,
    TreeArrays,
    add6,
    cross6,
    inertia_rate,
    inertia_times,
    plus6,
    put6,
    rotate,
    row6,
    scale6,
)
from marey.lie.kernels import Vector, add3, cross, dot, row3, scale3

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


class Scratch(NamedTuple):
    """Room for one frame of a tree of D joints; the last row of each is the world's."""

    R: FloatArray  # (D + 3, 3, 3) rotations in world, and two matrices to work in
    P: FloatArray  # (D + 1, 3) [m] origins in world
    S: FloatArray  # (D + 1, 6) joint twists
    V: FloatArray  # (D + 1, 6) velocities
    A: FloatArray  # (D + 1, 6) accelerations
    weights: FloatArray  # (D + 1, 10) inertias of the links, later I* of the sub-trees
    rates: FloatArray  # (D + 1, 9) their rates
    p: FloatArray  # (D + 1, 6) momenta p* of the sub-trees
    w: FloatArray  # (D + 1, 6) forces f* of the sub-trees


@kernel
def put_axis_rotation(axis: Vector, angle: float, R: FloatArray, i: int) -> None:
    """Rotation matrix ``R[i]`` by ``angle`` about a unit axis, (A.9-A.11)."""
    x, y, z = axis
    c, s = np.cos(angle), np.sin(angle)
    k = 1.0 - c
    R[i, 0, 0], R[i, 0, 1], R[i, 0, 2] = c + k * x * x, k * x * y - s * z, k * x * z + s * y
    R[i, 1, 0], R[i, 1, 1], R[i, 1, 2] = k * x * y + s * z, c + k * y * y, k * y * z - s * x
    R[i, 2, 0], R[i, 2, 1], R[i, 2, 2] = k * x * z - s * y, k * y * z + s * x, c + k * z * z


@kernel
def multiply_matrices(A: FloatArray, i: int, B: FloatArray, j: int, C: FloatArray, k: int) -> None:
    """``C[k] = A[i] B[j]`` for 3x3 matrices in three stacks."""
    for r in range(3):
        for c in range(3):
            C[k, r, c] = A[i, r, 0] * B[j, 0, c] + A[i, r, 1] * B[j, 1, c] + A[i, r, 2] * B[j, 2, c]


@kernel
def fill_zero(array: FloatArray) -> None:
    """Fill ``array (n, m)`` with zeros; an assignment to a slice would take seconds to compile."""
    for i in range(array.shape[0]):
        for c in range(array.shape[1]):
            array[i, c] = 0.0


@kernel
def compute_link_frames(
    parents: IntArray,
    kinds: IntArray,
    rests: FloatArray,
    geometry: FloatArray,
    q: FloatArray,
    f: int,
    R: FloatArray,
    P: FloatArray,
) -> None:
    """World rotations ``R (D+3, 3, 3)`` and origins ``P (D+1, 3)`` [m] of all links at coordinates ``q[f]``.

    The last two matrices are work space; allocating them costs as much as a few joints.
    """
    D = parents.shape[0]
    # The last row is the frame of the world, the parent of the roots
    for r in range(3):
        P[D, r] = 0.0
        for c in range(3):
            R[D, r, c] = 1.0 if r == c else 0.0
    for i in range(D):
        k = parents[i]
        # The joint sits at a fixed offset from its parent's origin
        axis: Vector = (geometry[i, 0], geometry[i, 1], geometry[i, 2])
        here = add3(row3(P, k), rotate(R, k, (geometry[i, 3], geometry[i, 4], geometry[i, 5])))
        # A prismatic joint slides along its axis, a revolute one turns about it: R_i = R_parent R_rest R(q)
        if kinds[i] == PRISMATIC:
            multiply_matrices(R, k, rests, i, R, i)
            here = add3(here, scale3(q[f, i], rotate(R, i, axis)))
        else:
            put_axis_rotation(axis, q[f, i], R, D + 1)
            multiply_matrices(R, k, rests, i, R, D + 2)
            multiply_matrices(R, D + 2, R, D + 1, R, i)
        P[i, 0], P[i, 1], P[i, 2] = here


@kernel
def compute_forward_pass(tree: TreeArrays, states: TreeStates, f: int, gravity: FloatArray, at: Scratch) -> Vector:
    r"""Frames, joint twists, velocities, accelerations and inertias of all links in world axes, at frame ``f``.

    .. math:: v_i = v_\lambda + s_i\dot q_i,\qquad a_i = a_\lambda + s_i\ddot q_i + v_i \times s_i\dot q_i,
        \qquad a_0 = -G

    [Fang2003]_ B.1-B.4. They are taken about a point ``o`` of the body, which is returned, and not about the origin of
    the world: far from it the moments would lose their digits.
    """
    parents, kinds, geometry, qd, qdd = tree.parents, tree.kinds, tree.geometry, states[1], states[2]
    R, P, S, V, A = at.R, at.P, at.S, at.V, at.A
    compute_link_frames(parents, kinds, tree.rests, geometry, states[0], f, R, P)
    o = row3(P, tree.first)
    D = parents.shape[0]
    # The world is at rest; its acceleration -G makes every link feel gravity
    put6(V, D, ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)))
    put6(A, D, ((0.0, 0.0, 0.0), (-gravity[0], -gravity[1], -gravity[2])))
    for i in range(D):
        k = parents[i]
        # Joint twist s_i about `o`: (0, axis) slides, (axis, r x axis) turns
        axis = rotate(R, i, (geometry[i, 0], geometry[i, 1], geometry[i, 2]))
        s: Spatial = ((0.0, 0.0, 0.0), axis)
        if kinds[i] != PRISMATIC:
            s = (axis, cross((P[i, 0] - o[0], P[i, 1] - o[1], P[i, 2] - o[2]), axis))
        # v_i = v_parent + s_i qd_i
        moved = scale6(qd[f, i], s)
        v = plus6(row6(V, k), moved)
        put6(S, i, s)
        put6(V, i, v)
        # a_i = a_parent + s_i qdd_i + v_i x s_i qd_i
        put6(A, i, plus6(plus6(row6(A, k), scale6(qdd[f, i], s)), cross6(v, moved)))
    # Inertias of all links in world axes about the point o: h' = R h + m r, J' = R J R^T + 2 (Rh . r) E - Rh r^T -
    # r (Rh)^T + m (r^2 E - r r^T); the world's is zero
    own, half = D + 1, D + 2  # room to work in
    fill_zero(at.weights)
    for i in range(D):
        m = tree.inertias[i, 0]
        if m == 0.0:
            continue
        # First moment in world axes, and the arm from `o` to the link's origin
        h = rotate(R, i, (tree.inertias[i, 1], tree.inertias[i, 2], tree.inertias[i, 3]))
        r = (P[i, 0] - o[0], P[i, 1] - o[1], P[i, 2] - o[2])
        spread = 2.0 * dot(h, r) + m * dot(r, r)
        # Second moment J as a full matrix, then R J in the other scratch matrix
        R[own, 0, 0], R[own, 1, 1], R[own, 2, 2] = tree.inertias[i, 4], tree.inertias[i, 5], tree.inertias[i, 6]
        R[own, 0, 1], R[own, 0, 2], R[own, 1, 2] = tree.inertias[i, 7], tree.inertias[i, 8], tree.inertias[i, 9]
        R[own, 1, 0], R[own, 2, 0], R[own, 2, 1] = tree.inertias[i, 7], tree.inertias[i, 8], tree.inertias[i, 9]
        multiply_matrices(R, i, R, own, R, half)
        # Mass, h' = R h + m r, and the six entries of J' by the shift to `o`
        at.weights[i, 0] = m
        for a in range(3):
            at.weights[i, 1 + a] = h[a] + m * r[a]
            for b in range(a, 3):
                e = R[half, a, 0] * R[i, b, 0] + R[half, a, 1] * R[i, b, 1] + R[half, a, 2] * R[i, b, 2]
                e -= h[a] * r[b] + r[a] * h[b] + m * r[a] * r[b]
                at.weights[i, 4 + a if a == b else 6 + a + b] = e + spread if a == b else e
    return o


@kernel
def inertia_row(weights: FloatArray, i: int) -> tuple[float, Vector, SymmetricMatrix]:
    """Inertia in row ``i``."""
    w = weights[i]
    return w[0], (w[1], w[2], w[3]), (w[4], w[5], w[6], w[7], w[8], w[9])


@kernel
def shift_wrench_to_origin(x: Spatial, o: Vector) -> Spatial:
    """Wrench about the point ``o``, about the origin of the world."""
    return x[0], add3(x[1], cross(o, x[0]))


@kernel
def allocate_scratch(D: int) -> Scratch:
    """Room for one frame of a tree of ``D`` joints."""
    R, P = np.empty((D + 3, 3, 3)), np.empty((D + 1, 3))
    S, V, A = np.empty((D + 1, 6)), np.empty((D + 1, 6)), np.empty((D + 1, 6))
    p, w = np.empty((D + 1, 6)), np.empty((D + 1, 6))
    return Scratch(R, P, S, V, A, np.empty((D + 1, 10)), np.empty((D + 1, 9)), p, w)


@kernel
def newton_euler_aggregate(tree: TreeArrays, states: TreeStates, gravity: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Aggregate momentum and force ``(2, F, 6)``, and the centre of mass ``(F, 3)`` [m]: B.1-B.6.

    .. math:: p_0 = \sum_i I_i v_i,\qquad f_0 = \sum_i I_i a_i + v_i \times I_i v_i

    In world axes a wrench is passed to the parent by leaving it as it is, so the backward loop is a sum.
    """
    frames, D = states[0].shape
    at = allocate_scratch(D)
    V, A, weights = at.V, at.A, at.weights
    totals, com = np.empty((2, frames, 6)), np.empty((frames, 3))
    for f in range(frames):
        o = compute_forward_pass(tree, states, f, gravity, at)
        # p_0 and f_0 are the sums of I_i v_i and of I_i a_i + v_i x I_i v_i over all links with mass
        p: Spatial = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
        w, h = p, (0.0, 0.0, 0.0)
        mass = 0.0
        for i in range(D):
            m, hi, J = inertia_row(weights, i)
            if m == 0.0:
                continue
            own = inertia_times(m, hi, J, row6(V, i))
            p = plus6(p, own)
            w = plus6(w, plus6(inertia_times(m, hi, J, row6(A, i)), cross6(row6(V, i), own)))
            h, mass = add3(h, hi), mass + m
        # Both about the origin of the world; the centre of mass is the first moment over the mass
        put6(totals[0], f, shift_wrench_to_origin(p, o))
        put6(totals[1], f, shift_wrench_to_origin(w, o))
        for c in range(3):
            com[f, c] = h[c] / mass + o[c]
    return totals, com


@kernel
def leaf_to_base_recursion(parents: IntArray, states: TreeStates, f: int, at: Scratch, columns: FloatArray) -> None:
    r"""Sums of all sub-trees, and the columns ``(4, D, 6)`` of the Jacobians, in one loop ([Fang2003]_ B.7-B.16).

    .. math:: b = I^*s,\quad e = D\bar v + s\times p^*,\quad
        \partial_{\dot q} f_0 = e + \dot I^\circ s + v\times b,\quad
        \partial_q f_0 = s\times f^* + D\bar a + \bar v\times e + (\tilde s\dot I^\oplus - \dot I^\oplus\tilde s)\bar v

    with :math:`D = \tilde s I^* - I^*\tilde s`. The thesis writes one symbol for the rate of the composite inertia
    with and without the joint's own motion; with one value the result is wrong by some ten per cent. On entry the
    inertias are those of the links, on return those of the sub-trees; rates are returned inclusive. Gravity is in the
    accelerations, and in the force of the whole.
    """
    qd, qdd, D = states[1], states[2], parents.shape[0]
    S, V, A, weights, rates, p, w = at.S, at.V, at.A, at.weights, at.rates, at.p, at.w
    fill_zero(rates)
    fill_zero(p)
    fill_zero(w)
    for i in range(D - 1, -1, -1):
        # v-bar and a-bar are the parent's; all sub-trees of link i are summed by now, so (m, h, J) is I* (B.7)
        k = parents[i]
        s, parent_v, parent_a = row6(S, i), row6(V, k), row6(A, k)
        m, h, J = inertia_row(weights, i)
        # D = s~ I* - I* s~: how I* changes with q_i
        change_h, change_J = inertia_rate(m, h, J, s)
        # b = I* s: momentum of the sub-tree at a unit rate of joint i
        b = inertia_times(m, h, J, s)
        # (B.9): rate I° of I* due to the joints below i, without the motion of joint i itself
        rate = rates[i]
        exclusive_h: Vector = (rate[0], rate[1], rate[2])
        exclusive_J: SymmetricMatrix = (rate[3], rate[4], rate[5], rate[6], rate[7], rate[8])
        rate_times_s = inertia_times(0.0, exclusive_h, exclusive_J, s)
        # (B.8): p* gains b qd
        add6(p, i, scale6(qd[f, i], b))
        subtree_p = row6(p, i)
        s_cross_p = cross6(s, subtree_p)
        # (B.10): f* gains (s x p* + I° s) qd + b qdd, with the exclusive rate
        add6(w, i, plus6(scale6(qd[f, i], plus6(s_cross_p, rate_times_s)), scale6(qdd[f, i], b)))
        subtree_f = row6(w, i)
        # (B.12, B.13): dp_0/dqd = b and dp_0/dq = e = D v-bar + s x p*
        e = plus6(inertia_times(0.0, change_h, change_J, parent_v), s_cross_p)
        # From here on the rate is the inclusive one, I+ = I° + D qd
        for c in range(3):
            rate[c] += qd[f, i] * change_h[c]
        for c in range(6):
            rate[3 + c] += qd[f, i] * change_J[c]
        inclusive_h: Vector = (rate[0], rate[1], rate[2])
        inclusive_J: SymmetricMatrix = (rate[3], rate[4], rate[5], rate[6], rate[7], rate[8])
        # (B.16): df_0/dq = s x f* + D a-bar + v-bar x e + (s~ I+ - I+ s~) v-bar
        inclusive_change_h, inclusive_change_J = inertia_rate(0.0, inclusive_h, inclusive_J, s)
        force_by_q = plus6(cross6(s, subtree_f), inertia_times(0.0, change_h, change_J, parent_a))
        force_by_q = plus6(
            force_by_q, plus6(cross6(parent_v, e), inertia_times(0.0, inclusive_change_h, inclusive_change_J, parent_v))
        )
        # Columns dp/dq, dp/dqd = df/dqdd (B.14), df/dq, and df/dqd = e + I° s + v x b (B.15)
        put6(columns[0], i, e)
        put6(columns[1], i, b)
        put6(columns[2], i, force_by_q)
        put6(columns[3], i, plus6(plus6(e, rate_times_s), cross6(row6(V, i), b)))
        # Hand all sums on to the parent; in world axes they need no transform
        for c in range(10):
            weights[k, c] += weights[i, c]
        for c in range(9):
            rates[k, c] += rate[c]
        add6(p, k, subtree_p)
        add6(w, k, subtree_f)
    # f_0 gains I_0* a_0 = -I_0* G, which the printed recursion leaves out
    mass, moment, second = inertia_row(weights, D)
    add6(w, D, inertia_times(mass, moment, second, row6(A, D)))


@kernel
def linear_time_jacobians(tree: TreeArrays, states: TreeStates, gravity: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Momentum and force ``(2, F, 6)``, Jacobians ``(4, F, 6, D)`` (dp/dq, dp/dqd = df/dqdd, df/dq, df/dqd)."""
    frames, D = states[0].shape
    at, columns = allocate_scratch(D), np.empty((4, D, 6))
    totals, blocks = np.empty((2, frames, 6)), np.empty((4, frames, 6, D))
    for f in range(frames):
        # Forward pass B.1-B.4, then the backward recursion B.7-B.16
        o = compute_forward_pass(tree, states, f, gravity, at)
        leaf_to_base_recursion(tree.parents, states, f, at, columns)
        # The last row holds the sums of the whole body
        put6(totals[0], f, shift_wrench_to_origin(row6(at.p, D), o))
        put6(totals[1], f, shift_wrench_to_origin(row6(at.w, D), o))
        # Columns about the point `o` as Jacobians `(4, F, 6, D)` about the origin of the world
        for n in range(4):
            for i in range(columns.shape[1]):
                force, moment = shift_wrench_to_origin(row6(columns[n], i), o)
                for c in range(3):
                    blocks[n, f, c, i] = force[c]
                    blocks[n, f, 3 + c, i] = moment[c]
    return totals, blocks
