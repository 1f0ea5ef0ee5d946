"""Compiled first pass over a tree: where its links are, how they move, what they weigh, in world axes.

The tree comes as the arrays of ``JointTree.arrays``. Every array over links has one row more, the last, for the world:
it is the parent of the roots, so no loop has a special case. Loops that run at every frame take their arrays one by
one: unpacking a tuple of arrays counts references, which costs as much as a few joints.
"""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.dynamics._spatial_kernels import (
    Spatial,
    Vector,
    add3,
    cross,
    cross6,
    dot,
    plus6,
    put6,
    rotate,
    row3,
    row6,
    scale3,
    scale6,
)
from marey.dynamics._tree_motion import PRISMATIC

# parents (D,) with D for the world; kinds (D,); rests (D, 3, 3) rotation before the joint turns; geometry (D, 6) axis
# and offset; inertias (D, 10) mass, first and second moment about the link's origin, in its axes; first revolute link
TreeArrays = tuple[IntArray, IntArray, FloatArray, FloatArray, FloatArray, int]


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
def put_world_frame(R: FloatArray, P: FloatArray) -> None:
    """Put the world's own frame into the last row."""
    D = P.shape[0] - 1
    for r in range(3):
        P[D, r] = 0.0
        for c in range(3):
            R[D, r, c] = 1.0 if r == c else 0.0


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

    The last two matrices are room to work in: allocating them anew would cost as much as a few joints.
    """
    D = parents.shape[0]
    put_world_frame(R, P)
    for i in range(D):
        k = parents[i]
        axis: Vector = (geometry[i, 0], geometry[i, 1], geometry[i, 2])
        here = add3(row3(P, k), rotate(R, k, (geometry[i, 3], geometry[i, 4], geometry[i, 5])))
        if kinds[i] == PRISMATIC:
            multiply_matrices(R, k, rests, i, R, i)
            here = add3(here, scale3(q[f, i], rotate(R, i, axis)))
        else:
            put_axis_rotation(axis, q[f, i], R, D + 1)
            multiply_matrices(R, k, rests, i, R, D + 2)
            multiply_matrices(R, D + 2, R, D + 1, R, i)
        P[i, 0], P[i, 1], P[i, 2] = here


@kernel
def compute_link_twists(
    parents: IntArray,
    kinds: IntArray,
    geometry: FloatArray,
    o: Vector,
    qd: FloatArray,
    qdd: FloatArray,
    f: int,
    gravity: FloatArray,
    R: FloatArray,
    P: FloatArray,
    S: FloatArray,
    V: FloatArray,
    A: FloatArray,
) -> None:
    r"""Joint twists, velocities and accelerations of the links, each ``(D+1, 6)``, in world axes.

    .. math:: v_i = v_\lambda + s_i\dot q_i,\qquad a_i = a_\lambda + s_i\ddot q_i + v_i \times s_i\dot q_i,
        \qquad a_0 = -G

    [Fang2003]_ B.1-B.4. They are taken about ``o``, a point of the body, and not about the origin of the world: far
    from it the moments would lose their digits.
    """
    D = parents.shape[0]
    put6(V, D, ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)))
    put6(A, D, ((0.0, 0.0, 0.0), (-gravity[0], -gravity[1], -gravity[2])))
    for i in range(D):
        k = parents[i]
        axis = rotate(R, i, (geometry[i, 0], geometry[i, 1], geometry[i, 2]))
        s: Spatial = ((0.0, 0.0, 0.0), axis)
        if kinds[i] != PRISMATIC:
            s = (axis, cross((P[i, 0] - o[0], P[i, 1] - o[1], P[i, 2] - o[2]), axis))
        moved = scale6(qd[f, i], s)
        v = plus6(row6(V, k), moved)
        put6(S, i, s)
        put6(V, i, v)
        put6(A, i, plus6(plus6(row6(A, k), scale6(qdd[f, i], s)), cross6(v, moved)))


@kernel
def compute_link_inertias(inertias: FloatArray, R: FloatArray, P: FloatArray, o: Vector, weights: FloatArray) -> None:
    r"""Inertias ``weights (D+1, 10)`` of all links in world axes about the point ``o``; the world's is zero.

    .. math:: h' = R h + m r,\qquad J' = R J R^T + 2 (Rh\cdot r) E - Rh\,r^T - r\,(Rh)^T + m (r^2 E - r r^T)
    """
    D = inertias.shape[0]
    own, half = D + 1, D + 2  # room to work in
    fill_zero(weights)
    for i in range(D):
        m = inertias[i, 0]
        if m == 0.0:
            continue
        h = rotate(R, i, (inertias[i, 1], inertias[i, 2], inertias[i, 3]))
        r = (P[i, 0] - o[0], P[i, 1] - o[1], P[i, 2] - o[2])
        spread = 2.0 * dot(h, r) + m * dot(r, r)
        R[own, 0, 0], R[own, 1, 1], R[own, 2, 2] = inertias[i, 4], inertias[i, 5], inertias[i, 6]
        R[own, 0, 1], R[own, 0, 2], R[own, 1, 2] = inertias[i, 7], inertias[i, 8], inertias[i, 9]
        R[own, 1, 0], R[own, 2, 0], R[own, 2, 1] = inertias[i, 7], inertias[i, 8], inertias[i, 9]
        multiply_matrices(R, i, R, own, R, half)
        weights[i, 0] = m
        for a in range(3):
            weights[i, 1 + a] = h[a] + m * r[a]
            for b in range(a, 3):
                e = R[half, a, 0] * R[i, b, 0] + R[half, a, 1] * R[i, b, 1] + R[half, a, 2] * R[i, b, 2]
                e -= h[a] * r[b] + r[a] * h[b] + m * r[a] * r[b]
                weights[i, 4 + a if a == b else 6 + a + b] = e + spread if a == b else e
