"""Compiled aggregate momentum and force: Newton-Euler, and the linear-time Jacobians."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.dynamics._spatial_kernels import (
    Spatial,
    SymmetricMatrix,
    Vector,
    add3,
    add6,
    cross,
    cross6,
    inertia_rate,
    inertia_times,
    plus6,
    put6,
    row3,
    row6,
    scale6,
)
from marey.dynamics._states import TreeStates
from marey.dynamics._tree_kernels import (
    TreeArrays,
    compute_link_frames,
    compute_link_inertias,
    compute_link_twists,
    fill_zero,
)

# scratch of one frame: rotations, origins | twists, velocities, accelerations | inertias, their rates | p*, f*
Scratch = tuple[FloatArray, ...]


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
    return R, P, S, V, A, np.empty((D + 1, 10)), np.empty((D + 1, 9)), np.empty((D + 1, 6)), np.empty((D + 1, 6))


@kernel
def newton_euler_aggregate(tree: TreeArrays, states: TreeStates, gravity: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Aggregate momentum and force ``(2, F, 6)``, and the centre of mass ``(F, 3)`` [m]: B.1-B.6.

    .. math:: p_0 = \sum_i I_i v_i,\qquad f_0 = \sum_i I_i a_i + v_i \times I_i v_i

    In world axes a wrench is passed to the parent by leaving it as it is, so the backward loop is a sum.
    """
    parents, kinds, rests, geometry, inertias, first = tree
    q, qd, qdd = states
    frames, D = q.shape
    R, P, S, V, A, weights, _, _, _ = allocate_scratch(D)
    totals, com = np.empty((2, frames, 6)), np.empty((frames, 3))
    for f in range(frames):
        compute_link_frames(parents, kinds, rests, geometry, q, f, R, P)
        o = row3(P, first)
        compute_link_twists(parents, kinds, geometry, o, qd, qdd, f, gravity, R, P, S, V, A)
        compute_link_inertias(inertias, R, P, o, weights)
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
        put6(totals[0], f, shift_wrench_to_origin(p, o))
        put6(totals[1], f, shift_wrench_to_origin(w, o))
        for c in range(3):
            com[f, c] = h[c] / mass + o[c]
    return totals, com


@kernel
def leaf_to_base_recursion(
    parents: IntArray,
    qd: FloatArray,
    qdd: FloatArray,
    f: int,
    S: FloatArray,
    V: FloatArray,
    A: FloatArray,
    weights: FloatArray,
    rates: FloatArray,
    p: FloatArray,
    w: FloatArray,
    columns: FloatArray,
) -> None:
    r"""Sums of all sub-trees, and the columns ``(4, D, 6)`` of the Jacobians, in one loop: B.7-B.16, repaired.

    .. math:: b = I^*s,\quad e = D\bar v + s\times p^*,\quad
        \partial_{\dot q} f_0 = e + \dot I^\circ s + v\times b,\quad
        \partial_q f_0 = s\times f^* + D\bar a + \bar v\times e + (\tilde s\dot I^\oplus - \dot I^\oplus\tilde s)\bar v

    with :math:`D = \tilde s I^* - I^*\tilde s`. The thesis writes one symbol for the rate of the composite inertia
    with and without the joint's own motion; with one value the result is wrong by some ten per cent. On entry the
    inertias are those of the links, on return those of the sub-trees; rates are returned inclusive. Gravity is in the
    accelerations, and in the force of the whole.
    """
    D = parents.shape[0]
    fill_zero(rates)
    fill_zero(p)
    fill_zero(w)
    for i in range(D - 1, -1, -1):
        k = parents[i]
        s, vb, ab = row6(S, i), row6(V, k), row6(A, k)
        m, h, J = inertia_row(weights, i)
        eta, B = inertia_rate(m, h, J, s)
        b = inertia_times(m, h, J, s)
        r = rates[i]
        late = inertia_times(0.0, (r[0], r[1], r[2]), (r[3], r[4], r[5], r[6], r[7], r[8]), s)
        add6(p, i, scale6(qd[f, i], b))
        pi = row6(p, i)
        sp = cross6(s, pi)
        add6(w, i, plus6(scale6(qd[f, i], plus6(sp, late)), scale6(qdd[f, i], b)))
        fi = row6(w, i)
        e = plus6(inertia_times(0.0, eta, B, vb), sp)
        for c in range(3):
            r[c] += qd[f, i] * eta[c]
        for c in range(6):
            r[3 + c] += qd[f, i] * B[c]
        eta2, B2 = inertia_rate(0.0, (r[0], r[1], r[2]), (r[3], r[4], r[5], r[6], r[7], r[8]), s)
        fq = plus6(cross6(s, fi), inertia_times(0.0, eta, B, ab))
        fq = plus6(fq, plus6(cross6(vb, e), inertia_times(0.0, eta2, B2, vb)))
        put6(columns[0], i, e)
        put6(columns[1], i, b)
        put6(columns[2], i, fq)
        put6(columns[3], i, plus6(plus6(e, late), cross6(row6(V, i), b)))
        for c in range(10):
            weights[k, c] += weights[i, c]
        for c in range(9):
            rates[k, c] += r[c]
        add6(p, k, pi)
        add6(w, k, fi)
    mass, moment, second = inertia_row(weights, D)
    add6(w, D, inertia_times(mass, moment, second, row6(A, D)))


@kernel
def put_jacobian_columns(columns: FloatArray, o: Vector, f: int, blocks: FloatArray) -> None:
    """Columns about the point ``o`` as Jacobians ``(4, F, 6, D)`` about the origin of the world."""
    for n in range(4):
        for i in range(columns.shape[1]):
            force, moment = shift_wrench_to_origin(row6(columns[n], i), o)
            for c in range(3):
                blocks[n, f, c, i] = force[c]
                blocks[n, f, 3 + c, i] = moment[c]


@kernel
def linear_time_jacobians(tree: TreeArrays, states: TreeStates, gravity: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Momentum and force ``(2, F, 6)``, Jacobians ``(4, F, 6, D)`` (dp/dq, dp/dqd = df/dqdd, df/dq, df/dqd)."""
    parents, kinds, rests, geometry, inertias, first = tree
    q, qd, qdd = states
    frames, D = q.shape
    R, P, S, V, A, weights, rates, p, w = allocate_scratch(D)
    columns = np.empty((4, D, 6))
    totals, blocks = np.empty((2, frames, 6)), np.empty((4, frames, 6, D))
    for f in range(frames):
        compute_link_frames(parents, kinds, rests, geometry, q, f, R, P)
        o = row3(P, first)
        compute_link_twists(parents, kinds, geometry, o, qd, qdd, f, gravity, R, P, S, V, A)
        compute_link_inertias(inertias, R, P, o, weights)
        leaf_to_base_recursion(parents, qd, qdd, f, S, V, A, weights, rates, p, w, columns)
        put6(totals[0], f, shift_wrench_to_origin(row6(p, D), o))
        put6(totals[1], f, shift_wrench_to_origin(row6(w, D), o))
        put_jacobian_columns(columns, o, f, blocks)
    return totals, blocks
