r"""Nodes, skins, key frames ([Khronos2021]_ §3.5, §3.7, §3.11, appendix C), joints and mesh of a glTF character.

The reader turns bone frames into frames aligned with the world at rest, may fold nodes above the pelvis into the root,
and may change unit and axes. All of this is found again by comparing one pose both ways: with the world transform
:math:`W_j` of a node and the loaded position and rotation of its joint in the first frame,

.. math:: x_j = s\,Q\,\mathrm{pos}(W_j) + t, \qquad G_j = R_{world,j}^{-1}\, s\,Q\, W_j,

where :math:`G_j` is the node's frame (rotation and scale) in the rest pose of the skeleton. Nothing of the reader but
its result is used, so a writer that inverts this gives back what is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.io.binary import AnyPath, as_format_error, format_error
from marey.io.character import SAME_PLACE, Character, fit_similarity, join_parts, strongest_weights
from marey.io.dispatch import load
from marey.io.gltf.buffers import GltfDocument, read_accessor, read_document
from marey.io.scene.clip import (
    MAX_NODES,
    Local,
    SceneTree,
    as_matrix,
    compose_transforms,
    local_transform,
    order_nodes,
    place_binds,
)
from marey.io.scene.motion import AnimationTrack, sample_track
from marey.motion import Motion
from marey.skeleton import NO_PARENT, Skeleton

_WIDTHS: Final = {"translation": 3, "rotation": 4, "scale": 3}


def read_tracks(document: GltfDocument, animation: dict[str, Any]) -> list[AnimationTrack]:
    """Return every translation, rotation and scale track of an animation; other channels are skipped."""
    tracks: list[AnimationTrack] = []
    samplers = animation.get("samplers", [])
    for channel in animation.get("channels", []):
        target = channel["target"]
        if "node" not in target or target.get("path") not in _WIDTHS:
            continue
        if not 0 <= channel["sampler"] < len(samplers):
            raise format_error(document.path, f"an animation uses sampler {channel['sampler']} of {len(samplers)}")
        node, path, sampler = target["node"], target["path"], samplers[channel["sampler"]]
        document.item("nodes", node)
        times = read_accessor(document, sampler.get("input"))[:, 0]
        values = read_accessor(document, sampler.get("output"))
        mode = sampler.get("interpolation", "LINEAR")
        rows = len(times) * (3 if mode == "CUBICSPLINE" else 1)
        if mode not in ("LINEAR", "STEP", "CUBICSPLINE"):
            raise format_error(document.path, f"an animation is interpolated by '{mode}'")
        if values.shape != (rows, _WIDTHS[path]):
            what = f"a {path} track has {len(times)} times and values of shape {values.shape}"
            raise format_error(document.path, what)
        values = values.reshape(len(times), 3, -1) if mode == "CUBICSPLINE" else values
        steps = np.diff(times)
        if (steps < 0.0).any():
            raise format_error(document.path, f"the key times of a {path} track do not rise")
        # Exporters repeat a time where a curve jumps, and where float32 cannot tell two keys apart: the later counts
        kept = np.append(steps > 0.0, True)
        tracks.append(AnimationTrack(node, path, times[kept], values[kept], mode))
    return tracks


def read_tree(document: GltfDocument) -> SceneTree:
    """Check the node hierarchy: every child exists, has one parent, and no node is its own ancestor."""
    items = document.items("nodes")
    if not 0 < len(items) <= MAX_NODES:
        raise format_error(document.path, f"{len(items)} nodes; between 1 and {MAX_NODES} are read")
    parents = np.full(len(items), NO_PARENT, dtype=np.int64)
    for index, item in enumerate(items):
        for child in item.get("children", []):
            document.item("nodes", child)
            if parents[child] != NO_PARENT:
                raise format_error(document.path, f"node {child} has two parents")
            parents[child] = index
    order = order_nodes(parents, lambda node: items[node].get("children", []))
    if len(order) < len(items):
        raise format_error(document.path, "the nodes form a ring")
    names = [str(item.get("name") or "") for item in items]
    return SceneTree(
        names,
        parents,
        order,
        rest=lambda node: default_local(items[node]),
        is_bare=lambda node: not {"mesh", "camera"} & items[node].keys(),
    )


def default_local(item: Mapping[str, Any]) -> Local:
    """Transform of a node where no animation moves it."""
    if "matrix" in item:
        matrix = np.array(item["matrix"], dtype=np.float64).reshape(4, 4).T
        return matrix[None, :3, :3], matrix[None, :3, 3]
    translation = np.array(item.get("translation", (0.0, 0.0, 0.0)), dtype=np.float64).reshape(1, 3)
    if not {"rotation", "scale"} & item.keys():
        return np.eye(3)[None], translation
    xyzw = np.array(item.get("rotation", (0.0, 0.0, 0.0, 1.0)), dtype=np.float64).reshape(1, 4)
    scale = np.array(item.get("scale", (1.0, 1.0, 1.0)), dtype=np.float64).reshape(1, 3)
    return local_transform(translation, xyzw, scale)


def read_binds(
    document: GltfDocument, tree: SceneTree, joints: list[int], skins: list[dict[str, Any]]
) -> dict[int, Local]:
    """World transforms of joints in the bind pose, as the skins say; the first one that names a joint counts.

    glTF does not say where the mesh stood; we take the mesh node where it agrees with the top joint of the skin.
    """
    items = document.items("nodes")
    carriers = [i for i, item in enumerate(items) if "skin" in item]
    worlds = tree.rest_worlds([*(joint for joint in joints if joint != NO_PARENT), *carriers])
    rank = {node: i for i, node in enumerate(tree.order)}
    bound: dict[int, Local] = {}
    for skin in skins:
        numbers = [int(j) for j in skin["joints"]]
        if "inverseBindMatrices" not in skin:
            continue
        inverse = read_accessor(document, skin["inverseBindMatrices"])[: len(numbers)]
        inverse = inverse.reshape(-1, 4, 4).transpose(0, 2, 1)
        # Matrices that are not affine or flatten space say nothing
        is_affine = np.abs(inverse[:, 3] - np.array([0.0, 0.0, 0.0, 1.0])).max() < 1e-4
        if len(inverse) < len(numbers) or not is_affine or np.abs(np.linalg.det(inverse[:, :3, :3])).min() <= 1e-18:
            continue
        # The top joint of the skin decides in which frame the mesh stands
        top = min(range(len(numbers)), key=lambda i: rank[numbers[i]])
        number = document.items("skins").index(skin)
        mesh = next((i for i in carriers if items[i]["skin"] == number), None)
        frame = None if mesh is None else as_matrix(worlds[mesh])
        binds: FloatArray = np.linalg.inv(inverse).astype(np.float64)
        world = place_binds(binds, top, worlds[numbers[top]], frame)
        for i, joint in enumerate(numbers):
            bound.setdefault(joint, (world[i : i + 1, :3, :3], world[i : i + 1, :3, 3]))
    return bound


_STILL: Final = {"translation": (0.0, 0.0, 0.0), "rotation": (0.0, 0.0, 0.0, 1.0), "scale": (1.0, 1.0, 1.0)}


@dataclass(frozen=True, slots=True, eq=False)
class CharacterRig:
    """How nodes of a file and joints of the loaded skeleton belong together."""

    document: GltfDocument
    tree: SceneTree
    nodes: IntArray  # (J,) node of each joint; NO_PARENT for a root that has no node
    frames: FloatArray  # (J, 3, 3) G: node to rest world, file unit to metre, scale included
    worlds: FloatArray  # (N, 4, 4) every node in the file's world, in the first frame
    scale: float  # [m] of one unit of the file's world
    R_ours_file: FloatArray  # (3, 3) Q
    shift: FloatArray  # (3,) [m] t

    def rest_frame(self, node: int) -> tuple[int, FloatArray]:
        """Return the joint that carries a node, and the node's transform ``(4, 4)`` in that joint's rest frame [m].

        The joint's own node lies at the joint; other nodes keep the place they have in the first frame.
        """
        # The joint of the node, or of the nearest node above it that has one; else the root
        place, nearest = {int(n): j for j, n in enumerate(self.nodes) if n != NO_PARENT}, node
        while nearest != NO_PARENT and nearest not in place:
            nearest = int(self.tree.parents[nearest])
        joint = place.get(nearest, 0)
        carrier = int(self.nodes[joint])
        frame: FloatArray = np.eye(4)
        frame[:3, :3] = self.frames[joint]
        if carrier not in (node, NO_PARENT):
            above: FloatArray = self.worlds[carrier]
            frame = np.asarray(frame @ np.linalg.solve(above, self.worlds[node]), dtype=np.float64)
        return joint, frame


def find_rig(document: GltfDocument, motion: Motion) -> CharacterRig:
    """Compare a file with the motion that was loaded from it.

    Raises:
        FormatError: the joints lie elsewhere than the nodes of the same names.
    """
    tree = read_tree(document)
    # Node of each joint name: name, name_7 for the second of one name, node_7 without one
    names = motion.skeleton.names
    skinned = {int(j) for skin in document.items("skins") for j in skin["joints"]}
    by_name: dict[str, list[int]] = {}
    for node in sorted(tree.order, key=lambda n: n not in skinned):
        by_name.setdefault(tree.names[node] or f"node_{node}", []).append(node)
    nodes = np.full(len(names), NO_PARENT, dtype=np.int64)
    taken: set[int] = set()
    # Names with a number first: they leave the plain name to the other node
    for joint, name in enumerate(names):
        stem, _, number = name.rpartition("_")
        if name not in by_name and number.isdigit() and int(number) in by_name.get(stem, ()):
            nodes[joint] = int(number)
            taken.add(int(number))
    for joint, name in enumerate(names):
        free = [node for node in by_name.get(name, ()) if node not in taken]
        if nodes[joint] == NO_PARENT and free:
            nodes[joint] = free[0]
            taken.add(free[0])
    missing = [name for joint, name in enumerate(names) if nodes[joint] == NO_PARENT and joint]
    if missing:
        raise format_error(document.path, f"no node is called '{missing[0]}'", "Report this file.")
    has_node = nodes != NO_PARENT
    positions, R_world_joint = motion[:1].joint_frames()
    ours = positions[0, has_node]
    unit_m = motion.source.metres_per_unit if motion.source else 1.0
    size = max(float(np.ptp(ours, axis=0).max(initial=0.0)), float(np.abs(ours).max(initial=0.0)), 1e-9)
    # The clip that was loaded is the one that begins where the motion does
    for clip in [*document.items("animations"), None]:
        worlds = _first_frame(document, tree, nodes, clip)
        places = worlds[nodes[has_node], :3, 3]
        scale, turn, shift = fit_similarity(places, ours, unit_m)
        if np.abs(scale * places @ turn.T + shift - ours).max(initial=0.0) <= 10.0 * SAME_PLACE * size:
            break
    else:
        what = "joints do not lie where the nodes of the same names are"
        raise format_error(document.path, what, "Report this file.")
    frames = np.tile(np.eye(3), (len(nodes), 1, 1))
    frames[has_node] = scale * turn @ worlds[nodes[has_node], :3, :3]
    frames = R_world_joint.matrix()[0].transpose(0, 2, 1) @ frames
    return CharacterRig(document, tree, nodes, frames, worlds, scale, turn, shift)


def _first_frame(
    document: GltfDocument, tree: SceneTree, nodes: IntArray, animation: dict[str, Any] | None
) -> FloatArray:
    """World transform ``(N, 4, 4)`` of every node at the start of an animation, as the reader samples it."""
    found = [] if animation is None else read_tracks(document, animation)
    used = tree.with_ancestors([int(n) for n in nodes if n != NO_PARENT])
    tracks = {(track.node, track.path): track for track in found}
    starts = [track.times[0] for track in found if track.node in used]
    start = np.array([min(starts, default=0.0)])
    items = document.items("nodes")
    worlds = np.tile(np.eye(4), (len(items), 1, 1))
    for node in tree.order:
        item, above = items[node], int(tree.parents[node])
        local: Local = default_local(item)
        if any((node, path) in tracks for path in _STILL):
            values = [
                sample_track(tracks[node, path], start, 1000.0)
                if (node, path) in tracks
                else np.array([item.get(path, still)], dtype=np.float64)
                for path, still in _STILL.items()
            ]
            local = local_transform(values[0], values[1], values[2])
        if above != NO_PARENT:
            local = compose_transforms((worlds[None, above, :3, :3], worlds[None, above, :3, 3]), local)
        worlds[node, :3, :3], worlds[node, :3, 3] = local[0][0], local[1][0]
    return worlds


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
