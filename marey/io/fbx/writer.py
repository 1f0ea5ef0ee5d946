r"""A Motion as binary FBX 7.4: joints as limb nodes, curves of rotation and translation, takes, a skinned mesh.

FBX is written in centimetres, Y up. A limb node turns by Euler angles about X, then Y, then Z,
:math:`R = R_z R_y R_x`, chosen so that no curve jumps; keys are float32, on frames, times in units of
:math:`1/46186158000` s. Every frame of the rest pose is aligned with the world, as in the skeleton.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, IntArray
from marey.io.binary import AnyPath
from marey.io.euler import decompose_euler
from marey.io.export import prepare_clips
from marey.io.fbx.records import (
    CENTIMETRES,
    CREATION_TIME,
    FILE_ID,
    FIRST_ID,
    VERSION,
    FbxRecord,
    FbxScene,
    PackedValue,
    add_mesh,
    add_properties,
    matrix_values,
    pack_array,
    pack_file,
    short,
)
from marey.motion import Motion, find_runs
from marey.skeleton import NO_PARENT, Skeleton

TICKS: Final = 46_186_158_000  # units of time in a second
CUSTOM_RATE: Final = 14  # TimeMode: frames a second as CustomFrameRate says
KEY_VERSION: Final = 4008
LINEAR: Final = 1 << 2 | 1 << 8 | 1 << 13 | 1 << 14  # interpolation and tangents of a key
STEP: Final = 1 << 1
KEY_DATA: Final = np.array([0.0, 0.0, 9.419963346924634e-30, 0.0], dtype=np.float32)  # slopes, weights of tangents
NUDGE_CM: Final = 1e-3  # [cm] how far a moving bone rests beside the line on which Blender would fix it
STILL_DEG: Final = 1e-7  # [deg] angles that differ less from rest need no curve
STILL_CM: Final = 1e-7  # [cm] the same for places
AXES: Final = ("X", "Y", "Z")


def write_fbx(
    motion: Motion | Sequence[Motion],
    path: AnyPath,
    *,
    onto: Any = None,
    root: str = "hips",
) -> None:
    """Write motions as the takes of a binary FBX 7.4 file.

    Contacts travel as animated properties ``contact_NAME`` of the root. Keys are float32, so a joint of a body near the
    origin is read back within a few micrometres.

    Args:
        motion: what to write; several motions on one skeleton become several takes.
        path: an `.fbx` file.
        onto: a character, or its file: its mesh and skin are written too; the motion must be on its skeleton.
        root: where the root motion goes: ``"hips"``, ``"bone"`` or ``"in-place"``.

    Raises:
        InputError: the motions are on different skeletons, or not on the character's.
    """
    moved, character = prepare_clips(motion, onto, root)
    scene = FbxScene()
    offsets = moved[0].skeleton.offsets * CENTIMETRES
    # Blender joins a bone that rests right above its parent, along Y, to the parent's end, and then ignores how it
    # moves: joints that move against their parent rest a hundredth of a millimetre beside it
    if any(clip.translations is not None for clip in moved):
        above = np.abs(offsets[:, [0, 2]]).max(axis=1) < NUDGE_CM
        above[0] = False
        offsets[above, 0] += NUDGE_CM
    models = _add_skeleton(scene, moved[0], offsets)
    rest = moved[0].skeleton.rest_positions() * CENTIMETRES
    meshes: list[int] = []
    if character is not None:
        added = moved[0].skeleton.num_joints - character.skeleton.num_joints
        meshes = add_mesh(scene, character, models[added:], rest[added:])
    bound = replace(moved[0].skeleton, offsets=offsets).rest_positions()
    _, record = scene.add("Pose", "BindPose", "Pose", "BindPose")
    record.add("Type", "BindPose")
    record.add("Version", short(100))
    record.add("NbPoseNodes", short(len(models) + len(meshes)))
    for model, place in zip([*models, *meshes], [*bound, *np.zeros((len(meshes), 3))], strict=True):
        node = record.add("PoseNode")
        node.add("Node", model)
        node.add("Matrix", matrix_values(place))
    for clip in moved:
        _add_take(scene, clip, models, offsets)
    Path(path).write_bytes(pack_file(_assemble(scene, moved)))


def _add_skeleton(scene: FbxScene, motion: Motion, offsets: FloatArray) -> list[int]:
    """Add a limb node for each joint, resting at ``offsets`` [cm]; returns their numbers."""
    skeleton = motion.skeleton
    models: list[int] = []
    lengths = _bone_lengths(skeleton) * CENTIMETRES
    for joint, name in enumerate(skeleton.names):
        attribute, record = scene.add("NodeAttribute", name, "NodeAttribute", "LimbNode")
        add_properties(record, ("Size", "double", "Number", "", float(lengths[joint])))
        record.add("TypeFlags", "Skeleton")
        model, record = scene.add("Model", name, "Model", "LimbNode")
        record.add("Version", short(232))
        place = tuple(float(x) for x in offsets[joint])
        flags: list[tuple[Any, ...]] = []
        if joint == 0 and motion.contacts is not None:
            flags = [(f"contact_{point}", "double", "Number", "A+U", 0.0) for point in motion.contacts.names]
        add_properties(
            record,
            ("RotationActive", "bool", "", "", short(1)),
            ("InheritType", "enum", "", "", short(1)),
            ("ScalingMax", "Vector3D", "Vector", "", 0.0, 0.0, 0.0),
            ("DefaultAttributeIndex", "int", "Integer", "", short(0)),
            ("Lcl Translation", "Lcl Translation", "", "A", *place),
            ("Lcl Rotation", "Lcl Rotation", "", "A", 0.0, 0.0, 0.0),
            ("Lcl Scaling", "Lcl Scaling", "", "A", 1.0, 1.0, 1.0),
            *flags,
        )
        record.add("Shading", True)
        record.add("Culling", "CullingOff")
        models.append(model)
        scene.connect(attribute, model)
        above = int(skeleton.parents[joint])
        scene.connect(model, 0 if above == NO_PARENT else models[above])
    return models


def _bone_lengths(skeleton: Skeleton) -> FloatArray:
    """Length ``(J,)`` [m] at which each joint is drawn: the way to its first child, its tip, or that of its parent."""
    lengths = np.linalg.norm(skeleton.tips, axis=1)
    ways = np.linalg.norm(skeleton.offsets, axis=1)
    for joint in range(skeleton.num_joints - 1, 0, -1):
        if ways[joint] > 0.0:
            lengths[skeleton.parents[joint]] = ways[joint]
    for joint in range(1, skeleton.num_joints):
        if lengths[joint] == 0.0:
            lengths[joint] = 0.5 * ways[joint]
    return lengths


def _add_take(scene: FbxScene, motion: Motion, models: list[int], offsets: FloatArray) -> None:
    """Add a stack with one layer, and the curves of all joints that leave their rest."""
    ticks = np.rint(motion.times() * TICKS).astype(np.int64)
    stack, record = scene.add("AnimationStack", motion.name, "AnimStack", "")
    span = {"LocalStart": 0, "LocalStop": int(ticks[-1]), "ReferenceStart": 0, "ReferenceStop": int(ticks[-1])}
    add_properties(record, *((name, "KTime", "Time", "", tick) for name, tick in span.items()))
    layer, _ = scene.add("AnimationLayer", motion.name, "AnimLayer", "")
    scene.connect(layer, stack)
    times = pack_array(ticks)
    for model, name, values, rests in _find_tracks(motion, models, offsets):
        node, record = scene.add("AnimationCurveNode", name[0], "AnimCurveNode", "")
        add_properties(record, *((f"d|{a}", "Number", "", "A", float(v)) for a, v in zip(AXES, values[0], strict=True)))
        scene.connect(node, layer)
        scene.connect(node, model, f"Lcl {name}")
        for axis, column in enumerate(values.T):
            # A value that does not move is one key
            is_still = bool(np.ptp(column) <= rests)
            keys = column[:1] if is_still else column
            curve = _add_curve(scene, pack_array(ticks[:1]) if is_still else times, keys, LINEAR)
            scene.connect(curve, node, f"d|{AXES[axis]}")
    if motion.contacts is not None:
        for name in motion.contacts.names:
            # A key where a contact begins or ends, and one in the first frame
            track = motion.contacts.track(name)
            edges = sorted({0, *(frame for run in find_runs(track) for frame in run if frame < len(track))})
            values, label = track[edges].astype(np.float32), f"contact_{name}"
            node, record = scene.add("AnimationCurveNode", label, "AnimCurveNode", "")
            add_properties(record, (f"d|{label}", "Number", "", "A", float(values[0])))
            scene.connect(node, layer)
            scene.connect(node, models[0], label)
            scene.connect(_add_curve(scene, pack_array(ticks[edges]), values, STEP), node, f"d|{label}")


def _find_tracks(
    motion: Motion, models: list[int], offsets: FloatArray
) -> Iterator[tuple[int, str, FloatArray, float]]:
    """Model, property, values ``(F, 3)`` [cm or deg] and tolerance of everything that is not at rest."""
    wxyz = np.ascontiguousarray(motion.rotations.wxyz)
    axes: IntArray = np.tile(np.array([2, 1, 0]), (len(models), 1))
    angles = decompose_euler(wxyz, axes, np.zeros((1, len(models), 3)), False)[..., ::-1]
    for joint, model in enumerate(models):
        places = motion.skeleton.offsets[None, joint]
        if joint == 0:
            places = motion.root_positions
        elif motion.translations is not None:
            places = motion.translations[:, joint]
        places = places * CENTIMETRES
        if np.abs(places - offsets[joint]).max() > STILL_CM:
            yield model, "Translation", places, STILL_CM
        if np.abs(angles[:, joint]).max() > STILL_DEG:
            yield model, "Rotation", angles[:, joint], STILL_DEG


def _add_curve(scene: FbxScene, times: PackedValue, values: NDArray[Any], flags: int) -> int:
    curve, record = scene.add("AnimationCurve", "", "AnimCurve", "")
    record.add("Default", float(values[0]))
    record.add("KeyVer", short(KEY_VERSION))
    record.add("KeyTime", times)
    record.add("KeyValueFloat", pack_array(values.astype(np.float32)))
    record.add("KeyAttrFlags", pack_array(np.array([flags], dtype=np.int32)))
    record.add("KeyAttrDataFloat", pack_array(KEY_DATA))
    record.add("KeyAttrRefCount", pack_array(np.array([len(values)], dtype=np.int32)))
    return curve


def _assemble(scene: FbxScene, clips: list[Motion]) -> list[FbxRecord]:
    header = FbxRecord("FBXHeaderExtension")
    header.add("FBXHeaderVersion", short(1003))
    header.add("FBXVersion", short(VERSION))
    header.add("EncryptionType", short(0))
    stamp = header.add("CreationTimeStamp")
    stamp.add("Version", short(1000))
    for name, number in zip(("Year", "Month", "Day", "Hour", "Minute", "Second"), (1970, 1, 1, 10, 0, 0), strict=True):
        stamp.add(name, short(number))
    stamp.add("Millisecond", short(0))
    header.add("Creator", "marey")
    settings = FbxRecord("GlobalSettings")
    settings.add("Version", short(1000))
    last = max(round(clip.duration_s * TICKS) for clip in clips)
    numbers = {"UpAxis": 1, "UpAxisSign": 1, "FrontAxis": 2, "FrontAxisSign": 1, "CoordAxis": 0, "CoordAxisSign": 1}
    numbers |= {"OriginalUpAxis": 1, "OriginalUpAxisSign": 1}
    add_properties(
        settings,
        *((name, "int", "Integer", "", short(number)) for name, number in numbers.items()),
        ("UnitScaleFactor", "double", "Number", "", 1.0),
        ("OriginalUnitScaleFactor", "double", "Number", "", 1.0),
        ("TimeMode", "enum", "", "", short(CUSTOM_RATE)),
        ("CustomFrameRate", "double", "Number", "", clips[0].rate_hz),
        ("TimeSpanStart", "KTime", "Time", "", 0),
        ("TimeSpanStop", "KTime", "Time", "", last),
    )
    documents = FbxRecord("Documents")
    documents.add("Count", short(1))
    document = documents.add("Document", FIRST_ID - 1, "Scene", "Scene")
    document.add("RootNode", 0)
    definitions = FbxRecord("Definitions")
    counts: dict[str, int] = {"GlobalSettings": 1}
    for item in scene.objects.records:
        counts[item.name] = counts.get(item.name, 0) + 1
    definitions.add("Version", short(100))
    definitions.add("Count", short(sum(counts.values())))
    for name, count in counts.items():
        definitions.add("ObjectType", name).add("Count", short(count))
    takes = FbxRecord("Takes")
    takes.add("Current", clips[0].name)
    for clip in clips:
        stop = round(clip.duration_s * TICKS)
        take = takes.add("Take", clip.name)
        take.add("FileName", f"{clip.name}.tak")
        take.add("LocalTime", 0, stop)
        take.add("ReferenceTime", 0, stop)
    return [
        header,
        FbxRecord("FileId", (FILE_ID,)),
        FbxRecord("CreationTime", (CREATION_TIME,)),
        FbxRecord("Creator", ("marey",)),
        settings,
        documents,
        FbxRecord("References"),
        definitions,
        scene.objects,
        scene.connections,
        takes,
    ]
