"""Blender's side of `fbx_blender.py`: world positions of all bones of an FBX file at times of one take.

Runs inside Blender's Python (bpy): ``python blender_fbx.py REQUEST.json ANSWER.json``. The request names the file, the
importer (``addon``: Blender's own parser in Python; ``native``: its newer one, which is built on ufbx), the take, the
times [s] and the bones.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import bpy


def import_file(path: str, importer: str) -> None:
    """Import into an empty scene; frames stay where the file has them."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    if importer == "native":
        bpy.ops.wm.fbx_import(filepath=path, anim_offset=0.0)
    else:
        bpy.ops.preferences.addon_enable(module="io_scene_fbx")
        bpy.ops.import_scene.fbx(
            filepath=path, anim_offset=0.0, ignore_leaf_bones=False, automatic_bone_orientation=False
        )


def positions(times: list[float]) -> list[dict[str, list[float]]]:
    """World position of the head of each bone, and of each empty and mesh, at times of the file."""
    scene = bpy.context.scene
    rate = scene.render.fps / scene.render.fps_base
    answers: list[dict[str, list[float]]] = []
    for time in times:
        frame = time * rate
        scene.frame_set(int(frame // 1), subframe=frame - frame // 1)
        bpy.context.view_layer.update()
        places: dict[str, list[float]] = {}
        for thing in bpy.data.objects:
            places[thing.name] = list(thing.matrix_world.translation)
            if thing.type == "ARMATURE":
                for bone in thing.pose.bones:
                    places[bone.name] = list((thing.matrix_world @ bone.matrix).translation)
        answers.append(places)
    return answers


def choose_action(take: str) -> None:
    """Give every armature the action of a take, where the importer made several."""
    for thing in bpy.data.objects:
        actions = [action for action in bpy.data.actions if take and action.name.endswith(f"|{take}")]
        if thing.animation_data is not None and len(bpy.data.actions) > 1 and actions:
            chosen = [action for action in actions if action.name.startswith(thing.name)] or actions
            thing.animation_data.action = chosen[0]


def main() -> None:
    """Answer one request."""
    request: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
    import_file(request["path"], request["importer"])
    choose_action(request["take"])
    Path(sys.argv[2]).write_text(json.dumps({"positions": positions(request["times"])}))


main()
