"""Pose models in compiled loops: coordinates to local rotations and their Jacobian, in :math:`O(kn)`.

A model is a kind and two arrays there. Single poses for solvers in a loop, and batches of them. [Tournier2011]_
§8.2.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, sin
from typing import Final

import numpy as np

from marey.base import FloatArray, kernel
from marey.lie.kernels import Vector, exponential, product, right_jacobian_times, unrotate

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
