"""Compiled surface work: iso-surfaces, distance and winding of a closed mesh, crossing triangles."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.lie._rotation_kernels import Vector

# Six tetrahedra of a cube about its long diagonal (corners by bits x, y, z): neighbours split shared faces alike, so
# the surface has no cracks.
TETRAHEDRA = np.array(
    [[0, 1, 3, 7], [0, 3, 2, 7], [0, 2, 6, 7], [0, 6, 4, 7], [0, 4, 5, 7], [0, 5, 1, 7]], dtype=np.int64
)


@kernel
def _edge_number(a: int, b: int, size: int) -> int:
    return a * size + b if a < b else b * size + a


@kernel
def iso_triangles(values: FloatArray, level: float) -> IntArray:
    """Triangles ``(T, 3)`` of the surface where a field ``(I, J, K)`` crosses a level, as numbers of grid edges.

    Corners are numbered anticlockwise seen from where the field is higher.
    """
    ni, nj, nk = values.shape
    size = values.size
    flat = values.ravel()
    out = np.empty((12 * (ni - 1) * (nj - 1) * (nk - 1), 3), dtype=np.int64)
    count = 0
    corner = np.empty(4, dtype=np.int64)
    for i in range(ni - 1):
        for j in range(nj - 1):
            for k in range(nk - 1):
                for t in range(6):
                    inside = 0
                    for v in range(4):
                        bits = TETRAHEDRA[t, v]
                        corner[v] = ((i + (bits & 1)) * nj + j + (bits >> 1 & 1)) * nk + k + (bits >> 2 & 1)
                        inside += flat[corner[v]] < level
                    if inside == 0 or inside == 4:
                        continue
                    count = _cut_tetrahedron(corner, flat, level, int(inside), out, count, size)
    return out[:count]


@kernel
def _cut_tetrahedron(
    corner: IntArray, flat: FloatArray, level: float, inside: int, out: IntArray, count: int, size: int
) -> int:
    """Triangles of one tetrahedron: one around a lone corner, two between two pairs."""
    order = np.empty(4, dtype=np.int64)
    n = 0
    for below in (True, False):  # inner corners first, as an even rearrangement
        for v in range(4):
            if (flat[corner[v]] < level) == below:
                order[n] = v
                n += 1
    swaps = 0
    for a in range(4):
        for b in range(a + 1, 4):
            swaps += order[a] > order[b]
    if swaps % 2:
        if inside == 3:
            order[0], order[1] = order[1], order[0]
        else:
            order[2], order[3] = order[3], order[2]
    a, b = int(corner[order[0]]), int(corner[order[1]])
    c, d = int(corner[order[2]]), int(corner[order[3]])
    if inside == 1:
        out[count, 0], out[count, 1], out[count, 2] = (
            _edge_number(a, b, size),
            _edge_number(a, c, size),
            _edge_number(a, d, size),
        )
        return count + 1
    if inside == 3:
        out[count, 0], out[count, 1], out[count, 2] = (
            _edge_number(a, d, size),
            _edge_number(b, d, size),
            _edge_number(c, d, size),
        )
        return count + 1
    out[count, 0], out[count, 1], out[count, 2] = (
        _edge_number(a, c, size),
        _edge_number(a, d, size),
        _edge_number(b, d, size),
    )
    out[count + 1, 0], out[count + 1, 1], out[count + 1, 2] = (
        _edge_number(a, c, size),
        _edge_number(b, d, size),
        _edge_number(b, c, size),
    )
    return count + 2


@kernel
def _subtract(a: Vector, b: Vector) -> Vector:
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@kernel
def _dot(a: Vector, b: Vector) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@kernel
def _squared_offset(a: Vector, t: float, b: Vector) -> float:
    """Squared length of ``a - t b``."""
    x, y, z = a[0] - t * b[0], a[1] - t * b[1], a[2] - t * b[2]
    return x * x + y * y + z * z


@kernel
def _triangle_distance_squared(p: Vector, a: Vector, b: Vector, c: Vector) -> float:
    """Squared distance of a point to a triangle, by the region of its nearest feature."""
    ab, ac, ap = _subtract(b, a), _subtract(c, a), _subtract(p, a)
    d1, d2 = _dot(ab, ap), _dot(ac, ap)
    if d1 <= 0.0 and d2 <= 0.0:
        return _dot(ap, ap)
    bp = _subtract(p, b)
    d3, d4 = _dot(ab, bp), _dot(ac, bp)
    if d3 >= 0.0 and d4 <= d3:
        return _dot(bp, bp)
    cp = _subtract(p, c)
    d5, d6 = _dot(ab, cp), _dot(ac, cp)
    if d6 >= 0.0 and d5 <= d6:
        return _dot(cp, cp)
    vc, vb, va = d1 * d4 - d3 * d2, d5 * d2 - d1 * d6, d3 * d6 - d5 * d4
    if vc <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        return _squared_offset(ap, d1 / (d1 - d3), ab)
    if vb <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        return _squared_offset(ap, d2 / (d2 - d6), ac)
    if va <= 0.0 and d4 - d3 >= 0.0 and d5 - d6 >= 0.0:
        return _squared_offset(bp, (d4 - d3) / ((d4 - d3) + (d5 - d6)), _subtract(c, b))
    n = (ab[1] * ac[2] - ab[2] * ac[1], ab[2] * ac[0] - ab[0] * ac[2], ab[0] * ac[1] - ab[1] * ac[0])
    return _dot(n, ap) ** 2 / _dot(n, n)


@kernel
def mesh_distance(points: FloatArray, vertices: FloatArray, faces: IntArray) -> tuple[FloatArray, IntArray]:
    r"""Signed distance ``(N,)`` of points to a closed mesh, negative inside, and the nearest face of each.

    The sign is that of the generalised winding number, :math:`\frac1{4\pi}\sum\Omega`, which forgives small holes.
    """
    out, nearest = np.empty(points.shape[0]), np.empty(points.shape[0], dtype=np.int64)
    for n in range(points.shape[0]):
        best, angle = np.inf, 0.0
        p = (points[n, 0], points[n, 1], points[n, 2])
        for f in range(faces.shape[0]):
            i, j, k = faces[f, 0], faces[f, 1], faces[f, 2]
            a = (vertices[i, 0], vertices[i, 1], vertices[i, 2])
            b = (vertices[j, 0], vertices[j, 1], vertices[j, 2])
            c = (vertices[k, 0], vertices[k, 1], vertices[k, 2])
            d = _triangle_distance_squared(p, a, b, c)
            if d < best:
                best, nearest[n] = d, f
            u, v, w = _subtract(a, p), _subtract(b, p), _subtract(c, p)
            lu, lv, lw = np.sqrt(_dot(u, u)), np.sqrt(_dot(v, v)), np.sqrt(_dot(w, w))
            volume = (
                u[0] * (v[1] * w[2] - v[2] * w[1])
                + u[1] * (v[2] * w[0] - v[0] * w[2])
                + u[2] * (v[0] * w[1] - v[1] * w[0])
            )
            below = lu * lv * lw + _dot(u, v) * lw + _dot(v, w) * lu + _dot(w, u) * lv
            angle += 2.0 * np.arctan2(volume, below)
        out[n] = -np.sqrt(best) if angle > 2.0 * np.pi else np.sqrt(best)
    return out, nearest


@kernel
def _is_piercing(p: FloatArray, q: FloatArray, a: FloatArray, b: FloatArray, c: FloatArray) -> bool:
    """Whether a segment passes through the inside of a triangle."""
    d, e1, e2 = q - p, b - a, c - a
    h = np.array([d[1] * e2[2] - d[2] * e2[1], d[2] * e2[0] - d[0] * e2[2], d[0] * e2[1] - d[1] * e2[0]])
    det = np.dot(e1, h)
    if abs(det) < 1e-14:
        return False
    s = p - a
    u = np.dot(s, h) / det
    g = np.array([s[1] * e1[2] - s[2] * e1[1], s[2] * e1[0] - s[0] * e1[2], s[0] * e1[1] - s[1] * e1[0]])
    v, t = np.dot(d, g) / det, np.dot(e2, g) / det
    tiny = 1e-9
    return u > tiny and v > tiny and u + v < 1.0 - tiny and tiny < t < 1.0 - tiny


@kernel
def find_crossing_faces(vertices: FloatArray, faces: IntArray) -> IntArray:
    """Numbers of faces that are pierced by an edge of a face with which they share no corner."""
    count = faces.shape[0]
    low, high = np.empty((count, 3)), np.empty((count, 3))
    for f in range(count):
        for i in range(3):
            low[f, i] = min(vertices[faces[f, 0], i], vertices[faces[f, 1], i], vertices[faces[f, 2], i])
            high[f, i] = max(vertices[faces[f, 0], i], vertices[faces[f, 1], i], vertices[faces[f, 2], i])
    is_bad = np.zeros(count, dtype=np.bool_)
    for f in range(count):
        for g in range(count):
            apart = False
            for i in range(3):
                apart |= low[f, i] > high[g, i] or high[f, i] < low[g, i]
            if apart or f == g:
                continue
            shared = False
            for i in range(3):
                for j in range(3):
                    shared |= faces[f, i] == faces[g, j]
            if shared:
                continue
            a, b, c = vertices[faces[f, 0]], vertices[faces[f, 1]], vertices[faces[f, 2]]
            for i in range(3):
                if _is_piercing(vertices[faces[g, i]], vertices[faces[g, (i + 1) % 3]], a, b, c):
                    is_bad[f] = is_bad[g] = True
    return np.flatnonzero(is_bad)
