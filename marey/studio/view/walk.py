"""The live walk in the scene: bodies, footprints, targets, predicted poses, obstacles with their decision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import viser

from marey.base import FloatArray, IntArray
from marey.skeleton import BodyMesh, Skeleton, capsule_mesh, capsules, joint_frames
from marey.studio.document.page import Float32
from marey.studio.document.walk import GHOST_TIMES_S, DroppedObstacle, WalkDocument
from marey.studio.view.clip import BODY_COLOUR, disc_mesh, joint_part, joint_side

GHOST_COLOUR, GROUND_COLOUR = np.array([60, 85, 125]), np.array([225, 228, 233])
TARGET_COLOUR, TAKEOFF_COLOUR = (220, 120, 0), (130, 10, 110)
OBSTACLE_COLOUR: Final = {"jump": (110, 160, 90), "round": (200, 120, 60)}
PRINT_COLOUR: Final = {"left": (128, 40, 14), "right": (8, 44, 112)}  # dark: the lamp brightens the ground
KEPT_PRINTS: Final = 24  # of each character
HIDDEN_SCALE: Final = 1e-4  # scale of an instance that shows nothing
PRINT_Y_M, TARGET_Y_M = 0.004, 0.010
NUM_TARGETS: Final = 5  # four effectors and a take-off
HEEL_M, TOE_M = (-0.03, 0.034), (0.155, 0.045)  # place along the sole from the ankle, and radius, at the model's size


class WalkFootprints:
    """Where feet stood, right and left in their colours; sent anew only when a foot comes down."""

    def __init__(self, scene: viser.SceneApi) -> None:
        self._scene = scene
        self._node: viser.BatchedMeshHandle | None = None
        self._shown: tuple[tuple[float, str, float], ...] = ()

    def draw(self, walk: WalkDocument) -> None:
        """Lay the last prints of everybody."""
        laid = [(w.engine.footprints[-KEPT_PRINTS:], w.engine.leg_length_m) for w in walk.walkers]
        rows = [(p, leg) for prints, leg in laid for p in prints] if walk.shown["Footprints"] else []
        key = tuple((p.time_s, p.side, leg) for p, leg in rows)
        if key == self._shown:
            return
        self._shown, room = key, KEPT_PRINTS * len(walk.walkers)
        if self._node is None or len(self._node.batched_positions) != room:
            self._node = add_instances(self._scene, "/stage/walk/prints", sole_mesh(), room, PRINT_COLOUR["left"])
        places = np.array([(p.position[0], PRINT_Y_M, p.position[2]) for p, _ in rows]).reshape(-1, 3)
        self._node.batched_positions = pad_rows(places, room, 0.0)
        self._node.batched_wxyzs = pad_rows(yaw_rotations(np.array([p.heading_rad for p, _ in rows])), room, 0.5)
        self._node.batched_scales = pad_rows(np.array([leg for _, leg in rows]) / walk.leg_length_m, room, HIDDEN_SCALE)
        colours = np.array([PRINT_COLOUR[p.side] for p, _ in rows]).reshape(-1, 3)
        self._node.batched_colors = pad_rows(colours, room, 200).astype(np.uint8)


class TargetMarks:
    """Where the driven character's ankles and toes are held or will land, and its take-off."""

    def __init__(self, scene: viser.SceneApi) -> None:
        self._node = add_instances(scene, "/stage/walk/targets", disc_mesh(), NUM_TARGETS, TARGET_COLOUR)
        self._node.batched_colors = np.array([TARGET_COLOUR] * 4 + [TAKEOFF_COLOUR], dtype=np.uint8)

    def draw(self, walk: WalkDocument) -> None:
        """Put a mark at each goal."""
        self._node.visible = walk.shown["Targets"]
        if not walk.shown["Targets"]:
            return
        goals, is_held = walk.active_character.goals()
        takeoff = walk.active_character.engine.takeoff
        places, scales = np.zeros((NUM_TARGETS, 3)), np.full(NUM_TARGETS, HIDDEN_SCALE)
        places[:4], places[:4, 1], scales[:4] = goals, TARGET_Y_M, np.where(is_held, 0.55, HIDDEN_SCALE)
        if takeoff is not None:
            places[4], scales[4] = (takeoff[0], TARGET_Y_M, takeoff[-1]), 1.6
        self._node.batched_positions = places.astype(np.float32)
        self._node.batched_scales = scales.astype(np.float32)


class PredictedPoses:
    """Postures that the driven character will take, as thin figures; the later, the paler."""

    def __init__(self, scene: viser.SceneApi, parents: IntArray) -> None:
        self._bones = np.flatnonzero(parents >= 0)
        self._parents = parents[self._bones]
        share = np.linspace(0.0, 0.6, len(GHOST_TIMES_S))[:, None]
        colours = (1.0 - share) * GHOST_COLOUR + share * GROUND_COLOUR
        count = len(self._bones) * len(GHOST_TIMES_S)
        self._node = scene.add_line_segments(
            "/stage/walk/near/ghosts",
            points=np.zeros((count, 2, 3), dtype=np.float32),
            colors=np.repeat(np.repeat(colours, len(self._bones), axis=0)[:, None], 2, axis=1).astype(np.uint8),
            thickness=0.012,
            visible=False,
        )

    def draw(self, walk: WalkDocument) -> None:
        """Ask the engine what comes."""
        self._node.visible = walk.shown["Ghosts"]
        if walk.shown["Ghosts"]:
            here = np.array([walk.place()[0], 0.0, walk.place()[1]])
            poses = [walk.active_character.engine.predict(tau).joint_positions() - here for tau in GHOST_TIMES_S]
            segments = [np.stack([p[self._bones], p[self._parents]], axis=1) for p in poses]
            self._node.points = np.concatenate(segments).astype(np.float32)


class ObstacleBoxes:
    """Boxes on the ground, each with a label of its character's decision."""

    def __init__(self, scene: viser.SceneApi) -> None:
        self._scene = scene
        self._nodes: dict[tuple[str, int], tuple[viser.BoxHandle, viser.LabelHandle]] = {}

    def draw(self, walk: WalkDocument) -> None:
        """Add new boxes, remove old ones, update decisions."""
        present = {(w.name, i): dropped for w in walk.walkers for i, dropped in enumerate(w.obstacles())}
        for key in set(self._nodes) - set(present):
            for node in reversed(self._nodes.pop(key)):
                node.remove()
        for key, dropped in present.items():
            if key not in self._nodes:
                self._nodes[key] = self._add(key, dropped)
            box, label = self._nodes[key]
            x, z = dropped.obstacle.position
            box.position = (x, 0.5 * dropped.obstacle.height_m, z)
            if label.text != dropped.label:
                label.text = dropped.label
                box.color = OBSTACLE_COLOUR.get(dropped.decision.choice, (150, 150, 150))

    def _add(self, key: tuple[str, int], dropped: DroppedObstacle) -> tuple[viser.BoxHandle, viser.LabelHandle]:
        obstacle, name = dropped.obstacle, f"/stage/walk/obstacles/{key[0].replace(' ', '_')}_{key[1]}"
        length, width = obstacle.size
        wxyz = yaw_rotations(np.array([obstacle.heading_rad]))[0]
        box = self._scene.add_box(name, dimensions=(width, obstacle.height_m, length), wxyz=wxyz)
        return box, self._scene.add_label(f"{name}/words", "", position=(0.0, 0.3, 0.0), anchor="bottom-center")


def sole_mesh(corners: int = 10) -> tuple[Float32, IntArray]:
    """A foot's outline: the hull of a heel and of a ball, seen from above, toes towards +Z."""
    half = np.linspace(-0.5 * np.pi, 0.5 * np.pi, corners)
    ends = ((TOE_M, half), (HEEL_M, half + np.pi))
    rim = [(r * np.sin(a), 0.0, place + r * np.cos(a)) for (place, r), angles in ends for a in angles]
    ring = np.arange(1, len(rim) - 1)
    faces = np.stack([np.zeros_like(ring), ring, ring + 1], axis=1)
    return np.array(rim, dtype=np.float32), faces


def yaw_rotations(angle_rad: FloatArray) -> FloatArray:
    """Rotations about +Y ``(N, 4)`` wxyz."""
    half, zero = 0.5 * angle_rad, np.zeros_like(angle_rad)
    return np.stack([np.cos(half), zero, np.sin(half), zero], axis=-1)


def pad_rows(rows: FloatArray, count: int, value: float) -> Float32:
    """Rows of a batch, filled up to a number of them."""
    full = np.full((count, *rows.shape[1:]), value, dtype=np.float32)
    full[: len(rows)] = rows
    return full


def add_instances(
    scene: viser.SceneApi, name: str, mesh: tuple[Float32, IntArray], count: int, colour: tuple[int, int, int]
) -> viser.BatchedMeshHandle:
    """A node of many flat marks, all hidden at first."""
    return scene.add_batched_meshes_simple(
        name,
        vertices=mesh[0],
        faces=mesh[1],
        batched_wxyzs=np.tile(np.array([1.0, 0.0, 0.0, 0.0], dtype=np.float32), (count, 1)),
        batched_positions=np.zeros((count, 3), dtype=np.float32),
        batched_scales=np.full(count, HIDDEN_SCALE, dtype=np.float32),
        batched_colors=np.tile(np.array(colour, dtype=np.uint8), (count, 1)),
        lod="off",
        side="double",
        cast_shadow=False,
    )


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
        self._painted: tuple[int, int] = (0, 0)  # number of characters and index of the driven one

    def draw(self, walk: WalkDocument) -> None:
        """Place all of them."""
        # World frames of every joint of everybody, `(n, J, 3)` and `(n, J, 4)`
        poses = [walker.pose for walker in walk.walkers]
        frames = [joint_frames(p.skeleton, p.root_position[None], p.rotations.wxyz[None]) for p in poses]
        places = np.concatenate([place for place, _ in frames]).astype(np.float32)
        wxyz = np.concatenate([rotation.wxyz for _, rotation in frames]).astype(np.float32)
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
