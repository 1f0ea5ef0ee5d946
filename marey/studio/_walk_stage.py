"""The live walk in the scene: a body for each character, and what lies round them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import viser

from marey.skeleton import BodyMesh, Skeleton, capsule_mesh, capsules, joint_frames
from marey.studio._film import Float32
from marey.studio._stage import BODY_COLOUR, joint_part, joint_side
from marey.studio._walk import WalkDocument
from marey.studio._walk_marks import ObstacleBoxes, PredictedPoses, TargetMarks, WalkFootprints

PALE_FRACTION: Final = 0.6  # share of grey in the colours of characters that are not driven
GREY: Final = np.array([200, 202, 206])
NAME_ROOM_M: Final = 0.22  # from the head joint to the name


class WalkStage:
    """Owns its scene nodes; :meth:`draw` moves them.

    Bodies hang on a frame that goes with the driven character. A slow page draws frames sooner than bodies, and so
    keeps the character in the middle.
    """

    def __init__(self, scene: viser.SceneApi, clicked: Callable[[int], None]) -> None:
        self._scene, self._clicked = scene, clicked
        self._root = scene.add_frame("/stage/walk", show_axes=False, visible=False)
        self._near = scene.add_frame("/stage/walk/near", show_axes=False)
        self._bodies: CharacterBodies | None = None
        self._marks: tuple[WalkFootprints | TargetMarks | PredictedPoses | ObstacleBoxes, ...] = ()

    def hide(self) -> None:
        """Leave the stage to the clip."""
        self._root.visible = False

    def draw(self, walk: WalkDocument) -> None:
        """Show everybody where they are now."""
        self._root.visible = True
        x, z = walk.place()
        self._near.position = (x, 0.0, z)
        if self._bodies is None:
            skeleton = walk.model.skeleton
            self._bodies = CharacterBodies(self._scene, skeleton, self._clicked)
            ghosts = PredictedPoses(self._scene, skeleton.parents)
            self._marks = (WalkFootprints(self._scene), TargetMarks(self._scene), ghosts, ObstacleBoxes(self._scene))
        self._bodies.draw(walk)
        for mark in self._marks:
            mark.draw(walk)


class CharacterBodies:
    """One node a body part, one instance a character: a crowd costs no more messages than one."""

    def __init__(self, scene: viser.SceneApi, skeleton: Skeleton, clicked: Callable[[int], None]) -> None:
        self._scene, self._clicked = scene, clicked
        self._mesh: BodyMesh = capsule_mesh(capsules(skeleton))
        self._joints: list[int] = np.unique(self._mesh.joints).tolist()
        self._colours = {j: np.array(BODY_COLOUR[joint_side(skeleton.names[j])]) for j in self._joints}
        self._nodes: dict[int, viser.BatchedMeshHandle] = {}
        self._names: list[viser.LabelHandle] = []
        self._painted: tuple[int, int] = (0, 0)  # how many there are, who is driven

    def draw(self, walk: WalkDocument) -> None:
        """Place all of them."""
        places, wxyz = _frames(walk)
        places -= np.array([walk.place()[0], 0.0, walk.place()[1]], dtype=np.float32)
        scales = np.array([w.engine.leg_length_m / walk.leg_length_m for w in walk.walkers], dtype=np.float32)
        if len(walk.walkers) != self._painted[0]:
            self._cast(walk)
        for joint, node in self._nodes.items():
            node.batched_positions = places[:, joint]
            node.batched_wxyzs = wxyz[:, joint]
            node.batched_scales = scales
        if self._painted != (len(walk.walkers), walk.selected):
            self._paint(walk)
        head = walk.model.skeleton.index("head")
        for name, place, size in zip(self._names, places[:, head], scales, strict=True):
            name.position = (float(place[0]), float(place[1] + NAME_ROOM_M * size), float(place[2]))

    def _cast(self, walk: WalkDocument) -> None:
        """New nodes for another number of characters."""
        for node in (*self._nodes.values(), *self._names):
            node.remove()
        count = len(walk.walkers)
        self._nodes = {joint: self._add(joint, count) for joint in self._joints}
        self._names = [
            self._scene.add_label(f"/stage/walk/near/name_{i}", walker.name, anchor="bottom-center", visible=count > 1)
            for i, walker in enumerate(walk.walkers)
        ]

    def _add(self, joint: int, count: int) -> viser.BatchedMeshHandle:
        vertices, faces = joint_part(self._mesh, joint)
        node = self._scene.add_batched_meshes_simple(
            f"/stage/walk/near/body/{joint}",
            vertices=vertices,
            faces=faces,
            batched_wxyzs=np.tile(np.array([1.0, 0.0, 0.0, 0.0], dtype=np.float32), (count, 1)),
            batched_positions=np.zeros((count, 3), dtype=np.float32),
            batched_scales=np.ones(count, dtype=np.float32),
            batched_colors=np.tile(self._colours[joint].astype(np.uint8), (count, 1)),
            lod="off",
        )
        if count > 1:
            node.on_click(lambda event: self._clicked(event.instance_index or 0))
        return node

    def _paint(self, walk: WalkDocument) -> None:
        """The driven character in full colours, the others pale."""
        self._painted = (len(walk.walkers), walk.selected)
        pale = np.full((len(walk.walkers), 1), PALE_FRACTION)
        pale[walk.selected] = 0.0
        for joint, node in self._nodes.items():
            node.batched_colors = ((1.0 - pale) * self._colours[joint] + pale * GREY).astype(np.uint8)


def _frames(walk: WalkDocument) -> tuple[Float32, Float32]:
    """World frames of every joint of everybody, ``(n, J, 3)`` and ``(n, J, 4)``."""
    poses = [walker.pose for walker in walk.walkers]
    frames = [joint_frames(p.skeleton, p.root_position[None], p.rotations.wxyz[None]) for p in poses]
    places = np.concatenate([place for place, _ in frames]).astype(np.float32)
    return places, np.concatenate([rotation.wxyz for _, rotation in frames]).astype(np.float32)
