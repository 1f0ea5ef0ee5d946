r"""A motion on a user's own character: the file is kept, only its animations change.

Buffers, meshes, skins, materials, textures, names and extras stay as they are. Each joint of the motion moves the node
it was read from: with the frames :math:`G_j` of :class:`~marey.io.gltf.rig.CharacterRig`,

.. math:: W_j = (R_{world,j}\,G_j,\; x_j), \qquad L_j = W_{p(j)}^{-1}\, W_j,

in the file's own unit and axes. Nodes above and between joints keep their place, and their scale is divided out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, InputError
from marey.io.binary import AnyPath, as_format_error, map_file
from marey.io.dispatch import load
from marey.io.export import ROOT_BONE, as_clips, check_root_mode, fit_clips, ground_track, place_root
from marey.io.gltf.buffers import (
    GLTF_SUFFIXES,
    MAX_GLTF_BYTES,
    GltfDocument,
    GltfPack,
    read_document,
    to_glb,
    to_gltf,
)
from marey.io.gltf.files import describe_motion
from marey.io.gltf.rig import CharacterRig, default_local, find_rig
from marey.io.scene.clip import rotation_part
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import NO_PARENT

EVEN: Final = 1e-6  # [-] scales along three axes that differ less are one: float32 noise
STILL_TURN: Final = 1e-7  # [-] quaternion components that move less are one key: float32 noise
STILL_PLACE: Final = 1e-7  # [m] the same for translations
SAME_SCALE: Final = 1e-3  # [-] a scale this near to the node's own is left to the node
DATA_KEYS: Final = frozenset({"bufferView", "accessor", "attributes", "input", "output", "indices", "buffer"})
MIME_TYPES: Final = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp"}


@dataclass(frozen=True, slots=True, eq=False)
class _NodeTrack:
    """Keys of one property of one node: one for each frame, or a single one for all."""

    node: int
    path: str
    values: NDArray[np.float32]  # (F, C) or (1, C)


@dataclass(frozen=True, slots=True, eq=False)
class _NodeWorld:
    """A node in the file's world, frame by frame; ``F`` may be 1."""

    turn: SO3  # (F,) rotation part
    place: FloatArray  # (F, 3)
    scale: float  # where it is the same along all axes
    linear: FloatArray | None = None  # (F, 3, 3), for nodes whose scale is not

    def matrix(self) -> FloatArray:
        """Return the linear part ``(F, 3, 3)``."""
        return self.turn.matrix() * self.scale if self.linear is None else self.linear

    def add_local(self, turn: SO3, scale: FloatArray, place: FloatArray) -> _NodeWorld:
        """Return the world of a child from its local rotation, scale and place."""
        even = _even_scale(np.diag(scale))
        if self.linear is None and even is not None:
            return _NodeWorld(self.turn @ turn, self.turn @ (self.scale * place) + self.place, self.scale * even)
        linear = self.matrix()
        there = (linear @ place[..., None])[..., 0] + self.place
        linear = linear @ (turn.matrix() * scale)
        return _NodeWorld(rotation_part(linear), there, 1.0, linear)


def _even_scale(linear: FloatArray) -> float | None:
    """Scale of a linear map ``(3, 3)`` that stretches all axes alike and mirrors none, else ``None``."""
    square = linear.T @ linear
    scale2 = float(np.trace(square)) / 3.0
    is_even = np.abs(square - scale2 * np.eye(3)).max() <= EVEN * scale2 and np.linalg.det(linear) > 0.0
    return float(np.sqrt(scale2)) if is_even else None


def write_onto(
    motions: Motion | Sequence[Motion], path: AnyPath, character: AnyPath, *, root: str, keep_clips: bool
) -> None:
    """Write motions on the character of a `.glb` or `.gltf` file; see :func:`marey.save`.

    Raises:
        InputError: a motion is on another skeleton than the character.
        FormatError: the character's file is damaged.
    """
    if Path(character).suffix.lower() not in GLTF_SUFFIXES:
        what = f"a '{Path(path).suffix}' file on the character '{Path(character).name}'"
        raise InputError(what, "Give a .glb or .gltf character, or write .fbx")
    base = load(character)
    clips = fit_clips(as_clips(motions), base.skeleton, Path(character).name)
    if check_root_mode(root) == "in-place":
        clips = [place_root(clip, root) for clip in clips]
    with as_format_error(character):
        document = read_document(character)
        rig = find_rig(document, base)
        # A copy: what was read stays as it is
        document = replace(document, root=json.loads(json.dumps(document.root)), lists={})
        if root == "bone" and _add_root_bone(document, rig):
            rig = find_rig(document, base)
        data = _keep_data(document, keep_clips=keep_clips)
    shell, pack = document.root, GltfPack()
    first_accessor = len(shell.get("accessors", []))
    animations: list[dict[str, Any]] = []
    for clip in clips:
        tracks = list(_node_tracks(rig, clip, on_bone=root == "bone"))
        # Animated nodes have translation, rotation and scale, no matrix (glTF §3.5.3)
        for item in (shell["nodes"][node] for node in {track.node for track in tracks}):
            if "matrix" in item:
                linear, place = default_local(item)
                turn = rotation_part(linear)
                scale = np.einsum("ab,ab->b", turn.matrix()[0], linear[0])
                del item["matrix"]
                item |= {"translation": place[0].tolist(), "rotation": turn.wxyz[0, [1, 2, 3, 0]].tolist()}
                item["scale"] = scale.tolist()
        # Tracks of equal length share their times
        times = clip.times().astype(np.float32)
        inputs: dict[int, int] = {}
        channels: list[dict[str, Any]] = []
        samplers: list[dict[str, Any]] = []
        for track in tracks:
            count = len(track.values)
            if count not in inputs:
                inputs[count] = pack.add(times[:count], bounds=True) + first_accessor
            samplers.append(
                {"input": inputs[count], "interpolation": "LINEAR", "output": pack.add(track.values) + first_accessor}
            )
            channels.append({"sampler": len(samplers) - 1, "target": {"node": track.node, "path": track.path}})
        animation = {"name": clip.name, "channels": channels, "samplers": samplers}
        animations.append(animation | {"extras": {"marey": describe_motion(clip)}} if len(clips) > 1 else animation)
    # New data stand behind the old
    views, accessors = shell.get("bufferViews", []), shell.get("accessors", [])
    shell["accessors"] = accessors + [item | {"bufferView": item["bufferView"] + len(views)} for item in pack.accessors]
    shell["bufferViews"] = views + [view | {"byteOffset": view["byteOffset"] + len(data)} for view in pack.views]
    shell["animations"] = animations + (shell.get("animations", []) if keep_clips else [])
    extras = shell.setdefault("extras", {})
    if isinstance(extras, dict):
        cast(dict[str, Any], extras)["marey"] = describe_motion(clips[0])
    as_text = Path(path).suffix.lower() == ".gltf"
    Path(path).write_bytes((to_gltf if as_text else to_glb)(shell, data + pack.data()))


def _node_tracks(rig: CharacterRig, motion: Motion, *, on_bone: bool) -> Iterator[_NodeTrack]:
    """Keys of every node that has a joint, and of the bone above the root where that takes the root motion."""
    positions, R_world_joint = motion.joint_frames()
    to_file = SO3.from_matrix(rig.R_ours_file.T)
    worlds = {NO_PARENT: _NodeWorld(SO3.identity(1), np.zeros((1, 3)), 1.0)}
    moves: list[tuple[int, FloatArray, SO3, FloatArray]] = []
    if on_bone:
        # The bone is carried along the ground as it stands: T_root W
        bone = int(rig.tree.parents[rig.nodes[0]])
        path, heading = ground_track(motion)
        still = _find_world(rig, bone, dict(worlds))
        frame = rig.scale * rig.R_ours_file @ still.matrix()[0]
        place = rig.scale * rig.R_ours_file @ still.place[0] + rig.shift
        moves.append((bone, frame, heading, heading @ np.broadcast_to(place, path.shape) + path))
    moves += [
        (int(rig.nodes[j]), rig.frames[j], R_world_joint[:, j], positions[:, j])
        for j in np.flatnonzero(rig.nodes != NO_PARENT)
    ]
    for node, frame, turn, place in moves:
        above = _find_world(rig, int(rig.tree.parents[node]), worlds)
        # G to the file's axes on both sides: Q^-1 (R G) = (Q^-1 R) G
        there = to_file @ ((place - rig.shift) / rig.scale)
        # Rotation (F,), scale (3,) and place (F, 3) below the node above
        turned, shape = to_file @ turn, frame / rig.scale
        even = _even_scale(shape)
        if above.linear is None and even is not None:
            to_parent = above.turn.inverse()
            local = to_parent @ (turned @ rotation_part(shape[None]))
            scale = np.full(3, even / above.scale)
            local_place = to_parent @ ((there - above.place) / above.scale)
        else:
            inverse = np.linalg.inv(above.matrix())
            linear = inverse @ (turned.matrix() @ shape)
            local = rotation_part(linear)
            scale = np.einsum("ab,ab->b", local.matrix()[0], linear[0])
            local_place = (inverse @ (there - above.place)[..., None])[..., 0]
        # The node's own scale and place need no key
        own_turn_scale, own_place = rig.tree.rest(node)
        own = np.linalg.norm(own_turn_scale[0], axis=0)
        if np.abs(scale - own).max() > SAME_SCALE * own.max():
            yield _NodeTrack(node, "scale", scale[None].astype(np.float32))
            own = scale
        worlds[node] = above.add_local(local, own, local_place)
        xyzw = local.continuous().wxyz[:, [1, 2, 3, 0]].astype(np.float32)
        is_still = np.abs(xyzw - xyzw[0]).max() < STILL_TURN
        yield _NodeTrack(node, "rotation", xyzw[:1] if is_still else xyzw)
        unit = STILL_PLACE / (rig.scale * np.cbrt(abs(np.linalg.det(above.matrix()[0]))))
        if np.abs(local_place - own_place).max() > unit:
            is_still = np.abs(local_place - local_place[0]).max() < unit
            yield _NodeTrack(node, "translation", local_place[: 1 if is_still else None].astype(np.float32))


def _find_world(rig: CharacterRig, node: int, worlds: dict[int, _NodeWorld]) -> _NodeWorld:
    """World of a node; those without a joint stay at their own place below the node above."""
    waiting = [node]
    while waiting[-1] not in worlds:
        waiting.append(int(rig.tree.parents[waiting[-1]]))
    for below in waiting[-2::-1]:
        above = worlds[int(rig.tree.parents[below])]
        linear, place = rig.tree.rest(below)
        turn = rotation_part(linear)
        scale = np.einsum("ab,ab->b", turn.matrix()[0], linear[0])
        worlds[below] = above.add_local(turn, scale, place)
    return worlds[node]


def _add_root_bone(document: GltfDocument, rig: CharacterRig) -> bool:
    """Put a node above the root joint, unless a bone of the skin is there; tells whether it did."""
    top = int(rig.nodes[0])
    if top == NO_PARENT:
        raise InputError("the character has no common root joint", "Write it with root='hips'")
    above = int(rig.tree.parents[top])
    if above != NO_PARENT and any(above in skin["joints"] for skin in document.items("skins")):
        return False
    nodes = document.items("nodes")
    names = {str(item.get("name", "")) for item in nodes}
    nodes.append({"name": ROOT_BONE if ROOT_BONE not in names else f"{ROOT_BONE}_motion", "children": [top]})
    holders = (
        [nodes[above]["children"]] if above != NO_PARENT else [s.get("nodes", []) for s in document.items("scenes")]
    )
    for held in holders:
        held[:] = [len(nodes) - 1 if node == top else node for node in held]
    return True


def _keep_data(document: GltfDocument, *, keep_clips: bool) -> bytes:
    """Join the buffers of a file to one, without the data of animations that are left out; edits the description.

    Bytes of every view that stays are the file's own. Pictures beside the file are taken in.
    """
    shell = document.root
    views, accessors = document.items("bufferViews"), document.items("accessors")
    parts: list[bytes] = []
    for view in views:
        start, size = int(view.get("byteOffset", 0)), int(view["byteLength"])
        parts.append(bytes(document.buffers[int(view.get("buffer", 0))][start : start + size]))
    if not keep_clips:
        # Accessors that only the removed animations use; none where an extension may refer to data in its own way
        animations = shell.pop("animations", [])
        dead = set[int]()
        if not _mentions_data(document.root, inside=False):
            dead = {
                int(s[key])
                for animation in animations
                for s in animation.get("samplers", [])
                for key in ("input", "output")
            }
            for mesh in document.items("meshes"):
                for primitive in mesh["primitives"]:
                    dead -= set(primitive["attributes"].values()) | {primitive.get("indices")}
                    for target in primitive.get("targets", []):
                        dead -= set(target.values())
            dead -= {skin.get("inverseBindMatrices") for skin in document.items("skins")}
        kept = [i for i in range(len(accessors)) if i not in dead]
        in_use = {number for i in kept for number in _views_of(accessors[i])}
        spare = {number for i in dead for number in _views_of(accessors[i])} - in_use
        spare -= {int(image["bufferView"]) for image in document.items("images") if "bufferView" in image}
        _renumber(document, kept, [i for i in range(len(views)) if i not in spare])
        parts = [part for i, part in enumerate(parts) if i not in spare]
    views = shell.get("bufferViews", [])
    for image in document.items("images"):
        # A picture that lies beside the file moves into it
        name = unquote(str(image.get("uri", "data:")))
        folder = Path(document.path).resolve().parent
        file = (folder / name).resolve()
        is_beside = not name.startswith("data:") and "://" not in name and folder in file.parents and file.is_file()
        if is_beside and file.suffix.lower() in MIME_TYPES:
            content = bytes(map_file(file, limit=MAX_GLTF_BYTES))
            image["bufferView"] = len(views)
            image["mimeType"] = MIME_TYPES[Path(unquote(image.pop("uri"))).suffix.lower()]
            views.append({"buffer": 0, "byteLength": len(content)})
            parts.append(content)
    data = bytearray()
    for view, part in zip(views, parts, strict=True):
        view["buffer"], view["byteOffset"] = 0, len(data)
        data += part + b"\0" * (-len(part) % 4)
    if views:
        shell["bufferViews"] = views
    return bytes(data)


def _mentions_data(value: Any, *, inside: bool) -> bool:
    """Tell whether an extension holds a key that may be the number of an accessor, a view or a buffer."""
    if isinstance(value, list):
        return any(_mentions_data(item, inside=inside) for item in cast(list[Any], value))
    if not isinstance(value, dict):
        return False
    table = cast(dict[str, Any], value)
    if inside and DATA_KEYS & table.keys():
        return True
    return any(_mentions_data(item, inside=inside or key == "extensions") for key, item in table.items())


def _views_of(accessor: dict[str, Any]) -> list[int]:
    sparse = accessor.get("sparse", {})
    holders = (accessor, sparse.get("indices", {}), sparse.get("values", {}))
    return [int(holder["bufferView"]) for holder in holders if "bufferView" in holder]


def _renumber(document: GltfDocument, accessors: list[int], views: list[int]) -> None:
    """Leave out accessors and views that are not listed, and count the others anew wherever they are named."""
    shell = document.root
    new_view = {old: new for new, old in enumerate(views)}
    new = {old: number for number, old in enumerate(accessors)}
    holders = list(document.items("images"))
    for old in accessors:
        sparse = shell["accessors"][old].get("sparse", {})
        holders += [shell["accessors"][old], sparse.get("indices", {}), sparse.get("values", {})]
    for holder in holders:
        if "bufferView" in holder:
            holder["bufferView"] = new_view[holder["bufferView"]]
    for mesh in document.items("meshes"):
        for primitive in mesh["primitives"]:
            for table in (primitive["attributes"], *primitive.get("targets", [])):
                table.update({name: new[number] for name, number in table.items()})
            if "indices" in primitive:
                primitive["indices"] = new[primitive["indices"]]
    for skin in document.items("skins"):
        if "inverseBindMatrices" in skin:
            skin["inverseBindMatrices"] = new[skin["inverseBindMatrices"]]
    for name, kept in (("accessors", accessors), ("bufferViews", views)):
        if name in shell:
            shell[name] = [shell[name][i] for i in kept]
