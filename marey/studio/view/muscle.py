"""Soft bodies in the scene: surfaces that deform and change colour, bones, goals, the muscles of a whole body.

The meshes of the page have one colour each. So the surface is drawn once in the colour of rest, and then in thin coats
of red and blue where it works: each coat covers what is at least so active, cut along the line where it begins. Coats
lie over each other like paint.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import viser
from numpy.typing import NDArray

from marey.base import FloatArray
from marey.muscle import MuscleTrack, colour_activations, make_hanging_pose, make_muscle_solids
from marey.picture import CapsuleBatch, Palette, body_solids
from marey.skeleton import HUMAN, capsule_mesh, capsules
from marey.studio.document.muscle.goals import SIDE
from marey.studio.document.muscle.lab import MuscleDocument
from marey.studio.document.muscle.scenes import SurfaceState, shade_colours
from marey.studio.document.page import Float32
from marey.studio.view.clip import BODY_COLOUR, joint_part
from marey.studio.view.widgets import DragHandles

RED_COATS: Final = 8
BLUE_COATS: Final = 4
FULL_SHADE: Final = 0.94  # [-] covering of all coats together
COAT_THICKNESS_M: Final = 1.5e-4  # [-] of a coat, over the size of the body
ROD_SEGMENTS: Final = 8  # corners of a rod
OPEN: Final = (
    (0, 0.0, 1.0),
    (1, 0.0, 1.0),
)  # rings of a rod: at which end, and how far beyond and how wide in its radii
ROUND: Final = ((0, -1.0, 0.02), (0, -0.7, 0.7), *OPEN, (1, 0.7, 0.7), (1, 1.0, 0.02))
Rings = tuple[tuple[int, float, float], ...]
Faces = NDArray[np.int32]
Colour = tuple[int, int, int]
HIDDEN_VERTICES: Final = np.zeros((3, 3), dtype=np.float32)
HIDDEN_FACE: Final = np.array([[0, 1, 2]], dtype=np.uint32)


class SoftSurface:
    """Owns its scene nodes; :meth:`draw` moves and paints them."""

    def __init__(self, scene: viser.SceneApi, name: str, faces: Faces, look: SurfaceState) -> None:
        passive, red, blue = (page_colour(colour) for colour in shade_colours())
        self.faces = faces
        self._skin = scene.add_mesh_simple(
            f"{name}/skin", look.surface.astype(np.float32), faces.astype(np.uint32), color=passive, side="double"
        )
        self._red = [_add_coat(scene, f"{name}/red{k}", red, RED_COATS) for k in range(RED_COATS)]
        self._blue = [_add_coat(scene, f"{name}/blue{k}", blue, BLUE_COATS) for k in range(BLUE_COATS)]
        self.draw(look)

    def draw(self, look: SurfaceState) -> None:
        """Show the surface as it is now."""
        self._skin.vertices = look.surface.astype(np.float32)
        lift = (
            COAT_THICKNESS_M
            * float(np.linalg.norm(np.ptp(look.surface, axis=0)))
            * outward_normals(look.surface, self.faces)
        )
        for nodes, shares in ((self._red, look.red), (self._blue, look.blue)):
            for k, node in enumerate(nodes):
                level = (k + 0.5) / len(nodes)
                _update_coat(node, *cut_at_level(look.surface + (k + 1) * lift, self.faces, shares, level))

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


def cut_at_level(vertices: FloatArray, faces: Faces, shares: FloatArray, level: float) -> tuple[Float32, Faces]:
    """The part of a surface whose share is at least the level, cut where it is equal: its vertices and triangles."""
    inside = (shares >= level)[faces]
    count = inside.sum(axis=1)
    if not count.any():
        return np.zeros((0, 3), dtype=np.float32), faces[:0]
    one, two = _rotate_corners(faces, inside, count == 1), _rotate_corners(faces, ~inside, count == 2)
    edges = np.concatenate([one[:, [0, 1]], one[:, [0, 2]], two[:, [0, 1]], two[:, [0, 2]]])
    keys = edges.min(axis=1) * np.int64(len(vertices)) + edges.max(axis=1)
    unique, numbers = np.unique(keys, return_inverse=True)
    ab, ac, qb, qc = np.split(numbers.ravel() + len(vertices), np.cumsum([len(one), len(one), len(two)]))
    cut = np.concatenate(
        [
            faces[count == 3],
            np.stack([one[:, 0], ab, ac], axis=1),
            np.stack([qb, two[:, 1], two[:, 2]], axis=1),
            np.stack([qb, two[:, 2], qc], axis=1),
        ]
    )
    i, j = np.divmod(unique, len(vertices))
    t = ((level - shares[i]) / np.where(shares[i] == shares[j], 1.0, shares[j] - shares[i]))[:, None]
    points = np.concatenate([vertices, vertices[i] + t * (vertices[j] - vertices[i])])
    # Only the vertices that some triangle uses, and the triangles renumbered
    vertices_mesh = points.astype(np.float32)
    faces_mesh = cut.astype(np.int32)
    used = np.zeros(len(vertices_mesh), dtype=np.bool_)
    used[faces_mesh.ravel()] = True
    numbers_mesh = np.cumsum(used, dtype=np.int32) - 1
    return vertices_mesh[used], numbers_mesh[faces_mesh].astype(np.int32)


def _rotate_corners(faces: Faces, odd: NDArray[np.bool_], picked: NDArray[np.bool_]) -> Faces:
    """Picked triangles, turned so that the odd corner comes first."""
    first = np.argmax(odd[picked], axis=1)
    return np.take_along_axis(faces[picked], (first[:, None] + np.arange(3)) % 3, axis=1)


def outward_normals(vertices: FloatArray, faces: Faces) -> FloatArray:
    """Unit normals ``(N, 3)``: means of the faces around, by area."""
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    normals = np.cross(b - a, c - a)
    corner, count = faces.ravel(), len(vertices)
    sums = np.stack([np.bincount(corner, np.repeat(normals[:, k], 3), count) for k in range(3)], axis=1)
    return sums / np.maximum(np.linalg.norm(sums, axis=1), 1e-12)[:, None]


def make_rods(ends: FloatArray, radii: FloatArray, rings: Rings) -> tuple[Float32, Faces]:
    """Tapered rods between ``ends`` ``(n, 2, 3)`` [m] with ``radii`` ``(n, 2)``: vertices and outward triangles."""
    axis = ends[:, 1] - ends[:, 0]
    axis = axis / np.maximum(np.linalg.norm(axis, axis=1), 1e-12)[:, None]
    side = np.cross(axis, np.eye(3)[np.argmin(np.abs(axis), axis=1)])
    side /= np.maximum(np.linalg.norm(side, axis=1), 1e-12)[:, None]
    angle = 2.0 * np.pi * np.arange(ROD_SEGMENTS) / ROD_SEGMENTS
    circle = np.cos(angle)[:, None] * side[:, None] + np.sin(angle)[:, None] * np.cross(axis, side)[:, None]
    end, beyond, wide = (np.array(column) for column in zip(*rings, strict=True))
    at, size = ends[:, end.astype(np.int64)], radii[:, end.astype(np.int64)]  # (n, rings, 3), (n, rings)
    middles = at + (size * beyond)[..., None] * axis[:, None]
    vertices = middles[:, :, None] + (size * wide)[..., None, None] * circle[:, None]
    i, j = np.arange(ROD_SEGMENTS), (np.arange(ROD_SEGMENTS) + 1) % ROD_SEGMENTS
    band = np.concatenate(
        [np.stack([i, j, j + ROD_SEGMENTS], axis=1), np.stack([i, j + ROD_SEGMENTS, i + ROD_SEGMENTS], axis=1)]
    )
    one = (band[None] + ROD_SEGMENTS * np.arange(len(rings) - 1)[:, None, None]).reshape(-1, 3)
    faces = one[None] + ROD_SEGMENTS * len(rings) * np.arange(len(ends))[:, None, None]
    return vertices.reshape(-1, 3).astype(np.float32), faces.reshape(-1, 3).astype(np.int32)


def _add_coat(scene: viser.SceneApi, name: str, colour: Colour, count: int) -> viser.MeshHandle:
    return scene.add_mesh_simple(
        name,
        HIDDEN_VERTICES,
        HIDDEN_FACE,
        color=colour,
        opacity=1.0 - (1.0 - FULL_SHADE) ** (1.0 / count),
        side="double",
        cast_shadow=False,
        receive_shadow=False,
        visible=False,
    )


def _update_coat(node: viser.MeshHandle, vertices: Float32, faces: Faces) -> None:
    if len(faces):
        node.vertices, node.faces = vertices, faces.astype(np.uint32)
    if node.visible != bool(len(faces)):
        node.visible = bool(len(faces))


ROOT: Final = "/stage/muscle"
BONE_COLOUR: Final = (239, 231, 211)
GoalListener = Callable[[str, FloatArray], None]  # goal, place [m]


class MuscleStage:
    """Owns its scene nodes; :meth:`draw` moves them."""

    def __init__(self, scene: viser.SceneApi, moved: GoalListener) -> None:
        self._scene = scene
        self._root = scene.add_frame(ROOT, show_axes=False, visible=False)
        self._surface: SoftSurface | None = None
        self._bones: BoneMesh | None = None
        self._figure: list[viser.MeshHandle] = []
        self._gizmos = DragHandles(scene, lambda name, place, _: moved(name, place), lambda: None)
        self._marks: tuple[str, ...] = ()

    def hide(self) -> None:
        """Leave the stage to the clip."""
        if self._root.visible:
            self._root.visible = False
            self._show_goals({})

    def draw(self, lab: MuscleDocument) -> None:
        """Show what the lab has."""
        act = lab.act
        if act is None:
            return
        self._root.visible = True
        look = act.look()
        if self._surface is None or self._surface.faces is not act.faces:
            if self._surface is not None:
                self._surface.remove()
            self._surface = SoftSurface(self._scene, f"{ROOT}/body", act.faces, look)
        else:
            self._surface.draw(look)
        if self._bones is None or self._bones.radii is not act.radii:
            if self._bones is not None:
                self._bones.remove()
            self._bones = BoneMesh(self._scene, act.radii, look.bones)
        self._bones.draw(look.bones)
        if lab.is_reaching and not self._figure:
            # The standing figure without the arm that is soft
            scene = self._scene
            pose, mesh = make_hanging_pose(), capsule_mesh(capsules(HUMAN))
            places, turns = pose.joint_positions(), pose.joint_rotations()
            soft = {f"{SIDE}_{joint}" for joint in ("shoulder", "elbow", "wrist")}
            nodes: list[viser.MeshHandle] = []
            for joint in np.unique(mesh.joints).tolist():
                if HUMAN.names[joint] in soft:
                    continue
                vertices, faces = joint_part(mesh, joint)
                node = scene.add_mesh_simple(f"{ROOT}/figure/{joint}", vertices, faces, color=BODY_COLOUR[""])
                node.position, node.wxyz = places[joint], turns.wxyz[joint]
                nodes.append(node)
            self._figure = nodes
        for part in self._figure:
            if part.visible != lab.is_reaching:
                part.visible = lab.is_reaching
        self._show_goals(lab.marks)

    def _show_goals(self, marks: dict[str, FloatArray]) -> None:
        if tuple(marks) != self._marks:
            self._gizmos.clear()
            self._marks = tuple(marks)
        self._gizmos.show(marks)


class BoneMesh:
    """All bones in one node."""

    def __init__(self, scene: viser.SceneApi, radii: FloatArray, ends: FloatArray) -> None:
        self.radii = radii
        self._node: viser.MeshHandle | None = None
        if len(radii):
            vertices, faces = make_rods(ends, radii, ROUND)
            self._node = scene.add_mesh_simple(f"{ROOT}/bones", vertices, faces, color=BONE_COLOUR)

    def draw(self, ends: FloatArray) -> None:
        """Place them."""
        if self._node is not None:
            self._node.vertices = make_rods(ends, self.radii, ROUND)[0]

    def remove(self) -> None:
        """Make room for others."""
        if self._node is not None:
            self._node.remove()


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
            picked = level == k
            if picked.any():
                ends = np.stack([solids.starts[picked], solids.ends[picked]], axis=1)
                radii = np.stack([solids.start_radii[picked], solids.end_radii[picked]], axis=1)
                vertices_node, faces_node = make_rods(ends, radii, OPEN)
                node.vertices, node.faces = vertices_node, faces_node.astype(np.uint32)
            if node.visible != bool(picked.any()):
                node.visible = bool(picked.any())
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
