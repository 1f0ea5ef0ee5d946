"""Characters made in tests, as other tools export them: bone frames of their own, an armature in centimetres, Z up."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np

from marey.lie import SO3
from marey.motion import Contacts, Motion
from marey.skeleton import HUMAN, Skeleton

TURN_UP = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])  # Z up to Y up
KINDS = {"float32": 5126, "uint16": 5123, "uint8": 5121, "uint32": 5125, "int16": 5122}
SHAPES = {(): "SCALAR", (2,): "VEC2", (3,): "VEC3", (4,): "VEC4", (16,): "MAT4"}
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc0000003010100"
    "18dd8db00000000049454e44ae426082"
)


def waving(
    skeleton: Skeleton = HUMAN, frames: int = 60, rate_hz: float = 60.0, amount: float = 0.5, name: str = "wave"
) -> Motion:
    """Every joint of a skeleton in motion, over a path that turns, with contacts."""
    rng = np.random.default_rng(11)
    times = np.arange(frames)[:, None, None] / rate_hz
    phase = rng.uniform(0, 6, (skeleton.num_joints, 3))
    turns = amount * np.sin(6.0 * times * rng.uniform(0.3, 1.0, (skeleton.num_joints, 3)) + phase)
    turns[:, 0, 1] += 3.0 * times[:, 0, 0]
    path = skeleton.offsets[0] + np.stack([times, 0.05 * np.sin(9 * times), 2 * times], axis=-1)[:, 0, 0]
    down = np.stack([np.arange(frames) % 9 < 4, np.arange(frames) > 6], axis=1)
    return Motion(skeleton, rate_hz, path, SO3.exp(turns), Contacts(("left_heel", "right_toe"), down), name=name)


def random_turns(rng: np.random.Generator, count: int) -> np.ndarray:
    """Rotation matrices ``(count, 3, 3)``, even over the group."""
    q = np.linalg.qr(rng.normal(size=(count, 3, 3)))[0]
    return q * np.sign(np.linalg.det(q))[:, None, None]


def wxyz(matrix: np.ndarray) -> list[float]:
    """Quaternion of one rotation matrix, by its largest eigenvector (Bar-Itzhack)."""
    m = matrix
    k = np.array(
        [
            [m[0, 0] - m[1, 1] - m[2, 2], m[1, 0] + m[0, 1], m[2, 0] + m[0, 2], m[2, 1] - m[1, 2]],
            [m[1, 0] + m[0, 1], m[1, 1] - m[0, 0] - m[2, 2], m[2, 1] + m[1, 2], m[0, 2] - m[2, 0]],
            [m[2, 0] + m[0, 2], m[2, 1] + m[1, 2], m[2, 2] - m[0, 0] - m[1, 1], m[1, 0] - m[0, 1]],
            [m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1], m.trace()],
        ]
    )
    x, y, z, w = np.linalg.eigh(k / 3.0)[1][:, -1]
    return [w, x, y, z]


def write_character(path: Path, *, armature: bool = True, clips: int = 0, root_bone: bool = False) -> np.ndarray:
    """Write a skinned human as GLB and return its vertices ``(V, 3)`` [m] in the bind pose, in world.

    Bones have random frames. With ``armature`` the joints hang on a node that is scaled by 0.01 and turned from Z up;
    with ``root_bone`` a joint ``root`` on the floor carries the pelvis. The mesh has two primitives with a material
    and a texture, quantised weights and an extension that nobody knows.
    """
    rng = np.random.default_rng(5)
    names = list(HUMAN.names)
    places = HUMAN.rest_positions()
    parents = [int(p) for p in HUMAN.parents]
    if root_bone:
        names, places = ["root", *names], np.concatenate([[[0.0, 0.0, 0.0]], places])
        parents = [-1, *(p + 1 for p in parents)]
    count = len(names)
    turns = random_turns(rng, count)
    top = np.eye(4)
    if armature:
        top[:3, :3] = 0.01 * TURN_UP
    binds = np.tile(np.eye(4), (count, 1, 1))
    binds[:, :3, :3] = turns * (0.01 if armature else 1.0)
    binds[:, :3, 3] = places
    nodes: list[dict] = []
    for j in range(count):
        local = np.linalg.inv(top if parents[j] < 0 else binds[parents[j]]) @ binds[j]
        w, x, y, z = wxyz(local[:3, :3] / np.cbrt(np.linalg.det(local[:3, :3])))
        node = {"name": names[j], "translation": local[:3, 3].tolist(), "rotation": [x, y, z, w], "extras": {"bone": j}}
        children = [i for i in range(count) if parents[i] == j]
        nodes.append(node | {"children": children} if children else node)
    mesh_node = {"name": "Body", "mesh": 0, "skin": 0}
    if armature:
        w, x, y, z = wxyz(TURN_UP)
        nodes.append({"name": "Armature", "rotation": [x, y, z, w], "scale": [0.01] * 3, "children": [0]})
        nodes.append(mesh_node)
        scene = [count, count + 1]
    else:
        nodes.append(mesh_node)
        scene = [0, count]
    # A cloud of small triangles around the bones, each corner on a joint and its parent
    joints = np.repeat(np.arange(count), 60)
    above = np.array([max(parents[j], 0) for j in joints])
    share = np.where(joints == above, 255, rng.integers(0, 256, len(joints))).astype(np.uint8)
    blend = (share / 255.0)[:, None]
    vertices = blend * places[joints] + (1 - blend) * places[above] + 0.04 * rng.normal(size=(len(joints), 3))
    vertices = vertices.astype(np.float32)
    chunks, views, accessors = [], [], []

    def add(array: np.ndarray, *, bounds: bool = False, target: int | None = None, **extra: object) -> int:
        content = np.ascontiguousarray(array).tobytes()
        view = {"buffer": 0, "byteOffset": sum(map(len, chunks)), "byteLength": len(content)}
        views.append(view if target is None else view | {"target": target})
        chunks.append(content + b"\0" * (-len(content) % 4))
        item = {"bufferView": len(views) - 1, "componentType": KINDS[array.dtype.name], "count": len(array)}
        item |= {"type": SHAPES[array.shape[1:]], **extra}
        if bounds:
            item |= {"min": np.atleast_1d(array.min(0)).tolist(), "max": np.atleast_1d(array.max(0)).tolist()}
        accessors.append(item)
        return len(accessors) - 1

    animations = []
    for clip in range(clips):
        times = add(np.array([0.0, 0.5], np.float32), bounds=True)
        keys = add(np.array([[0, 0, 0, 1], [0, 0.1, 0, np.sqrt(0.99)]], np.float32))
        sampler = {"input": times, "output": keys}
        animations.append(
            {
                "name": f"clip{clip}",
                "samplers": [sampler],
                "channels": [{"sampler": 0, "target": {"node": 3, "path": "rotation"}}],
            }
        )
    half = len(vertices) // 2
    entries = np.stack([joints, above, 0 * joints, 0 * joints], axis=1).astype(np.uint8)
    weights = np.stack([share, 255 - share, 0 * share, 0 * share], axis=1)
    entries[weights == 0] = 0
    primitives = []
    for some in (slice(0, half), slice(half, None)):
        size = len(vertices[some])
        attributes = {
            "POSITION": add(vertices[some], bounds=True, target=34962),
            "NORMAL": add(np.tile(np.array([0, 1, 0], np.float32), (size, 1)), target=34962),
            "TEXCOORD_0": add(rng.uniform(0, 1, (size, 2)).astype(np.float32), target=34962),
            "JOINTS_0": add(entries[some], target=34962),
            "WEIGHTS_0": add(weights[some], target=34962, normalized=True),
        }
        indices = add(np.arange(size, dtype=np.uint16), target=34963)
        primitives.append({"attributes": attributes, "indices": indices, "material": 0})
    inverse = add(np.linalg.inv(binds).transpose(0, 2, 1).reshape(-1, 16).astype(np.float32))
    views.append({"buffer": 0, "byteOffset": sum(map(len, chunks)), "byteLength": len(PIXEL)})
    chunks.append(PIXEL + b"\0" * (-len(PIXEL) % 4))
    shading = {"baseColorTexture": {"index": 0}, "metallicFactor": 0.0}
    root = {
        "asset": {"version": "2.0", "generator": "test", "copyright": "nobody"},
        "scene": 0,
        "scenes": [{"nodes": scene}],
        "nodes": nodes,
        "meshes": [{"name": "Body", "primitives": primitives}],
        "skins": [{"joints": list(range(count)), "inverseBindMatrices": inverse, "skeleton": 0, "name": "Skin"}],
        "materials": [{"name": "Skin", "pbrMetallicRoughness": shading}],
        "textures": [{"source": 0}],
        "images": [{"name": "dot", "mimeType": "image/png", "bufferView": len(views) - 1}],
        "accessors": accessors,
        "bufferViews": views,
        "buffers": [{"byteLength": sum(map(len, chunks))}],
    }
    if animations:
        root["animations"] = animations
    text = json.dumps(root).encode()
    text += b" " * (-len(text) % 4)
    data = b"".join(chunks)
    head = struct.pack("<4sIIII", b"glTF", 2, 28 + len(text) + len(data), len(text), 0x4E4F534A)
    path.write_bytes(head + text + struct.pack("<II", len(data), 0x004E4942) + data)
    return vertices.astype(float)
