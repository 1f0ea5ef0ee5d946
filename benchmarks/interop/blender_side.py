"""Runs inside Blender's Python: import a file, write joint world positions of some frames as JSON, export it again.

Usage: python blender_side.py FILE RATE_HZ NUM_FRAMES FRAME[,FRAME...] OUT.json [EXPORT.glb [PICTURE.png]]
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import bpy
from mathutils import Vector


def import_file(path: str, rate_hz: float) -> int:
    """Import a motion file into an empty scene; return the scene frame of its first frame."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    scene = bpy.context.scene
    scene.render.fps = round(rate_hz)
    scene.render.fps_base = round(rate_hz) / rate_hz
    if path.endswith(".bvh"):
        bpy.ops.import_anim.bvh(filepath=path, frame_start=1, use_fps_scale=False, axis_forward="-Z", axis_up="Y")
        return 1
    if path.endswith(".fbx"):
        # The older importer is an add-on of its own code, the newer one is built in
        if os.environ.get("FBX_IMPORTER") == "addon":
            bpy.ops.import_scene.fbx(filepath=path)
        else:
            bpy.ops.wm.fbx_import(filepath=path)
        return 1
    if path.endswith((".usda", ".usd")):
        bpy.ops.wm.usd_import(filepath=path)
        return 0
    bpy.ops.import_scene.gltf(filepath=path)
    return 0


def joint_positions(first: int, frames: list[int]) -> dict[str, list[list[float]]]:
    """World positions of every bone's head, y-up, by bone name."""
    armature = next(item for item in bpy.data.objects if item.type == "ARMATURE")
    found: dict[str, list[list[float]]] = {bone.name: [] for bone in armature.pose.bones}
    for frame in frames:
        bpy.context.scene.frame_set(first + frame)
        for bone in armature.pose.bones:
            x, y, z = armature.matrix_world @ bone.head
            found[bone.name].append([x, z, -y])
    return found


def mesh_vertices(first: int, frames: list[int]) -> list[list[list[float]]]:
    """World positions of the vertices of the largest skinned mesh, y-up, frame by frame."""
    meshes = [item for item in bpy.data.objects if item.type == "MESH" and item.find_armature() is not None]
    if not meshes:
        return []
    largest = max(meshes, key=lambda item: len(item.data.vertices))
    found: list[list[list[float]]] = []
    for frame in frames:
        bpy.context.scene.frame_set(first + frame)
        posed = largest.evaluated_get(bpy.context.evaluated_depsgraph_get())
        places = [posed.matrix_world @ vertex.co for vertex in posed.data.vertices]
        found.append([[x, z, -y] for x, y, z in places])
    return found


def export(path: str, first: int, count: int) -> None:
    """Write the scene as Blender does, with its own bones and frames."""
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = first, first + count - 1
    bpy.ops.export_scene.gltf(filepath=path, export_format="GLB", export_animations=True)


def take_picture(path: str, frame: int) -> None:
    """Render one frame with Cycles on the processor."""
    scene = bpy.context.scene
    scene.frame_set(frame)
    armature = next(item for item in bpy.data.objects if item.type == "ARMATURE")
    centre = armature.matrix_world @ armature.pose.bones[0].head
    camera = bpy.data.objects.new("camera", bpy.data.cameras.new("camera"))
    camera.location = centre + Vector((2.4, -2.4, 0.9))
    camera.rotation_euler = (centre - camera.location).to_track_quat("-Z", "Y").to_euler()
    sun = bpy.data.objects.new("sun", bpy.data.lights.new("sun", "SUN"))
    sun.data.energy = 3.0
    sun.rotation_euler = (0.6, 0.3, 0.2)
    for item in (camera, sun):
        scene.collection.objects.link(item)
    scene.camera = camera
    scene.render.engine = "CYCLES"
    scene.cycles.samples = 16
    scene.render.resolution_x, scene.render.resolution_y = 480, 600
    scene.render.filepath = path
    bpy.ops.render.render(write_still=True)


def main() -> None:
    """Read the arguments, write the positions."""
    path, rate, count, frames, out = sys.argv[1:6]
    wanted = [int(frame) for frame in frames.split(",")]
    first = import_file(path, float(rate))
    found = {
        "blender": bpy.app.version_string,
        "positions": joint_positions(first, wanted),
        "vertices": mesh_vertices(first, [wanted[0], wanted[-1]]) if path.endswith(".fbx") else [],
    }
    Path(out).write_text(json.dumps(found))
    if len(sys.argv) > 6:
        export(sys.argv[6], first, int(count))
    if len(sys.argv) > 7:
        take_picture(sys.argv[7], first + wanted[len(wanted) // 2])


if __name__ == "__main__":
    main()
