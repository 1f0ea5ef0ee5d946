r"""glTF 2.0 files, `.glb` and `.gltf`, in and out: ours without loss, those of other tools joint by joint.

Bones of other tools have rest frames of their own (a bone's own axis along it, say). We turn them into ours, aligned
with the world at rest: with the rest frame :math:`G_j` of a joint and its frame :math:`W_j` in the animation,

.. math:: R_{world,j} = W_j G_j^{-1}, \qquad R_j = R_{world,p(j)}^{-1} R_{world,j},

and bones are what joins the joints in world, so positions in world stay exactly what the file says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np

from marey.base import FloatArray, InputError
from marey.io.binary import AnyPath, as_format_error, format_error
from marey.io.conventions import unit_in_metres
from marey.io.gltf.buffers import GltfDocument, read_document
from marey.io.gltf.nodes import (
    AnimationTrack,
    Local,
    NodeTree,
    choose_joints,
    compose_transforms,
    default_local,
    guess_rate,
    local_transform,
    read_tracks,
    read_tree,
    rest_worlds,
    rotation_part,
    sample_track,
)
from marey.io.gltf.writer import restore_contacts, restore_limits, write_gltf
from marey.lie import SO3
from marey.motion import LoadReport, Motion, Source
from marey.skeleton import MAX_JOINTS, NO_PARENT, Skeleton

__all__ = ["read_gltf", "write_gltf"]

RIGID_TOL: Final = 2e-6  # [m] bones whose ends move less than this have one length: float32 noise
BLOCK: Final = 2048  # [frame] frames converted at a time, so that memory stays small
MAX_CELLS: Final = 2_000_000  # frames x joints that a file may ask for ...
CELLS_PER_KEY: Final = 64  # ... unless it holds that many keys
UNREADABLE: Final = ("EXT_meshopt_compression", "KHR_meshopt_compression")


@dataclass(frozen=True, slots=True, eq=False)
class _Rig:
    """Joints and animation of a glTF file."""

    document: GltfDocument
    tree: NodeTree
    joints: list[int]  # node of each joint; NO_PARENT for a root of our own
    parents: list[int]
    rest: list[Local]
    tracks: dict[tuple[int, str], AnimationTrack]
    rate_hz: float
    frames: int
    start_s: float


def read_gltf(path: AnyPath, *, rate_hz: float | None = None, unit: str | None = None) -> Motion:
    """Read the skeleton and the first animation of a `.glb` or `.gltf` file.

    With a skin, its joints become the skeleton; without one, the animated nodes and those below them. A file without
    animation gives one frame.

    Args:
        path: the file.
        rate_hz: sample at this rate; else at the rate of the keys.
        unit: length unit of the file; glTF says metres, but not every exporter does.

    Raises:
        FormatError: the file is damaged or holds no node that could be a joint.
    """
    scale = unit_in_metres(unit or "m")
    document = read_document(path)
    with as_format_error(path), np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused as not finite
        motion = _read(document, rate_hz)
        if scale == 1.0:
            return motion
        return replace(
            motion,
            skeleton=motion.skeleton.scaled(scale),
            root_positions=motion.root_positions * scale,
            translations=None if motion.translations is None else motion.translations * scale,
            source=replace(motion.source or Source("", "gltf"), unit=unit or "m", metres_per_unit=scale),
            load_report=LoadReport(_size_warning(motion.skeleton.scaled(scale)), motion.load_report.notes),
        )


def _read(document: GltfDocument, rate_hz: float | None) -> Motion:
    for extension in document.root.get("extensionsRequired", []):
        if extension in UNREADABLE:
            raise format_error(
                document.path, f"its data is compressed by {extension}", "Export it without compression."
            )
    notes: list[str] = []
    warnings: list[str] = []
    # What our own writer put into extras
    extras = document.root.get("extras")
    own = cast(dict[str, Any], extras).get("marey") if isinstance(extras, dict) else None
    own = cast(dict[str, Any], own) if isinstance(own, dict) and cast(dict[str, Any], own).get("version") == 1 else {}
    rig = _build_rig(document, own, rate_hz, notes, warnings)
    positions, rotations, translations = _sample_animation(rig)
    # Joints need names of their own
    names: list[str] = []
    taken: set[str] = set()
    for joint in rig.joints:
        name = "root" if joint == NO_PARENT else str(rig.tree.items[joint].get("name") or f"node_{joint}")
        if name in taken:
            name = f"{name}_{joint}"
        names.append(name)
        taken.add(name)
    # Bones of one length give offsets; those that move keep their translations, and rest as the skin says
    rest = np.concatenate([position for _, position in rig.rest])
    drift = np.abs(translations - translations[:1]).max() if translations.size else 0.0
    offsets = translations[0].copy()
    if drift > RIGID_TOL:
        offsets = rest - rest[[max(parent, 0) for parent in rig.parents]]
    offsets[0] = rest[0]
    tips: Mapping[str, Any] = own["tips"] if "tips" in own else _end_nodes(rig, names)
    ends = np.array([tips.get(name, (0.0, 0.0, 0.0)) for name in names], dtype=np.float64)
    called = str(own.get("skeleton") or "skeleton")
    skeleton = Skeleton(tuple(names), np.array(rig.parents), offsets, ends, restore_limits(own), called)
    moving = bool(drift > RIGID_TOL)
    if moving:
        notes.append("bones change their length in the animation, so joint translations are kept frame by frame")
    same_frames = rig.frames == own.get("num_frames")
    animations = document.items("animations")
    animated = str(animations[0].get("name", "")) if animations else ""
    return Motion(
        skeleton,
        rig.rate_hz,
        positions,
        rotations,
        contacts=restore_contacts(own, rig.frames) if same_frames else None,
        translations=translations if moving else None,
        source=Source(document.path, "gltf"),
        load_report=LoadReport(warnings + _size_warning(skeleton), notes),
        name=str(own.get("name") or animated or "motion"),
    )


def _build_rig(
    document: GltfDocument, own: Mapping[str, Any], rate_hz: float | None, notes: list[str], warnings: list[str]
) -> _Rig:
    tree = read_tree(document)
    animations = document.items("animations")
    found = read_tracks(document, animations[0]) if animations else []
    if len(animations) > 1:
        others = ", ".join(f"'{item.get('name', '?')}'" for item in animations[1:6])
        warnings.append(f"the file holds {len(animations)} animations; the first was read, not {others}")
    skins = sorted(document.items("skins"), key=lambda skin: -len(skin["joints"]))
    for skin in skins:
        for joint in skin["joints"]:
            document.item("nodes", joint)
    # The largest skin, and those that share joints with it
    kept: list[dict[str, Any]] = []
    for skin in skins:
        known = {joint for other in kept for joint in other["joints"]}
        if not kept or known & set(skin["joints"]):
            kept.append(skin)
    if len(kept) < len(skins):
        notes.append(f"{len(skins) - len(kept)} of {len(skins)} skins belong to other bodies and were dropped")
    joints = choose_joints(tree, _select_nodes(tree, kept, found))
    if not joints:
        what = "no node is animated or part of a skin, so there is no skeleton"
        raise format_error(document.path, what, "Export the file with its armature and animation.")
    if len(joints) > MAX_JOINTS:
        raise format_error(document.path, f"{len(joints)} joints; at most {MAX_JOINTS} are read")
    # Tracks of the joints and of what lies above them, and the frames they ask for
    used = tree.with_ancestors(joints)
    tracks = {(track.node, track.path): track for track in found if track.node in used}
    rate, start, frames = _time_grid(tracks, own, rate_hz, notes)
    keys = sum(len(track.times) for track in tracks.values())
    if frames * len(joints) > max(MAX_CELLS, CELLS_PER_KEY * keys):
        what = f"{keys} keys spread over {frames} frames at {rate:g} Hz"
        raise format_error(document.path, what, "Give a lower rate_hz, or cut the animation.")
    place = {node: i for i, node in enumerate(joints)}
    parents = [place.get(int(tree.parents[j]), 0) if i else NO_PARENT for i, j in enumerate(joints)]
    rest = rest_worlds(document, tree, joints, kept)
    return _Rig(document, tree, joints, parents, rest, tracks, rate, frames, start)


def _select_nodes(tree: NodeTree, skins: list[dict[str, Any]], tracks: list[AnimationTrack]) -> set[int]:
    if skins:
        return {int(joint) for skin in skins for joint in skin["joints"]}
    # Without a skin: animated nodes, and bare nodes below them that carry others
    animated = {track.node for track in tracks}
    wanted = set(animated)
    for node in tree.order:
        is_bare = not {"mesh", "camera"} & tree.items[node].keys()
        if int(tree.parents[node]) in wanted and is_bare and tree.children(node):
            wanted.add(node)
    return wanted


def _time_grid(
    tracks: dict[tuple[int, str], AnimationTrack], own: Mapping[str, Any], rate_hz: float | None, notes: list[str]
) -> tuple[float, float, int]:
    if not tracks:
        notes.append("the file holds no animation: one frame, the rest pose of its nodes")
        return float(rate_hz or 30.0), 0.0, 1
    distinct = {track.times.tobytes(): track.times for track in tracks.values()}
    times = np.unique(np.concatenate(list(distinct.values())))
    if "rate_hz" in own:
        rate = float(own["rate_hz"])
    else:
        rate, note = guess_rate(times)
        notes.append(note)
    rate = rate if rate_hz is None else float(rate_hz)
    if not (np.isfinite(rate) and rate > 0.0):
        raise InputError(f"rate_hz is {rate}", "It must be a positive number of frames per second")
    if times[0] > 0.0:
        notes.append(f"the animation starts at {times[0]:g} s; the motion starts at 0")
    return rate, float(times[0]), int(min((times[-1] - times[0]) * rate + 1e-3, 1e12)) + 1


def _sample_animation(rig: _Rig) -> tuple[FloatArray, SO3, FloatArray]:
    """Root positions, local rotations and joint translations of every frame, block by block."""
    count = len(rig.joints)
    positions, wxyz = np.empty((rig.frames, 3)), np.empty((rig.frames, count, 4))
    translations = np.zeros((rig.frames, count, 3))
    undo_rest = rotation_part(np.concatenate([linear for linear, _ in rig.rest])).inverse()
    above = np.array(rig.parents[1:], dtype=np.int64)
    for first in range(0, rig.frames, BLOCK):
        block = slice(first, min(first + BLOCK, rig.frames))
        # World transforms of all joints, and of the nodes above them, parents first
        times = rig.start_s + np.arange(block.start, block.stop) / rig.rate_hz
        worlds: dict[int, Local] = {NO_PARENT: (np.tile(np.eye(3), (len(times), 1, 1)), np.zeros((len(times), 3)))}
        for joint in rig.joints:
            waiting = [joint]
            while waiting[-1] not in worlds:
                waiting.append(int(rig.tree.parents[waiting[-1]]))
            for node in waiting[-2::-1]:
                worlds[node] = compose_transforms(
                    worlds[int(rig.tree.parents[node])], _local_transforms(rig, node, times)
                )
        linear = np.stack([worlds[joint][0] for joint in rig.joints], axis=1)
        places = np.stack([worlds[joint][1] for joint in rig.joints], axis=1)
        # R_world,j = W_j G_j^-1, then relative to the parent
        frames = rotation_part(linear.reshape(-1, 3, 3)).reshape(-1, count) @ undo_rest
        to_parent = frames[:, above].inverse()
        positions[block], wxyz[block, 0] = places[:, 0], frames[:, 0].wxyz
        wxyz[block, 1:] = (to_parent @ frames[:, 1:]).wxyz
        translations[block, 1:] = to_parent @ (places[:, 1:] - places[:, above])
    return positions, SO3(wxyz), translations


def _local_transforms(rig: _Rig, node: int, times: FloatArray) -> Local:
    item = rig.tree.items[node]
    moved = {name: rig.tracks.get((node, name)) for name in ("translation", "rotation", "scale")}
    if not any(moved.values()):
        return default_local(item)
    still = {"translation": (0.0, 0.0, 0.0), "rotation": (0.0, 0.0, 0.0, 1.0), "scale": (1.0, 1.0, 1.0)}
    values = {
        name: np.broadcast_to(np.array(item.get(name, still[name]), dtype=np.float64), (len(times), len(still[name])))
        if track is None
        else sample_track(track, times, rig.rate_hz)
        for name, track in moved.items()
    }
    return local_transform(values["translation"], values["rotation"], values["scale"])


def _end_nodes(rig: _Rig, names: list[str]) -> dict[str, FloatArray]:
    """Where a joint without joints below it carries one bare node, that node is where its bone ends."""
    tips: dict[str, FloatArray] = {}
    joints = set(rig.joints)
    for i, joint in enumerate(rig.joints):
        below = [] if joint == NO_PARENT else rig.tree.children(joint)
        if len(below) == 1 and below[0] not in joints and not {"mesh", "camera"} & rig.tree.items[below[0]].keys():
            tips[names[i]] = rig.rest[i][0][0] @ default_local(rig.tree.items[below[0]])[1][0]
    return tips


def _size_warning(skeleton: Skeleton) -> list[str]:
    extent = float(np.ptp(skeleton.rest_positions(), axis=0).max())
    if skeleton.num_joints < 5 or 0.2 < extent < 5.0:
        return []
    return [f"the skeleton is {extent:.3g} m large; if its unit is not the metre, say so: unit='cm'"]
