"""Soft bodies in the scene: a surface that deforms, its bones, goals of a hand, and the figure they belong to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import viser

from marey.base import FloatArray
from marey.muscle import make_hanging_pose
from marey.skeleton import HUMAN, capsule_mesh, capsules
from marey.studio._gizmos import DragHandles
from marey.studio._muscle import MuscleDocument
from marey.studio._muscle_acts import StageAct
from marey.studio._muscle_mesh import ROUND, SoftSurface, make_rods
from marey.studio._muscle_reach import SIDE
from marey.studio._stage import BODY_COLOUR, joint_part

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
        self._draw_act(act)
        if lab.is_reaching and not self._figure:
            self._figure = _add_figure(self._scene)
        for part in self._figure:
            if part.visible != lab.is_reaching:
                part.visible = lab.is_reaching
        self._show_goals(lab.marks)

    def _draw_act(self, act: StageAct) -> None:
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


def _add_figure(scene: viser.SceneApi) -> list[viser.MeshHandle]:
    """The standing figure without the arm that is soft."""
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
    return nodes
