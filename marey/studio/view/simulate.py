"""The live simulation in the scene: a figure that can be grabbed, forces, support, balls, and a ground that tilts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import viser

from marey.base import FloatArray, IntArray
from marey.simulate import Ball
from marey.skeleton import Skeleton, capsule_mesh, capsules, joint_frames
from marey.studio.document.page import Float32
from marey.studio.document.simulate.arena import MAX_BALLS, SimulationDocument
from marey.studio.document.simulate.recording import LEAST_N, SupportState
from marey.studio.view.clip import BODY_COLOUR, add_ground, joint_part, joint_side

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


ROOT: Final = "/stage/simulate"
GrabListener = Callable[[str, int, FloatArray], None]  # phase of a drag, joint, place [m] in world
GROUND_COLOUR, OUTER_COLOUR, HAND_COLOUR = (40, 150, 90), (205, 50, 50), (150, 40, 160)
MASS_COLOUR, SUPPORT_COLOUR, BALL_COLOUR = (150, 60, 60), (70, 150, 110), (230, 140, 40)
SPHERES: Final = (MASS_COLOUR, MASS_COLOUR, HAND_COLOUR, *[BALL_COLOUR] * MAX_BALLS)
MARK_M: Final = (0.035, 0.022, 0.03)  # radii of centre of mass, the point under it, and hand


class SimulationStage:
    """Owns its scene nodes; :meth:`draw` moves them."""

    def __init__(self, scene: viser.SceneApi, grabbed: GrabListener) -> None:
        self._scene, self._grabbed = scene, grabbed
        self._root = scene.add_frame(ROOT, show_axes=False, visible=False)
        self._body: FigureNodes | None = None
        self._marks: SimulationMarks | None = None
        self._middle = np.zeros(3)  # of the world, under the camera
        self._held = -1

    def hide(self) -> None:
        """Leave the stage to the clip."""
        self._root.visible = False

    def draw(self, arena: SimulationDocument, middle: tuple[float, float]) -> None:
        """Show the figure and what acts on it; ``middle`` (x, z) [m] of the world is under the camera."""
        self._root.visible = True
        self._middle = np.array([middle[0], 0.0, middle[1]])
        if self._body is None or self._body.skeleton is not arena.clip.skeleton:
            if self._body is not None:
                self._body.remove()
            self._body = FigureNodes(self._scene, arena.clip.skeleton, self._drag)
        self._marks = SimulationMarks(self._scene) if self._marks is None else self._marks
        self._body.draw(arena)
        self._marks.draw(arena)

    def _drag(self, joint: int, phase: str, place: tuple[float, float, float]) -> None:
        """From the scene's places to the world's."""
        self._grabbed(phase, joint, np.array(place, dtype=np.float64) + self._middle)


class FigureNodes:
    """One node a body part; each can be grabbed with the mouse."""

    def __init__(
        self,
        scene: viser.SceneApi,
        skeleton: Skeleton,
        drag: Callable[[int, str, tuple[float, float, float]], None],
    ) -> None:
        self.skeleton = skeleton
        mesh = capsule_mesh(capsules(skeleton))
        self._nodes: dict[int, viser.BatchedMeshHandle] = {}
        joints: list[int] = np.unique(mesh.joints).tolist()
        for joint in joints:
            vertices, faces = joint_part(mesh, joint)
            node = scene.add_batched_meshes_simple(
                f"{ROOT}/body/{joint}",
                vertices=vertices,
                faces=faces,
                batched_wxyzs=np.array([[1.0, 0.0, 0.0, 0.0]], dtype=np.float32),
                batched_positions=np.zeros((1, 3), dtype=np.float32),
                batched_colors=BODY_COLOUR[joint_side(skeleton.names[joint])],
                lod="off",
            )
            node.on_drag("left")(_drag_handler(joint, drag))
            self._nodes[joint] = node

    def draw(self, arena: SimulationDocument) -> None:
        """Place all parts."""
        pose = arena.pose
        places, turns = joint_frames(pose.skeleton, pose.root_position[None], pose.rotations.wxyz[None])
        positions, wxyz = places.astype(np.float32), turns.wxyz.astype(np.float32)
        for joint, node in self._nodes.items():
            node.batched_positions = positions[:, joint]
            node.batched_wxyzs = wxyz[:, joint]

    def remove(self) -> None:
        """Make room for another body."""
        for node in self._nodes.values():
            node.remove()


def _drag_handler(joint: int, drag: Callable[[int, str, tuple[float, float, float]], None]) -> Callable[[Any], Any]:
    """A handler that keeps the order of events; it only leaves a note."""

    async def handle(event: Any) -> None:
        drag(joint, event.phase, event.start_position if event.phase == "start" else event.end_position)

    return handle


class SimulationMarks:
    """Arrows, support, centre of mass, hand, balls and the tilted ground."""

    def __init__(self, scene: viser.SceneApi) -> None:
        self._ground_forces = ForceArrowMarks(scene, f"{ROOT}/ground_forces", GROUND_COLOUR)
        self._outer_forces = ForceArrowMarks(scene, f"{ROOT}/outer_forces", OUTER_COLOUR)
        self._support = PolygonMark(scene, f"{ROOT}/support", SUPPORT_COLOUR)
        self._plumb = LineMark(scene, f"{ROOT}/plumb", MASS_COLOUR)
        self._string = LineMark(scene, f"{ROOT}/string", HAND_COLOUR)
        self._spheres = SphereMarks(scene, f"{ROOT}/spheres", SPHERES)
        ground = add_ground(scene, f"{ROOT}/slope")
        ground.visible = False
        self._slope = ground

    def draw(self, arena: SimulationDocument) -> None:
        """Follow the simulation."""
        stand = arena.standing()
        weight_n, on = arena.body.mass_kg * 9.81, arena.shown["Forces"]
        self._ground_forces.draw(*ground_forces(arena), weight_n, on=on)
        self._outer_forces.draw(*outer_forces(arena), weight_n, on=on)
        self._support.draw(stand.corners, on=arena.shown["Support"])
        self._plumb.draw(stand.com, stand.foot, on=arena.shown["Centre of mass"])
        self._draw_string(arena)
        self._spheres.draw(*spheres(arena, stand))
        self._slope.visible = arena.wish.slope_deg != 0.0
        half = -0.5 * np.radians(arena.wish.slope_deg)
        self._slope.wxyz = (float(np.cos(half)), float(np.sin(half)), 0.0, 0.0)
        self._slope.position = arena.pivot

    def _draw_string(self, arena: SimulationDocument) -> None:
        hand = arena.hand
        if hand is None:
            self._string.hide()
            return
        self._string.draw(hand.place(arena.simulator.mechanics()), hand.target, on=True)


def spheres(arena: SimulationDocument, stand: SupportState) -> tuple[list[FloatArray | None], list[float]]:
    """Places [m] and radii [m] of the centre of mass, the point under it, the hand and all balls; None hides one."""
    mass, foot = (stand.com, stand.foot) if arena.shown["Centre of mass"] else (None, None)
    hand = None if arena.hand is None else arena.hand.target
    balls: list[Ball | None] = [*arena.balls, *[None] * (MAX_BALLS - len(arena.balls))]
    places = [mass, foot, hand, *(None if ball is None else ball.place for ball in balls)]
    return places, [*MARK_M, *(0.1 if ball is None else ball.radius_m for ball in balls)]


def ground_forces(arena: SimulationDocument) -> tuple[FloatArray, FloatArray]:
    """Places ``(n, 3)`` [m] and forces [N] of the ground on the figure, in the last step."""
    contacts = arena.simulator.contacts
    if contacts is None:
        return np.zeros((0, 3)), np.zeros((0, 3))
    strong = np.linalg.norm(contacts.forces, axis=1) > LEAST_N
    return contacts.places[strong], contacts.forces[strong]


def outer_forces(arena: SimulationDocument) -> tuple[FloatArray, FloatArray]:
    """Places ``(n, 3)`` [m] and forces [N] of hands, external forces and pushes, which stay visible a little longer."""
    here, names = arena.simulator.mechanics(), arena.clip.skeleton.names
    found = [(here.point(names.index(f.joint), f.offset_m), f.force_n) for f in arena.visible_forces()]
    found += arena.will.outer()
    strong = [(place, force) for place, force in found if np.linalg.norm(force) > LEAST_N]
    return np.array([p for p, _ in strong]).reshape(-1, 3), np.array([f for _, f in strong]).reshape(-1, 3)
