"""Triangles in a picture: soft bodies, with shadows on themselves and on the ground."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marey.base import FloatArray, InputError, IntArray, frozen, frozen_ints
from marey.picture._packed import PackedCamera, PackedLight
from marey.picture._render import Image, encode_srgb, pack_camera, pack_ground, pack_light, render
from marey.picture._scene import CapsuleBatch, RenderScene, linear_from_srgb

SAMPLES: Final = 2  # samples a pixel, along each side
LAMP_CELLS: Final = 900  # [cell] long side of the lamp's depth buffer
REACH_SHARE: Final = 0.10  # [-] of the body's diagonal: how high above the ground it still darkens it
CONTACT_DARKNESS: Final = 0.42  # [-] how dark the ground is where a wide body touches it
CONTACT_CELLS: Final = 5  # cells to the reach
RING_SEGMENTS: Final = 12  # sides of a drawn ball
FAR_DEPTH: Final = 3.0e38  # deeper than anything


@dataclass(frozen=True, slots=True, eq=False)
class TriangleMesh:
    """Triangles in world, coloured at their corners."""

    vertices: FloatArray  # (V, 3) [m]
    faces: IntArray  # (F, 3) counter-clockwise from outside
    colours: FloatArray  # (V, 3) linear RGB

    def __post_init__(self) -> None:
        vertices = frozen(self.vertices, None, 3, name="vertices")
        faces = frozen_ints(self.faces, None, 3, name="faces")
        if len(faces) and not (faces.min() >= 0 and faces.max() < len(vertices)):
            raise InputError(f"faces name vertex {faces.max()}", f"There are {len(vertices)}")
        object.__setattr__(self, "vertices", vertices)
        object.__setattr__(self, "faces", faces)
        object.__setattr__(self, "colours", frozen(self.colours, len(vertices), 3, name="colours"))

    @classmethod
    def join(cls, parts: Sequence[TriangleMesh]) -> TriangleMesh:
        """Put several meshes in one."""
        starts = np.cumsum([0, *(len(part.vertices) for part in parts)])
        faces = [part.faces + start for part, start in zip(parts, starts[:-1], strict=True)]
        empty = np.zeros((0, 3))
        return cls(
            np.concatenate([empty, *(part.vertices for part in parts)]),
            np.concatenate([empty.astype(np.int64), *faces]),
            np.concatenate([empty, *(part.colours for part in parts)]),
        )

    @classmethod
    def capsule(cls, start: ArrayLike, end: ArrayLike, radii: tuple[float, float], colour: ArrayLike) -> TriangleMesh:
        """A tapered capsule as triangles."""
        a, b = np.asarray(start, dtype=np.float64), np.asarray(end, dtype=np.float64)
        axis = (b - a) / max(float(np.linalg.norm(b - a)), 1e-12)
        side = np.cross(axis, np.eye(3)[int(np.argmin(np.abs(axis)))])
        side /= np.linalg.norm(side)
        frame = np.stack([side, np.cross(axis, side), axis])
        rings = _capsule_rings(radii, float(np.linalg.norm(b - a)))
        around = np.arange(2 * RING_SEGMENTS) * np.pi / RING_SEGMENTS
        circle = np.stack([np.cos(around), np.sin(around)], axis=-1)
        local = np.concatenate([np.column_stack([r * circle, np.full(2 * RING_SEGMENTS, z)]) for r, z in rings])
        vertices: FloatArray = np.asarray(a + local @ frame, dtype=np.float64)
        return cls(
            vertices, _tube_faces(len(rings), 2 * RING_SEGMENTS), np.broadcast_to(np.asarray(colour), vertices.shape)
        )

    def moved(self, offset: ArrayLike) -> TriangleMesh:
        """The same mesh, shifted by ``offset`` ``(3,)`` [m]."""
        return replace(self, vertices=self.vertices + np.asarray(offset))

    def normals(self) -> FloatArray:
        """Unit normals ``(V, 3)`` at the corners: the mean of the faces around, by area."""
        p = self.vertices[self.faces]
        across = np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0])
        total = np.zeros((len(self.vertices), 3))
        for corner in range(3):
            np.add.at(total, self.faces[:, corner], across)
        return total / np.maximum(np.linalg.norm(total, axis=1), 1e-300)[:, None]


def render_mesh(scene: RenderScene, mesh: TriangleMesh, size: tuple[int, int]) -> Image:
    """Draw a mesh in a scene ``(H, W, 3)``; solids of the scene lie behind it.

    Args:
        scene: camera, ground, marks and lights.
        mesh: what to draw.
        size: (width, height) [pixel].
    """
    from marey.picture._mesh_kernels import shade_mesh

    behind = linear_from_srgb(render(replace(scene, solids=CapsuleBatch.none()), size) / 255.0)
    if not len(mesh.faces):
        return np.asarray(encode_srgb(behind), dtype=np.uint8)
    eye, lamp, faces = _pack_sample_camera(scene, size), pack_light(scene.light), mesh.faces.astype(np.int32)
    shadow, frame = _render_lamp_depth(lamp, mesh.vertices, faces)
    contact, corner = _contact_shadow(scene, mesh.vertices, faces)
    which = _find_visible_faces(eye, mesh.vertices, faces)
    arrays = (np.ascontiguousarray(mesh.vertices), mesh.normals(), np.ascontiguousarray(mesh.colours), faces)
    shade_mesh(eye, pack_ground(scene), lamp, *arrays, which, shadow, frame, contact, corner, behind)
    return np.asarray(encode_srgb(behind), dtype=np.uint8)


def _pack_sample_camera(scene: RenderScene, size: tuple[int, int]) -> PackedCamera:
    return pack_camera(scene, (SAMPLES * size[0], SAMPLES * size[1]))


def _find_visible_faces(eye: PackedCamera, vertices: FloatArray, faces: NDArray[np.int32]) -> NDArray[np.int32]:
    """Triangle that each sample sees; those behind the camera are left out."""
    local = (vertices - eye.position) @ np.array([eye.right, eye.up, eye.forward]).T
    deep = np.maximum(local[:, 2], 1e-9)
    x, y = local[:, 0] / deep / eye.per_pixel, local[:, 1] / deep / eye.per_pixel
    points = np.stack([0.5 * eye.width + x, 0.5 * eye.height - y, -1.0 / deep], axis=1)
    points[local[:, 2] <= 1e-6] = np.nan
    return _rasterise_faces(points, faces, (eye.height, eye.width))[1]


def _render_lamp_depth(
    lamp: PackedLight, vertices: FloatArray, faces: NDArray[np.int32]
) -> tuple[NDArray[np.float32], FloatArray]:
    """The lamp's depth buffer, and its frame (lowest across and along, cells a metre, slack)."""
    local = vertices @ np.array([lamp.across, lamp.along, lamp.direction]).T
    low, high = local.min(axis=0), local.max(axis=0)
    per_metre = LAMP_CELLS / max(float((high - low)[:2].max()), 1e-9)
    points = np.column_stack([(local[:, :2] - low[:2]) * per_metre, -local[:, 2]])
    columns, rows = (int(n) + 1 for n in (high - low)[:2] * per_metre)
    return _rasterise_faces(points, faces, (rows, columns))[0], np.array([low[0], low[1], per_metre, 5.0 / per_metre])


def _contact_shadow(
    scene: RenderScene, vertices: FloatArray, faces: NDArray[np.int32]
) -> tuple[FloatArray, FloatArray]:
    """How dark the ground is under the body: nearness of its underside, smoothed."""
    from scipy.ndimage import gaussian_filter  # pyright: ignore[reportUnknownVariableType] (scipy has no types)

    if scene.ground is None:
        return np.zeros((1, 1)), np.array([0.0, 0.0, 1.0])
    reach = REACH_SHARE * float(np.linalg.norm(np.ptp(vertices, axis=0))) + 1e-9
    per_metre = CONTACT_CELLS / reach
    corner = vertices[:, [0, 2]].min(axis=0) - 2.0 * reach
    columns, rows = (int(n) + 1 for n in (np.ptp(vertices[:, [0, 2]], axis=0) + 4.0 * reach) * per_metre)
    heights = vertices[:, 1] - scene.ground.height_m
    points = np.column_stack([(vertices[:, [0, 2]] - corner) * per_metre, heights])
    low = _rasterise_faces(points, faces, (rows, columns))[0].astype(np.float64)
    near = np.clip(1.0 - np.maximum(low, 0.0) / reach, 0.0, 1.0)
    smooth = np.asarray(gaussian_filter(near, 0.45 * CONTACT_CELLS), dtype=np.float64)
    return CONTACT_DARKNESS * smooth, np.array([corner[0], corner[1], per_metre])


def _rasterise_faces(
    points: FloatArray, faces: NDArray[np.int32], shape: tuple[int, int]
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    from marey.picture._mesh_kernels import NOTHING, fill_depth_buffer

    depth, which = np.full(shape, FAR_DEPTH, dtype=np.float32), np.full(shape, NOTHING, dtype=np.int32)
    fill_depth_buffer(np.ascontiguousarray(points), faces, depth, which)
    return depth, which


def _capsule_rings(radii: tuple[float, float], length: float) -> list[tuple[float, float]]:
    angles = np.linspace(0.0, 0.5 * np.pi, RING_SEGMENTS // 2 + 1)
    first = [(radii[0] * np.sin(t), -radii[0] * np.cos(t)) for t in angles]
    last = [(radii[1] * np.cos(t), length + radii[1] * np.sin(t)) for t in angles]
    return [(float(r), float(z)) for r, z in [*first, *last]]


def _tube_faces(rings: int, around: int) -> IntArray:
    i, j = np.meshgrid(np.arange(rings - 1), np.arange(around), indexing="ij")
    a, b = i * around + j, i * around + (j + 1) % around
    c, d = a + around, b + around
    return np.concatenate([np.stack([a, b, d], axis=-1).reshape(-1, 3), np.stack([a, d, c], axis=-1).reshape(-1, 3)])
