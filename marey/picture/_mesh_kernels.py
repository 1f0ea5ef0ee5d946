"""Compiled drawing of triangles: a depth buffer seen from the camera, another from the lamp, and the light."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, kernel
from marey.picture._cone_kernels import dot, point_on_ray, unit
from marey.picture._packed import PackedCamera, PackedGround, PackedLight, Vector

NOTHING = -1  # a sample that sees no triangle
DONE = -2  # a sample whose triangle is shaded
RING = 2  # [cell] how far around a point the lamp's buffer is asked, for soft edges
GLOSS = 0.12  # [-] strength of the highlight
RIM = 0.30  # [-] how much a surface darkens where it turns away

Buffer = NDArray[np.float32]
Numbers = NDArray[np.int32]


@kernel
def fill_depth_buffer(points: FloatArray, faces: Numbers, depth: Buffer, which: Numbers) -> None:
    """Fill a depth buffer ``(H, W)`` with triangles; ``points`` ``(V, 3)`` are pixels (x, y) and a depth to keep small.

    The depth must be affine over the picture: 1/depth of a perspective with its sign turned, or a plain distance.
    """
    rows, columns = depth.shape
    for f in range(len(faces)):
        ax, ay, az = points[faces[f, 0], 0], points[faces[f, 0], 1], points[faces[f, 0], 2]
        bx, by, bz = points[faces[f, 1], 0], points[faces[f, 1], 1], points[faces[f, 1], 2]
        cx, cy, cz = points[faces[f, 2], 0], points[faces[f, 2], 1], points[faces[f, 2], 2]
        area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
        if area == 0.0 or not np.isfinite(area):
            continue
        left, right = max(int(min(ax, bx, cx)), 0), min(int(max(ax, bx, cx)) + 1, columns)
        top, bottom = max(int(min(ay, by, cy)), 0), min(int(max(ay, by, cy)) + 1, rows)
        for row in range(top, bottom):
            y = row + 0.5
            for column in range(left, right):
                x = column + 0.5
                u = ((bx - x) * (cy - y) - (by - y) * (cx - x)) / area
                v = ((cx - x) * (ay - y) - (cy - y) * (ax - x)) / area
                w = 1.0 - u - v
                if u >= 0.0 and v >= 0.0 and w >= 0.0:
                    z = u * az + v * bz + w * cz
                    if z < depth[row, column]:
                        depth[row, column] = z
                        which[row, column] = f


@kernel
def _shadow_visibility(shadow: Buffer, frame: FloatArray, lamp: PackedLight, p: Vector, slack: float) -> float:
    """Share of the lamp that reaches a point, 0 to 1, by its depth buffer; ``slack`` [m] below it is lit."""
    rows, columns = shadow.shape
    x, y = (dot(p, lamp.across) - frame[0]) * frame[2], (dot(p, lamp.along) - frame[1]) * frame[2]
    reach = 1.5 * RING + 1.0
    if x < -reach or y < -reach or x > columns + reach or y > rows + reach:
        return 1.0
    deepest, seen = -dot(p, lamp.direction) - slack, 0
    for i in range(-RING, RING + 1):
        for j in range(-RING, RING + 1):
            row, column = int(np.floor(y + 1.5 * i)), int(np.floor(x + 1.5 * j))
            if row < 0 or row >= rows or column < 0 or column >= columns or shadow[row, column] > deepest:
                seen += 1
    return seen / (2.0 * RING + 1.0) ** 2


@kernel
def _sample_ray(eye: PackedCamera, u: float, v: float) -> Vector:
    """Direction of the ray through sample point (u, v), not of unit length."""
    x, y = eye.per_pixel * (u - 0.5 * eye.width), eye.per_pixel * (0.5 * eye.height - v)
    return point_on_ray(point_on_ray(eye.forward, x, eye.right), y, eye.up)


@kernel
def _barycentric_weights(vertices: FloatArray, faces: Numbers, f: int, o: Vector, d: Vector) -> Vector:
    """Barycentric weights of the point where a ray meets the plane of triangle ``f``, kept inside it."""
    a, b, c = _table_row(vertices, faces[f, 0]), _table_row(vertices, faces[f, 1]), _table_row(vertices, faces[f, 2])
    u, v, t = point_on_ray(b, -1.0, a), point_on_ray(c, -1.0, a), point_on_ray(o, -1.0, a)
    q = _cross(d, v)
    det = dot(u, q)
    if det == 0.0:
        return 1.0, 0.0, 0.0
    wb = min(max(dot(t, q) / det, 0.0), 1.0)
    wc = min(max(dot(d, _cross(t, u)) / det, 0.0), 1.0)
    total = max(wb + wc, 1.0)
    wb, wc = wb / total, wc / total
    return 1.0 - wb - wc, wb, wc


@kernel
def _table_row(table: FloatArray, i: int) -> Vector:
    return table[i, 0], table[i, 1], table[i, 2]


@kernel
def _cross(a: Vector, b: Vector) -> Vector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@kernel
def _interpolate_corners(table: FloatArray, faces: Numbers, f: int, w: Vector) -> Vector:
    """A quantity of the corners at barycentric weights."""
    a, b, c = faces[f, 0], faces[f, 1], faces[f, 2]
    ab = point_on_ray((0.0, 0.0, 0.0), w[0], _table_row(table, a)), w[1]
    return point_on_ray(point_on_ray(ab[0], ab[1], _table_row(table, b)), w[2], _table_row(table, c))


@kernel
def _shade_face(
    eye: PackedCamera,
    lamp: PackedLight,
    vertices: FloatArray,
    normals: FloatArray,
    colours: FloatArray,
    faces: Numbers,
    shadow: Buffer,
    frame: FloatArray,
    f: int,
    u: float,
    v: float,
) -> Vector:
    """Light that triangle ``f`` sends to sample point (u, v); both its sides look alike."""
    ray = _sample_ray(eye, u, v)
    w = _barycentric_weights(vertices, faces, f, eye.position, ray)
    d, n, p = unit(ray), _interpolate_corners(normals, faces, f, w), _interpolate_corners(vertices, faces, f, w)
    n = unit(n) if dot(n, n) > 0.0 else point_on_ray((0.0, 0.0, 0.0), -1.0, d)
    if dot(n, d) > 0.0:
        n = point_on_ray((0.0, 0.0, 0.0), -1.0, n)
    facing, lit = dot(n, lamp.direction), 0.0
    if facing > 0.0:
        lit = _shadow_visibility(shadow, frame, lamp, p, frame[3] * (3.0 - 2.0 * facing))
    half = point_on_ray(lamp.direction, -1.0, d)
    shine = max(dot(n, half), 0.0) / max(np.sqrt(dot(half, half)), 1e-12)
    away = 1.0 - min(-dot(n, d), 1.0)
    sky = lamp.floor + (lamp.sky - lamp.floor) * (0.5 + 0.5 * n[1])
    light = (lamp.key * max(facing, 0.0) * lit + sky) * (1.0 - RIM * away * away * away)
    gloss = GLOSS * lit * shine**24
    return point_on_ray((gloss, gloss, gloss), light, _interpolate_corners(colours, faces, f, w))


@kernel
def _ground_light_fraction(
    eye: PackedCamera,
    floor: PackedGround,
    lamp: PackedLight,
    shadow: Buffer,
    frame: FloatArray,
    contact: FloatArray,
    corner: FloatArray,
    u: float,
    v: float,
) -> float:
    """Share of its light that the ground at sample point (u, v) keeps under the mesh."""
    d = _sample_ray(eye, u, v)
    t = (floor.height - eye.position[1]) / d[1]
    if not floor.shown or not t > 0.0:
        return 1.0
    p = point_on_ray(eye.position, t, d)
    share = 1.0 - lamp.shadow * (1.0 - _shadow_visibility(shadow, frame, lamp, p, 0.0))
    i, j = int((p[2] - corner[1]) * corner[2]), int((p[0] - corner[0]) * corner[2])
    if 0 <= i < contact.shape[0] and 0 <= j < contact.shape[1]:
        share *= 1.0 - contact[i, j]
    return share


@kernel
def shade_mesh(
    eye: PackedCamera,
    floor: PackedGround,
    lamp: PackedLight,
    vertices: FloatArray,
    normals: FloatArray,
    colours: FloatArray,
    faces: Numbers,
    which: Numbers,
    shadow: Buffer,
    frame: FloatArray,
    contact: FloatArray,
    corner: FloatArray,
    out: FloatArray,
) -> None:
    """Put the mesh and its shadows on a picture ``(H, W, 3)``; a triangle is shaded once for each pixel it is seen in.

    Args:
        eye: the camera, in samples.
        floor: the ground.
        lamp: the lights.
        vertices: ``(V, 3)`` [m].
        normals: ``(V, 3)`` unit, outward.
        colours: ``(V, 3)`` linear RGB.
        faces: ``(F, 3)``.
        which: triangle that each sample sees ``(S H, S W)``; used up.
        shadow: the lamp's depth buffer.
        frame: ``(4,)`` lowest across and along of that buffer, cells a metre, slack [m].
        contact: darkness of the ground under the body, by cell ``(nz, nx)``.
        corner: ``(3,)`` x, z of the first of these cells and cells a metre.
        out: linear light of the picture behind; changed.
    """
    height, width, _ = out.shape
    side = which.shape[0] // height
    for row in range(height):
        for column in range(width):
            behind = _ground_light_fraction(
                eye, floor, lamp, shadow, frame, contact, corner, side * (column + 0.5), side * (row + 0.5)
            )
            light = (0.0, 0.0, 0.0)
            for k in range(side * side):
                r, c = row * side + k // side, column * side + k % side
                f = int(which[r, c])
                if f == DONE:
                    continue
                share = _count_same(which, row * side, column * side, side, f) / (side * side)
                if f == NOTHING:
                    light = point_on_ray(
                        light, share * behind, (out[row, column, 0], out[row, column, 1], out[row, column, 2])
                    )
                else:
                    seen = _shade_face(eye, lamp, vertices, normals, colours, faces, shadow, frame, f, c + 0.5, r + 0.5)
                    light = point_on_ray(light, share, seen)
            for c in range(3):
                out[row, column, c] = light[c]


@kernel
def _count_same(which: Numbers, row: int, column: int, side: int, f: int) -> int:
    """How many samples of a pixel see triangle ``f``; they are marked as done."""
    same = 0
    for r in range(row, row + side):
        for c in range(column, column + side):
            if which[r, c] == f:
                which[r, c] = DONE
                same += 1
    return same
