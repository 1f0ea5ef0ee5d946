"""Compiled lookup and projection in distance fields on a grid, for points and for whole poses.

A field is a table ``(I J K, 4)``, row by row the value and the gradient at a node, with its grid: ``shape``,
``origin``, ``spacing`` and ``periodic``, three numbers each. An axis with one node is ignored: the field does not
depend on it.
"""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, kernel
from marey.kinematics.limits.box import clamp
from marey.lie.kernels import Vector

GridTables = tuple[IntArray, FloatArray, FloatArray, BoolArray]

MIN_SLOPE = 0.1  # [-] squared gradient below which a Newton step is shortened, near the medial axis
DETOUR_CELLS = 0.1  # of the spacing: steps that went so much farther than the value are doubted
CROSSING_STEPS = 24  # to find where the way to a feasible node enters the set; three are usual


@kernel
def _locate(x: float, origin: float, step: float, count: int, periodic: bool) -> tuple[int, int, float, float]:
    """Two neighbour nodes on an axis, the part of the way between them, and how far the point is off the grid."""
    if count == 1:
        return 0, 0, 0.0, 0.0
    u = (x - origin) / step
    if periodic:
        u -= np.floor(u / count) * count
        first = min(int(u), count - 1)
        return first, (first + 1) % count, u - first, 0.0
    inside = clamp(u, 0.0, count - 1.0)
    first = min(int(inside), count - 2)
    return first, first + 1, inside - first, (u - inside) * step


@kernel
def field_value(table: FloatArray, start: int, grid: GridTables, x: Vector) -> tuple[float, float, float, float]:
    """Value at a point and its exact gradient; off the grid, the value at the border plus the way to it."""
    shape, origin, spacing, periodic = grid
    i0, i1, s, a = _locate(x[0], origin[0], spacing[0], shape[0], periodic[0])
    j0, j1, t, b = _locate(x[1], origin[1], spacing[1], shape[1], periodic[1])
    k0, k1, u, c = _locate(x[2], origin[2], spacing[2], shape[2], periodic[2])
    # Values at the corners of the cell, blended along x, then y, then z, with the three slopes per unit of the cell
    nj, nk = shape[1], shape[2]
    row00, row01 = start + (i0 * nj + j0) * nk, start + (i0 * nj + j1) * nk
    row10, row11 = start + (i1 * nj + j0) * nk, start + (i1 * nj + j1) * nk
    a000, a001, a010, a011 = table[row00 + k0, 0], table[row00 + k1, 0], table[row01 + k0, 0], table[row01 + k1, 0]
    a100, a101, a110, a111 = table[row10 + k0, 0], table[row10 + k1, 0], table[row11 + k0, 0], table[row11 + k1, 0]
    b00, b01 = a000 + s * (a100 - a000), a001 + s * (a101 - a001)
    b10, b11 = a010 + s * (a110 - a010), a011 + s * (a111 - a011)
    d0, d1 = (1.0 - t) * (a100 - a000) + t * (a110 - a010), (1.0 - t) * (a101 - a001) + t * (a111 - a011)
    c0, c1 = b00 + t * (b10 - b00), b01 + t * (b11 - b01)
    value, gx = c0 + u * (c1 - c0), (1.0 - u) * d0 + u * d1
    gy, gz = (1.0 - u) * (b10 - b00) + u * (b11 - b01), c1 - c0
    away = np.sqrt(a * a + b * b + c * c)
    gx, gy, gz = gx / spacing[0], gy / spacing[1], gz / spacing[2]
    if away > 0.0:
        gx, gy, gz = a / away if a != 0.0 else gx, b / away if b != 0.0 else gy, c / away if c != 0.0 else gz
    return value + away, gx, gy, gz


@kernel
def blend_node_gradients(
    table: FloatArray, start: int, grid: GridTables, x: Vector
) -> tuple[float, float, float, float]:
    """Value as in ``field_value``, and the trilinear blend of the gradients at the nodes ([Engell2012]_ eq. 68)."""
    shape, origin, spacing, periodic = grid
    i0, i1, s, a = _locate(x[0], origin[0], spacing[0], shape[0], periodic[0])
    j0, j1, t, b = _locate(x[1], origin[1], spacing[1], shape[1], periodic[1])
    k0, k1, u, c = _locate(x[2], origin[2], spacing[2], shape[2], periodic[2])
    value = gx = gy = gz = 0.0
    # Eight corners of the cell, each with its trilinear weight
    for corner in range(8):
        i, wi = (i1, s) if corner & 1 else (i0, 1.0 - s)
        j, wj = (j1, t) if corner & 2 else (j0, 1.0 - t)
        k, wk = (k1, u) if corner & 4 else (k0, 1.0 - u)
        weight, row = wi * wj * wk, start + (i * shape[1] + j) * shape[2] + k
        value += weight * table[row, 0]
        gx += weight * table[row, 1]
        gy += weight * table[row, 2]
        gz += weight * table[row, 3]
    return value + np.sqrt(a * a + b * b + c * c), gx, gy, gz


@kernel
def _interpolate(p: Vector, q: Vector, t: float) -> Vector:
    """Point the part ``t`` of the way from ``p`` to ``q``."""
    return p[0] + t * (q[0] - p[0]), p[1] + t * (q[1] - p[1]), p[2] + t * (q[2] - p[2])


@kernel
def _distance_squared(p: Vector, q: Vector) -> float:
    return (p[0] - q[0]) ** 2 + (p[1] - q[1]) ** 2 + (p[2] - q[2]) ** 2


@kernel
def _descend(
    table: FloatArray, start: int, grid: GridTables, p: Vector, epsilon: float, steps: int, newton: bool
) -> tuple[Vector, float, float]:
    """Gradient steps into the set; the point, the value there, and the value where they began."""
    value, gx, gy, gz = blend_node_gradients(table, start, grid, p)
    began = value
    for _ in range(steps):
        if value <= epsilon:
            break
        # eq. 69: against the gradient by the value, or by a Newton step
        scale = value
        if newton:  # to the middle of the band between the surface and the level
            scale = (value - 0.5 * epsilon) / max(gx * gx + gy * gy + gz * gz, MIN_SLOPE)
        q, level = (p[0] - scale * gx, p[1] - scale * gy, p[2] - scale * gz), value
        value, gx, gy, gz = blend_node_gradients(table, start, grid, q)
        if newton and value < 0.0:  # too deep: go back along the step to where the surface should be
            r = _interpolate(p, q, (level - 0.5 * epsilon) / (level - value))
            found = field_value(table, start, grid, r)[0]
            if found <= epsilon:
                return r, found, began
        p = q
    return p, value, began


@kernel
def project_on_field(
    table: FloatArray,
    nearest: IntArray,
    start: int,
    grid: GridTables,
    x: Vector,
    epsilon: float,
    how: tuple[int, bool, bool],
) -> Vector:
    r"""Bring a point into the feasible set: :math:`p \leftarrow p - \Phi\nabla\Phi / \|\nabla\Phi\|^2`, a few times.

    Args:
        table: the field.
        nearest: the feasible node nearest to each node.
        start: where this field begins in both.
        grid: its shape, origin, spacing and periodic axes.
        x: the point.
        epsilon: level up to which points are feasible.
        how: most steps; whether to divide by the squared gradient; whether to search the way to the nearest feasible
            node too, where the steps did not do or went a longer way than the field says there is: near the medial
            axis the gradient points nowhere.
    """
    steps, newton, fallback = how
    shape, origin, spacing, periodic = grid
    # Points off the grid start at its border
    inside = np.array(x)
    for a in range(3):
        if shape[a] > 1 and not periodic[a]:
            inside[a] = clamp(x[a], origin[a], origin[a] + (shape[a] - 1) * spacing[a])
    p = (inside[0], inside[1], inside[2])
    found, value, began = _descend(table, start, grid, p, epsilon, steps, newton)
    # Steps that went much farther than the value of the field are doubted
    widest = 0.0
    for a in range(3):
        if shape[a] > 1:
            widest = max(widest, spacing[a])
    direct = max(began, 0.0) + DETOUR_CELLS * widest
    if not fallback or (value <= epsilon and _distance_squared(p, found) <= direct * direct):
        return found
    # A feasible point towards the nearest feasible node, or the foot of the perpendicular if that is nearer.
    # The feasible node nearest to the node at the point; on periodic axes, its nearer copy
    shape, origin, spacing, periodic = grid
    node = np.empty(3, dtype=np.int64)
    for a in range(3):
        u = int(np.floor((p[a] - origin[a]) / spacing[a] + 0.5))
        node[a] = 0 if shape[a] == 1 else u % shape[a] if periodic[a] else min(max(u, 0), shape[a] - 1)
    flat = nearest[start + (node[0] * shape[1] + node[1]) * shape[2] + node[2]]
    node[0], node[1], node[2] = flat // (shape[1] * shape[2]), flat // shape[2] % shape[1], flat % shape[2]
    out = np.empty(3)
    for a in range(3):
        out[a] = p[a] if shape[a] == 1 else origin[a] + spacing[a] * node[a]
        if periodic[a]:
            period = spacing[a] * shape[a]
            out[a] += period * np.round((p[a] - out[a]) / period)
    goal = out[0], out[1], out[2]
    # Where the way to it enters the set: regula falsi, now and then a bisection
    low, high = 0.0, 1.0
    above, below = field_value(table, start, grid, p)[0], field_value(table, start, grid, goal)[0]
    for n in range(CROSSING_STEPS):
        part = (above - 0.5 * epsilon) / max(above - below, 1e-300) if n % 4 < 3 else 0.5
        t = low + part * (high - low)
        level = field_value(table, start, grid, _interpolate(p, goal, t))[0]
        if level <= epsilon:
            high, below = t, level
            if level >= 0.0:
                break
        else:
            low, above = t, level
    y = _interpolate(p, goal, high)
    # The foot of the perpendicular on the surface there, if it is feasible and nearer
    _, gx, gy, gz = blend_node_gradients(table, start, grid, y)
    away = ((p[0] - y[0]) * gx + (p[1] - y[1]) * gy + (p[2] - y[2]) * gz) / max(gx * gx + gy * gy + gz * gz, MIN_SLOPE)
    z = (p[0] - away * gx, p[1] - away * gy, p[2] - away * gz)
    z, level, _ = _descend(table, start, grid, z, epsilon, 1, True)
    foot = z if level <= epsilon and _distance_squared(p, z) < _distance_squared(p, y) else y
    return foot if value > epsilon or _distance_squared(p, foot) < _distance_squared(p, found) else found


@kernel
def evaluate_points(table: FloatArray, grid: GridTables, points: FloatArray) -> FloatArray:
    """Value and gradient ``(N, 4)`` of a field at points ``(N, 3)``."""
    out = np.empty((points.shape[0], 4))
    for n in range(points.shape[0]):
        x = (points[n, 0], points[n, 1], points[n, 2])
        out[n, 0], out[n, 1], out[n, 2], out[n, 3] = field_value(table, 0, grid, x)
    return out


@kernel
def project_points(
    table: FloatArray,
    nearest: IntArray,
    grid: GridTables,
    points: FloatArray,
    epsilon: float,
    how: tuple[int, bool, bool],
) -> FloatArray:
    """Project points ``(N, 3)`` into the feasible set of a field."""
    out = np.empty_like(points)
    for n in range(points.shape[0]):
        x = (points[n, 0], points[n, 1], points[n, 2])
        out[n, 0], out[n, 1], out[n, 2] = project_on_field(table, nearest, 0, grid, x, epsilon, how)
    return out
