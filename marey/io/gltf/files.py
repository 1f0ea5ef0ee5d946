"""glTF 2.0 files, `.glb` and `.gltf` ([Khronos2021]_): ours without loss, those of other tools joint by joint.

Data without a glTF field are stored in ``extras``: rate, contacts, tips, limits, notes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, InputError, IntArray
from marey.io.binary import AnyPath, as_format_error, format_error
from marey.io.character import Character, load_character
from marey.io.conventions import unit_in_metres
from marey.io.export import as_clips, fit_clips, place_root
from marey.io.gltf.buffers import (
    GLTF_SUFFIXES,
    INDICES,
    VERTICES,
    GltfDocument,
    GltfPack,
    read_document,
    to_glb,
    to_gltf,
)
from marey.io.gltf.rig import default_local, read_binds, read_tracks, read_tree
from marey.io.scene import Local, SceneClip, build_motion, choose_clip, name_clips, pick_joints
from marey.io.scene.clip import check_num_frames, local_transform
from marey.io.scene.motion import AnimationTrack, block_times, count_frames, place_frames, sample_track
from marey.lie import SO3
from marey.motion import Contacts, Motion, find_runs
from marey.skeleton import Capsules, EulerLimits, Skeleton, capsule_mesh, capsules


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


__all__ = ["list_gltf_clips", "read_gltf", "write_gltf"]

UNREADABLE: Final = ("EXT_meshopt_compression", "KHR_meshopt_compression")
Tracks = dict[tuple[int, str], AnimationTrack]


def read_gltf(
    path: AnyPath, *, rate_hz: float | None = None, unit: str | None = None, clip: str | int | None = None
) -> Motion:
    """Read the skeleton and one animation of a `.glb` or `.gltf` file.

    With a skin, its joints become the skeleton; without one, the animated nodes and those below them. A file without
    animation gives one frame.

    Args:
        path: the file.
        rate_hz: sample at this rate; else at the rate of the keys.
        unit: length unit of the file; glTF says metres, but not every exporter does.
        clip: name or number of the animation; else the first that moves.

    Raises:
        FormatError: the file is damaged or holds no node that could be a joint.
        UnknownNameError: there is no such animation.
    """
    metres = unit_in_metres(unit or "m")
    document = read_document(path)
    with as_format_error(path), np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused as not finite
        for extension in document.root.get("extensionsRequired", []):
            if extension in UNREADABLE:
                raise format_error(path, f"its data is compressed by {extension}", "Export it without compression.")
        # What our own writer put into extras
        extras = document.root.get("extras")
        own = cast(dict[str, Any], extras).get("marey") if isinstance(extras, dict) else None
        own = cast(dict[str, Any], own) if isinstance(own, dict) else {}
        own = own if own.get("version") == 1 else {}
        scene = _read_scene(document, own, rate_hz, clip)
        motion = build_motion(replace(scene, metres_per_unit=metres, unit=unit or "m"))
        if not own:
            return motion
        # What glTF cannot hold and our writer put into extras: tips, limits, contacts, names
        skeleton, metres = motion.skeleton, 1.0 if motion.source is None else motion.source.metres_per_unit
        tips = skeleton.tips
        if "tips" in own:
            kept = cast(Mapping[str, Any], own["tips"])
            tips = metres * np.array([kept.get(name, (0.0, 0.0, 0.0)) for name in skeleton.names], dtype=np.float64)
        called = str(own.get("skeleton") or "skeleton")
        # Undo the limits part of :func:`describe_motion`
        restored: list[EulerLimits] = []
        for item in cast(list[dict[str, Any]], own.get("limits", [])):
            low = np.array([-np.inf if x is None else x for x in item["low_rad"]], dtype=np.float64)
            high = np.array([np.inf if x is None else x for x in item["high_rad"]], dtype=np.float64)
            restored.append(EulerLimits(str(item["joint"]), str(item["order"]), low, high, SO3(item["axis_wxyz"])))
        # Undo its contact part, of a clip that was read whole
        contacts = None
        held = own.get("contacts") if motion.num_frames == own.get("num_frames") else None
        if held is not None:
            feet = tuple(str(name) for name in held)
            active = np.zeros((motion.num_frames, len(feet)), dtype=np.bool_)
            for k, name in enumerate(feet):
                for start, stop in held[name]:
                    if not 0 <= start <= stop <= motion.num_frames:
                        raise InputError(f"contact '{name}' lasts from frame {start} to {stop} of {motion.num_frames}")
                    active[start:stop, k] = True
            contacts = Contacts(feet, active)
        return replace(
            motion,
            skeleton=Skeleton(skeleton.names, skeleton.parents, skeleton.offsets, tips, tuple(restored), called),
            contacts=contacts,
            name=str(own.get("name") or motion.name),
        )


def list_gltf_clips(path: AnyPath) -> tuple[str, ...]:
    """Names of the animations of a file; none where it holds a rest pose only."""
    document = read_document(path)
    with as_format_error(path):
        return _clip_names(document)


def _clip_names(document: GltfDocument) -> tuple[str, ...]:
    return name_clips(str(item.get("name") or "") for item in document.items("animations"))


def _read_scene(
    document: GltfDocument, own: Mapping[str, Any], rate_hz: float | None, asked: str | int | None
) -> SceneClip:
    tree = read_tree(document)
    animations, names = document.items("animations"), _clip_names(document)
    notes: list[str] = []
    found: list[AnimationTrack] = []
    name = ""
    if animations or asked is not None:

        def moves(number: int) -> bool:
            return any(np.ptp(track.keys, axis=0).any() for track in read_tracks(document, animations[number]))

        number, notes = choose_clip(document.path, names, asked, moves)
        found, name = read_tracks(document, animations[number]), str(animations[number].get("name", ""))
    # The largest skin, and those of the same body, which share joints with it, or hang on or carry one of its: some
    # exporters give each mesh a skin of the bones that it needs alone
    listed = sorted(document.items("skins"), key=lambda skin: -len(skin["joints"]))
    for skin in listed:
        for joint in skin["joints"]:
            document.item("nodes", joint)
    skins, known = list[dict[str, Any]](), set[int]()
    for skin in listed:
        joints = {int(joint) for joint in skin["joints"]}
        if not skins or known & tree.with_ancestors(joints) or joints & tree.with_ancestors(known):
            skins.append(skin)
            known |= joints
    if len(skins) < len(listed):
        notes.append(f"{len(listed) - len(skins)} of {len(listed)} skins belong to other bodies and were dropped")
    # Joints: those of the skins
    if skins:
        wanted = {int(joint) for skin in skins for joint in skin["joints"]}
    else:
        # Without a skin: animated nodes, and bare nodes below them that carry others
        wanted = {track.node for track in found}
        for node in tree.order:
            if int(tree.parents[node]) in wanted and tree.is_bare(node) and tree.child_lists[node]:
                wanted.add(node)
    joints = pick_joints(document.path, tree, wanted)
    # Tracks of the joints and of what lies above them, and the frames they ask for
    used = tree.with_ancestors(joints)
    tracks = {(track.node, track.path): track for track in found if track.node in used}
    # Frames: those of our own writer's rate, else those that the key times ask for
    if not tracks:
        notes.append("the file holds no animation: one frame, the rest pose of its nodes")
        rate, start, frames = float(rate_hz or 30.0), 0.0, 1
    else:
        distinct = {track.times.tobytes(): track.times for track in tracks.values()}
        times = np.unique(np.concatenate(list(distinct.values())))
        if "rate_hz" not in own:
            rate, start, frames = place_frames(times, rate_hz, notes)
        else:
            rate = float(own["rate_hz"] if rate_hz is None else rate_hz)
            start, frames = float(times[0]), count_frames(float(times[0]), float(times[-1]), rate)
    check_num_frames(document.path, frames, len(joints), sum(len(track.times) for track in tracks.values()), rate)
    return SceneClip(
        document.path,
        "gltf",
        name,
        tree,
        joints,
        read_binds(document, tree, joints, skins),
        partial(_sample_node, document.items("nodes"), tracks, start, rate),
        rate,
        frames,
        notes=tuple(notes),
    )


def _sample_node(
    items: list[dict[str, Any]], tracks: Tracks, start_s: float, rate_hz: float, node: int, block: slice
) -> Local:
    """Transform of a node relative to its parent at the frames of a block."""
    item = items[node]
    moved = {name: tracks.get((node, name)) for name in ("translation", "rotation", "scale")}
    if not any(moved.values()):
        return default_local(item)
    times = block_times(start_s, rate_hz, block)
    still = {"translation": (0.0, 0.0, 0.0), "rotation": (0.0, 0.0, 0.0, 1.0), "scale": (1.0, 1.0, 1.0)}
    values = {
        name: np.broadcast_to(np.array(item.get(name, still[name]), dtype=np.float64), (len(times), len(still[name])))
        if track is None
        else sample_track(track, times, rate_hz)
        for name, track in moved.items()
    }
    return local_transform(values["translation"], values["rotation"], values["scale"])
