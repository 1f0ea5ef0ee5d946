"""Compiled drawing of triangles: a depth buffer seen from the camera, another from the lamp, and the light."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, kernel
from marey.picture._packed import Eye, Floor, Lamp

NOTHING = -1  # a sample that sees no triangle
RING = 2  # [cell] how far around a point the lamp's buffer is asked, for soft edges
GLOSS = 0.12  # [-] strength of the highlight
RIM = 0.30  # [-] how much a surface darkens where it turns away

Buffer = NDArray[np.float32]
Numbers = NDArray[np.int32]


@kernel
def cover(points: FloatArray, faces: Numbers, depth: Buffer, which: Numbers) -> None:
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
def lit_share(depth: Buffer, x: float, y: float, z: float, slack: float) -> float:
    """Share of the lamp that reaches a point at cell (x, y) and lamp depth z of the lamp's buffer."""
    rows, columns = depth.shape
    seen, asked = 0.0, 0.0
    for i in range(-RING, RING + 1):
        for j in range(-RING, RING + 1):
            row, column = int(np.floor(y + 1.5 * i)), int(np.floor(x + 1.5 * j))
            asked += 1.0
            if row < 0 or row >= rows or column < 0 or column >= columns or depth[row, column] > z - slack:
                seen += 1.0
    return seen / asked


@kernel
def shade(
    eye: Eye,
    floor: Floor,
    lamp: Lamp,
    vertices: FloatArray,
    normals: FloatArray,
    colours: FloatArray,
    faces: Numbers,
    which: Numbers,
    shadow: Buffer,
    frame: FloatArray,
    contact: FloatArray,
    corner: FloatArray,
    behind: FloatArray,
    out: FloatArray,
) -> None:
    """Light of every pixel ``(H, W, 3)``: triangles where samples see one, else the picture behind, with shadows.

    Args:
        eye: the camera, in samples.
        floor: the ground.
        lamp: the lights.
        vertices: ``(V, 3)`` [m].
        normals: ``(V, 3)`` unit, outward.
        colours: ``(V, 3)`` linear RGB.
        faces: ``(F, 3)``.
        which: triangle that each sample sees ``(S H, S W)``.
        shadow: the lamp's depth buffer.
        frame: ``(4,)`` lowest across and along of that buffer, cells a metre, slack [m].
        contact: darkness of the ground under the body, by cell ``(nz, nx)``.
        corner: ``(3,)`` x, z of the first of these cells and cells a metre.
        behind: the picture behind, linear ``(H, W, 3)``.
        out: where the light goes.
    """
    height, width, _ = out.shape
    samples = which.shape[0] // height
    o, ld, la, lb = eye.position, lamp.direction, lamp.across, lamp.along
    for row in range(height):
        for column in range(width):
            ground = 1.0
            if floor.shown:
                u, v = column + 0.5 - 0.5 * width, row + 0.5 - 0.5 * height
                s = eye.per_pixel * samples
                dx = eye.forward[0] + s * (u * eye.right[0] - v * eye.up[0])
                dy = eye.forward[1] + s * (u * eye.right[1] - v * eye.up[1])
                dz = eye.forward[2] + s * (u * eye.right[2] - v * eye.up[2])
                t = (floor.height - o[1]) / dy if dy != 0.0 else -1.0
                if t > 0.0:
                    px, py, pz = o[0] + t * dx, floor.height, o[2] + t * dz
                    x = (px * la[0] + py * la[1] + pz * la[2] - frame[0]) * frame[2]
                    y = (px * lb[0] + py * lb[1] + pz * lb[2] - frame[1]) * frame[2]
                    z = -(px * ld[0] + py * ld[1] + pz * ld[2])
                    ground -= lamp.shadow * (1.0 - lit_share(shadow, x, y, z, 0.0))
                    i, j = int((pz - corner[1]) * corner[2]), int((px - corner[0]) * corner[2])
                    if 0 <= i < contact.shape[0] and 0 <= j < contact.shape[1]:
                        ground *= 1.0 - contact[i, j]
            red, green, blue = 0.0, 0.0, 0.0
            for k in range(samples * samples):
                sr, sc = row * samples + k // samples, column * samples + k % samples
                f = which[sr, sc]
                if f == NOTHING:
                    red += behind[row, column, 0] * ground
                    green += behind[row, column, 1] * ground
                    blue += behind[row, column, 2] * ground
                    continue
                su, sv = sc + 0.5 - 0.5 * eye.width, sr + 0.5 - 0.5 * eye.height
                dx = eye.forward[0] + eye.per_pixel * (su * eye.right[0] - sv * eye.up[0])
                dy = eye.forward[1] + eye.per_pixel * (su * eye.right[1] - sv * eye.up[1])
                dz = eye.forward[2] + eye.per_pixel * (su * eye.right[2] - sv * eye.up[2])
                wa, wb, wc = _weights(vertices, faces, f, o[0], o[1], o[2], dx, dy, dz)
                a, b, c = faces[f, 0], faces[f, 1], faces[f, 2]
                nx = wa * normals[a, 0] + wb * normals[b, 0] + wc * normals[c, 0]
                ny = wa * normals[a, 1] + wb * normals[b, 1] + wc * normals[c, 1]
                nz = wa * normals[a, 2] + wb * normals[b, 2] + wc * normals[c, 2]
                px = wa * vertices[a, 0] + wb * vertices[b, 0] + wc * vertices[c, 0]
                py = wa * vertices[a, 1] + wb * vertices[b, 1] + wc * vertices[c, 1]
                pz = wa * vertices[a, 2] + wb * vertices[b, 2] + wc * vertices[c, 2]
                per_n, per_d = (
                    1.0 / max(np.sqrt(nx * nx + ny * ny + nz * nz), 1e-12),
                    np.sqrt(dx * dx + dy * dy + dz * dz),
                )
                towards = -(nx * dx + ny * dy + nz * dz) * per_n / per_d
                if towards < 0.0:
                    per_n, towards = -per_n, -towards
                nx, ny, nz = nx * per_n, ny * per_n, nz * per_n
                facing = nx * ld[0] + ny * ld[1] + nz * ld[2]
                lit = 0.0
                if facing > 0.0:
                    x = (px * la[0] + py * la[1] + pz * la[2] - frame[0]) * frame[2]
                    y = (px * lb[0] + py * lb[1] + pz * lb[2] - frame[1]) * frame[2]
                    z = -(px * ld[0] + py * ld[1] + pz * ld[2])
                    lit = lit_share(shadow, x, y, z, frame[3] * (1.0 + 2.0 * (1.0 - facing)))
                hx, hy, hz = ld[0] - dx / per_d, ld[1] - dy / per_d, ld[2] - dz / per_d
                shine = max(nx * hx + ny * hy + nz * hz, 0.0) / max(np.sqrt(hx * hx + hy * hy + hz * hz), 1e-12)
                away = 1.0 - min(towards, 1.0)
                sky = lamp.floor + (lamp.sky - lamp.floor) * (0.5 + 0.5 * ny)
                light = (lamp.key * max(facing, 0.0) * lit + sky) * (1.0 - RIM * away * away * away)
                gloss = GLOSS * lit * shine**24
                red += (wa * colours[a, 0] + wb * colours[b, 0] + wc * colours[c, 0]) * light + gloss
                green += (wa * colours[a, 1] + wb * colours[b, 1] + wc * colours[c, 1]) * light + gloss
                blue += (wa * colours[a, 2] + wb * colours[b, 2] + wc * colours[c, 2]) * light + gloss
            out[row, column, 0] = red / (samples * samples)
            out[row, column, 1] = green / (samples * samples)
            out[row, column, 2] = blue / (samples * samples)


@kernel
def _weights(
    vertices: FloatArray,
    faces: Numbers,
    f: int,
    ox: float,
    oy: float,
    oz: float,
    dx: float,
    dy: float,
    dz: float,
) -> tuple[float, float, float]:
    """Barycentric weights of the point where a ray meets the plane of triangle ``f``, kept inside it."""
    a, b, c = faces[f, 0], faces[f, 1], faces[f, 2]
    ax, ay, az = vertices[a, 0], vertices[a, 1], vertices[a, 2]
    ux, uy, uz = vertices[b, 0] - ax, vertices[b, 1] - ay, vertices[b, 2] - az
    vx, vy, vz = vertices[c, 0] - ax, vertices[c, 1] - ay, vertices[c, 2] - az
    qx, qy, qz = dy * vz - dz * vy, dz * vx - dx * vz, dx * vy - dy * vx
    det = ux * qx + uy * qy + uz * qz
    if det == 0.0:
        return 1.0, 0.0, 0.0
    tx, ty, tz = ox - ax, oy - ay, oz - az
    wb = (tx * qx + ty * qy + tz * qz) / det
    rx, ry, rz = ty * uz - tz * uy, tz * ux - tx * uz, tx * uy - ty * ux
    wc = (dx * rx + dy * ry + dz * rz) / det
    wb, wc = min(max(wb, 0.0), 1.0), min(max(wc, 0.0), 1.0)
    if wb + wc > 1.0:
        total = wb + wc
        wb, wc = wb / total, wc / total
    return 1.0 - wb - wc, wb, wc
