"""Triangles in a picture: soft bodies, with shadows on themselves and on the ground.

A depth buffer is seen from the camera, another from the lamp.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, InputError, kernel
from marey.lie.kernels import Vector, cross, dot, row3, subtract3, unit
from marey.picture.capsules import Image, encode_srgb, pack_camera, pack_ground, pack_light, render_capsules
from marey.picture.scene import CapsuleBatch, RenderScene, TriangleMesh, linear_from_srgb
from marey.picture.surfaces import PackedCamera, PackedGround, PackedLight, pixel_ray, point_on_ray

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
        # Twice the signed area; a triangle seen from its edge covers nothing.
        area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
        if area == 0.0 or not np.isfinite(area):
            continue
        # Pixels of its box whose middle has barycentric weights u, v, w of zero and more.
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
    # A ring of cells around the point: the share of them whose depth does not hide it.
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
def _barycentric_weights(vertices: FloatArray, faces: Numbers, f: int, o: Vector, d: Vector) -> Vector:
    """Barycentric weights of the point where a ray meets the plane of triangle ``f``, kept inside it."""
    a, b, c = row3(vertices, faces[f, 0]), row3(vertices, faces[f, 1]), row3(vertices, faces[f, 2])
    u, v, t = subtract3(b, a), subtract3(c, a), subtract3(o, a)
    # o + t d = a + wb u + wc v by Cramer's rule.
    q = cross(d, v)
    det = dot(u, q)
    if det == 0.0:
        return 1.0, 0.0, 0.0
    wb = min(max(dot(t, q) / det, 0.0), 1.0)
    wc = min(max(dot(d, cross(t, u)) / det, 0.0), 1.0)
    total = max(wb + wc, 1.0)
    wb, wc = wb / total, wc / total
    return 1.0 - wb - wc, wb, wc


@kernel
def _interpolate_corners(table: FloatArray, faces: Numbers, f: int, w: Vector) -> Vector:
    """A quantity of the corners at barycentric weights."""
    a, b, c = faces[f, 0], faces[f, 1], faces[f, 2]
    ab = point_on_ray((0.0, 0.0, 0.0), w[0], row3(table, a)), w[1]
    return point_on_ray(point_on_ray(ab[0], ab[1], row3(table, b)), w[2], row3(table, c))


class PackedMesh(NamedTuple):
    """Triangles as kernels read them."""

    vertices: FloatArray  # (V, 3) [m]
    normals: FloatArray  # (V, 3) unit, outward
    colours: FloatArray  # (V, 3) linear RGB
    faces: Numbers  # (F, 3)


class MeshShadows(NamedTuple):
    """What a mesh hides from the lamp and from the sky."""

    lamp: Buffer  # the lamp's depth buffer
    frame: FloatArray  # (4,) lowest across and along of that buffer, cells a metre, slack [m]
    contact: FloatArray  # (nz, nx) darkness of the ground under the body, by cell
    corner: FloatArray  # (3,) x, z of the first of these cells and cells a metre


@kernel
def shade_mesh(
    eye: PackedCamera,
    floor: PackedGround,
    lamp: PackedLight,
    mesh: PackedMesh,
    shadows: MeshShadows,
    which: Numbers,
    out: FloatArray,
) -> None:
    """Put the mesh and its shadows on a picture ``(H, W, 3)``; a triangle is shaded once for each pixel it is seen in.

    Args:
        eye: the camera, in samples.
        floor: the ground.
        lamp: the lights.
        mesh: the triangles.
        shadows: of the mesh.
        which: triangle that each sample sees ``(S H, S W)``; used up.
        out: linear light of the picture behind; changed.
    """
    vertices, normals, colours, faces = mesh
    shadow, frame, contact, corner = shadows
    height, width, _ = out.shape
    side = which.shape[0] // height
    for row in range(height):
        for column in range(width):
            # Share of its light that the ground behind the pixel keeps under the mesh: shadow, and contact shadow.
            d = pixel_ray(eye, side * (column + 0.5), side * (row + 0.5))
            t, behind = (floor.height - eye.position[1]) / d[1], 1.0
            if floor.shown and t > 0.0:
                p = point_on_ray(eye.position, t, d)
                behind = 1.0 - lamp.shadow * (1.0 - _shadow_visibility(shadow, frame, lamp, p, 0.0))
                i, j = int((p[2] - corner[1]) * corner[2]), int((p[0] - corner[0]) * corner[2])
                if 0 <= i < contact.shape[0] and 0 <= j < contact.shape[1]:
                    behind *= 1.0 - contact[i, j]
            light = (0.0, 0.0, 0.0)
            for k in range(side * side):
                r, c = row * side + k // side, column * side + k % side
                f = int(which[r, c])
                if f == DONE:
                    continue
                # All samples of the pixel that see the same count at once.
                same = 0
                for m in range(k, side * side):
                    if which[row * side + m // side, column * side + m % side] == f:
                        which[row * side + m // side, column * side + m % side] = DONE
                        same += 1
                share = same / (side * side)
                if f == NOTHING:
                    light = point_on_ray(light, share * behind, row3(out[row], column))
                    continue
                # The point of the triangle, and its normal towards the camera: both sides look alike.
                ray = pixel_ray(eye, c + 0.5, r + 0.5)
                w = _barycentric_weights(vertices, faces, f, eye.position, ray)
                d, n = unit(ray), _interpolate_corners(normals, faces, f, w)
                p = _interpolate_corners(vertices, faces, f, w)
                n = unit(n) if dot(n, n) > 0.0 else point_on_ray((0.0, 0.0, 0.0), -1.0, d)
                if dot(n, d) > 0.0:
                    n = point_on_ray((0.0, 0.0, 0.0), -1.0, n)
                # Lamp and shadow, sky and floor, a highlight, darker rims.
                facing, lit = dot(n, lamp.direction), 0.0
                if facing > 0.0:
                    lit = _shadow_visibility(shadow, frame, lamp, p, frame[3] * (3.0 - 2.0 * facing))
                half = point_on_ray(lamp.direction, -1.0, d)
                shine = max(dot(n, half), 0.0) / max(np.sqrt(dot(half, half)), 1e-12)
                away = 1.0 - min(-dot(n, d), 1.0)
                sky = lamp.floor + (lamp.sky - lamp.floor) * (0.5 + 0.5 * n[1])
                bright = (lamp.key * max(facing, 0.0) * lit + sky) * (1.0 - RIM * away * away * away)
                gloss = GLOSS * lit * shine**24
                seen = point_on_ray((gloss, gloss, gloss), bright, _interpolate_corners(colours, faces, f, w))
                light = point_on_ray(light, share, seen)
            for c in range(3):
                out[row, column, c] = light[c]


SAMPLES: Final = 2  # samples a pixel, along each side
LAMP_CELLS: Final = 900  # [cell] long side of the lamp's depth buffer
REACH_SHARE: Final = 0.10  # [-] of the body's diagonal: how high above the ground it still darkens it
CONTACT_DARKNESS: Final = 0.42  # [-] how dark the ground is where a wide body touches it
CONTACT_CELLS: Final = 5  # cells to the reach
CONTACT_SHARE: Final = 0.07  # [-] of the height of what stands on the ground: the reach in pictures of people
MAX_CONTACT_CELLS: Final = 4_000_000
GROUND_SLACK: Final = 0.001  # [-] of the same height: soles that touch the ground are seen
PANE_OPACITY: Final = 0.4  # [-] of walls
FAR_DEPTH: Final = 3.0e38  # deeper than anything


def render(scene: RenderScene, size: tuple[int, int], *, threads: int = 1) -> Image:
    """Draw a scene, without any window system: ``(H, W, 3)`` display values of a ``(width, height)`` picture.

    The same scene gives the same bytes, with any number of threads. Capsules are cast exactly; beside triangles they
    become triangles too, so that each hides and shades the other.
    """
    if not len(scene.mesh.faces) and not len(scene.panes.faces):
        return render_capsules(scene, size, threads=threads)
    solids = scene.solids
    capsules = [
        TriangleMesh.capsule(a, b, (float(r), float(q)), colour)
        for a, b, r, q, colour in zip(
            solids.starts, solids.ends, solids.start_radii, solids.end_radii, solids.colours, strict=True
        )
    ]
    opaque = TriangleMesh.join([scene.mesh, *capsules])
    height = float(np.ptp(opaque.vertices[:, 1])) if len(opaque.vertices) else 1.0
    image = render_mesh(scene, opaque, size, standing_m=height)
    if not len(scene.panes.faces):
        return image
    # Panes let through what is behind them
    walled = render_mesh(scene, TriangleMesh.join([opaque, scene.panes]), size, standing_m=height)
    light = [linear_from_srgb(picture / 255.0) for picture in (image, walled)]
    return np.asarray(encode_srgb(light[0] + PANE_OPACITY * (light[1] - light[0])), dtype=np.uint8)


def render_mesh(
    scene: RenderScene, mesh: TriangleMesh, size: tuple[int, int], *, standing_m: float | None = None
) -> Image:
    """Draw a mesh in a scene ``(H, W, 3)``, in place of the scene's own solids and triangles.

    Args:
        scene: camera, ground, marks and lights.
        mesh: what to draw.
        size: (width, height) [pixel].
        standing_m: how high the bodies are that stand on the ground, for a scene of several: what lies below the
            ground is then hidden by it, and the shadows where they touch it are as wide as one of them makes them.
    """
    if standing_m is not None and not 0.0 < standing_m < np.inf:
        raise InputError(f"bodies of {standing_m} m stand on the ground", "Give their height in metres")
    behind = linear_from_srgb(render_capsules(replace(scene, solids=CapsuleBatch.none()), size) / 255.0)
    if not len(mesh.faces):
        return np.asarray(encode_srgb(behind), dtype=np.uint8)
    eye, lamp, faces = (
        pack_camera(scene, (SAMPLES * size[0], SAMPLES * size[1])),
        pack_light(scene.light),
        mesh.faces.astype(np.int32),
    )
    # Triangle that each sample sees; those behind the camera are left out
    local = (mesh.vertices - eye.position) @ np.array([eye.right, eye.up, eye.forward]).T
    deep = np.maximum(local[:, 2], 1e-9)
    x, y = local[:, 0] / deep / eye.per_pixel, local[:, 1] / deep / eye.per_pixel
    points = np.stack([0.5 * eye.width + x, 0.5 * eye.height - y, -1.0 / deep], axis=1)
    points[local[:, 2] <= 1e-6] = np.nan
    nearest, which = _rasterise_faces(points, faces, (eye.height, eye.width))
    if scene.ground is not None and standing_m is not None:
        # The ground hides what is below it; its depth is the same along a row, for the picture's right is level
        slopes = eye.forward[1] + eye.up[1] * (0.5 * eye.height - np.arange(eye.height) - 0.5) * eye.per_pixel
        drop = scene.ground.height_m - GROUND_SLACK * standing_m - eye.position[1]
        below = slopes * np.sign(drop) > 0.0
        floor = np.where(below, -slopes / drop, 0.0)
        which[(nearest > floor[:, None]) & below[:, None]] = NOTHING
    packed = PackedMesh(np.ascontiguousarray(mesh.vertices), mesh.normals(), np.ascontiguousarray(mesh.colours), faces)
    # The lamp's depth buffer, and its frame (lowest across and along, cells a metre, slack)
    local = mesh.vertices @ np.array([lamp.across, lamp.along, lamp.direction]).T
    low, high = local.min(axis=0), local.max(axis=0)
    per_metre = LAMP_CELLS / max(float((high - low)[:2].max()), 1e-9)
    points = np.column_stack([(local[:, :2] - low[:2]) * per_metre, -local[:, 2]])
    columns, rows = (int(n) + 1 for n in (high - low)[:2] * per_metre)
    shadows = MeshShadows(
        _rasterise_faces(points, faces, (rows, columns))[0],
        np.array([low[0], low[1], per_metre, 5.0 / per_metre]),
        *_contact_shadow(scene, mesh.vertices, faces, None if standing_m is None else CONTACT_SHARE * standing_m),
    )
    shade_mesh(eye, pack_ground(scene), lamp, packed, shadows, which, behind)
    return np.asarray(encode_srgb(behind), dtype=np.uint8)


def _contact_shadow(
    scene: RenderScene, vertices: FloatArray, faces: NDArray[np.int32], reach_m: float | None
) -> tuple[FloatArray, FloatArray]:
    """How dark the ground is under the body: nearness of its underside, smoothed."""
    from scipy.ndimage import gaussian_filter  # pyright: ignore[reportUnknownVariableType] (scipy has no types)

    if scene.ground is None:
        return np.zeros((1, 1)), np.array([0.0, 0.0, 1.0])
    reach = REACH_SHARE * float(np.linalg.norm(np.ptp(vertices, axis=0))) + 1e-9 if reach_m is None else reach_m + 1e-9
    wide, deep = (float(np.ptp(vertices[:, axis])) + 4.0 * reach for axis in (0, 2))
    per_metre = min(CONTACT_CELLS / reach, float(np.sqrt(MAX_CONTACT_CELLS / (wide * deep))))
    corner = vertices[:, [0, 2]].min(axis=0) - 2.0 * reach
    columns, rows = (int(n) + 1 for n in (np.ptp(vertices[:, [0, 2]], axis=0) + 4.0 * reach) * per_metre)
    heights = vertices[:, 1] - scene.ground.height_m
    points = np.column_stack([(vertices[:, [0, 2]] - corner) * per_metre, heights])
    low = _rasterise_faces(points, faces, (rows, columns))[0].astype(np.float64)
    near = np.clip(1.0 - np.maximum(low, 0.0) / reach, 0.0, 1.0)
    smooth = np.asarray(gaussian_filter(near, 0.45 * per_metre * reach), dtype=np.float64)
    return CONTACT_DARKNESS * smooth, np.array([corner[0], corner[1], per_metre])


def _rasterise_faces(
    points: FloatArray, faces: NDArray[np.int32], shape: tuple[int, int]
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:

    depth, which = np.full(shape, FAR_DEPTH, dtype=np.float32), np.full(shape, NOTHING, dtype=np.int32)
    fill_depth_buffer(np.ascontiguousarray(points), faces, depth, which)
    return depth, which
