"""USD skeletons and their animations (UsdSkel): read by usd-core in a child process, written as text with a mesh.

Metres, Y up; time codes are frames. Joints are named by their paths, ``pelvis/spine1``, as UsdSkel asks; letters that
USD does not allow in a path become underscores there, and ``jointNames`` keeps the names as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, IntArray
from marey.io.binary import AnyPath, as_format_error, format_error, map_file
from marey.io.export import prepare_clips
from marey.io.sandbox import ChildAnswer, ChildLimits, run_reader
from marey.io.scene import Local, SceneClip, SceneTree, build_motion, choose_clip, name_clips, order_nodes, pick_joints
from marey.io.scene.clip import MAX_NODES, check_num_frames, find_unit, local_transform, place_binds
from marey.io.scene.motion import AnimationTrack, block_times, place_frames, sample_contacts, sample_track
from marey.motion import Motion, find_runs
from marey.skeleton import NO_PARENT, Skeleton

READER: Final = ("marey.io.usd.child", "read")
EXTRA: Final = ("reading USD files", "usd")
LIMITS: Final = ChildLimits(memory_bytes=170 << 20)  # the library takes 90 MB before it reads anything
USD_UNIT_M: Final = 0.01  # [m] of a stage that states none
Y_FROM_Z: Final = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])  # (x, y, z) -> (x, z, -y)
AXES, STAGE = 0, 1  # nodes above the joints: the file's axes, and where the skeleton stands in its stage


def read_usd(
    path: AnyPath, *, rate_hz: float | None = None, unit: str | None = None, clip: str | int | None = None
) -> Motion:
    """Read a skeleton of a USD file and one animation of it.

    Unit, vertical axis and time codes are those that the stage states. Joints rest in the bind pose; where the prims
    above the skeleton move, the whole moves. Layers outside of the file's folder are not read.

    Args:
        path: a `.usd`, `.usda`, `.usdc` or `.usdz` file.
        rate_hz: sample at this rate; else at the rate of the samples.
        unit: length unit of the bones, where what the file states is wrong.
        clip: name or number of the animation; else the first that moves.

    Raises:
        FormatError: the file is damaged or holds no skeleton.
        UnknownNameError: there is no such animation.
        MissingExtraError: usd-core is not installed.
    """
    # Refuse a text that lists more joints than a child should begin to read
    content = map_file(path, limit=2 << 30)
    if bytes(content[:5]) != b"#usda":
        pass
    else:
        for found in re.finditer(rb"joints = \[([^\]]*)\]", content):
            count = found[1].count(b",") + 1
            if count > MAX_NODES:
                raise format_error(path, f"{count} joints; at most {MAX_NODES} are read")
    number: int | None = None
    if clip is not None:
        number = choose_clip(path, list_usd_clips(path), clip, lambda _: True)[0]
    answer = run_reader(READER, path, {"clip": number}, extra=EXTRA, limits=LIMITS)
    with as_format_error(path), np.errstate(over="ignore", invalid="ignore"):
        for name, values in answer.arrays.items():
            if not np.isfinite(values).all():
                raise format_error(path, f"its {name} hold a value that is not finite")
        return build_motion(_read_scene(path, answer, rate_hz, unit, is_asked=clip is not None))


def list_usd_clips(path: AnyPath) -> tuple[str, ...]:
    """Names of the skeleton animations of a file; none where it holds a rest pose only."""
    answer = run_reader(READER, path, {"clip": -1}, extra=EXTRA, limits=LIMITS)
    return name_clips(str(name) for name in answer.facts["clips"])


def _read_scene(
    path: AnyPath, answer: ChildAnswer, rate_hz: float | None, unit: str | None, *, is_asked: bool
) -> SceneClip:
    facts = answer.facts
    names, chosen = name_clips(str(name) for name in facts["clips"]), int(facts["chosen"])
    notes = [str(note) for note in facts["notes"]]
    if chosen >= 0 and not is_asked:
        notes += choose_clip(path, names, None, lambda i: i == chosen)[1]
    tree, binds = _build_tree(answer)
    joints = pick_joints(path, tree, range(STAGE + 1, len(tree.names)))
    tracks, rate, start, frames = _read_tracks(answer, rate_hz, notes)
    check_num_frames(path, frames, len(joints), sum(len(track.times) for track in tracks.values()), rate)
    codes_hz = _codes_hz(answer)
    flags = {name: [(time / codes_hz, value) for time, value in keys] for name, keys in facts["contacts"].items()}
    contacts = sample_contacts(flags, start, rate, frames)
    stated = facts["unit_m"]
    metres, called = find_unit(path, unit, float(USD_UNIT_M if stated is None else stated), tree, joints)
    if stated is None and unit is None:
        notes.append("the file states no unit; it is the centimetre then")
    return SceneClip(
        str(path),
        "usd",
        names[chosen] if chosen >= 0 else "",
        tree,
        joints,
        binds,
        partial(_sample_node, tree, tracks, answer.arrays.get("frames"), start, rate),
        rate,
        frames,
        metres_per_unit=metres,
        unit=called,
        up=f"+{facts['up']}",
        notes=tuple(notes),
        contacts=contacts,
    )


def _build_tree(answer: ChildAnswer) -> tuple[SceneTree, dict[int, Local]]:
    """Nodes of the skeleton below two of our own, and its bind pose. USD multiplies rows; we multiply columns."""
    facts, arrays = answer.facts, answer.arrays
    above: IntArray = np.array(facts["parents"], dtype=np.int64)
    first = STAGE + 1
    parents = np.concatenate([[NO_PARENT, AXES], np.where(above < 0, STAGE, above + first)])
    count = len(above)
    binds: FloatArray | None = arrays["binds"].swapaxes(1, 2) if "binds" in arrays else None
    if binds is not None and np.abs(np.linalg.det(binds[:, :3, :3])).min() <= 1e-18:
        binds = None  # matrices that flatten space say nothing
    if "rest" in arrays:
        rest = arrays["rest"].swapaxes(1, 2)
    elif binds is not None:
        rest = np.stack([binds[j] if p < 0 else np.linalg.inv(binds[p]) @ binds[j] for j, p in enumerate(above)])
    else:
        rest = np.tile(np.eye(4), (count, 1, 1))
    axes = np.eye(4)
    axes[:3, :3] = Y_FROM_Z if facts["up"] == "z" else np.eye(3)
    locals_ = np.concatenate([axes[None], arrays["stands"].T[None], rest])
    order = order_nodes(parents)
    if len(order) < len(parents):
        raise ValueError("the joints form a ring")
    names = ["axes", str(facts["skeleton"]), *(str(name) for name in facts["called"])]
    tree = SceneTree(
        names,
        parents,
        order,
        rest=lambda node: (locals_[node : node + 1, :3, :3], locals_[node : node + 1, :3, 3]),
        is_bare=lambda _: True,
    )
    if binds is None:
        return tree, {}
    # The bind pose is in the world of the file
    rank = {node: i for i, node in enumerate(order)}
    top = min(range(count), key=lambda j: rank[j + first])
    world = place_binds(binds, top, tree.rest_worlds([top + first])[top + first], axes)
    return tree, {j + first: (world[j : j + 1, :3, :3], world[j : j + 1, :3, 3]) for j in range(count)}


def _codes_hz(answer: ChildAnswer) -> float:
    """Time codes of the file in a second; USD's own 24 where it states none."""
    codes = float(answer.facts["rate_hz"])
    return codes if np.isfinite(codes) and codes > 0.0 else 24.0


def _read_tracks(
    answer: ChildAnswer, rate_hz: float | None, notes: list[str]
) -> tuple[dict[tuple[int, str], AnimationTrack], float, float, int]:
    """Keys of the joints, and the frames that they ask for: rate, first time [s] and count."""
    facts, arrays = answer.facts, answer.arrays
    codes = _codes_hz(answer)
    tracks: dict[tuple[int, str], AnimationTrack] = {}
    times: FloatArray = arrays["times"] / codes if "times" in arrays else np.zeros(0)
    joints = {str(joint): i + STAGE + 1 for i, joint in enumerate(facts["joints"])}
    keys = times if len(times) else np.zeros(1)
    for k, name in enumerate(facts.get("animated", ())):
        node = joints.get(str(name))
        for path in ("translation", "rotation", "scale") if node is not None else ():
            values = arrays[f"{path}s"][:, k].astype(np.float64)
            tracks[node or 0, path] = AnimationTrack(node or 0, path, keys, values, "LINEAR")
    if len(times) < 1:
        notes.append("the file holds no animation: one frame, the rest pose of its nodes")
        return tracks, float(rate_hz or codes), 0.0, 1
    return tracks, *place_frames(times, rate_hz, notes, declared_hz=codes)


def _sample_node(
    tree: SceneTree,
    tracks: dict[tuple[int, str], AnimationTrack],
    frames: FloatArray | None,
    start_s: float,
    rate_hz: float,
    node: int,
    block: slice,
) -> Local:
    times = block_times(start_s, rate_hz, block)
    if (node, "translation") in tracks:
        moved: Any = [sample_track(tracks[node, path], times, rate_hz) for path in ("translation", "rotation", "scale")]
        return local_transform(*moved)
    if node == STAGE and frames is not None and np.ptp(frames, axis=0).any():
        # The prims above the skeleton move: their matrices go straight from sample to sample
        keys = next(iter(tracks.values())).times
        track = AnimationTrack(STAGE, "matrix", keys, frames.reshape(len(frames), 16), "LINEAR")
        matrices = sample_track(track, times, rate_hz).reshape(-1, 4, 4)
        return matrices[:, :3, :3].swapaxes(1, 2), matrices[:, 3, :3]
    return tree.rest(node)


IDENTITY_ROWS: Final = "(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0)"  # of a matrix; USD multiplies rows from the left
NUMBER: Final = "%.9g"  # float32 needs nine digits


def write_usda(
    motion: Motion | Sequence[Motion],
    path: AnyPath,
    *,
    onto: Any = None,
    root: str = "hips",
) -> None:
    """Write motions as a `.usda` file.

    Contacts travel as custom attributes ``contact:NAME`` of the animation. Values are float32, as UsdSkel asks.

    Args:
        motion: what to write; several motions on one skeleton become several animations, of which the first is bound.
        path: a `.usda` file.
        onto: a character, or its file: its mesh and skin are written too; the motion must be on its skeleton.
        root: where the root motion goes: ``"hips"``, ``"bone"`` or ``"in-place"``.

    Raises:
        InputError: the motions are on different skeletons, or not on the character's.
    """
    moved, character = prepare_clips(motion, onto, root)
    skeleton = moved[0].skeleton
    name = _identifiers([character.name if character else skeleton.name])[0]
    animations = _identifiers([clip.name for clip in moved])
    animation = animations[0]
    binds = ", ".join(_matrix(place) for place in skeleton.rest_positions())
    rests = ", ".join(_matrix(place) for place in skeleton.offsets)
    lines = [
        "#usda 1.0",
        "(",
        f'    defaultPrim = "{name}"',
        "    metersPerUnit = 1",
        '    upAxis = "Y"',
        f"    timeCodesPerSecond = {moved[0].rate_hz!r}",
        f"    framesPerSecond = {moved[0].rate_hz!r}",
        "    startTimeCode = 0",
        f"    endTimeCode = {max(clip.num_frames for clip in moved) - 1}",
        ")",
        "",
        f'def SkelRoot "{name}" (\n    prepend apiSchemas = ["SkelBindingAPI"]\n)',
        "{",
        f"    rel skel:skeleton = </{name}/Skeleton>",
        f"    rel skel:animationSource = </{name}/{animations[0]}>",
        "",
        *[
            '    def Skeleton "Skeleton" (\n        prepend apiSchemas = ["SkelBindingAPI"]\n    )',
            "    {",
            f"        uniform matrix4d[] bindTransforms = [{binds}]",
            f"        uniform token[] jointNames = [{_quote(skeleton.names)}]",
            f"        uniform token[] joints = [{_quote(_joint_paths(skeleton))}]",
            f"        uniform matrix4d[] restTransforms = [{rests}]",
            f"        rel skel:animationSource = </{name}/{animation}>",
            "    }",
            "",
        ],
    ]
    for clip, called in zip(moved, animations, strict=True):
        lines += _describe_animation(clip, called)
    if character is not None:
        # The mesh; its joints come after the added ones in the skeleton
        added = skeleton.num_joints - character.skeleton.num_joints
        vertex = '(\n            interpolation = "vertex"\n        )'
        skin = '(\n            elementSize = 4\n            interpolation = "vertex"\n        )'
        joints = ", ".join(map(str, (character.joints + added).reshape(-1).tolist()))
        weights = ", ".join(NUMBER % weight for weight in character.weights.reshape(-1).tolist())
        lines += [
            '    def Mesh "Mesh" (\n        prepend apiSchemas = ["SkelBindingAPI"]\n    )',
            "    {",
            f"        int[] faceVertexCounts = [{', '.join(['3'] * len(character.triangles))}]",
            f"        int[] faceVertexIndices = [{', '.join(map(str, character.triangles.reshape(-1).tolist()))}]",
            f"        point3f[] points = [{_tuples(character.vertices)}]",
            f"        color3f[] primvars:displayColor = [{_tuples(character.colours)}] {vertex}",
            "        matrix4d primvars:skel:geomBindTransform = " + _matrix(np.zeros(3)),
            f"        int[] primvars:skel:jointIndices = [{joints}] {skin}",
            f"        float[] primvars:skel:jointWeights = [{weights}] {skin}",
            f"        rel skel:skeleton = </{name}/Skeleton>",
            '        uniform token subdivisionScheme = "none"',
            "    }",
            "",
        ]
    Path(path).write_text("\n".join([*lines, "}", ""]), encoding="utf-8")


def _describe_animation(motion: Motion, name: str) -> list[str]:
    skeleton = motion.skeleton
    count = skeleton.num_joints
    rotations = motion.rotations.continuous().wxyz.astype(np.float32)
    places = skeleton.offsets
    # Bones of one length are the same text in every frame
    rigid = "".join(f", {_triple(place)}" for place in places[1:])
    if motion.translations is None:
        translations = [f"{f}: [{_triple(place)}{rigid}]" for f, place in enumerate(motion.root_positions)]
    else:
        moving = np.concatenate([motion.root_positions[:, None], motion.translations[:, 1:]], axis=1)
        translations = _samples(moving.astype(np.float32))
    lines = [
        f'    def SkelAnimation "{name}"',
        "    {",
        f"        uniform token[] joints = [{_quote(_joint_paths(skeleton))}]",
        "        quatf[] rotations.timeSamples = {",
        ",\n".join(_samples(rotations)),
        "        }",
        f"        half3[] scales = [{', '.join(['(1, 1, 1)'] * count)}]",
        "        float3[] translations.timeSamples = {",
        ",\n".join(translations),
        "        }",
    ]
    if motion.contacts is not None:
        for point, called in zip(motion.contacts.names, _identifiers(motion.contacts.names), strict=True):
            track = motion.contacts.track(point)
            edges = sorted({0, *(f for run in find_runs(track) for f in run if f < len(track))})
            keys = ", ".join(f"{f}: {int(track[f])}" for f in edges)
            if called != point:
                lines.append(f"        custom bool contact:{called} (displayName = {_quote([point])})")
            lines.append(f"        custom bool contact:{called}.timeSamples = {{ {keys} }}")
    return [*lines, "    }", ""]


def _samples(values: NDArray[np.float32]) -> list[str]:
    """Text of arrays ``(F, J, C)``, one time sample a frame."""
    one = "(" + ", ".join([NUMBER] * values.shape[2]) + ")"
    row = "[" + ", ".join([one] * values.shape[1]) + "]"
    return [f"{f}: " + row % tuple(frame.reshape(-1).tolist()) for f, frame in enumerate(values)]


def _tuples(values: FloatArray) -> str:
    return _samples(values.astype(np.float32)[None])[0][4:-1] if len(values) else ""


def _triple(place: FloatArray) -> str:
    x, y, z = (float(np.float32(value)) for value in place)
    return f"({NUMBER}, {NUMBER}, {NUMBER})" % (x, y, z)


def _matrix(place: FloatArray) -> str:
    x, y, z = (float(value) for value in place)
    return f"( {IDENTITY_ROWS}, ({x!r}, {y!r}, {z!r}, 1) )"


def _quote(names: Iterable[str]) -> str:
    escaped = (name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") for name in names)
    return ", ".join(f'"{name}"' for name in escaped)


def _joint_paths(skeleton: Skeleton) -> list[str]:
    own = _identifiers(skeleton.names)
    paths: list[str] = []
    for joint, above in enumerate(skeleton.parents):
        paths.append(own[joint] if above == NO_PARENT else f"{paths[above]}/{own[joint]}")
    return paths


def _identifiers(names: Sequence[str]) -> list[str]:
    """Names that USD allows, each once."""
    found: list[str] = []
    for name in names:
        word = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
        word = f"_{word}" if word[0].isdigit() else word
        plain, number = word, 2
        while word in found:
            word, number = f"{plain}_{number}", number + 1
        found.append(word)
    return found
