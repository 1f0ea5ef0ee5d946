"""A Motion as USD text: a UsdSkel skeleton, one animation for each clip, and a character's mesh where there is one.

Metres, Y up; time codes are frames. Joints are named by their paths, ``pelvis/spine1``, as UsdSkel asks; letters that
USD does not allow in a path become underscores there, and ``jointNames`` keeps the names as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray
from marey.io.binary import AnyPath
from marey.io.export.takes import prepare_clips
from marey.motion import Motion, find_runs
from marey.skeleton import NO_PARENT, Skeleton

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
