r"""Compiled stress of one cell and its stiffness: co-rotational and stable neo-Hookean tetrahedra.

Both energies depend on the singular values of :math:`F = U \Sigma V^T` alone, so both stiffnesses have the same shape
in the frame of U and V: a 3x3 matrix A for stretches and, for each plane, one value for shear and one for twist. A
stiffness that must not push is clamped there ([Smith2018]_ §4).
"""

from __future__ import annotations

from math import sqrt

from marey.base import FloatArray, kernel

COROTATIONAL, NEO_HOOKEAN = 0, 1
JACOBI_SWEEPS = 8  # four suffice for a double
MIN_STRETCH = 1e-9  # [-] below, a direction of U comes from the other two


@kernel
def decompose_deformation(f: FloatArray, s: FloatArray, u: FloatArray, v: FloatArray, w: FloatArray) -> None:
    r"""Write :math:`F = U\,\mathrm{diag}(s)\,V^T` with rotations U, V; the smallest s is negative if F is inverted.

    Jacobi rotations of :math:`F^T F` (in ``w``); all arrays (3, 3), ``s`` (3,).
    """
    for i in range(3):
        for j in range(3):
            w[i, j] = f[0, i] * f[0, j] + f[1, i] * f[1, j] + f[2, i] * f[2, j]
            v[i, j] = 1.0 if i == j else 0.0
    for _ in range(JACOBI_SWEEPS):
        off = w[0, 1] * w[0, 1] + w[0, 2] * w[0, 2] + w[1, 2] * w[1, 2]
        if off <= 1e-32 * (w[0, 0] * w[0, 0] + w[1, 1] * w[1, 1] + w[2, 2] * w[2, 2]):
            break
        _rotate_jacobi(w, v, 0, 1, 2)
        _rotate_jacobi(w, v, 0, 2, 1)
        _rotate_jacobi(w, v, 1, 2, 0)
    _sort_columns(w, v)
    _complete_left_frame(f, s, u, v)


@kernel
def _rotate_jacobi(w: FloatArray, v: FloatArray, p: int, q: int, r: int) -> None:
    apq = w[p, q]
    if apq == 0.0:
        return
    theta = 0.5 * (w[q, q] - w[p, p]) / apq
    t = 1.0 / (abs(theta) + sqrt(theta * theta + 1.0))
    if theta < 0.0:
        t = -t
    c = 1.0 / sqrt(t * t + 1.0)
    s = t * c
    w[p, p] -= t * apq
    w[q, q] += t * apq
    w[p, q] = w[q, p] = 0.0
    arp, arq = w[r, p], w[r, q]
    w[r, p] = w[p, r] = c * arp - s * arq
    w[r, q] = w[q, r] = s * arp + c * arq
    for i in range(3):
        vip, viq = v[i, p], v[i, q]
        v[i, p] = c * vip - s * viq
        v[i, q] = s * vip + c * viq


@kernel
def _sort_columns(w: FloatArray, v: FloatArray) -> None:
    """Largest first; each swap turns one sign, so V stays a rotation."""
    for p, q in ((0, 1), (1, 2), (0, 1)):
        if w[q, q] > w[p, p]:
            w[p, p], w[q, q] = w[q, q], w[p, p]
            for i in range(3):
                v[i, p], v[i, q] = v[i, q], -v[i, p]


@kernel
def _complete_left_frame(f: FloatArray, s: FloatArray, u: FloatArray, v: FloatArray) -> None:
    """U of F V = U s, made orthonormal column by column; the last is the cross product of the first two."""
    for j in range(2):
        for i in range(3):
            u[i, j] = f[i, 0] * v[0, j] + f[i, 1] * v[1, j] + f[i, 2] * v[2, j]
    n0 = sqrt(u[0, 0] ** 2 + u[1, 0] ** 2 + u[2, 0] ** 2)
    if n0 < MIN_STRETCH:
        u[0, 0], u[1, 0], u[2, 0] = 1.0, 0.0, 0.0
    else:
        u[0, 0], u[1, 0], u[2, 0] = u[0, 0] / n0, u[1, 0] / n0, u[2, 0] / n0
    d = u[0, 0] * u[0, 1] + u[1, 0] * u[1, 1] + u[2, 0] * u[2, 1]
    for i in range(3):
        u[i, 1] -= d * u[i, 0]
    n1 = sqrt(u[0, 1] ** 2 + u[1, 1] ** 2 + u[2, 1] ** 2)
    if n1 < MIN_STRETCH:
        _write_any_normal(u)
    else:
        u[0, 1], u[1, 1], u[2, 1] = u[0, 1] / n1, u[1, 1] / n1, u[2, 1] / n1
    u[0, 2] = u[1, 0] * u[2, 1] - u[2, 0] * u[1, 1]
    u[1, 2] = u[2, 0] * u[0, 1] - u[0, 0] * u[2, 1]
    u[2, 2] = u[0, 0] * u[1, 1] - u[1, 0] * u[0, 1]
    for j in range(3):
        s[j] = 0.0
        for i in range(3):
            s[j] += u[i, j] * (f[i, 0] * v[0, j] + f[i, 1] * v[1, j] + f[i, 2] * v[2, j])


@kernel
def _write_any_normal(u: FloatArray) -> None:
    x, y, z = u[0, 0], u[1, 0], u[2, 0]
    if abs(x) < 0.7:
        n = sqrt(y * y + z * z)
        u[0, 1], u[1, 1], u[2, 1] = 0.0, z / n, -y / n
    else:
        n = sqrt(x * x + z * z)
        u[0, 1], u[1, 1], u[2, 1] = -z / n, 0.0, x / n


@kernel
def compute_principal_stiffness(
    material: int, mu: float, lam: float, pressure: float, s: FloatArray, a: FloatArray, shear: FloatArray,
    twist: FloatArray,
) -> None:  # fmt: skip
    r"""Second derivative of the energy in the frame of U and V.

    Co-rotational :math:`\mu\|\Sigma - I\|^2 + \frac\lambda2 \mathrm{tr}^2(\Sigma - I)`; neo-Hookean
    :math:`\frac\mu2(\|\Sigma\|^2 - 3) - \mu(J-1) + \frac{\lambda+\mu}2(J-1)^2 + p\,(J-1)`, ``pressure`` p of the nodes.

    ``a`` (3, 3) is written for stretches, ``shear`` and ``twist`` (3,) for the plane normal to each axis.
    """
    if material == COROTATIONAL:
        c = lam * (s[0] + s[1] + s[2] - 3.0) - 2.0 * mu
        for k in range(3):
            i, j = (k + 1) % 3, (k + 2) % 3
            gap = max(s[i] + s[j], 1e-6)
            a[k, k] = 2.0 * mu + lam
            a[i, j] = a[j, i] = lam
            shear[k] = 2.0 * mu
            twist[k] = 2.0 * mu + 2.0 * c / gap
    else:
        jacobian = s[0] * s[1] * s[2]
        bulk = lam + mu
        p = bulk * (jacobian - 1.0) - mu + pressure
        for k in range(3):
            i, j = (k + 1) % 3, (k + 2) % 3
            a[k, k] = mu + bulk * (s[i] * s[j]) ** 2
            a[i, j] = a[j, i] = bulk * s[j] * s[k] * s[i] * s[k] + p * s[k]
            shear[k] = mu - p * s[k]
            twist[k] = mu + p * s[k]


@kernel
def clamp_eigenvalues(table: FloatArray, first: int, stride: int, w: FloatArray, v: FloatArray) -> None:
    """Negative eigenvalues of a symmetric matrix become zero.

    It lies in a table from ``first`` on, ``stride`` apart: 00, 11, 22, 12, 02, 01; ``w``, ``v`` (3, 3) are scratch.
    """
    a00, a11, a22 = table[first], table[first + 1 * stride], table[first + 2 * stride]
    a12, a02, a01 = table[first + 3 * stride], table[first + 4 * stride], table[first + 5 * stride]
    d1 = a00 * a11 - a01 * a01
    d2 = a22 * d1 - a00 * a12 * a12 - a11 * a02 * a02 + 2.0 * a01 * a02 * a12
    if a00 > 0.0 and d1 > 0.0 and d2 > 0.0:
        return
    w[0, 0], w[1, 1], w[2, 2] = a00, a11, a22
    w[0, 1], w[0, 2], w[1, 2] = a01, a02, a12
    w[1, 0], w[2, 0], w[2, 1] = a01, a02, a12
    for i in range(3):
        for j in range(3):
            v[i, j] = 1.0 if i == j else 0.0
    for _ in range(JACOBI_SWEEPS):
        _rotate_jacobi(w, v, 0, 1, 2)
        _rotate_jacobi(w, v, 0, 2, 1)
        _rotate_jacobi(w, v, 1, 2, 0)
    for row, i, j in ((0, 0, 0), (1, 1, 1), (2, 2, 2), (3, 1, 2), (4, 0, 2), (5, 0, 1)):
        total = 0.0
        for k in range(3):
            total += max(w[k, k], 0.0) * v[i, k] * v[j, k]
        table[first + row * stride] = total
