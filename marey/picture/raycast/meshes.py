"""Triangles as plain data: soft bodies, skins of characters, boxes and columns of a world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, frozen, frozen_ints

RING_SEGMENTS: Final = 12  # half the sides of a drawn ball or column


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
        length = float(np.linalg.norm(b - a))
        if length <= abs(radii[0] - radii[1]) + 1e-12:
            # One ball holds the other: only the larger is seen
            a, length, radii = (a if radii[0] >= radii[1] else b), 0.0, (max(radii), max(radii))
        axis = (b - a) / length if length > 0.0 else np.array([0.0, 1.0, 0.0])
        side = np.cross(axis, np.eye(3)[int(np.argmin(np.abs(axis)))])
        side /= np.linalg.norm(side)
        frame = np.stack([side, np.cross(axis, side), axis])
        # Rings around the axis, as radius and height: a quarter of a circle at each end.
        angles = np.linspace(0.0, 0.5 * np.pi, RING_SEGMENTS // 2 + 1)
        first = [(radii[0] * np.sin(t), -radii[0] * np.cos(t)) for t in angles]
        last = [(radii[1] * np.cos(t), length + radii[1] * np.sin(t)) for t in angles]
        rings = [(float(r), float(z)) for r, z in [*first, *last]]
        sides = 2 * RING_SEGMENTS
        around = np.arange(sides) * np.pi / RING_SEGMENTS
        circle = np.stack([np.cos(around), np.sin(around)], axis=-1)
        local = np.concatenate([np.column_stack([r * circle, np.full(sides, z)]) for r, z in rings])
        vertices: FloatArray = np.asarray(a + local @ frame, dtype=np.float64)
        # Two triangles for each piece between two rings.
        i, j = np.meshgrid(np.arange(len(rings) - 1), np.arange(sides), indexing="ij")
        low, low_next = i * sides + j, i * sides + (j + 1) % sides
        corners = [(low, low_next, low_next + sides), (low, low_next + sides, low + sides)]
        faces = np.concatenate([np.stack(three, axis=-1).reshape(-1, 3) for three in corners])
        return cls(vertices, faces, np.broadcast_to(np.asarray(colour), vertices.shape))

    @classmethod
    def none(cls) -> TriangleMesh:
        """Return nothing to draw."""
        return cls(np.zeros((0, 3)), np.zeros((0, 3), dtype=np.int64), np.zeros((0, 3)))

    @classmethod
    def column(cls, outline: ArrayLike, heights: tuple[float, float], colour: ArrayLike) -> TriangleMesh:
        """An upright column over a convex outline ``(N, 2)`` [m] of world x and z, between two heights [m].

        Walls and lids have vertices of their own, so that edges stay sharp.
        """
        corners = np.asarray(outline, dtype=np.float64)
        count, (low, high) = len(corners), heights
        after = np.roll(corners, -1, axis=0)
        parts: list[FloatArray] = []
        faces: list[IntArray] = []
        # Each wall is a quadrangle of two triangles, each lid a fan
        walls = [(corners, low), (after, low), (after, high), (corners, high)]
        parts.append(np.stack([np.insert(p, 1, y, axis=1) for p, y in walls], axis=1).reshape(-1, 3))
        first = 4 * np.arange(count)[:, None]
        faces += [first + np.array(three) for three in ((0, 1, 2), (0, 2, 3))]
        fan = np.stack([np.zeros(count - 2), np.arange(1, count - 1), np.arange(2, count)], axis=1).astype(np.int64)
        for number, y in enumerate((low, high)):
            parts.append(np.insert(corners, 1, y, axis=1))
            faces.append(fan + 4 * count + number * count)
        vertices = np.concatenate(parts)
        return cls(vertices, np.concatenate(faces), np.broadcast_to(np.asarray(colour), vertices.shape))

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
