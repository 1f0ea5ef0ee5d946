"""The other of two clips that are compared: a second body, see-through, at the same time."""

from __future__ import annotations

from typing import Final

import numpy as np
import viser

from marey.studio._film import ClipFrames
from marey.studio._stage import joint_part

COMPARED_ROOT: Final = "/stage/compared"
COLOUR: Final = (150, 90, 170)
OPACITY: Final = 0.45


class ComparedBody:
    """Owns its scene nodes; made anew only for another clip."""

    def __init__(self, scene: viser.SceneApi) -> None:
        self._scene = scene
        self._root = scene.add_frame(COMPARED_ROOT, show_axes=False, visible=False)
        self._film: ClipFrames | None = None
        self._bones: dict[int, viser.BatchedMeshHandle] = {}
        self._trail: viser.LineSegmentsHandle | None = None

    def draw(self, film: ClipFrames | None, now_s: float) -> None:
        """Show a clip at a time, or nothing."""
        self._root.visible = film is not None
        if film is None:
            return
        if film is not self._film:
            self._load(film)
        frame = min(max(round(now_s * film.motion.rate_hz), 0), film.num_frames - 1)
        for joint, bone in self._bones.items():
            bone.batched_wxyzs = film.wxyz[frame, joint][None]
            bone.batched_positions = film.positions[frame, joint][None]

    def _load(self, film: ClipFrames) -> None:
        for handle in (*self._bones.values(), self._trail):
            if handle is not None:
                handle.remove()
        self._film = film
        self._bones = {int(joint): self._add(film, int(joint)) for joint in np.unique(film.body.joints)}
        trail = film.trail()
        pairs = np.stack([trail[:-1], trail[1:]], axis=1)
        self._trail = self._scene.add_line_segments(
            f"{COMPARED_ROOT}/trail", points=pairs, colors=COLOUR, thickness=0.012
        )

    def _add(self, film: ClipFrames, joint: int) -> viser.BatchedMeshHandle:
        vertices, faces = joint_part(film.body, joint)
        return self._scene.add_batched_meshes_simple(
            f"{COMPARED_ROOT}/{joint}",
            vertices=vertices,
            faces=faces,
            batched_wxyzs=film.wxyz[0, joint][None],
            batched_positions=film.positions[0, joint][None],
            batched_colors=COLOUR,
            opacity=OPACITY,
            lod="off",
            cast_shadow=False,
        )
