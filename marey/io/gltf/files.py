"""glTF 2.0 files, `.glb` and `.gltf`, in and out: ours without loss, those of other tools joint by joint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

import numpy as np

from marey.base import InputError
from marey.io.binary import AnyPath, as_format_error, format_error
from marey.io.conventions import unit_in_metres
from marey.io.gltf.buffers import GltfDocument, read_document
from marey.io.gltf.nodes import default_local, read_binds, read_tracks, read_tree
from marey.io.gltf.writer import write_gltf
from marey.io.scene import Local, SceneClip, build_motion, choose_clip, name_clips, pick_joints
from marey.io.scene.clip import check_num_frames, local_transform
from marey.io.scene.keys import AnimationTrack, block_times, count_frames, place_frames, sample_track
from marey.lie import SO3
from marey.motion import Contacts, Motion
from marey.skeleton import EulerLimits, Skeleton

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
