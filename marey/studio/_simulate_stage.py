"""The live simulation in the scene: a figure that can be grabbed, forces, support, balls, and a ground that tilts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import viser

from marey.base import FloatArray
from marey.simulate import Ball
from marey.skeleton import Skeleton, capsule_mesh, capsules, joint_frames
from marey.studio._simulate import MAX_BALLS, SimulationDocument
from marey.studio._simulate_marks import ForceArrowMarks, LineMark, PolygonMark, SphereMarks
from marey.studio._simulate_trace import LEAST_N, SupportState
from marey.studio._stage import BODY_COLOUR, add_ground, joint_part, joint_side

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
        self._slope = _tilted_ground(scene)

    def draw(self, arena: SimulationDocument) -> None:
        """Follow the simulation."""
        stand = arena.standing()
        self._draw_forces(arena)
        self._draw_standing(arena, stand)
        self._draw_string(arena)
        self._spheres.draw(*spheres(arena, stand))
        self._slope.visible = arena.wish.slope_deg != 0.0
        half = -0.5 * np.radians(arena.wish.slope_deg)
        self._slope.wxyz = (float(np.cos(half)), float(np.sin(half)), 0.0, 0.0)
        self._slope.position = arena.pivot

    def _draw_forces(self, arena: SimulationDocument) -> None:
        weight_n, on = arena.body.mass_kg * 9.81, arena.shown["Forces"]
        self._ground_forces.draw(*ground_forces(arena), weight_n, on=on)
        self._outer_forces.draw(*outer_forces(arena), weight_n, on=on)

    def _draw_standing(self, arena: SimulationDocument, stand: SupportState) -> None:
        self._support.draw(stand.corners, on=arena.shown["Support"])
        self._plumb.draw(stand.com, stand.foot, on=arena.shown["Centre of mass"])

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
    """Places ``(n, 3)`` [m] and forces [N] of hands, strings and pushes, which are seen a little longer."""
    here, names = arena.simulator.mechanics(), arena.clip.skeleton.names
    found = [(here.point(names.index(f.joint), f.offset_m), f.force_n) for f in arena.visible_forces()]
    found += arena.will.outer()
    strong = [(place, force) for place, force in found if np.linalg.norm(force) > LEAST_N]
    return np.array([p for p, _ in strong]).reshape(-1, 3), np.array([f for _, f in strong]).reshape(-1, 3)


def _tilted_ground(scene: viser.SceneApi) -> viser.GridHandle:
    ground = add_ground(scene, f"{ROOT}/slope")
    ground.visible = False
    return ground
