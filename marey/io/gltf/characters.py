"""The mesh of a glTF character: all skinned primitives of a body as one, in the rest pose of the loaded skeleton."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.io.binary import AnyPath, as_format_error, format_error
from marey.io.character import Character, join_parts, strongest_weights
from marey.io.dispatch import load
from marey.io.gltf.buffers import GltfDocument, read_accessor, read_document
from marey.io.gltf.rig import CharacterRig, find_rig
from marey.skeleton import NO_PARENT, Skeleton

COMPRESSED: Final = ("KHR_draco_mesh_compression", "EXT_meshopt_compression", "KHR_meshopt_compression")
TRIANGLES, STRIP, FAN = 4, 5, 6  # primitive.mode
GREY: Final = (0.55, 0.55, 0.55)  # linear RGB of a mesh without material
MAX_PIXELS: Final = 1 << 26  # of one texture: 8192 x 8192
MAX_WEIGHT_SETS: Final = 4  # JOINTS_0 to JOINTS_3: sixteen joints a vertex


def read_gltf_character(path: AnyPath) -> Character:
    """Read the mesh, the skin and the colours of a `.glb` or `.gltf` file; see :func:`marey.io.load_character`."""
    document = read_document(path)
    with as_format_error(path), np.errstate(over="ignore", invalid="ignore"):
        for extension in COMPRESSED:
            if extension in document.root.get("extensionsRequired", []):
                what = f"its mesh is compressed by {extension}"
                raise format_error(path, what, "Export the character without compression.")
        has_skin = any("skin" in item and "mesh" in item for item in document.items("nodes"))
    if not has_skin:
        fix = "Export the mesh with its armature and skin weights"
        raise InputError(f"'{Path(path).name}' has no skin, so it is no character", fix)
    motion = load(path)
    with as_format_error(path), np.errstate(over="ignore", invalid="ignore"):
        rig = find_rig(document, motion)
        patches = list(_patches(document, rig, motion.skeleton))
    if not patches:
        raise format_error(path, "its skin moves no triangle", "Export the mesh with its armature and skin weights.")
    return join_parts(patches, path)


def _patches(document: GltfDocument, rig: CharacterRig, skeleton: Skeleton) -> Iterator[Character]:
    """Primitives that move with the skeleton, in its rest pose."""
    rest = skeleton.rest_positions()
    body = {int(node) for node in rig.nodes if node != NO_PARENT}
    below = set(body)
    for node in rig.tree.order:
        if int(rig.tree.parents[node]) in below:
            below.add(node)
    for number, item in enumerate(document.items("nodes")):
        if "mesh" not in item:
            continue
        if "skin" in item:
            skin = document.item("skins", item["skin"])
            # Skins of other bodies have no joint here
            if not body & set(skin["joints"]):
                continue
            # Joint of each entry of the skin, and the map (n, 4, 4) from the mesh to the rest world: G B^-1
            joints, maps = np.empty(len(skin["joints"]), dtype=np.int64), np.empty((len(skin["joints"]), 4, 4))
            for i, node in enumerate(skin["joints"]):
                joints[i], maps[i] = rig.rest_frame(int(node))
                maps[i, :3, 3] += rest[joints[i]]
            if "inverseBindMatrices" in skin:
                inverse = read_accessor(document, skin["inverseBindMatrices"])
                if inverse.shape[1] != 16 or len(inverse) < len(joints):
                    raise format_error(
                        document.path, f"a skin of {len(joints)} joints has {len(inverse)} bind matrices"
                    )
                maps = maps @ inverse[: len(joints)].reshape(-1, 4, 4).transpose(0, 2, 1)
            bones = joints, maps
        elif number in below:
            # A rigid mesh that hangs on a joint: a hat, an eye, a tool
            joint, frame = rig.rest_frame(number)
            frame[:3, 3] += rest[joint]
            bones = np.array([joint]), frame[None]
        else:
            continue
        for primitive in document.item("meshes", item["mesh"])["primitives"]:
            if primitive.get("mode", TRIANGLES) in (TRIANGLES, STRIP, FAN):
                yield _read_patch(document, primitive, skeleton, bones, skinned="skin" in item)


def _read_patch(
    document: GltfDocument,
    primitive: dict[str, Any],
    skeleton: Skeleton,
    skin: tuple[IntArray, FloatArray],
    *,
    skinned: bool,
) -> Character:
    attributes, (bones, maps) = primitive["attributes"], skin
    if any(extension in primitive.get("extensions", {}) for extension in COMPRESSED):
        raise format_error(document.path, "its mesh is compressed", "Export the character without compression.")
    points = read_accessor(document, attributes["POSITION"])
    count = len(points)
    entries, weights = np.zeros((count, 1), dtype=np.int64), np.ones((count, 1))
    sets = [n for n in range(MAX_WEIGHT_SETS) if f"JOINTS_{n}" in attributes and f"WEIGHTS_{n}" in attributes]
    if skinned and sets:
        both = [[read_accessor(document, attributes[f"{name}_{n}"]) for n in sets] for name in ("JOINTS", "WEIGHTS")]
        entries, weights = np.concatenate(both[0], axis=1).astype(np.int64), np.concatenate(both[1], axis=1)
    if points.shape[1:] != (3,) or entries.shape != weights.shape or len(entries) != count:
        raise format_error(document.path, "the attributes of a mesh have different lengths")
    used = weights > 0.0
    if used.any() and (entries[used].min() < 0 or entries[used].max() >= len(bones)):
        raise format_error(document.path, f"a vertex hangs on joint {entries[used].max()} of a skin of {len(bones)}")
    entries, weights = strongest_weights(np.where(used, entries, 0), weights)
    # Linear blend skinning into the rest pose of the skeleton
    blended = np.einsum("vk,vkab->vab", weights, maps[entries, :3])
    vertices = np.einsum("vab,vb->va", blended[..., :3], points) + blended[..., 3]
    # Triangles, fans and strips as triangles (T, 3)
    order = np.arange(count)
    if "indices" in primitive:
        order = read_accessor(document, primitive["indices"])[:, 0].astype(np.int64)
    if order.size and order.max() >= count:
        raise format_error(document.path, f"a triangle uses vertex {order.max()} of {count}")
    mode = primitive.get("mode", TRIANGLES)
    if mode == TRIANGLES:
        triangles = order[: len(order) // 3 * 3].reshape(-1, 3)
    else:
        first = np.arange(max(len(order) - 2, 0))
        if mode == FAN:
            triangles = np.stack([order[first * 0], order[first + 1], order[first + 2]], axis=1)
        else:
            # Every second triangle of a strip runs the other way
            odd = first % 2
            triangles = np.stack([order[first], order[first + 1 + odd], order[first + 2 - odd]], axis=1)
    # A map that mirrors turns triangles inside out
    if np.linalg.det(maps[:, :3, :3]).mean() < 0.0:
        triangles = triangles[:, ::-1]
    # Two bones of the file may be one joint of the skeleton
    joints, weights = strongest_weights(bones[entries], weights)
    # Linear RGB of each vertex: base colour, times its texture at the vertex, times the vertex colour
    colours = np.tile(np.array(GREY), (count, 1))
    attributes = primitive["attributes"]
    if "material" in primitive:
        shading = document.item("materials", primitive["material"]).get("pbrMetallicRoughness", {})
        factor: FloatArray = np.array(shading.get("baseColorFactor", (1.0, 1.0, 1.0, 1.0)), dtype=np.float64)
        colours = np.tile(factor[:3], (count, 1))
        texture = shading.get("baseColorTexture")
        if texture is not None and f"TEXCOORD_{texture.get('texCoord', 0)}" in attributes:
            places = read_accessor(document, attributes[f"TEXCOORD_{texture.get('texCoord', 0)}"])
            pixels = _read_texture(document, texture)
            if pixels is not None and places.shape == (count, 2):
                # Nearest pixel; textures repeat
                row, column = (np.floor(places[:, k] % 1.0 * pixels.shape[1 - k]).astype(np.int64) for k in (1, 0))
                row, column = np.minimum(row, pixels.shape[0] - 1), np.minimum(column, pixels.shape[1] - 1)
                # Undo the transfer curve of sRGB, values in [0, 1] (IEC 61966-2-1)
                encoded = np.asarray(pixels[row, column] / 255.0, dtype=np.float64)
                colours = colours * np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    if "COLOR_0" in attributes:
        own = read_accessor(document, attributes["COLOR_0"])[:, :3]
        colours = colours * own if own.shape == colours.shape else colours
    return Character(skeleton, vertices, triangles, joints, weights, np.clip(colours, 0.0, 1.0))


def _read_texture(document: GltfDocument, texture: dict[str, Any]) -> Any:
    """Pixels ``(H, W, 3)`` of a texture inside the file, or ``None`` where it cannot be read."""
    from PIL import Image, UnidentifiedImageError

    image = document.item("images", document.item("textures", texture["index"]).get("source"))
    if "bufferView" not in image:
        return None
    view = document.item("bufferViews", image["bufferView"])
    start, size, number = int(view.get("byteOffset", 0)), int(view["byteLength"]), int(view["buffer"])
    document.item("buffers", number)
    content = bytes(document.buffers[number][start : start + size])
    try:
        picture = Image.open(BytesIO(content))
        if picture.width * picture.height > MAX_PIXELS:
            return None
        return np.asarray(picture.convert("RGB"))
    except (OSError, UnidentifiedImageError, ValueError, Image.DecompressionBombError):
        return None
