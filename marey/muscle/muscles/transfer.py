r"""Forces on the points of activation splines, and their transfer to the nodes of the body. [Engell2012]_ §20.4.

A point is carried by its region of nodes j: :math:`p = \sum \lambda_j x_j`, :math:`\sum \lambda_j = 1`, with weights
that follow every affine motion of the region. A force f at p goes to the nodes as :math:`F_j = \lambda_j f`, which
keeps force and torque, and is the exact transpose of dp/dx, so that springs along a spline have an energy.

Where a region is too thin to reach the point by its own stretch, the rest :math:`\bar q` of the way turns with it. With
shares :math:`w_j` of its mass, arms at rest :math:`\bar r_j` and :math:`A = \sum w_j x_j\,\bar r_j^T`, a rotation
R makes :math:`S = R^T A` symmetric, :math:`p = \sum \lambda_j x_j + R\,\bar q`, and

.. math:: F_j = \lambda_j f + w_j\,\omega\times R\,\bar r_j,\quad
          \omega = R\,(\mathrm{tr} S\,1 - S)^{-1} R^T\,(R\,\bar q\times f),

which keeps force and torque too. [Engell2012]_ §20.4, repaired: points :math:`p = W x` of cells with loads on regions
that overlap push the wrong way, and a body shakes itself to pieces. With ``mix`` (N, N) the forces of points are mixed
first: the pseudo-inverse and its iterations.

The thesis asks that the force of a point be the average over its region, :math:`b = A F`, with the least F:
``pinv`` :math:`A^T (A A^T)^{-1} b`, by ``pcg`` or ``gradient`` steps, or ``transpose`` :math:`A^T b`. Regions of
different size then push the body as a whole. ``conservative`` keeps force and torque, ``virtual_work`` too, on the
nodes of one cell. As ``pinv`` gives a region of n nodes n times the force, its stiffness k is k n of the others.
"""

from __future__ import annotations

from math import cos, sin
from typing import Final, NamedTuple

import numpy as np

from marey.base import ConvergenceError, FloatArray, InputError, IntArray, inline_kernel, kernel
from marey.lie.kernels import Vector, add3, cross, dot, norm, row3, scale3
from marey.muscle.muscles.spline import compute_hill_slopes

SPRING, HILL = 0, 1  # laws of a segment
HILL_DAMPING = 0.1  # [-] viscous part of a Hill-type segment
MIN_SEGMENT_RATIO = 1e-9  # [-] of the rest length: below, the last direction is kept
MIN_INERTIA_DETERMINANT = 1e-12  # [-] determinant of an inertia over its trace cubed: below, a region is a line
ROTATION_TOL = 1e-13  # [rad] a decade or two above rounding
MAX_ROTATION_STEPS = 60  # steps to fit a rotation: two or three from the last one, more after a jump


class HillSegments(NamedTuple):
    """What the Hill law needs of each segment."""

    force_n: FloatArray  # (S,) greatest
    length_m: FloatArray  # (S,) optimal
    speed_per_s: FloatArray  # (S,) highest, in optimal lengths
    alpha_min: FloatArray  # (S,) contraction at full activation
    curves: IntArray  # (S,) number in HILL_CURVES


NO_NUMBERS, NO_VALUES = np.zeros(0, dtype=np.int64), np.zeros(0)
NO_ROWS, NO_FRAMES = np.zeros((0, 3)), np.zeros((0, 3, 3))


class MuscleArrays(NamedTuple):
    """Splines of one body, compiled; none by default. Arrays from ``points`` on are refreshed by each step."""

    starts: IntArray = np.zeros(1, dtype=np.int64)  # (N + 1,) nodes, weights of point i: starts[i]:starts[i + 1]
    nodes: IntArray = NO_NUMBERS  # (nnz,)
    weights: FloatArray = NO_VALUES  # (nnz,) lambda; sum to one for each point
    shares: FloatArray = NO_VALUES  # (nnz,) of the region's mass; sum to one
    cells_carry: IntArray = np.zeros(1, dtype=np.int64)  # (1,) 1 where points are W x, whatever their regions
    turns: IntArray = NO_NUMBERS  # (N,) 1 where a part of the way turns
    cell_starts: IntArray = np.zeros(1, dtype=np.int64)  # (N + 1,) embedding p = W x, in the same form
    cell_nodes: IntArray = NO_NUMBERS
    cell_weights: FloatArray = NO_VALUES
    segments: IntArray = np.zeros((0, 2), dtype=np.int64)  # (S, 2) points
    rest: FloatArray = NO_VALUES  # (S,) [m]
    stiffness: FloatArray = NO_VALUES  # (S,) [N/m]
    damping: FloatArray = NO_VALUES  # (S,) [N s/m]
    laws: IntArray = NO_NUMBERS  # (S,) SPRING or HILL
    hill: HillSegments = HillSegments(NO_VALUES, NO_VALUES, NO_VALUES, NO_VALUES, NO_NUMBERS)
    mix: FloatArray = np.zeros((0, 0))  # (N, N), or (0, 0)
    rest_arms: FloatArray = NO_ROWS  # (nnz, 3) [m] from the centre of the region, at rest
    offsets: FloatArray = NO_ROWS  # (N, 3) [m] part of the way to the point that turns with the region
    points: FloatArray = NO_ROWS  # (N, 3) [m]
    velocities: FloatArray = NO_ROWS  # (N, 3) [m/s]
    levers: FloatArray = NO_ROWS  # (N, 3) [m] offsets, turned
    frames: FloatArray = NO_FRAMES  # (N, 3, 3) rotations of regions; start as ones
    arms: FloatArray = NO_ROWS  # (nnz, 3) [m] turned
    inverses: FloatArray = NO_FRAMES  # (N, 3, 3) [1/m^2]
    directions: FloatArray = NO_ROWS  # (S, 3)
    buffer: FloatArray = np.zeros((2, 0, 3))  # (2, N, 3)


@kernel
def clear_rows(rows: FloatArray) -> None:
    """Set rows of three to zero; by loops, as a slice takes a second to compile."""
    for i in range(rows.shape[0]):
        for c in range(3):
            rows[i, c] = 0.0


@kernel
def _weighted_sums(starts: IntArray, nodes: IntArray, weights: FloatArray, x: FloatArray, out: FloatArray) -> None:
    """Weighted sums of rows of x for each point ``(N, 3)``."""
    for i in range(out.shape[0]):
        a, b, c = 0.0, 0.0, 0.0
        for e in range(np.uint32(starts[i]), np.uint32(starts[i + 1])):
            j, w = np.uint32(nodes[e]), weights[e]
            a += w * x[j, 0]
            b += w * x[j, 1]
            c += w * x[j, 2]
        out[i, 0], out[i, 1], out[i, 2] = a, b, c


@inline_kernel
def symmetric_cofactors(a: FloatArray) -> tuple[float, float, float, float, float, float, float]:
    """Cofactors 00, 01, 02, 11, 12, 22 of a symmetric matrix ``(3, 3)``, and its determinant."""
    c00 = a[1, 1] * a[2, 2] - a[1, 2] * a[1, 2]
    c01 = a[0, 2] * a[1, 2] - a[0, 1] * a[2, 2]
    c02 = a[0, 1] * a[1, 2] - a[0, 2] * a[1, 1]
    c11 = a[0, 0] * a[2, 2] - a[0, 2] * a[0, 2]
    c12 = a[0, 1] * a[0, 2] - a[0, 0] * a[1, 2]
    c22 = a[0, 0] * a[1, 1] - a[0, 1] * a[0, 1]
    return c00, c01, c02, c11, c12, c22, a[0, 0] * c00 + a[0, 1] * c01 + a[0, 2] * c02


@kernel
def _rotate_frame(R: FloatArray, d: tuple[float, float, float], angle: float, work: FloatArray) -> None:
    """Turn R by a rotation vector d of its own frame, and keep it orthonormal."""
    # The rotation as a quaternion, then its matrix in work.
    half = 0.5 * angle
    k = sin(half) / angle if angle > 0.0 else 0.5
    w, x, y, z = cos(half), k * d[0], k * d[1], k * d[2]
    work[0, 0], work[0, 1], work[0, 2] = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)
    work[1, 0], work[1, 1], work[1, 2] = 2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)
    for r in range(3):
        a, b, c = R[r, 0], R[r, 1], R[r, 2]
        R[r, 0] = a * work[0, 0] + b * work[1, 0] + c * 2.0 * (x * z - w * y)
        R[r, 1] = a * work[0, 1] + b * work[1, 1] + c * 2.0 * (y * z + w * x)
        R[r, 2] = a * work[0, 2] + b * work[1, 2] + c * (1.0 - 2.0 * (x * x + y * y))
    # Gram-Schmidt on the columns, so that rounding does not add up.
    n = 1.0 / norm((R[0, 0], R[1, 0], R[2, 0]))
    ax, ay, az = n * R[0, 0], n * R[1, 0], n * R[2, 0]
    t = ax * R[0, 1] + ay * R[1, 1] + az * R[2, 1]
    bx, by, bz = R[0, 1] - t * ax, R[1, 1] - t * ay, R[2, 1] - t * az
    n = 1.0 / norm((bx, by, bz))
    bx, by, bz = n * bx, n * by, n * bz
    R[0, 0], R[1, 0], R[2, 0], R[0, 1], R[1, 1], R[2, 1] = ax, ay, az, bx, by, bz
    R[0, 2], R[1, 2], R[2, 2] = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx


@kernel
def _fit_rotation(A: FloatArray, R: FloatArray, S: FloatArray, M: FloatArray, inverse: FloatArray) -> bool:
    r"""Newton's method for the rotation that fits best, from the last one; writes R and (tr S 1 - S)^-1."""
    good = False
    for _ in range(MAX_ROTATION_STEPS):
        # S = R^T A, the part b of it that is not symmetric, and M = tr S 1 - S.
        for r in range(3):
            for c in range(3):
                S[r, c] = R[0, r] * A[0, c] + R[1, r] * A[1, c] + R[2, r] * A[2, c]
        bx, by, bz = S[2, 1] - S[1, 2], S[0, 2] - S[2, 0], S[1, 0] - S[0, 1]
        trace = S[0, 0] + S[1, 1] + S[2, 2]
        for r in range(3):
            for c in range(3):
                M[r, c] = (trace if r == c else 0.0) - 0.5 * (S[r, c] + S[c, r])
        # Inverse of M by cofactors; zero where it is not positive.
        c00, c01, c02, c11, c12, c22, det = symmetric_cofactors(M)
        total = M[0, 0] + M[1, 1] + M[2, 2]
        good = M[0, 0] > 0.0 and c22 > 0.0 and det > MIN_INERTIA_DETERMINANT * total * total * total
        scale = 1.0 / det if good else 0.0
        inverse[0, 0], inverse[0, 1], inverse[0, 2] = scale * c00, scale * c01, scale * c02
        inverse[1, 1], inverse[1, 2], inverse[2, 2] = scale * c11, scale * c12, scale * c22
        inverse[1, 0], inverse[2, 0], inverse[2, 1] = inverse[0, 1], inverse[0, 2], inverse[1, 2]
        # Newton's step M^-1 b, or a short step along b; no longer than a radian.
        if good:
            d = (
                inverse[0, 0] * bx + inverse[0, 1] * by + inverse[0, 2] * bz,
                inverse[1, 0] * bx + inverse[1, 1] * by + inverse[1, 2] * bz,
                inverse[2, 0] * bx + inverse[2, 1] * by + inverse[2, 2] * bz,
            )
        else:
            size = abs(S[0, 0]) + abs(S[1, 1]) + abs(S[2, 2]) + abs(bx) + abs(by) + abs(bz) + 1e-300
            d = (bx / size, by / size, bz / size)
        angle = norm(d)
        if angle < ROTATION_TOL:
            break
        s = min(1.0, 1.0 / angle)
        _rotate_frame(R, (s * d[0], s * d[1], s * d[2]), s * angle, M)
    return good


@kernel
def update_points(arrays: MuscleArrays, x: FloatArray) -> None:
    """Bring points, rotations, arms and inverses to the positions x ``(V, 3)``."""
    if arrays.cells_carry[0] != 0:
        _weighted_sums(arrays.cell_starts, arrays.cell_nodes, arrays.cell_weights, x, arrays.points)
        return
    _weighted_sums(arrays.starts, arrays.nodes, arrays.weights, x, arrays.points)
    _turn_points(arrays, x)


@kernel
def _turn_points(arrays: MuscleArrays, x: FloatArray) -> None:
    """Fit the rotations of regions that turn, and add what turns with them to the points."""
    work = np.empty((4, 3, 3))
    for i in range(arrays.points.shape[0]):
        if arrays.turns[i] == 0:
            continue
        # A = sum of w x r^T over the region
        first, last, A = arrays.starts[i], arrays.starts[i + 1], work[0]
        clear_rows(A)
        for e in range(first, last):
            j, w = arrays.nodes[e], arrays.shares[e]
            for c in range(3):  # arms at rest add up to nothing, so the centre need not be taken off
                for r in range(3):
                    A[r, c] += w * x[j, r] * arrays.rest_arms[e, c]
        R = arrays.frames[i]
        _fit_rotation(A, R, work[1], work[2], work[3])
        # R (tr S 1 - S)^-1 R^T
        inverse, half, out = work[3], work[1], arrays.inverses[i]
        for r in range(3):
            for c in range(3):
                half[r, c] = R[r, 0] * inverse[0, c] + R[r, 1] * inverse[1, c] + R[r, 2] * inverse[2, c]
        for r in range(3):
            for c in range(3):
                out[r, c] = dot(row3(half, r), row3(R, c))
        for e in range(first, last):
            for c in range(3):
                arrays.arms[e, c] = dot(row3(R, c), row3(arrays.rest_arms, e))
        for c in range(3):
            arrays.levers[i, c] = dot(row3(R, c), row3(arrays.offsets, i))
            arrays.points[i, c] += arrays.levers[i, c]


@kernel
def _multiply_rows(mix: FloatArray, values: FloatArray, out: FloatArray) -> None:
    for i in range(mix.shape[0]):
        for c in range(3):
            out[i, c] = 0.0
        for k in range(mix.shape[1]):
            m = mix[i, k]
            for c in range(3):
                out[i, c] += m * values[k, c]


@kernel
def gather_velocities(arrays: MuscleArrays, v: FloatArray, out: FloatArray) -> None:
    """Velocities of points ``(N, 3)`` of velocities of nodes ``(V, 3)``; the transpose of scatter."""
    _weighted_sums(arrays.starts, arrays.nodes, arrays.weights, v, out)
    _turn_velocities(arrays, v, out)


@kernel
def _turn_velocities(arrays: MuscleArrays, v: FloatArray, out: FloatArray) -> None:
    """Add the turn of regions to the velocities of points, and mix them."""
    for i in range(out.shape[0]):
        if arrays.turns[i] == 0:
            continue
        # The region turns by omega = inverse sum of w r x v, and the lever with it.
        spin = (0.0, 0.0, 0.0)
        for e in range(arrays.starts[i], arrays.starts[i + 1]):
            spin = add3(spin, cross(scale3(arrays.shares[e], row3(arrays.arms, e)), row3(v, arrays.nodes[e])))
        moved = cross(_matrix_vector(arrays.inverses[i], spin), row3(arrays.levers, i))
        for c in range(3):
            out[i, c] += moved[c]
    if arrays.mix.shape[0] > 0:
        held = arrays.buffer[0]
        for i in range(out.shape[0]):
            held[i, 0], held[i, 1], held[i, 2] = out[i, 0], out[i, 1], out[i, 2]
        _multiply_rows(arrays.mix, held, out)


@kernel
def _matrix_vector(m: FloatArray, v: Vector) -> Vector:
    return dot(row3(m, 0), v), dot(row3(m, 1), v), dot(row3(m, 2), v)


@kernel
def scatter_forces(arrays: MuscleArrays, f: FloatArray, out: FloatArray) -> None:
    """Add forces at points ``(N, 3)`` to the nodes ``(V, 3)`` [N]."""
    forces = f
    if arrays.mix.shape[0] > 0:
        _multiply_rows(arrays.mix, f, arrays.buffer[1])
        forces = arrays.buffer[1]
    for i in range(forces.shape[0]):
        # F_j = lambda_j f + w_j omega x R r_j, omega = inverse (R q x f)
        force = row3(forces, i)
        for e in range(np.uint32(arrays.starts[i]), np.uint32(arrays.starts[i + 1])):
            j, w = np.uint32(arrays.nodes[e]), arrays.weights[e]
            for c in range(3):
                out[j, c] += w * force[c]
        if arrays.turns[i] != 0:
            omega = _matrix_vector(arrays.inverses[i], cross(row3(arrays.levers, i), force))
            for e in range(arrays.starts[i], arrays.starts[i + 1]):
                j = arrays.nodes[e]
                part = cross(omega, scale3(arrays.shares[e], row3(arrays.arms, e)))
                for c in range(3):
                    out[j, c] += part[c]


@kernel
def evaluate_segments(
    arrays: MuscleArrays,
    x: FloatArray,
    v: FloatArray,
    alpha: FloatArray,
    h: float,
    forces: FloatArray,
    blocks: FloatArray,
) -> None:
    r"""Forces on points ``(N, 3)`` [N] and blocks :math:`h^2 K_s + h C_s` of segments ``(S, 3, 3)`` [kg], both written.

    .. math:: f_{i+1} = -k\,(l - \alpha\,l_0)\,e - c\,e e^T (v_{i+1} - v_i),\quad f_i = -f_{i+1}

    Eqs 77 to 79 of [Engell2012]_ §20.3. For an implicit step, which solves for the new velocity, the forces leave out
    what the blocks hold: :math:`f + C_s v`. With ``h = 0`` they are plain and the blocks are zero. K_s is positive
    semi-definite: only tension stiffens sideways.
    """
    if arrays.cells_carry[0] != 0:
        _weighted_sums(arrays.cell_starts, arrays.cell_nodes, arrays.cell_weights, x, arrays.points)
        _weighted_sums(arrays.cell_starts, arrays.cell_nodes, arrays.cell_weights, v, arrays.velocities)
    else:
        # Weighted sums of positions and velocities for each point, in one pass: the additions of both overlap
        for i in range(arrays.points.shape[0]):
            p0, p1, p2, u0, u1, u2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            for e in range(np.uint32(arrays.starts[i]), np.uint32(arrays.starts[i + 1])):
                j, w = np.uint32(arrays.nodes[e]), arrays.weights[e]
                p0, p1, p2 = p0 + w * x[j, 0], p1 + w * x[j, 1], p2 + w * x[j, 2]
                u0, u1, u2 = u0 + w * v[j, 0], u1 + w * v[j, 1], u2 + w * v[j, 2]
            arrays.points[i, 0], arrays.points[i, 1], arrays.points[i, 2] = p0, p1, p2
            arrays.velocities[i, 0], arrays.velocities[i, 1], arrays.velocities[i, 2] = u0, u1, u2
        _turn_points(arrays, x)
        _turn_velocities(arrays, v, arrays.velocities)
    clear_rows(forces)
    for s in range(arrays.segments.shape[0]):
        i, j = arrays.segments[s, 0], arrays.segments[s, 1]
        dx = arrays.points[j, 0] - arrays.points[i, 0]
        dy = arrays.points[j, 1] - arrays.points[i, 1]
        dz = arrays.points[j, 2] - arrays.points[i, 2]
        # (77): direction and length of the segment; a segment without length keeps its last direction
        length = norm((dx, dy, dz))
        e = arrays.directions[s]
        if length > MIN_SEGMENT_RATIO * arrays.rest[s]:
            e[0], e[1], e[2] = dx / length, dy / length, dz / length
        ux = arrays.velocities[j, 0] - arrays.velocities[i, 0]
        uy = arrays.velocities[j, 1] - arrays.velocities[i, 1]
        uz = arrays.velocities[j, 2] - arrays.velocities[i, 2]
        speed = e[0] * ux + e[1] * uy + e[2] * uz
        # (78) and (79): tension of spring and damper
        k, c = arrays.stiffness[s], arrays.damping[s]
        tension = k * (length - alpha[s] * arrays.rest[s]) + c * speed
        if arrays.laws[s] == HILL:
            # Tension [N], its slope by length [N/m] and by speed [N s/m] of a Hill-type segment.
            hill = arrays.hill
            top, best, fastest = hill.force_n[s], hill.length_m[s], hill.speed_per_s[s]
            a = min(1.0, max(0.0, (1.0 - alpha[s]) / (1.0 - hill.alpha_min[s])))
            stretch, rate = length / best, speed / (best * fastest)
            force, by_length, by_speed = compute_hill_slopes(hill.curves[s], a, stretch, rate, HILL_DAMPING)
            tension = top * force
            k, c = max(top * by_length / best, 0.0), max(top * by_speed / (best * fastest), 0.0)
        across = max(0.0, tension - c * speed) / max(length, 0.1 * arrays.rest[s])
        axial = tension - c * speed if h > 0.0 else tension
        for r in range(3):
            forces[i, r] += axial * e[r]
            forces[j, r] -= axial * e[r]
            for q in range(3):
                blocks[s, r, q] = (h * h * (k - across) + h * c) * e[r] * e[q]
            blocks[s, r, r] += h * h * across


TRANSFERS: Final = ("conservative", "virtual_work", "transpose", "pinv", "gradient", "pcg")
RANK_TOL: Final = 1e-10  # [-] eigenvalues below this part of the largest belong to points that share a region
GRADIENT_STEPS: Final = 200
SOLVE_TOL: Final = 1e-11  # [-] of the right-hand side


def invert_by_rank(gram: FloatArray) -> FloatArray:
    """Inverse of A A^T where it has one: points with the same region count as one."""
    values, vectors = np.linalg.eigh(gram)
    keep = values > RANK_TOL * values[-1]
    return (vectors[:, keep] / values[keep]) @ vectors[:, keep].T


def iterate_gradient(gram: FloatArray, steps: int = GRADIENT_STEPS) -> FloatArray:
    r"""The matrix of Eq. 91 after some steps of :math:`\lambda \leftarrow \lambda + b - A A^T \lambda`.

    Raises:
        InputError: :math:`A A^T` has an eigenvalue of 2 or more, where the steps grow; the thesis does not say so.
    """
    largest = float(np.linalg.eigvalsh(gram)[-1])
    if largest >= 2.0:
        raise InputError(f"the largest eigenvalue of A A^T is {largest:.3g}: gradient steps grow", "Use 'pinv'")
    mix, error = np.zeros_like(gram), np.eye(len(gram)) - gram
    for _ in range(steps):
        mix = np.eye(len(gram)) + error @ mix
    return mix


def solve_gram_pcg(gram: FloatArray, b: FloatArray) -> FloatArray:
    """Solve A A^T y = b ``(N, D)`` by conjugate gradients with the diagonal as preconditioner.

    Raises:
        ConvergenceError: the residual stays above ``SOLVE_TOL``: b is not an average over regions that share nodes.
    """
    diagonal = np.diag(gram)[:, None]
    y, r = np.zeros_like(b), b.copy()
    z = r / diagonal
    p, rz = z.copy(), np.sum(r * z, axis=0)
    goal = SOLVE_TOL * np.linalg.norm(b)
    for _ in range(10 * len(gram) + 20):
        if np.linalg.norm(r) <= goal:
            return y
        q = gram @ p
        bend = np.sum(p * q, axis=0)
        step = np.divide(rz, bend, out=np.zeros_like(rz), where=bend > 0.0)
        y, r = y + step * p, r - step * q
        z, last = r / diagonal, rz
        rz = np.sum(r * z, axis=0)
        p = z + np.divide(rz, last, out=np.zeros_like(rz), where=last > 0.0) * p
    raise ConvergenceError("conjugate gradients did not settle: points share a region. Use 'pinv'", report=y)
