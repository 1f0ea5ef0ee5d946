"""A Motion as glTF 2.0: joints as nodes, a skinned capsule body, one animation ([Khronos2021]_).

Data without a glTF field are stored in ``extras``: rate, contacts, tips, limits, notes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, IntArray
from marey.io.binary import AnyPath
from marey.io.character import Character, load_character
from marey.io.export.takes import as_clips, fit_clips, place_root
from marey.io.gltf.buffers import GLTF_SUFFIXES, INDICES, VERTICES, GltfPack, to_glb, to_gltf
from marey.motion import Motion, find_runs
from marey.skeleton import Capsules, Skeleton, capsule_mesh, capsules


@dataclass(frozen=True, slots=True, eq=False)
class SkinnedBody:
    """Triangles of a rest body and what moves them."""

    positions: FloatArray  # (V, 3) [m] in world, rest pose
    normals: FloatArray  # (V, 3) unit
    faces: IntArray  # (T, 3) vertex numbers, counter-clockwise seen from outside
    joints: IntArray  # (V, 4)
    weights: FloatArray  # (V, 4) rows sum to one
    colours: FloatArray | None = None  # (V, 3) linear RGB; one grey blue without


def build_skinned_body(skeleton: Skeleton, *, segments: int = 12) -> SkinnedBody | None:
    """Return the capsule body of a skeleton, or None where no bone has a length."""
    count = skeleton.num_joints - 1
    if count > 1 and not skeleton.parents[1:].any() and bool(skeleton.tips[1:].any(axis=1).all()):
        # Every joint hangs on the root alone, as markers do: balls, for there are no bones to draw
        radii = 0.5 * np.linalg.norm(skeleton.tips[1:], axis=1)
        body = Capsules(np.arange(1, count + 1), np.zeros((count, 3)), skeleton.tips[1:], radii, radii)
    else:
        body = capsules(skeleton)
    if len(body) == 0:
        return None
    mesh = capsule_mesh(body, segments)
    positions = skeleton.rest_positions()[mesh.joints] + mesh.vertices
    # Each vertex hangs on one joint
    joints, weights = np.zeros((len(positions), 4), dtype=np.int64), np.zeros((len(positions), 4))
    joints[:, 0], weights[:, 0] = mesh.joints, 1.0
    return SkinnedBody(positions, vertex_normals(positions, mesh.faces), mesh.faces, joints, weights)


def vertex_normals(positions: FloatArray, faces: IntArray) -> FloatArray:
    """Unit normals ``(V, 3)``: the mean of the faces around a vertex, weighted by their area."""
    a, b, c = (positions[faces[:, i]] for i in range(3))
    # Twice the area of each face, along its normal
    areas = np.cross(b - a, c - a)
    normals = np.zeros_like(positions)
    for corner in range(3):
        np.add.at(normals, faces[:, corner], areas)
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    return np.where(lengths > 0.0, normals / np.where(lengths > 0.0, lengths, 1.0), [0.0, 1.0, 0.0])


def describe_motion(motion: Motion) -> dict[str, Any]:
    """Return the part of a motion that glTF cannot hold, as plain JSON."""
    skeleton = motion.skeleton
    limits = [
        {
            "joint": limit.joint,
            "order": limit.order,
            "low_rad": [float(x) if np.isfinite(x) else None for x in limit.low_rad],
            "high_rad": [float(x) if np.isfinite(x) else None for x in limit.high_rad],
            "axis_wxyz": [float(x) for x in limit.axis.wxyz],
        }
        for limit in skeleton.limits
    ]
    described: dict[str, Any] = {
        "version": 1,
        "rate_hz": motion.rate_hz,
        "num_frames": motion.num_frames,
        "name": motion.name,
        "skeleton": skeleton.name,
        "tips": {skeleton.names[j]: [float(x) for x in skeleton.tips[j]] for j in np.flatnonzero(skeleton.tips.any(1))},
        "limits": limits,
    }
    if motion.contacts is not None:
        track = motion.contacts
        described["contacts"] = {name: [list(run) for run in find_runs(track.track(name))] for name in track.names}
    return described


MATERIAL: Final = {
    "name": "body",
    "pbrMetallicRoughness": {"baseColorFactor": [0.55, 0.62, 0.72, 1.0], "metallicFactor": 0.0, "roughnessFactor": 0.7},
}


def write_gltf(
    motion: Motion | Sequence[Motion],
    path: AnyPath,
    *,
    body: bool = True,
    onto: Any = None,
    root: str = "hips",
    keep_clips: bool = False,
) -> None:
    """Write a motion as `.glb`, or as a self-contained `.gltf` where the name ends so.

    Joints become nodes whose rest pose is the skeleton's; a capsule body is skinned to them. Values are float32, as
    glTF asks, so reading the file back moves no joint of a body near the origin by more than a micrometre. Frame
    rate, contacts, tips and limits travel exactly in ``extras``.

    Args:
        motion: what to write; several motions on one skeleton become several animations.
        path: a `.glb` or `.gltf` file.
        body: add the capsule body; without it the file holds the bare joints.
        onto: a character, or its file. A `.glb` or `.gltf` file is kept, mesh, skin, materials and names, and moves as
            the motion says; of another format the mesh, its skin and its colours are written. The motion must be on the
            character's skeleton.
        root: where the root motion goes: ``"hips"``, ``"bone"`` or ``"in-place"``.
        keep_clips: with ``onto``, keep the animations that the character's file has, behind the new ones.
    """
    file = getattr(onto, "path", onto)
    if onto is not None and Path(file).suffix.lower() in GLTF_SUFFIXES:
        from marey.io.gltf.onto import write_onto

        write_onto(motion, path, file, root=root, keep_clips=keep_clips)
        return
    clips = as_clips(motion)
    skin = build_skinned_body(clips[0].skeleton) if body else None
    if onto is not None:
        character = onto if isinstance(onto, Character) else load_character(onto)
        clips = fit_clips(clips, character.skeleton, character.name)
        normals = vertex_normals(character.vertices, character.triangles)
        skin = SkinnedBody(
            character.vertices, normals, character.triangles, character.joints, character.weights, character.colours
        )
    moved = [place_root(clip, root) for clip in clips]
    if skin is not None:
        # A root bone comes before the joints of the body
        skin = replace(skin, joints=skin.joints + moved[0].skeleton.num_joints - clips[0].skeleton.num_joints)
    description, data = build_gltf(moved, skin)
    as_text = Path(path).suffix.lower() == ".gltf"
    Path(path).write_bytes(to_gltf(description, data) if as_text else to_glb(description, data))


def build_gltf(clips: Sequence[Motion], skin: SkinnedBody | None) -> tuple[dict[str, Any], bytes]:
    """Return the description and the buffer of :func:`write_gltf`."""
    pack = GltfPack()
    motion, skeleton = clips[0], clips[0].skeleton
    nodes: list[dict[str, Any]] = []
    for joint, name in enumerate(skeleton.names):
        node: dict[str, Any] = {"name": name, "translation": [float(x) for x in skeleton.offsets[joint]]}
        children = [int(child) for child in skeleton.children(joint)]
        nodes.append(node | {"children": children} if children else node)
    root: dict[str, Any] = {
        "asset": {"version": "2.0", "generator": "marey"},
        "extras": {"marey": describe_motion(motion)},
        "scene": 0,
        "scenes": [{"name": motion.name, "nodes": [0] if skin is None else [0, len(nodes)]}],
        "animations": [_animation(clip, pack) for clip in clips],
    }
    if skin is not None:
        nodes.append({"name": f"{skeleton.name} body", "mesh": 0, "skin": 0})
        # Places without weight name joint 0, as glTF asks
        joints = np.where(skin.weights > 0.0, skin.joints, 0).astype(np.uint16)
        attributes = {
            "POSITION": pack.add(skin.positions.astype(np.float32), target=VERTICES, bounds=True),
            "NORMAL": pack.add(skin.normals.astype(np.float32), target=VERTICES),
            "JOINTS_0": pack.add(joints, target=VERTICES),
            "WEIGHTS_0": pack.add(skin.weights.astype(np.float32), target=VERTICES),
        }
        material: dict[str, Any] = MATERIAL
        if skin.colours is not None:
            attributes["COLOR_0"] = pack.add(skin.colours.astype(np.float32), target=VERTICES)
            material = {"name": "body", "pbrMetallicRoughness": {"metallicFactor": 0.0, "roughnessFactor": 0.7}}
        indices = pack.add(skin.faces.reshape(-1).astype(np.uint32), target=INDICES)
        primitive = {"attributes": attributes, "indices": indices, "material": 0}
        # Inverse bind matrices, columns first: frames of the rest pose are aligned with the world
        binds = np.tile(np.eye(4), (skeleton.num_joints, 1, 1))
        binds[:, 3, :3] = -skeleton.rest_positions()
        bones = {"joints": list(range(skeleton.num_joints)), "skeleton": 0}
        root |= {
            "meshes": [{"name": f"{skeleton.name} body", "primitives": [primitive]}],
            "materials": [material],
            "skins": [bones | {"inverseBindMatrices": pack.add(binds.astype(np.float32))}],
        }
    root |= {"nodes": nodes, "accessors": pack.accessors, "bufferViews": pack.views}
    return root, pack.data()


def _animation(motion: Motion, pack: GltfPack) -> dict[str, Any]:
    times = pack.add(motion.times().astype(np.float32), bounds=True)
    channels: list[dict[str, Any]] = []
    samplers: list[dict[str, Any]] = []

    def add(joint: int, path: str, values: NDArray[np.float32]) -> None:
        samplers.append({"input": times, "interpolation": "LINEAR", "output": pack.add(values)})
        channels.append({"sampler": len(samplers) - 1, "target": {"node": joint, "path": path}})

    # Neighbouring frames lie on the same side, q or -q, as linear interpolation needs
    xyzw = motion.rotations.continuous().wxyz[..., [1, 2, 3, 0]].astype(np.float32)
    add(0, "translation", motion.root_positions.astype(np.float32))
    for joint in range(motion.skeleton.num_joints):
        add(joint, "rotation", xyzw[:, joint])
        if motion.translations is not None and joint:
            add(joint, "translation", motion.translations[:, joint].astype(np.float32))
    return {"name": motion.name, "channels": channels, "samplers": samplers}
