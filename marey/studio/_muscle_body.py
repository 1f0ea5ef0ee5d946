"""Muscles of the whole body over the clip on the stage: spindles, red where they pull, along thin bones."""

from __future__ import annotations

from typing import Final

import numpy as np
import viser

from marey.base import FloatArray
from marey.muscle import MuscleTrack, colour_activations, make_muscle_solids
from marey.picture import CapsuleBatch, Palette, body_solids
from marey.studio._film import Float32
from marey.studio._muscle_mesh import HIDDEN_FACE, HIDDEN_VERTICES, OPEN, ROUND, Faces, make_rods, page_colour
from marey.studio._muscle_stage import BONE_COLOUR

BODY_MUSCLES_ROOT: Final = "/stage/clip/muscles"  # so that it goes where the clip goes
LEVELS: Final = 8  # of colour
BONE_SHARE: Final = 0.3  # [-] how thin the figure under its muscles is
BALL_SHARE: Final = 0.9  # [-] the same of a head
BALL_LENGTH: Final = 1.2  # [-] over its radius: what is shorter is a head
GREY: Final = Palette(*[np.full(3, 0.8)] * 4)


class BodyMuscleNodes:
    """Owns its scene nodes; :meth:`draw` moves them."""

    def __init__(self, scene: viser.SceneApi) -> None:
        self._root = scene.add_frame(BODY_MUSCLES_ROOT, show_axes=False, visible=False)
        ends = colour_activations(np.array([0.0, 1.0]))
        shares = np.linspace(0.0, 1.0, LEVELS)[:, None]
        colours = [page_colour(colour) for colour in ends[0] + shares * (ends[1] - ends[0])]
        self._levels = [_node(scene, f"{BODY_MUSCLES_ROOT}/{k}", colour) for k, colour in enumerate(colours)]
        self._bones = _node(scene, f"{BODY_MUSCLES_ROOT}/bones", BONE_COLOUR)
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
        solids = make_muscle_solids(track, at)
        level = colour_levels(solids.colours)
        for k, node in enumerate(self._levels):
            _place_node(node, solids, level == k)
        vertices, faces = thin_bones(body_solids(track.motion, np.array([at]), GREY)[0])
        self._bones.vertices, self._bones.faces, self._bones.visible = vertices, faces.astype(np.uint32), True


def colour_levels(colours: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Level of colour of each piece, from rest 0 to LEVELS - 1."""
    rest, work = colour_activations(np.array([0.0, 1.0]))
    way = work - rest
    return np.rint((LEVELS - 1) * (colours - rest) @ way / (way @ way)).astype(np.int64)


def thin_bones(solids: CapsuleBatch) -> tuple[Float32, Faces]:
    """The figure under its muscles: vertices and triangles; what is nearly a ball stays thick."""
    lengths = np.linalg.norm(solids.ends - solids.starts, axis=1)
    ends = np.stack([solids.starts, solids.ends + (lengths < 1e-4)[:, None] * np.array([0.0, 1e-4, 0.0])], axis=1)
    share = np.where(lengths < BALL_LENGTH * solids.start_radii, BALL_SHARE, BONE_SHARE)
    return make_rods(ends, share[:, None] * np.stack([solids.start_radii, solids.end_radii], axis=1), ROUND)


def _node(scene: viser.SceneApi, name: str, colour: tuple[int, int, int]) -> viser.MeshHandle:
    return scene.add_mesh_simple(name, HIDDEN_VERTICES, HIDDEN_FACE, color=colour, side="double", visible=False)


def _place_node(
    node: viser.MeshHandle, solids: CapsuleBatch, picked: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> None:
    if picked.any():
        ends = np.stack([solids.starts[picked], solids.ends[picked]], axis=1)
        radii = np.stack([solids.start_radii[picked], solids.end_radii[picked]], axis=1)
        vertices, faces = make_rods(ends, radii, OPEN)
        node.vertices, node.faces = vertices, faces.astype(np.uint32)
    if node.visible != bool(picked.any()):
        node.visible = bool(picked.any())
