"""A Motion as glTF 2.0: joints as nodes, a skinned capsule body, one animation ([Khronos2021]_)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray
from marey.io._bytes import AnyPath
from marey.io._gltf_body import SkinnedBody, build_skinned_body
from marey.io._gltf_container import to_glb, to_gltf
from marey.io._gltf_extras import describe_motion
from marey.io._gltf_pack import INDICES, VERTICES, GltfPack
from marey.motion import Motion
from marey.skeleton import Skeleton

MATERIAL: Final = {
    "name": "body",
    "pbrMetallicRoughness": {"baseColorFactor": [0.55, 0.62, 0.72, 1.0], "metallicFactor": 0.0, "roughnessFactor": 0.7},
}


def write_gltf(motion: Motion, path: AnyPath, *, body: bool = True) -> None:
    """Write a motion as `.glb`, or as a self-contained `.gltf` where the name ends so.

    Joints become nodes whose rest pose is the skeleton's; a capsule body is skinned to them. Values are float32, as
    glTF asks, so reading the file back moves no joint of a body near the origin by more than a micrometre. Frame
    rate, contacts, tips and limits travel exactly in ``extras``.

    Args:
        motion: what to write.
        path: a `.glb` or `.gltf` file.
        body: add the capsule body; without it the file holds the bare joints.
    """
    root, data = build_gltf(motion, body=body)
    as_text = Path(path).suffix.lower() == ".gltf"
    Path(path).write_bytes(to_gltf(root, data) if as_text else to_glb(root, data))


def build_gltf(motion: Motion, *, body: bool = True) -> tuple[dict[str, Any], bytes]:
    """Return the description and the buffer of :func:`write_gltf`."""
    pack = GltfPack()
    skeleton = motion.skeleton
    nodes = _nodes(skeleton)
    skin = build_skinned_body(skeleton) if body else None
    root: dict[str, Any] = {
        "asset": {"version": "2.0", "generator": "marey"},
        "extras": {"marey": describe_motion(motion)},
        "scene": 0,
        "scenes": [{"name": motion.name, "nodes": [0] if skin is None else [0, len(nodes)]}],
        "animations": [_animation(motion, pack)],
    }
    if skin is not None:
        nodes.append({"name": f"{skeleton.name} body", "mesh": 0, "skin": 0})
        root |= {"meshes": [_mesh(skin, skeleton, pack)], "materials": [MATERIAL], "skins": [_skin(skeleton, pack)]}
    root |= {"nodes": nodes, "accessors": pack.accessors, "bufferViews": pack.views}
    return root, pack.data()


def _nodes(skeleton: Skeleton) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = []
    for joint, name in enumerate(skeleton.names):
        node: dict[str, Any] = {"name": name, "translation": [float(x) for x in skeleton.offsets[joint]]}
        children = [int(child) for child in skeleton.children(joint)]
        nodes.append(node | {"children": children} if children else node)
    return nodes


def _skin(skeleton: Skeleton, pack: GltfPack) -> dict[str, Any]:
    columns = np.tile(np.eye(4), (skeleton.num_joints, 1, 1))
    columns[:, 3, :3] = -skeleton.rest_positions()  # frames of the rest pose are aligned with the world
    joints = list(range(skeleton.num_joints))
    return {"joints": joints, "skeleton": 0, "inverseBindMatrices": pack.add(columns.astype(np.float32))}


def _mesh(skin: SkinnedBody, skeleton: Skeleton, pack: GltfPack) -> dict[str, Any]:
    count = len(skin.positions)
    joints, weights = np.zeros((count, 4), dtype=np.uint16), np.zeros((count, 4), dtype=np.float32)
    joints[:, 0], weights[:, 0] = skin.joints, 1.0
    attributes = {
        "POSITION": pack.add(skin.positions.astype(np.float32), target=VERTICES, bounds=True),
        "NORMAL": pack.add(_unit32(skin.normals), target=VERTICES),
        "JOINTS_0": pack.add(joints, target=VERTICES),
        "WEIGHTS_0": pack.add(weights, target=VERTICES),
    }
    indices = pack.add(skin.faces.reshape(-1).astype(np.uint32), target=INDICES)
    primitive = {"attributes": attributes, "indices": indices, "material": 0}
    return {"name": f"{skeleton.name} body", "primitives": [primitive]}


def _animation(motion: Motion, pack: GltfPack) -> dict[str, Any]:
    times = pack.add(motion.times().astype(np.float32), bounds=True)
    channels: list[dict[str, Any]] = []
    samplers: list[dict[str, Any]] = []

    def add(joint: int, path: str, values: NDArray[np.float32]) -> None:
        samplers.append({"input": times, "interpolation": "LINEAR", "output": pack.add(values)})
        channels.append({"sampler": len(samplers) - 1, "target": {"node": joint, "path": path}})

    xyzw = _unit32(_make_signs_continuous(motion.rotations.wxyz)[..., [1, 2, 3, 0]])
    add(0, "translation", motion.root_positions.astype(np.float32))
    for joint in range(motion.skeleton.num_joints):
        add(joint, "rotation", xyzw[:, joint])
        if motion.translations is not None and joint:
            add(joint, "translation", motion.translations[:, joint].astype(np.float32))
    return {"name": motion.name, "channels": channels, "samplers": samplers}


def _make_signs_continuous(wxyz: FloatArray) -> FloatArray:
    """Choose between q and -q so that neighbouring frames lie on the same side, as linear interpolation needs."""
    dots = np.einsum("fjc,fjc->fj", wxyz[1:], wxyz[:-1])
    signs = np.cumprod(np.where(dots < 0.0, -1.0, 1.0), axis=0)
    return np.concatenate([wxyz[:1], wxyz[1:] * signs[..., None]])


def _unit32(vectors: FloatArray) -> NDArray[np.float32]:
    return vectors.astype(np.float32)
