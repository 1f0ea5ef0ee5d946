"""Muscles of the whole body over the clip on the stage: spindles, red where they pull, along thin bones."""

from __future__ import annotations

from typing import Final

import numpy as np
import viser

from marey.base import FloatArray, IntArray
from marey.muscle import MuscleTrack, activation_colours, muscle_solids
from marey.picture import Palette, Solids, body_solids
from marey.studio._film import Float32
from marey.studio._muscle_mesh import DOT, NO_FACE, Faces, page_colour
from marey.studio._muscle_stage import BONE_COLOUR, bone_mesh

ROOT: Final = "/stage/clip/muscles"  # so that it goes where the clip goes
LEVELS: Final = 8  # of colour
AROUND: Final = 6  # corners of a spindle
BONE_SHARE: Final = 0.3  # [-] how thin the figure under its muscles is
BALL_SHARE: Final = 0.9  # [-] the same of a head
BALL_LENGTH: Final = 1.2  # [-] over its radius: what is shorter is a head
GREY: Final = Palette(*[np.full(3, 0.8)] * 4)


class BodyMuscles:
    """Owns its scene nodes; :meth:`draw` moves them."""

    def __init__(self, scene: viser.SceneApi) -> None:
        self._root = scene.add_frame(ROOT, show_axes=False, visible=False)
        ends = activation_colours(np.array([0.0, 1.0]))
        shares = np.linspace(0.0, 1.0, LEVELS)[:, None]
        colours = [page_colour(colour) for colour in ends[0] + shares * (ends[1] - ends[0])]
        self._levels = [_node(scene, f"{ROOT}/{k}", colour) for k, colour in enumerate(colours)]
        self._bones = _node(scene, f"{ROOT}/bones", BONE_COLOUR)
        self._drawn: tuple[MuscleTrack, int] | None = None

    def hide(self) -> None:
        """Show the clip alone."""
        self._root.visible = False

    def draw(self, track: MuscleTrack, frame: int) -> None:
        """Show the muscles at a frame of the clip."""
        self._root.visible = True
        at = int(np.clip(frame, 0, len(track.activations) - 1))
        if self._drawn is not None and self._drawn[0] is track and self._drawn[1] == at:
            return
        self._drawn = track, at
        solids = muscle_solids(track, at)
        level = levels_of(solids.colours)
        for k, node in enumerate(self._levels):
            _place(node, solids, level == k)
        vertices, faces = thin_bones(body_solids(track.motion, np.array([at]), GREY)[0])
        self._bones.vertices, self._bones.faces, self._bones.visible = vertices, faces.astype(np.uint32), True


def levels_of(colours: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Level of colour of each piece, from rest 0 to LEVELS - 1."""
    rest, work = activation_colours(np.array([0.0, 1.0]))
    way = work - rest
    return np.rint((LEVELS - 1) * (colours - rest) @ way / (way @ way)).astype(np.int64)


def thin_bones(solids: Solids) -> tuple[Float32, IntArray]:
    """The figure under its muscles: vertices and triangles; what is nearly a ball stays thick."""
    lengths = np.linalg.norm(solids.ends - solids.starts, axis=1)
    ends = np.stack([solids.starts, solids.ends + (lengths < 1e-4)[:, None] * np.array([0.0, 1e-4, 0.0])], axis=1)
    share = np.where(lengths < BALL_LENGTH * solids.start_radii, BALL_SHARE, BONE_SHARE)
    return bone_mesh(ends, share[:, None] * np.stack([solids.start_radii, solids.end_radii], axis=1))


def tubes(solids: Solids, picked: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[Float32, Faces]:
    """Open tapered tubes along the picked solids: vertices ``(2 n AROUND, 3)`` and triangles."""
    a, b = solids.starts[picked], solids.ends[picked]
    axis = (b - a) / np.maximum(np.linalg.norm(b - a, axis=1), 1e-9)[:, None]
    other = np.eye(3)[np.argmin(np.abs(axis), axis=1)]
    u = np.cross(axis, other)
    u /= np.maximum(np.linalg.norm(u, axis=1), 1e-9)[:, None]
    v = np.cross(axis, u)
    angle = 2.0 * np.pi * np.arange(AROUND) / AROUND
    circle = np.cos(angle)[:, None] * u[:, None] + np.sin(angle)[:, None] * v[:, None]  # (n, AROUND, 3)
    radii = np.stack([solids.start_radii[picked], solids.end_radii[picked]], axis=1)
    rings = np.stack([a, b], axis=1)[:, :, None] + radii[:, :, None, None] * circle[:, None]
    ring, nxt = np.arange(AROUND), (np.arange(AROUND) + 1) % AROUND
    one = np.concatenate(
        [np.stack([ring, nxt, nxt + AROUND], axis=1), np.stack([ring, nxt + AROUND, ring + AROUND], axis=1)]
    )
    faces = one[None] + 2 * AROUND * np.arange(len(a))[:, None, None]
    return rings.reshape(-1, 3).astype(np.float32), faces.reshape(-1, 3).astype(np.int32)


def _node(scene: viser.SceneApi, name: str, colour: tuple[int, int, int]) -> viser.MeshHandle:
    return scene.add_mesh_simple(name, DOT, NO_FACE, color=colour, side="double", visible=False)


def _place(node: viser.MeshHandle, solids: Solids, picked: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
    if picked.any():
        vertices, faces = tubes(solids, picked)
        node.vertices, node.faces = vertices, faces.astype(np.uint32)
    if node.visible != bool(picked.any()):
        node.visible = bool(picked.any())
