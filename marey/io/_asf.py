"""ASF reader: the skeleton of an Acclaim pair, its joint frames and its joint limits."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.io._asf_parse import AsfBone, AsfFile, Vector, parse_asf
from marey.io._text import TextFile, make_printable, plural, read_text
from marey.io._units import HEIGHT_OF_REACH, METRES, UnitGuess, guess_unit, longest_reach, unit_in_metres
from marey.lie import SO3
from marey.motion import LoadReport, Motion, Source
from marey.skeleton import EulerLimits, Skeleton, SkeletonDraft

INCH_M: Final = 0.0254
PLAUSIBLE_M: Final = (1.0, 2.4)  # heights for which the file's own length unit is believed
ROOT: Final = "root"


@dataclass(frozen=True, slots=True, eq=False)
class AsfSkeleton:
    """A skeleton with what an AMC file needs to move it."""

    skeleton: Skeleton  # metres; a joint is named after the bone that starts at it
    frames: SO3  # batch (J,): the frame C in which each joint's angles are measured, R = C E C^-1
    dofs: tuple[tuple[str, ...], ...]  # (J,) "rx", "tz", ... in the order of the AMC's values
    turn_order: tuple[str, ...]  # (J,) axes in the order they act, "xyz"
    unit: UnitGuess
    degrees: bool
    warnings: tuple[str, ...] = field(default=())


def read_asf(path: str | os.PathLike[str], *, rate_hz: float | None = None, unit: str | None = None) -> Motion:
    """Read an ASF skeleton as a motion of one frame, its rest pose; ``read_amc`` reads the moving half.

    Raises:
        MissingFileError: there is no such file.
        FormatError: it is no ASF; the message has the line and the fix.
    """
    asf = load_asf(path, unit=unit)
    joints = asf.skeleton.num_joints
    notes = (asf.unit.note, "an ASF file holds no motion; its rest pose is the only frame")
    return Motion(
        asf.skeleton,
        120.0 if rate_hz is None else rate_hz,
        asf.skeleton.offsets[:1],
        SO3.identity(1, joints),
        source=Source(str(path), "asf", asf.unit.name, asf.unit.metres),
        load_report=LoadReport(asf.warnings, notes),
        name=Path(path).stem,
    )


def load_asf(path: str | os.PathLike[str], *, unit: str | None = None) -> AsfSkeleton:
    """Read an ASF file."""
    text = read_text(path)
    file = parse_asf(text)
    order, parents, warnings = _order_bones(text, file)
    draft = SkeletonDraft(Path(path).stem)
    draft.add(ROOT, -1, file.root.position)
    for bone, parent in zip(order, parents, strict=True):
        offset = (0.0, 0.0, 0.0) if parent == 0 else order[parent - 1].vector()
        draft.add(bone.name, parent, offset)
    has_child = set(parents)
    draft.tips = {j: bone.vector() for j, bone in enumerate(order, start=1) if j not in has_child}
    raw = draft.build()
    guess = _unit(raw, file, unit)
    axes = [(file.root.orientation, file.root.axis), *((bone.axis, bone.axis_order) for bone in order)]
    frames = _axis_frames(axes, file.degrees)
    limits = tuple(_limits(bone, frames[j], file.degrees) for j, bone in enumerate(order, start=1) if bone.limits)
    return AsfSkeleton(
        replace(raw.scaled(guess.metres), limits=limits),
        frames,
        (tuple(file.root.order), *(tuple(b.dof) for b in order)),
        (file.root.axis, *("".join(d[1] for d in b.dof if d[0] == "r") for b in order)),
        guess,
        file.degrees,
        (*file.warnings, *warnings, *([guess.warning] if guess.warning else [])),
    )


def _order_bones(text: TextFile, file: AsfFile) -> tuple[list[AsfBone], list[int], list[str]]:
    """Bones depth first from the root and, for each, the number of its parent joint (the root is 0)."""
    order: list[AsfBone] = []
    parents: list[int] = []
    seen: set[str] = set()
    stack = [(child, 0) for child in reversed(file.children.get(ROOT, []))]
    while stack:
        (name, line), parent = stack.pop()
        if name not in file.bones:
            raise text.error_on_line(
                f"the hierarchy names '{make_printable(name)}', which is no bone",
                line,
                "Add the bone to :bonedata, or remove it here.",
            )
        if name in seen:
            raise text.error_on_line(f"bone '{make_printable(name)}' hangs from two parents", line, "Keep one of them.")
        seen.add(name)
        order.append(file.bones[name])
        parents.append(parent)
        stack.extend((child, len(order)) for child in reversed(file.children.get(name, [])))
    lost = [name for name in file.bones if name not in seen]
    warnings = (
        [f"left out, for the hierarchy does not reach them: {plural(len(lost), 'bone')}, {', '.join(lost[:5])}"]
        if lost
        else []
    )
    return order, parents, warnings


def _unit(raw: Skeleton, file: AsfFile, unit: str | None) -> UnitGuess:
    if unit is not None:
        return UnitGuess(unit, unit_in_metres(unit), f"unit {unit} as asked for")
    size = longest_reach(raw.parents, raw.offsets, raw.tips)
    metres = INCH_M / file.length
    tall = HEIGHT_OF_REACH * size * metres
    if PLAUSIBLE_M[0] <= tall <= PLAUSIBLE_M[1]:
        name = "cmu" if abs(metres - METRES["cmu"]) < 1e-12 else f"inch/{file.length:g}"
        return UnitGuess(name, metres, f"length {file.length:g}: lengths are inches / {file.length:g}, {metres:.7f} m")
    return guess_unit(size)


def _axis_frames(axes: Sequence[tuple[Vector, str]], degrees: bool) -> SO3:
    """Rotations C, batch ``(J,)``, of angles about x, y and z; the first letter of the order acts first."""
    from marey.io._euler_kernels import compose_euler

    angles = np.array([angles for angles, _ in axes], dtype=np.float64)
    order = np.array([["xyz".index(letter) for letter in reversed(word)] for _, word in axes], dtype=np.int64)
    columns = 3 * np.arange(len(axes))[:, None] + order
    table = (angles if degrees else np.rad2deg(angles)).reshape(1, -1)
    return SO3(compose_euler(table, order, columns)[0])


def _limits(bone: AsfBone, frame: SO3, degrees: bool) -> EulerLimits:
    turns = [(dof[1], pair) for dof, pair in zip(bone.dof, bone.limits, strict=True) if dof[0] == "r"]
    pairs: FloatArray = np.array([pair for _, pair in turns], dtype=np.float64).reshape(-1, 2)
    pairs = np.deg2rad(pairs) if degrees else pairs
    pairs.setflags(write=False)
    return EulerLimits(bone.name, "".join(letter for letter, _ in turns), pairs[:, 0], pairs[:, 1], frame)
