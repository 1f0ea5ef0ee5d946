"""Marks of fixed size for things that come and go: arrows, a polygon, a line. Nodes are moved, never made anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import viser

from marey.base import FloatArray, IntArray
from marey.studio._film import Float32

MAX_ARROWS: Final = 24
MAX_CORNERS: Final = 16
METRES_PER_WEIGHT: Final = 0.8  # length of an arrow that carries the body
MAX_M: Final = 1.6  # longer arrows say no more
HIDDEN_M: Final = -1e3  # where an arrow waits that has nothing to show
OVER_M: Final = 0.008  # of a polygon above the ground
RINGS: Final = 10  # of a sphere

Colour = tuple[int, int, int]


class ForceArrowMarks:
    """Forces at places."""

    def __init__(self, scene: viser.SceneApi, name: str, colour: Colour) -> None:
        hidden = arrow_ends(np.zeros((0, 3)), np.zeros((0, 3)), 1.0)
        self._node = scene.add_arrows(name, hidden, colour, shaft_radius=0.012, head_radius=0.03, head_length=0.07)

    def draw(self, places: FloatArray, forces: FloatArray, weight_n: float, *, on: bool) -> None:
        """Show forces ``(n, 3)`` [N] that act at places ``(n, 3)`` [m]."""
        self._node.visible = on and len(places) > 0
        if self._node.visible:
            self._node.points = arrow_ends(places, forces, weight_n)


def arrow_ends(places: FloatArray, forces: FloatArray, weight_n: float) -> Float32:
    """Begin and end ``(MAX_ARROWS, 2, 3)`` [m] of the largest arrows; those with nothing to show lie out of sight."""
    sizes = np.linalg.norm(forces, axis=-1)
    order = np.argsort(-sizes)[:MAX_ARROWS]
    lengths = np.minimum(METRES_PER_WEIGHT * sizes[order] / weight_n, MAX_M)
    ways = forces[order] / np.maximum(sizes[order], 1e-12)[:, None]
    ends = np.tile(np.array([[0.0, HIDDEN_M, 0.0], [0.0, HIDDEN_M + 0.1, 0.0]], dtype=np.float32), (MAX_ARROWS, 1, 1))
    ends[: len(order), 0] = places[order]
    ends[: len(order), 1] = places[order] + lengths[:, None] * ways
    return ends


class PolygonMark:
    """A convex outline on the ground."""

    def __init__(self, scene: viser.SceneApi, name: str, colour: Colour) -> None:
        self._node = scene.add_mesh_simple(
            name,
            polygon_outline(np.zeros((1, 3))),
            fan_faces(),
            color=colour,
            opacity=0.55,
            side="double",
            cast_shadow=False,
            receive_shadow=False,
            visible=False,
        )

    def draw(self, corners: FloatArray, *, on: bool) -> None:
        """Show corners ``(n, 3)`` [m], if they are three at least."""
        self._node.visible = on and len(corners) >= 3
        if self._node.visible:
            self._node.vertices = polygon_outline(corners)


def polygon_outline(corners: FloatArray) -> Float32:
    """Vertices ``(MAX_CORNERS, 3)`` of a polygon; the last corner is repeated."""
    picked = corners[np.linspace(0, len(corners) - 1, min(len(corners), MAX_CORNERS)).astype(np.int64)]
    full = np.repeat(picked[-1:], MAX_CORNERS, axis=0)
    full[: len(picked)] = picked
    return (full + np.array([0.0, OVER_M, 0.0])).astype(np.float32)


def fan_faces() -> IntArray:
    """Triangles from the first corner to all others."""
    ring = np.arange(1, MAX_CORNERS - 1)
    return np.stack([np.zeros_like(ring), ring, ring + 1], axis=1)


class SphereMarks:
    """Balls of any size, each in its colour, in one node: they move together with the body, which is made likewise."""

    def __init__(self, scene: viser.SceneApi, name: str, colours: Sequence[Colour]) -> None:
        vertices, faces = ball_mesh()
        count = len(colours)
        self._node = scene.add_batched_meshes_simple(
            name,
            vertices=vertices,
            faces=faces,
            batched_wxyzs=np.tile(np.array([1.0, 0.0, 0.0, 0.0], dtype=np.float32), (count, 1)),
            batched_positions=np.full((count, 3), HIDDEN_M, dtype=np.float32),
            batched_scales=np.full(count, 0.01, dtype=np.float32),
            batched_colors=np.array(colours, dtype=np.uint8),
            lod="off",
        )

    def draw(self, places: Sequence[FloatArray | None], radii_m: Sequence[float]) -> None:
        """Show one sphere for each colour; a place that is None hides it."""
        hidden = np.full(3, HIDDEN_M)
        self._node.batched_positions = np.array([hidden if p is None else p for p in places], dtype=np.float32)
        self._node.batched_scales = np.array(radii_m, dtype=np.float32)


def ball_mesh() -> tuple[Float32, IntArray]:
    """Vertices and outward faces of a sphere of radius one, by rings from pole to pole."""
    polar = np.linspace(0.0, np.pi, RINGS + 1)[:, None]
    round_ = np.linspace(0.0, 2.0 * np.pi, 2 * RINGS + 1)
    x, y, z = np.sin(polar) * np.cos(round_), np.cos(polar) + 0.0 * round_, np.sin(polar) * np.sin(round_)
    vertices = np.stack([x, y, z], axis=-1).reshape(-1, 3).astype(np.float32)
    row, column = np.divmod(np.arange(RINGS * 2 * RINGS), 2 * RINGS)
    a = row * (2 * RINGS + 1) + column
    b, c, d = a + 1, a + 2 * RINGS + 1, a + 2 * RINGS + 2
    return vertices, np.concatenate([np.stack([a, b, c], axis=1), np.stack([b, d, c], axis=1)])


class LineMark:
    """A straight line between two places."""

    def __init__(self, scene: viser.SceneApi, name: str, colour: Colour) -> None:
        points = np.zeros((1, 2, 3), dtype=np.float32)
        self._node = scene.add_line_segments(name, points=points, colors=colour, thickness=0.008, visible=False)

    def draw(self, begin: FloatArray, end: FloatArray, *, on: bool) -> None:
        """Show it."""
        self._node.visible = on
        if on:
            self._node.points = np.stack([begin, end])[None].astype(np.float32)

    def hide(self) -> None:
        """Show nothing."""
        self._node.visible = False
