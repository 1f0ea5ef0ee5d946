"""A surface that deforms and changes its colour in the page.

The page's meshes have one colour each. So the surface is drawn once at rest's colour, and again and again in thin coats
of red and blue where it works: each coat covers the triangles that are at least so active. Coats lie exactly on the
surface and have one colour, so their order does not matter and their edges are soft.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import viser
from numpy.typing import NDArray

from marey.base import FloatArray
from marey.studio._film import Float32
from marey.studio._muscle_acts import Look, shade_colours

RED_COATS: Final = 6
BLUE_COATS: Final = 3
FULL: Final = 0.94  # [-] covering of all coats together
Faces = NDArray[np.int32]
Colour = tuple[int, int, int]
DOT: Final = np.zeros((3, 3), dtype=np.float32)
NO_FACE: Final = np.array([[0, 1, 2]], dtype=np.uint32)


class SoftSurface:
    """Owns its scene nodes; :meth:`draw` moves and paints them."""

    def __init__(self, scene: viser.SceneApi, name: str, faces: Faces, look: Look) -> None:
        passive, red, blue = (page_colour(colour) for colour in shade_colours())
        self.faces = faces
        self._skin = scene.add_mesh_simple(
            f"{name}/skin", look.surface.astype(np.float32), faces.astype(np.uint32), color=passive, side="double"
        )
        self._red = [_coat(scene, f"{name}/red{k}", red, RED_COATS) for k in range(RED_COATS)]
        self._blue = [_coat(scene, f"{name}/blue{k}", blue, BLUE_COATS) for k in range(BLUE_COATS)]
        self.draw(look)

    def draw(self, look: Look) -> None:
        """Show the surface as it is now."""
        surface = look.surface.astype(np.float32)
        self._skin.vertices = surface
        _paint(self._red, surface, self.faces, look.red)
        _paint(self._blue, surface, self.faces, look.blue)

    def remove(self) -> None:
        """Make room for another."""
        for node in (self._skin, *self._red, *self._blue):
            node.remove()


def page_colour(linear: FloatArray) -> Colour:
    """RGB from 0 to 255 of a linear colour."""
    c = np.clip(linear, 0.0, 1.0)
    encoded = np.where(c <= 0.0031308, 12.92 * c, 1.055 * c ** (1.0 / 2.4) - 0.055)
    r, g, b = np.rint(255.0 * encoded).astype(int).tolist()
    return r, g, b


def coats(faces: Faces, shares: FloatArray, count: int) -> list[Faces]:
    """Triangles of each coat: those whose share is at least the middle of its level."""
    mean = shares[faces].mean(axis=1)
    return [faces[mean >= (k + 0.5) / count] for k in range(count)]


def compact(vertices: Float32, faces: Faces) -> tuple[Float32, NDArray[np.uint32]]:
    """Only the vertices that some triangle uses, and the triangles renumbered."""
    used = np.zeros(len(vertices), dtype=np.bool_)
    used[faces.ravel()] = True
    numbers = np.cumsum(used) - 1
    return vertices[used], numbers[faces].astype(np.uint32)


def _coat(scene: viser.SceneApi, name: str, colour: Colour, count: int) -> viser.MeshHandle:
    return scene.add_mesh_simple(
        name,
        DOT,
        NO_FACE,
        color=colour,
        opacity=1.0 - (1.0 - FULL) ** (1.0 / count),
        side="double",
        cast_shadow=False,
        receive_shadow=False,
        visible=False,
    )


def _paint(nodes: Sequence[viser.MeshHandle], surface: Float32, faces: Faces, shares: FloatArray) -> None:
    for node, covered in zip(nodes, coats(faces, shares, len(nodes)), strict=True):
        if len(covered):
            node.vertices, node.faces = compact(surface, covered)
        if node.visible != bool(len(covered)):
            node.visible = bool(len(covered))
