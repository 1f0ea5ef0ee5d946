"""The clip in the scene: ground, body, contact marks, trail, and forces.

Forces are an arrow at each foot and hand, the centre of pressure and the path of the centre of mass.
"""

from __future__ import annotations

import numpy as np
import viser

from marey.base import IntArray
from marey.dynamics import ValidityReport
from marey.skeleton import BodyMesh, Pose
from marey.studio.document.page import TRAIL_POINTS, ClipFrames, Float32, PageDocument

BODY_COLOUR = {"left": (214, 126, 96), "right": (92, 132, 190), "": (196, 190, 182)}
CONTACT_COLOUR = (245, 170, 30)
TRAIL_COLOUR = (120, 150, 190)
DISC_RADIUS_M = 0.055
GROUND_M = 60.0


def add_ground(scene: viser.SceneApi, name: str) -> viser.GridHandle:
    """Add a level ground with cells of half a metre."""
    return scene.add_grid(
        name,
        width=GROUND_M,
        height=GROUND_M,
        plane="xz",
        cell_size=0.5,
        section_size=1.0,
        cell_color=(214, 216, 220),
        section_color=(190, 194, 200),
        plane_color=(238, 240, 243),
        plane_opacity=1.0,
        shadow_opacity=0.35,
        fade_distance=30.0,
    )


class ClipStage:
    """Owns its scene nodes; :meth:`load` replaces the body, :meth:`draw` moves it."""

    def __init__(self, scene: viser.SceneApi) -> None:
        self._scene = scene
        self._film: ClipFrames | None = None
        self._bones: dict[int, viser.BatchedMeshHandle] = {}
        self._marks: viser.BatchedMeshHandle | None = None
        self._trail: viser.LineSegmentsHandle | None = None
        self._world = scene.add_frame("/stage", show_axes=False)
        self._clip = scene.add_frame("/stage/clip", show_axes=False)
        self._ground = add_ground(scene, "/stage/ground")

    def load(self, film: ClipFrames) -> None:
        """Put another body on the stage."""
        self.clear()
        self._film = film
        for joint in np.unique(film.body.joints):
            joint_bone = int(joint)
            vertices, faces = joint_part(film.body, joint_bone)
            name = film.motion.skeleton.names[joint_bone]
            self._bones[int(joint)] = self._scene.add_batched_meshes_simple(
                f"/stage/clip/body/{joint_bone}",
                vertices=vertices,
                faces=faces,
                batched_wxyzs=film.wxyz[0, joint_bone][None],
                batched_positions=film.positions[0, joint_bone][None],
                batched_colors=BODY_COLOUR[joint_side(name)],
                lod="off",
            )
        self._marks = self._add_marks(film)
        trail = film.trail()
        if len(trail) > 1:
            pairs = np.stack([trail[:-1], trail[1:]], axis=1)
            self._trail = self._scene.add_line_segments(
                "/stage/clip/trail", points=pairs, colors=TRAIL_COLOUR, thickness=0.012
            )

    def draw(self, document: PageDocument, pose: Pose | None = None) -> None:
        """Show the frame under the playhead, or a pose of the same character instead."""
        film, frame = document.film, document.index
        if film is None or film is not self._film:
            return
        positions, wxyz = film.positions[frame], film.wxyz[frame]
        if pose is not None:
            positions = pose.joint_positions().astype(np.float32)
            wxyz = pose.joint_rotations().wxyz.astype(np.float32)
        for joint, bone in self._bones.items():
            bone.visible = document.shown["Body"]
            bone.batched_wxyzs = wxyz[joint][None]
            bone.batched_positions = positions[joint][None]
        self._draw_marks(film, frame, is_shown=document.shown["Contacts"] and pose is None)
        if self._trail is not None:
            self._trail.visible = document.shown["Trail"]
        self._clip.visible = True
        root = film.positions[frame, 0]
        self._follow((float(root[0]), float(root[2])) if document.shown["Follow"] else (0.0, 0.0))

    def hide_clip(self, follow: tuple[float, float], heading_rad: float) -> None:
        """Hide the clip; keep a place (x, z) [m] of the world in the middle and a heading pointing away."""
        self._clip.visible = False
        self._follow(follow, heading_rad)

    def show_ground(self, on: bool) -> None:
        """Show the level ground, or leave it to a tilted one."""
        self._ground.visible = on

    def _follow(self, place: tuple[float, float], heading_rad: float = 0.0) -> None:
        """Move the world under the camera; the ground follows by whole metres, so that it appears infinite."""
        (x, z), cos, sin = place, np.cos(heading_rad), np.sin(heading_rad)
        self._world.wxyz = (float(np.cos(0.5 * heading_rad)), 0.0, float(-np.sin(0.5 * heading_rad)), 0.0)
        self._world.position = (float(sin * z - cos * x), 0.0, float(-sin * x - cos * z))
        self._ground.position = (float(round(x)), 0.0, float(round(z)))

    def _draw_marks(self, film: ClipFrames, frame: int, *, is_shown: bool) -> None:
        if self._marks is None:
            return
        self._marks.visible = is_shown
        self._marks.batched_positions = _on_ground(film.contact_points[frame])
        self._marks.batched_scales = np.where(film.contacts[frame], 1.0, 1e-4).astype(np.float32)

    def clear(self) -> None:
        """Free everything but the ground."""
        for handle in (*self._bones.values(), self._marks, self._trail):
            if handle is not None:
                handle.remove()
        self._bones, self._marks, self._trail, self._film = {}, None, None, None

    def _add_marks(self, film: ClipFrames) -> viser.BatchedMeshHandle | None:
        count = len(film.contact_names)
        if count == 0:
            return None
        vertices, faces = disc_mesh()
        return self._scene.add_batched_meshes_simple(
            "/stage/clip/contacts",
            vertices=vertices,
            faces=faces,
            batched_wxyzs=np.tile(np.array([1.0, 0.0, 0.0, 0.0], dtype=np.float32), (count, 1)),
            batched_positions=_on_ground(film.contact_points[0]),
            batched_scales=np.ones(count, dtype=np.float32),
            batched_colors=CONTACT_COLOUR,
            lod="off",
            cast_shadow=False,
        )


def joint_part(body: BodyMesh, joint: int) -> tuple[Float32, IntArray]:
    """Vertices and faces of what one joint carries, renumbered from zero."""
    mine = body.joints == joint
    number = np.cumsum(mine) - 1
    faces = body.faces[mine[body.faces].all(axis=1)]
    return body.vertices[mine].astype(np.float32), number[faces]


def _on_ground(points: Float32) -> Float32:
    flat = points.copy()
    flat[:, 1] = np.maximum(flat[:, 1], 0.0) + 0.006
    return flat


def disc_mesh(corners: int = 20) -> tuple[Float32, IntArray]:
    """A round mark on the ground."""
    angle = np.linspace(0.0, 2.0 * np.pi, corners, endpoint=False)
    rim = DISC_RADIUS_M * np.stack([np.sin(angle), np.zeros(corners), np.cos(angle)], axis=1)
    vertices = np.concatenate([[[0.0, 0.0, 0.0]], rim]).astype(np.float32)
    ring = np.arange(corners)
    faces = np.stack([np.zeros(corners, dtype=np.int64), 1 + ring, 1 + (ring + 1) % corners], axis=1)
    return vertices, faces


def joint_side(name: str) -> str:
    """Left or right by the joint's name, for colour only."""
    low = name.lower()
    if "left" in low or low.startswith(("l_", "lh", "lt", "lf")):
        return "left"
    return "right" if "right" in low or low.startswith(("r_", "rh", "rt", "rf")) else ""


METRES_PER_WEIGHT = 0.8  # length of an arrow that carries the body
GIVEN_COLOUR, PRESSURE_COLOUR, MASS_COLOUR = (40, 150, 90), (180, 60, 160), (150, 60, 60)
LEAST_FORCE = 0.02  # [body weights] shorter arrows are not drawn
HIDDEN_M = -1e3  # where an arrow waits that has nothing to show


class ForceArrows:
    """Owns its scene nodes; :meth:`load` replaces them, :meth:`draw` moves them with the playhead."""

    def __init__(self, scene: viser.SceneApi) -> None:
        self._scene = scene
        self._report: ValidityReport | None = None
        self._arrows: viser.ArrowsHandle | None = None
        self._pressure: viser.IcosphereHandle | None = None
        self._mass: viser.IcosphereHandle | None = None
        self._path: viser.LineSegmentsHandle | None = None

    def draw(self, document: PageDocument) -> None:
        """Show the forces of the frame under the playhead."""
        if document.report is not self._report:
            self._load(document.report)
        report, frame = self._report, document.index
        if report is None or self._arrows is None or self._pressure is None or self._mass is None:
            return
        on = document.shown["Forces"]
        self._arrows.points = _arrows(report, frame)
        self._pressure.position = tuple(report.centre_of_pressure[frame])
        self._mass.position = tuple(report.dynamics.com[frame])
        self._arrows.visible = on
        self._pressure.visible = on and bool(report.supports.active[frame].any())
        for handle in (self._mass, self._path):
            if handle is not None:
                handle.visible = document.shown["Mass"]

    def _load(self, report: ValidityReport | None) -> None:
        for handle in (self._arrows, self._pressure, self._mass, self._path):
            if handle is not None:
                handle.remove()
        self._arrows = self._pressure = self._mass = self._path = None
        self._report = report
        if report is None:
            return
        scene = self._scene
        self._arrows = scene.add_arrows(
            "/stage/clip/forces",
            _arrows(report, 0),
            GIVEN_COLOUR,
            shaft_radius=0.012,
            head_radius=0.03,
            head_length=0.07,
        )
        self._pressure = scene.add_icosphere("/stage/clip/pressure", radius=0.028, color=PRESSURE_COLOUR)
        self._mass = scene.add_icosphere("/stage/clip/mass", radius=0.035, color=MASS_COLOUR)
        path = report.dynamics.com[:: max(1, report.num_frames // TRAIL_POINTS)].astype(np.float32)
        if len(path) > 1:
            pairs = np.stack([path[:-1], path[1:]], axis=1)
            self._path = scene.add_line_segments(
                "/stage/clip/mass_path", points=pairs, colors=MASS_COLOUR, thickness=0.01
            )


def _arrows(report: ValidityReport, frame: int) -> Float32:
    """Begin and end of the arrow of each limb ``(L, 2, 3)`` [m]; those that carry nothing lie out of sight."""
    forces = report.split.forces[frame] / report.dynamics.body.weight_n
    places = report.split.places[frame]
    ends = np.stack([places, places + METRES_PER_WEIGHT * forces], axis=1)
    idle = np.linalg.norm(forces, axis=-1) < LEAST_FORCE
    ends[idle] = [[0.0, HIDDEN_M, 0.0], [0.0, HIDDEN_M + 0.1, 0.0]]
    return ends.astype(np.float32)
