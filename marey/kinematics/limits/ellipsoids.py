"""Learnt angular limits: the smallest ellipsoid around a joint's rotations, in the tangent space at its own centre."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, cast, final

import numpy as np

from marey.base import FloatArray, InputError, kernel
from marey.kinematics.limits.charts import split_inliers
from marey.kinematics.limits.cones import nearest_in_ellipsoid
from marey.kinematics.limits.contract import (
    ArrayLimits,
    CheckArrays,
    check_joint_batch,
    collect_clips,
    compute_mean_rotation,
    contiguous_wxyz,
    freeze_with_infinities,
)
from marey.kinematics.limits.sdf import MAX_SPREAD_RAD
from marey.lie import SO3
from marey.lie.kernels import (
    conjugate,
    dot,
    exp,
    left_jacobian_inverse_times,
    log,
    multiply,
    put3,
    quaternion_at,
    rotate,
    row3,
    subtract3,
    write_rotation,
)
from marey.motion import Motion


@kernel
def solve_minimum_volume_weights(points: FloatArray, tolerance: float, max_iterations: int) -> FloatArray:
    r"""Weights ``(N,)`` of the minimum-volume ellipsoid around points ``(N, D)``.

    Khachiyan's ascent with away steps on the lifted points :math:`(t, 1)`: the point that is farthest out gains
    weight, or the one farthest in with weight loses some. [Tournier2011]_ §12.2, after Kumar and Yıldırım.
    """
    count, size = points.shape[0], points.shape[1] + 1
    rows, u, g = np.ones((count, size)), np.full(count, 1.0 / count), np.empty(count)
    rows[:, :-1] = points
    for _ in range(max_iterations):
        # Sensitivities g_i = Q_i^T X^-1 Q_i with the moments X of all points
        moments = np.zeros((size, size))
        for i in range(count):
            for a in range(size):
                for b in range(size):
                    moments[a, b] += u[i] * rows[i, a] * rows[i, b]
        inverse = np.linalg.inv(moments)
        # The point farthest out, and the one farthest in that has weight
        top, low = 0, -1
        for i in range(count):
            g[i] = 0.0
            for a in range(size):
                for b in range(size):
                    g[i] += rows[i, a] * inverse[a, b] * rows[i, b]
            top = i if g[i] > g[top] else top
            low = i if u[i] > 0.0 and (low < 0 or g[i] < g[low]) else low
        gain, loss = g[top] / size - 1.0, 1.0 - g[low] / size
        if max(gain, loss) < tolerance:
            break
        # The step along its weight that raises the determinant most; an away step stops at no weight
        j = top if gain >= loss else low
        step = (g[j] - size) / (size * (g[j] - 1.0)) if g[j] > 1.0 else -np.inf
        is_last = gain < loss and step <= -u[j] / (1.0 - u[j])
        step = -u[j] / (1.0 - u[j]) if is_last else step
        for i in range(count):
            u[i] *= 1.0 - step
        u[j] = 0.0 if is_last else u[j] + step  # exactly nothing, or a rest too small to matter is taken forever
    return u


@kernel
def check_ellipsoids(wxyz: FloatArray, centres: FloatArray, axes: FloatArray, semi: FloatArray) -> CheckArrays:
    """Project rotations ``(F, J, 4)`` on ellipsoids of rotation vectors about centres; infinite ones are free.

    Args:
        wxyz: rotations.
        centres: ``(J, 4)`` middle of each ellipsoid.
        axes: ``(J, 4)`` frame of its axes.
        semi: ``(J, 3)`` [rad] half its axes.
    """
    frames, joints = wxyz.shape[0], wxyz.shape[1]
    out, violation, gradient = wxyz.copy(), np.zeros((frames, joints)), np.zeros((frames, joints, 3))
    for j in range(joints):
        if np.isinf(semi[j, 0]):
            continue
        centre, frame = quaternion_at(centres, j), quaternion_at(axes, j)
        for f in range(frames):
            # The rotation vector about the centre, along the axes of the ellipsoid
            y = rotate(conjugate(frame), log(multiply(conjugate(centre), quaternion_at(wxyz[f], j))))
            p = nearest_in_ellipsoid(y, row3(semi, j))
            d = subtract3(y, p)
            square = dot(d, d)
            if square == 0.0:
                continue
            g = rotate(frame, left_jacobian_inverse_times(y, d))
            write_rotation(out[f, j], multiply(centre, exp(rotate(frame, p))))
            violation[f, j] = np.sqrt(square)
            put3(gradient[f], j, g)
    return out, violation, gradient


@kernel
def ellipsoid_levels(wxyz: FloatArray, centres: FloatArray, axes: FloatArray, semi: FloatArray) -> FloatArray:
    r"""Level :math:`f = x^T A x` and its body gradient :math:`2 J_r^{-T} A x`, ``(F, J, 4)``; zero for free joints."""
    frames, joints = wxyz.shape[0], wxyz.shape[1]
    out = np.zeros((frames, joints, 4))
    for j in range(joints):
        if np.isinf(semi[j, 0]):
            continue
        centre, frame = quaternion_at(centres, j), quaternion_at(axes, j)
        for f in range(frames):
            y = rotate(conjugate(frame), log(multiply(conjugate(centre), quaternion_at(wxyz[f], j))))
            a = (2.0 * y[0] / semi[j, 0] ** 2, 2.0 * y[1] / semi[j, 1] ** 2, 2.0 * y[2] / semi[j, 2] ** 2)
            out[f, j, 0] = 0.5 * (a[0] * y[0] + a[1] * y[1] + a[2] * y[2])
            out[f, j, 1], out[f, j, 2], out[f, j, 3] = rotate(frame, left_jacobian_inverse_times(y, a))
    return out


CENTRE_TOL = 1e-8  # [rad] step at which the centre has settled
MAX_OUTER = 100
COARSE_TOL, MAX_COARSE = 1e-3, 2000  # [-] first-order ascent comes so near soon, and much nearer only slowly
INNER_TOL = 1e-10  # [-] of the optimality conditions of the smallest ellipsoid, which Newton steps then reach
MAX_NEWTON = 60
RANK_RMS_RAD = 1e-3  # [rad] a direction that varies less is fixed; absolute, since a relative test fails at zero
FLOOR_RAD = float(np.deg2rad(0.5))  # [rad] least half axis
HULL_SIZE = 60  # points; more are thinned to the corners of their hull, which changes nothing


@final
@dataclass(frozen=True, slots=True, eq=False)
class Ellipsoid:
    r"""The set :math:`\log(c^{-1}R)^T A \log(c^{-1}R) \le 1`, and how it was found."""

    centre: SO3  # one rotation
    frame: SO3  # one rotation: its columns are the axes
    semi_axes: FloatArray  # (3,) [rad] largest first
    rank: int  # in how many directions the samples vary
    iterations: int  # of the centre
    is_converged: bool
    is_local: bool  # whether no sample is nearly half a turn from the centre

    @property
    def matrix(self) -> FloatArray:
        """``A``, (3, 3) [1/rad²]."""
        axes = self.frame.matrix()
        return axes @ np.diag(self.semi_axes**-2.0) @ axes.T


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EllipsoidLimits(ArrayLimits):
    """An ellipsoid of rotation vectors about a centre for each joint. [Tournier2011]_ §12.

    The violation is the distance of the rotation vector to the ellipsoid.
    """

    kind: ClassVar[str] = "ellipsoid"
    kernel = check_ellipsoids

    centres: SO3  # batch (J,)
    frames: SO3  # batch (J,): axes of the ellipsoids
    semi_axes: FloatArray  # (J, 3) [rad] infinite is free
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        joints = self.skeleton.num_joints
        check_joint_batch(joints, centres=self.centres, frames=self.frames)
        semi = freeze_with_infinities(self.semi_axes, (joints, 3), "semi_axes")
        if np.any(semi <= 0.0):
            raise InputError("a half axis is not positive", f"Give at least {FLOOR_RAD:.4f} rad to a frozen direction")
        object.__setattr__(self, "semi_axes", semi)

    @classmethod
    def from_clips(cls, motions: Motion | Iterable[Motion], *, reject_outliers: bool = True) -> EllipsoidLimits:
        """Learn from clips of one skeleton; the root is free, and so are joints that turn all the way round."""
        skeleton, clips = collect_clips(motions)
        centres, frames = (SO3.identity(skeleton.num_joints).wxyz.copy() for _ in range(2))
        semi, notes = np.full((skeleton.num_joints, 3), np.inf), list[str]()
        for j in range(1, skeleton.num_joints):
            found = fit_ellipsoid([clip[:, j] for clip in clips], reject_outliers=reject_outliers)
            if found.is_local and found.is_converged:
                centres[j], frames[j], semi[j] = found.centre.wxyz, found.frame.wxyz, found.semi_axes
            else:
                notes.append(f"{skeleton.names[j]}: left free, as its rotations are not localised")
        return cls(skeleton, SO3(centres), SO3(frames), semi, tuple(notes))

    def levels(self, rotations: SO3) -> tuple[FloatArray, FloatArray]:
        r"""Level :math:`f_\varepsilon` ``(F, J)``, one on the surface, and its body gradient ``(F, J, 3)``.

        .. math:: f_\varepsilon(q) = x^T A x,\quad d^b f_\varepsilon = 2\,x^T A\,J_r^{-1}(x),\quad x = \log(c^{-1}q)

        [Tournier2011]_ §12.3.2, whose printed gradient lacks the centre and the Jacobian. Rows for solvers.
        """
        rows = ellipsoid_levels(contiguous_wxyz(rotations), *self.tables())
        return rows[..., 0], rows[..., 1:]

    def tables(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What ``check_ellipsoids`` takes."""
        return self.centres.wxyz, self.frames.wxyz, self.semi_axes

    def __repr__(self) -> str:
        return f"EllipsoidLimits({self.skeleton!r}, {int(np.isfinite(self.semi_axes[:, 0]).sum())} joints bounded)"


def fit_ellipsoid(clips: Sequence[SO3], *, reject_outliers: bool = True) -> Ellipsoid:
    r"""Smallest ellipsoid around the rotations of a joint, in the tangent space at its own centre.

    .. math:: t_i = \log(c^{-1}x_i),\quad (d, A) = \mathrm{MVEE}(t),\quad c \leftarrow c\exp(d)

    until the centre settles. [Tournier2011]_ §12.2-12.3. The source starts at the identity and adds noise to joints
    that do not use all directions; we start at the mean, fit in the directions that are used, and give the others a
    least half axis.

    Args:
        clips: batches ``(F,)`` of the joint's local rotations.
        reject_outliers: cut out what lies between two jumps of more than 1 rad.
    """
    rotations = SO3.concatenate(split_inliers(clips)[0] if reject_outliers else list(clips))
    # The centre moves to that of the smallest ellipsoid around the logarithms, until it settles
    centre, iteration = compute_mean_rotation(rotations), 0
    step = np.full(3, np.inf)
    vectors = (centre.inverse() @ rotations).log()
    while iteration < MAX_OUTER and np.linalg.norm(step) >= CENTRE_TOL:
        step, _, _ = _fit_smallest(vectors)
        centre = centre @ SO3.exp(step)
        vectors = (centre.inverse() @ rotations).log()
        iteration += 1
    # The ellipsoid about that centre which just holds all samples
    _, matrix, rank = _fit_smallest(vectors)
    matrix = matrix / max(float(np.einsum("ni,ij,nj->n", vectors, matrix, vectors).max()), 1e-300) if rank else matrix
    inverse_squares, axes = np.linalg.eigh(matrix)
    axes[:, 2] *= np.sign(np.linalg.det(axes))
    semi = np.maximum(inverse_squares**-0.5, FLOOR_RAD)
    is_local = bool(np.linalg.norm(vectors, axis=1).max() < MAX_SPREAD_RAD)
    settled = bool(np.linalg.norm(step) < CENTRE_TOL)
    return Ellipsoid(centre, SO3.from_matrix(axes), semi, rank, iteration, settled, is_local)


def _fit_smallest(vectors: FloatArray) -> tuple[FloatArray, FloatArray, int]:
    """Centre ``(3,)``, matrix ``(3, 3)`` and rank of the smallest ellipsoid, thin in directions that are not used."""
    mean = vectors.mean(axis=0)
    _, spread, axes = np.linalg.svd(vectors - mean, full_matrices=False)
    if len(spread) < 3:
        # Fewer samples than axes: singular vectors are completed to three
        full = np.linalg.svd(axes, full_matrices=True)[2]
        spread, axes = np.append(spread, np.zeros(3 - len(spread))), np.concatenate([axes, full[len(axes) :]])
    rank = int(np.count_nonzero(spread / np.sqrt(len(vectors)) > RANK_RMS_RAD))
    local = vectors @ axes.T
    centre = 0.5 * (local.min(axis=0) + local.max(axis=0))
    inner = np.diag(np.full(3, FLOOR_RAD**-2.0))
    if rank:
        centre[:rank], inner[:rank, :rank] = fit_enclosing_ellipsoid(local[:, :rank])
    return axes.T @ centre, axes.T @ inner @ axes, rank


def fit_enclosing_ellipsoid(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Centre ``(D,)`` and matrix ``(D, D)`` of the minimum-volume ellipsoid :math:`(t-d)^T A (t-d) \le 1`."""
    dimension = points.shape[1]
    if dimension == 1:
        low, high = points.min(), points.max()
        return np.array([0.5 * (low + high)]), np.array([[4.0 / (high - low) ** 2]])

    from scipy.optimize import nnls  # pyright: ignore[reportUnknownVariableType] (scipy is untyped)
    from scipy.spatial import ConvexHull, QhullError

    # Only corners of the convex hull can touch; where there is no proper hull, all points stay
    thin = points
    if len(points) > HULL_SIZE:
        with suppress(QhullError):
            thin = points[cast(Any, ConvexHull(points)).vertices]
    scaled = np.ascontiguousarray(thin / thin.std(axis=0))
    # A first-order ascent comes near
    weights = solve_minimum_volume_weights(scaled, COARSE_TOL, MAX_COARSE)
    # The same moments on as few points as Carathéodory grants, six in a plane and ten in space
    products = _outer_products(_homogeneous_points(scaled)).T
    few = np.asarray(nnls(products, products @ weights)[0], dtype=np.float64)
    # Newton steps end it
    u = _refine_weights(scaled, few / few.sum())
    centre = thin.T @ u
    moments = (thin.T * u) @ thin - np.outer(centre, centre)
    matrix = np.linalg.inv(moments) / dimension
    away = points - centre
    return centre, matrix / float(np.einsum("ni,ij,nj->n", away, matrix, away).max())


def _refine_weights(points: FloatArray, u: FloatArray) -> FloatArray:
    r"""Newton steps on :math:`f(u) = \log\det X - d \sum_i u_i` with :math:`X = \sum_i u_i Q_i Q_i^T`.

    Its maximum has weights that sum to one. In coordinates where X is the identity the slope is
    :math:`|Q_i|^2 - d` and the curvature :math:`-(Q_i^T Q_j)^2`. A step stops where a weight would become negative, and
    is halved while f falls.
    """
    rows = _homogeneous_points(points)
    size = rows.shape[1]

    def value(weights: FloatArray) -> float:
        return float(np.linalg.slogdet((rows.T * weights) @ rows)[1]) - size * float(weights.sum())

    for _ in range(MAX_NEWTON):
        # Optimal where every point with weight is on the surface and no point is outside
        factor = np.asarray(np.linalg.cholesky((rows.T * u) @ rows), dtype=np.float64)
        white = np.asarray(np.linalg.solve(factor, rows.T).T, dtype=np.float64)
        excess = (white**2).sum(axis=1) / size - 1.0
        if excess.max() < INNER_TOL and -excess[u > 0.0].min() < INNER_TOL:
            break
        # Step of the weights that have some, and of the point farthest out; the others stay at nothing
        products = _outer_products(white)
        goal = _outer_products(np.eye(size)).sum(axis=0) - size * _outer_products(factor[-1:])[0]
        is_free = u > 0.0
        is_free[np.argmax(excess)] |= excess.max() > INNER_TOL
        free = np.flatnonzero(is_free)
        while True:
            found = np.asarray(np.linalg.lstsq(products[free].T, goal, rcond=1e-13)[0], dtype=np.float64)
            stuck = (u[free] == 0.0) & (found < 0.0)
            if not stuck.any():
                break
            free = free[~stuck]
        step = np.zeros_like(u)
        step[free] = found
        # No weight becomes negative, and the value does not fall
        shrinking = step < 0.0
        part = min(1.0, float((u[shrinking] / -step[shrinking]).min())) if shrinking.any() else 1.0
        before = value(u)
        while part > 1e-9 and value(np.maximum(u + part * step, 0.0)) < before:
            part *= 0.5
        u = u + part * step
        u = np.where(u < 1e-14, 0.0, u)
        u = u / u.sum()
    return u


def _homogeneous_points(points: FloatArray) -> FloatArray:
    """Points ``(N, D + 1)`` with a last one."""
    return np.column_stack([points, np.ones(len(points))])


def _outer_products(rows: FloatArray) -> FloatArray:
    r"""Matrices :math:`Q_i Q_i^T` as rows ``(N, d(d+1)/2)`` whose dot products are those of the matrices."""
    first, second = np.triu_indices(rows.shape[1])
    return rows[:, first] * rows[:, second] * np.where(first == second, 1.0, np.sqrt(2.0))
