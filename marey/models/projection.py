r"""Pose models in compiled loops: rotations and their Jacobian from coordinates, and projection of poses on geodesics.

A model is a kind and two arrays there. Single poses for solvers in a loop, and batches of them. The Jacobian
takes :math:`O(kn)`. [Tournier2011]_ §8.2.2.

The exact one minimises :math:`\sum_j w_j^2 \|\rho_j\|^2`, :math:`\rho_j = \log(q_j^{-1} f_j(x))`, by Gauss-Newton steps
with :math:`\partial\rho_j/\partial x = J_r^{-1}(\rho_j)\,\partial^b f_j/\partial x`. [Tournier2011]_ §8.1.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, sin
from typing import Final

import numpy as np

from marey.base import FloatArray, kernel
from marey.lie.kernels import (
    Vector,
    exponential,
    logarithm,
    product,
    right_jacobian_inverse_times,
    right_jacobian_times,
    unrotate,
)

LINEAR_TANGENT: Final = 0  # r_j = mean_j exp(sum_i x_i B_ji): canonical coordinates of the first kind
GEODESIC_PRODUCT: Final = 1  # r_j = mean_j exp(x_1 B_j1) ... exp(x_k B_jk): coordinates of the second kind
LOG_LINEAR: Final = 2  # r_j = exp(c_j + sum_i x_i B_ji): principal components of rotation vectors
EULER_LINEAR: Final = 3  # r_j = R_z(a_z) R_y(a_y) R_x(a_x), a = c_j + sum_i x_i B_ji: of Euler angles


@dataclass(frozen=True, slots=True, eq=False)
class ModelArrays:
    """A pose model as plain arrays, for compiled loops.

    They cover the joints below the root: the root's row gives the identity, whatever the coordinates.
    """

    kind: int  # LINEAR_TANGENT, GEODESIC_PRODUCT, LOG_LINEAR or EULER_LINEAR
    mean_wxyz: FloatArray
    """(J, 4) unit quaternions of the mean; for the two linear kinds the rows are ``(0, c_j)`` [rad], which no unit
    quaternion of a rotation vector could tell apart from its turns by 2π"""
    basis: FloatArray  # (J, 3, k) [rad] per unit of each coordinate


@kernel
def combination(basis: FloatArray, j: int, x: FloatArray) -> Vector:
    """Sum of the modes of joint ``j``, each times its coordinate."""
    a = b = c = 0.0
    for i in range(x.shape[0]):
        a += basis[j, 0, i] * x[i]
        b += basis[j, 1, i] * x[i]
        c += basis[j, 2, i] * x[i]
    return a, b, c


@kernel
def model_rotations(kind: int, mean_wxyz: FloatArray, basis: FloatArray, x: FloatArray, out_wxyz: FloatArray) -> None:
    """Write the local rotations ``(J, 4)`` of one pose with coordinates ``x`` ``(k,)``; see ``ModelArrays``."""
    for j in range(mean_wxyz.shape[0]):
        m = mean_wxyz[j]
        if kind == GEODESIC_PRODUCT:
            # Second kind: one exponential after the other
            w, u, v, t = m[0], m[1], m[2], m[3]
            q = out_wxyz[j]
            for i in range(x.shape[0]):
                q[0], q[1], q[2], q[3] = w, u, v, t
                ew, ex, ey, ez = exponential(basis[j, 0, i] * x[i], basis[j, 1, i] * x[i], basis[j, 2, i] * x[i])
                w, u, v, t = product(q[0], q[1], q[2], q[3], ew, ex, ey, ez)
        else:
            a, b, c = combination(basis, j, x)
            if kind == LINEAR_TANGENT:
                ew, ex, ey, ez = exponential(a, b, c)
                w, u, v, t = product(m[0], m[1], m[2], m[3], ew, ex, ey, ez)
            elif kind == EULER_LINEAR:
                # Unit quaternion of R_z R_y R_x
                ax, ay, az = m[1] + a, m[2] + b, m[3] + c
                cx, sx = cos(ax / 2), sin(ax / 2)
                cy, sy = cos(ay / 2), sin(ay / 2)
                cz, sz = cos(az / 2), sin(az / 2)
                w = cz * cy * cx + sz * sy * sx
                u = cz * cy * sx - sz * sy * cx
                v = cz * sy * cx + sz * cy * sx
                t = sz * cy * cx - cz * sy * sx
            else:
                w, u, v, t = exponential(m[1] + a, m[2] + b, m[3] + c)
        out_wxyz[j, 0], out_wxyz[j, 1], out_wxyz[j, 2], out_wxyz[j, 3] = w, u, v, t


@kernel
def model_jacobian(kind: int, mean_wxyz: FloatArray, basis: FloatArray, x: FloatArray, out: FloatArray) -> None:
    r"""Write how each local rotation turns with each coordinate: ``out`` ``(J, 3, k)``.

    Column i of joint j is the angular velocity in the joint's own frame, :math:`r_j^{-1}\,\partial r_j/\partial x_i`.
    """
    for j in range(mean_wxyz.shape[0]):
        if kind == GEODESIC_PRODUCT:
            # Columns P_i^{-1} v_i, where P_i is the product of the exponentials after the i-th
            after = np.zeros(4)
            w, u, v, t = 1.0, 0.0, 0.0, 0.0
            for i in range(x.shape[0] - 1, -1, -1):
                a, b, c = basis[j, 0, i], basis[j, 1, i], basis[j, 2, i]
                out[j, 0, i], out[j, 1, i], out[j, 2, i] = unrotate((w, u, v, t), (a, b, c))
                after[0], after[1], after[2], after[3] = exponential(a * x[i], b * x[i], c * x[i])
                w, u, v, t = product(after[0], after[1], after[2], after[3], w, u, v, t)
        elif kind == EULER_LINEAR:
            # Columns e_x \dot a_x + R_x^T e_y \dot a_y + R_x^T R_y^T e_z \dot a_z
            a, b, _ = combination(basis, j, x)
            ax, ay = a + mean_wxyz[j, 1], b + mean_wxyz[j, 2]
            cx, sx, cy, sy = cos(ax), sin(ax), cos(ay), sin(ay)
            for i in range(x.shape[0]):
                p, q, r = basis[j, 0, i], basis[j, 1, i], basis[j, 2, i]
                out[j, 0, i] = p - sy * r
                out[j, 1, i] = cx * q + sx * cy * r
                out[j, 2, i] = -sx * q + cx * cy * r
        else:
            # Columns J_r(\xi) v_i; one \xi for all of them, so its matrix is made once
            a, b, c = combination(basis, j, x)
            if kind != LINEAR_TANGENT:
                a, b, c = a + mean_wxyz[j, 1], b + mean_wxyz[j, 2], c + mean_wxyz[j, 3]
            xx, xy, xz = right_jacobian_times(a, b, c, 1.0, 0.0, 0.0)
            yx, yy, yz = right_jacobian_times(a, b, c, 0.0, 1.0, 0.0)
            zx, zy, zz = right_jacobian_times(a, b, c, 0.0, 0.0, 1.0)
            for i in range(x.shape[0]):
                p, q, r = basis[j, 0, i], basis[j, 1, i], basis[j, 2, i]
                out[j, 0, i] = xx * p + yx * q + zx * r
                out[j, 1, i] = xy * p + yy * q + zy * r
                out[j, 2, i] = xz * p + yz * q + zz * r


@kernel
def batch_rotations(kind: int, mean_wxyz: FloatArray, basis: FloatArray, x: FloatArray) -> FloatArray:
    """Local rotations ``(F, J, 4)`` of coordinates ``(F, k)``."""
    out = np.empty((x.shape[0], mean_wxyz.shape[0], 4))
    for f in range(x.shape[0]):
        model_rotations(kind, mean_wxyz, basis, x[f], out[f])
    return out


@kernel
def batch_jacobians(kind: int, mean_wxyz: FloatArray, basis: FloatArray, x: FloatArray) -> FloatArray:
    """Jacobians ``(F, J, 3, k)`` at coordinates ``(F, k)``."""
    out = np.empty((x.shape[0], basis.shape[0], 3, basis.shape[2]))
    for f in range(x.shape[0]):
        model_jacobian(kind, mean_wxyz, basis, x[f], out[f])
    return out


@kernel
def log_between(a: FloatArray, b: FloatArray) -> Vector:
    r"""Return :math:`\log(a^{-1} b)` of two unit quaternions."""
    w = a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]
    x = a[0] * b[1] - a[1] * b[0] - a[2] * b[3] + a[3] * b[2]
    y = a[0] * b[2] + a[1] * b[3] - a[2] * b[0] - a[3] * b[1]
    z = a[0] * b[3] - a[1] * b[2] + a[2] * b[1] - a[3] * b[0]
    return logarithm(w, x, y, z)


@kernel
def tangents(mean_wxyz: FloatArray, wxyz: FloatArray) -> FloatArray:
    r"""Return :math:`\log(\mu_j^{-1} q_j)` ``(F, J, 3)`` of poses ``(F, J, 4)``."""
    out = np.empty((wxyz.shape[0], wxyz.shape[1], 3))
    for f in range(wxyz.shape[0]):
        for j in range(wxyz.shape[1]):
            out[f, j, 0], out[f, j, 1], out[f, j, 2] = log_between(mean_wxyz[j], wxyz[f, j])
    return out


@kernel
def greedy_coordinates(mean_wxyz: FloatArray, basis: FloatArray, metric: FloatArray, wxyz: FloatArray) -> FloatArray:
    """Coordinates ``(F, k)`` of the second kind, one geodesic after the other: what is left is divided by each."""
    joints, count = wxyz.shape[1], basis.shape[2]
    out = np.zeros((wxyz.shape[0], count))
    left, turn = np.empty((joints, 4)), np.empty(4)
    for f in range(wxyz.shape[0]):
        # What is left to explain: mu^{-1} q
        for j in range(1, joints):
            m, q = mean_wxyz[j], wxyz[f, j]
            turn[0], turn[1], turn[2], turn[3] = m[0], -m[1], -m[2], -m[3]
            left[j, 0], left[j, 1], left[j, 2], left[j, 3] = product(
                turn[0], turn[1], turn[2], turn[3], q[0], q[1], q[2], q[3]
            )
        for i in range(count):
            x = 0.0
            for j in range(1, joints):
                a, b, c = logarithm(left[j, 0], left[j, 1], left[j, 2], left[j, 3])
                x += metric[j] * (basis[j, 0, i] * a + basis[j, 1, i] * b + basis[j, 2, i] * c)
            out[f, i] = x
            # Divide by this geodesic
            for j in range(1, joints):
                a, b, c = -x * basis[j, 0, i], -x * basis[j, 1, i], -x * basis[j, 2, i]
                turn[0], turn[1], turn[2], turn[3] = exponential(a, b, c)
                q = left[j]
                left[j, 0], left[j, 1], left[j, 2], left[j, 3] = product(
                    turn[0], turn[1], turn[2], turn[3], q[0], q[1], q[2], q[3]
                )
    return out


@kernel
def squared_distances(
    kind: int, mean_wxyz: FloatArray, basis: FloatArray, wxyz: FloatArray, x: FloatArray
) -> FloatArray:
    """Squared angle ``(F, J)`` [rad^2] between the joints of poses and of what their coordinates decode to."""
    made = np.empty((wxyz.shape[1], 4))
    out = np.zeros((wxyz.shape[0], wxyz.shape[1]))
    for f in range(wxyz.shape[0]):
        model_rotations(kind, mean_wxyz, basis, x[f], made)
        for j in range(1, wxyz.shape[1]):
            a, b, c = log_between(wxyz[f, j], made[j])
            out[f, j] = a * a + b * b + c * c
    return out


@kernel
def pose_normals(
    kind: int, mean_wxyz: FloatArray, basis: FloatArray, metric: FloatArray, wxyz: FloatArray, x: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Gauss-Newton matrices ``(F, k, k)`` and slopes ``(F, k)`` of the distance of each pose to its model."""
    joints, count = wxyz.shape[1], basis.shape[2]
    normals, slopes = np.zeros((wxyz.shape[0], count, count)), np.zeros((wxyz.shape[0], count))
    made, columns = np.empty((joints, 4)), np.empty((joints, 3, count))
    for f in range(wxyz.shape[0]):
        model_rotations(kind, mean_wxyz, basis, x[f], made)
        model_jacobian(kind, mean_wxyz, basis, x[f], columns)
        for j in range(1, joints):
            # Columns of J_r^{-1}(rho) times those of the model
            rho, row = log_between(wxyz[f, j], made[j]), columns[j]
            for i in range(count):
                row[0, i], row[1, i], row[2, i] = right_jacobian_inverse_times(rho, (row[0, i], row[1, i], row[2, i]))
            _accumulate(row, rho, metric[j], normals[f], slopes[f])
    return normals, slopes


@kernel
def _accumulate(row: FloatArray, rho: Vector, weight: float, normal: FloatArray, slope: FloatArray) -> None:
    """Add three residuals ``rho`` with their derivatives ``(3, n)`` to a least-squares problem."""
    for i in range(row.shape[1]):
        u, v, w = weight * row[0, i], weight * row[1, i], weight * row[2, i]
        slope[i] -= u * rho[0] + v * rho[1] + w * rho[2]
        for n in range(row.shape[1]):
            normal[i, n] += u * row[0, n] + v * row[1, n] + w * row[2, n]


@kernel
def joint_normals(
    kind: int, mean_wxyz: FloatArray, basis: FloatArray, wxyz: FloatArray, x: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Gauss-Newton matrices ``(J, 3 k, 3 k)`` and slopes ``(J, 3 k)`` over the frames, for the parts of each joint.

    With the coordinates held, a joint's part of the directions moves that joint alone.
    """
    joints, size = wxyz.shape[1], 3 * basis.shape[2]
    normals, slopes = np.zeros((joints, size, size)), np.zeros((joints, size))
    made, row = np.empty((joints, 4)), np.empty((3, size))
    after, unit = np.zeros(4), np.eye(3)
    for f in range(wxyz.shape[0]):
        model_rotations(kind, mean_wxyz, basis, x[f], made)
        for j in range(1, joints):
            if kind == GEODESIC_PRODUCT:
                # Second kind: x_i P_i^{-1} J_r(x_i v_i), P_i the product of all exponentials after the i-th
                w, u, v, t = 1.0, 0.0, 0.0, 0.0
                for i in range(x.shape[1] - 1, -1, -1):
                    z = x[f, i]
                    a, b, c = z * basis[j, 0, i], z * basis[j, 1, i], z * basis[j, 2, i]
                    for n in range(3):
                        p, q, r = right_jacobian_times(a, b, c, unit[n, 0], unit[n, 1], unit[n, 2])
                        s = 3 * i + n
                        row[0, s], row[1, s], row[2, s] = unrotate((w, u, v, t), (z * p, z * q, z * r))
                    after[0], after[1], after[2], after[3] = exponential(a, b, c)
                    w, u, v, t = product(after[0], after[1], after[2], after[3], w, u, v, t)
            else:
                # First kind: x_i J_r(xi)
                a, b, c = combination(basis, j, x[f])
                for n in range(3):
                    p, q, r = right_jacobian_times(a, b, c, unit[n, 0], unit[n, 1], unit[n, 2])
                    for i in range(x.shape[1]):
                        s = 3 * i + n
                        row[0, s], row[1, s], row[2, s] = x[f, i] * p, x[f, i] * q, x[f, i] * r
            rho = log_between(wxyz[f, j], made[j])
            for i in range(size):
                row[0, i], row[1, i], row[2, i] = right_jacobian_inverse_times(rho, (row[0, i], row[1, i], row[2, i]))
            _accumulate(row, rho, 1.0, normals[j], slopes[j])
    return normals, slopes


MAX_STEPS = 30  # Gauss-Newton settles in three or four; more only where a joint passes a half turn
MAX_HALVINGS = 12
STEP_TOL = 1e-11  # [rad] two decades above the rounding of the residuals
DAMPING = 1e-13  # [-] of the trace: keeps a matrix regular when a direction turns nothing there


def project_poses(
    arrays: ModelArrays,
    metric: FloatArray,
    wxyz: FloatArray,
    covectors: FloatArray | None = None,
    *,
    is_exact: bool,
) -> FloatArray:
    """Coordinates ``(F, k)`` of poses ``wxyz`` ``(F, J, 4)``."""
    x = linear_coordinates(arrays, metric, wxyz, covectors)
    return refine_coordinates(arrays, metric, wxyz, x) if is_exact and x.size else x


def linear_coordinates(
    arrays: ModelArrays, metric: FloatArray, wxyz: FloatArray, covectors: FloatArray | None = None
) -> FloatArray:
    r"""First kind: :math:`\sum_j w_j^2 B_j^T \log(\mu_j^{-1} q_j)`; second kind: one geodesic after the other.

    ``covectors`` ``(J, 3, k)`` take the place of :math:`w_j^2 B_j` in a metric that couples joints.
    """
    if arrays.kind == GEODESIC_PRODUCT:
        return greedy_coordinates(
            as_readonly(arrays.mean_wxyz), as_readonly(arrays.basis), as_readonly(metric), as_readonly(wxyz)
        )
    logs = tangents(as_readonly(arrays.mean_wxyz), as_readonly(wxyz)).reshape(len(wxyz), -1)
    measured = metric[:, None, None] * arrays.basis if covectors is None else covectors
    return logs @ measured.reshape(logs.shape[1], -1)


def pose_errors(arrays: ModelArrays, metric: FloatArray, wxyz: FloatArray, x: FloatArray) -> FloatArray:
    """Weighted squared geodesic distance ``(F,)`` between poses and what their coordinates decode to."""
    mean, basis = as_readonly(arrays.mean_wxyz), as_readonly(arrays.basis)
    return squared_distances(arrays.kind, mean, basis, as_readonly(wxyz), as_readonly(x)) @ metric


def refine_coordinates(arrays: ModelArrays, metric: FloatArray, wxyz: FloatArray, x: FloatArray) -> FloatArray:
    """Coordinates ``(F, k)`` improved from ``x`` by Gauss-Newton steps; the error of no frame ever grows."""
    x = x.copy()
    errors = pose_errors(arrays, metric, wxyz, x)
    active = np.arange(len(x))
    # Gauss-Newton for all frames at once; those that are done drop out
    for _ in range(MAX_STEPS):
        seen = (as_readonly(metric), as_readonly(wxyz[active]), as_readonly(x[active]))
        normals, slopes = pose_normals(arrays.kind, as_readonly(arrays.mean_wxyz), as_readonly(arrays.basis), *seen)
        steps = solve_normals(normals, slopes)
        # Each frame takes its step, or a half, a quarter, ... of it, whichever first lowers its error
        moved = np.zeros(len(active), dtype=np.bool_)
        for halving in range(MAX_HALVINGS):
            waiting = np.flatnonzero(~moved)
            if not waiting.size:
                break
            frames = active[waiting]
            tried = x[frames] + 0.5**halving * steps[waiting]
            found = pose_errors(arrays, metric, wxyz[frames], tried)
            better = found < errors[frames]
            x[frames[better]], errors[frames[better]] = tried[better], found[better]
            moved[waiting[better]] = True
        active = active[moved & (np.abs(steps).max(axis=1, initial=0.0) > STEP_TOL)]
        if not active.size:
            break
    return x


def as_readonly(array: FloatArray) -> FloatArray:
    """Read-only and contiguous view, so that each kernel is compiled for one kind of array."""
    view = np.ascontiguousarray(array)[:]
    view.setflags(write=False)
    return view


def solve_normals(normals: FloatArray, slopes: FloatArray) -> FloatArray:
    """Steps ``(n, k)`` of least-squares problems with matrices ``(n, k, k)``, kept regular."""
    size = normals.shape[-1]
    ridge = DAMPING * np.einsum("...ii->...", normals) + 1e-300
    regular = normals + ridge[:, None, None] * np.eye(size)
    return np.asarray(np.linalg.solve(regular, slopes[..., None]), dtype=np.float64)[..., 0]
