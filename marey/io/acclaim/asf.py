"""ASF reader: the skeleton of an Acclaim pair, its joint frames and its joint limits.

The text has sections in any order, each line a keyword and its values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.io.conventions import METRES, UnitGuess, estimate_stature, guess_body_unit, unit_in_metres
from marey.io.euler import compose_euler
from marey.io.text import TextFile, make_printable, parse_float, plural, read_text
from marey.lie import SO3
from marey.motion import LoadReport, Motion, Source
from marey.skeleton import MAX_JOINTS, EulerLimits, Skeleton, SkeletonDraft

Vector = tuple[float, float, float]
DOFS: Final = ("rx", "ry", "rz", "tx", "ty", "tz", "l")
MAX_LENGTH: Final = 1e9  # file units
_PAIR: Final = re.compile(r"\(([^()]*)\)")


@dataclass(slots=True)
class AsfBone:
    """One ``begin .. end`` of ``:bonedata``; lengths in file units, angles as the file gives them."""

    name: str = ""
    direction: Vector = (0.0, 0.0, 0.0)
    length: float = 0.0
    axis: Vector = (0.0, 0.0, 0.0)
    axis_order: str = "xyz"
    dof: list[str] = field(default_factory=list[str])
    limits: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    line: int = 1

    def vector(self) -> Vector:
        """From the bone's start to its end."""
        x, y, z = self.direction
        return (x * self.length, y * self.length, z * self.length)


@dataclass(slots=True)
class AsfRoot:
    """The ``:root`` section."""

    order: list[str] = field(default_factory=lambda: ["tx", "ty", "tz", "rx", "ry", "rz"])
    axis: str = "xyz"
    position: Vector = (0.0, 0.0, 0.0)
    orientation: Vector = (0.0, 0.0, 0.0)


@dataclass(slots=True)
class AsfFile:
    """Everything an ASF file says that a motion needs."""

    length: float = 1.0
    degrees: bool = True
    root: AsfRoot = field(default_factory=AsfRoot)
    bones: dict[str, AsfBone] = field(default_factory=dict[str, AsfBone])
    children: dict[str, list[tuple[str, int]]] = field(default_factory=dict[str, list[tuple[str, int]]])
    """by parent: child and the line that says so"""
    warnings: list[str] = field(default_factory=list[str])


Line = tuple[int, list[str]]  # line number and words


def parse_asf(text: TextFile) -> AsfFile:
    """Parse a whole ASF file."""
    if text.data.count(b"begin") > MAX_JOINTS + 1:
        raise text.error_on_line(f"more than {MAX_JOINTS} bones", 1, "Check that the file is a character's skeleton.")
    # Sections: name, and lines without comments
    sections: list[tuple[str, list[Line]]] = [("", [])]
    for number, line in enumerate(text.data.decode("utf-8", errors="replace").split("\n"), start=1):
        words = line.partition("#")[0].split()
        if words and words[0].startswith(":"):
            sections.append((words[0][1:].lower(), []))
            words = words[1:]
        if words:
            sections[-1][1].append((number, words))
    if not any(name in ("bonedata", "root", "hierarchy") for name, _ in sections):
        raise text.error_on_line(
            "no ASF section (:root, :bonedata, :hierarchy) found", 1, "Check that this is an ASF file."
        )
    file = AsfFile()
    for name, lines in sections:
        if name == "units":
            for number, (word, *values) in lines:
                key = word.lower()
                if key == "length":
                    (file.length,) = _numbers(text, number, values, 1, "length")
                    if not file.length > 0.0:
                        raise text.error_on_line(
                            f"the unit of length is {file.length:g}", number, "It must be positive; CMU writes 0.45."
                        )
                elif key == "angle":
                    file.degrees = not (values and values[0].lower().startswith("rad"))
        elif name == "root":
            for number, (word, *values) in lines:
                key = word.lower()
                if key == "order":
                    file.root.order = [_dof(text, number, value) for value in values]
                elif key == "axis":
                    file.root.axis = _axis_order(text, number, values[0] if values else "")
                elif key == "position":
                    file.root.position = _vector(text, number, values, "position")
                elif key == "orientation":
                    file.root.orientation = _vector(text, number, values, "orientation")
        elif name == "bonedata":
            for block in _blocks(text, lines):
                bone = _bone(text, block)
                if bone.name in file.bones:
                    raise text.error_on_line(
                        f"a second bone called '{make_printable(bone.name)}'", bone.line, "Give it another name."
                    )
                file.bones[bone.name] = bone
        elif name == "hierarchy":
            for number, (parent, *children) in lines:
                if parent.lower() in ("begin", "end") and not children:
                    continue
                # Some files write "Root"
                known = "root" if parent.lower() == "root" and parent not in file.bones else parent
                file.children.setdefault(known, []).extend((child, number) for child in children)
    if not file.children:
        last = text.line_at(len(text.data) - 1)
        raise text.error_on_line("the file has no :hierarchy", last, "Export it again: no bone hangs on the root.")
    return file


def _numbers(text: TextFile, line: int, words: Sequence[str], count: int, what: str) -> tuple[float, ...]:
    values = [parse_float(word) for word in words[:count]]
    if len(values) < count:
        fix = "Check that the line was not truncated."
        raise text.error_on_line(f"{what} needs {count} number{'s' * (count > 1)}, found {len(values)}", line, fix)
    for word, value in zip(words, values, strict=False):
        if value is None or abs(value) > MAX_LENGTH:
            raise text.error_on_line(
                f"'{make_printable(word)}' in {what} is not a usable number", line, "Correct the value."
            )
    return tuple(value for value in values if value is not None)


def _vector(text: TextFile, line: int, words: Sequence[str], what: str) -> Vector:
    x, y, z = _numbers(text, line, words, 3, what)
    return (x, y, z)


def _dof(text: TextFile, line: int, word: str) -> str:
    if word.lower() not in DOFS:
        raise text.error_on_line(
            f"unknown degree of freedom '{make_printable(word)}'", line, f"They are {', '.join(DOFS)}."
        )
    return word.lower()


def _axis_order(text: TextFile, line: int, word: str) -> str:
    if sorted(word.lower()) != ["x", "y", "z"]:
        raise text.error_on_line(f"axis order '{make_printable(word)}'", line, "It names x, y and z once each, as XYZ.")
    return word.lower()


def _blocks(text: TextFile, lines: list[Line]) -> Iterator[list[Line]]:
    block: list[Line] | None = None
    for number, words in lines:
        key = words[0].lower()
        if key == "begin":
            if block is not None:
                raise text.error_on_line("'begin' inside a bone", number, "Close the bone above with 'end'.")
            block = [(number, words)]
        elif block is None:
            raise text.error_on_line(
                f"'{make_printable(words[0])}' stands outside of begin and end", number, "Put it inside a bone."
            )
        elif key == "end":
            yield block
            block = None
        else:
            block.append((number, words))
    if block is not None:
        raise text.error_on_line(
            "the bone that begins here has no 'end'", block[0][0], "The file was cut short: export it again."
        )


def _bone(text: TextFile, block: list[Line]) -> AsfBone:
    bone = AsfBone(line=block[0][0])
    limit_lines: list[Line] = []
    in_limits = False
    for number, words in block[1:]:
        key = words[0].lower()
        in_limits = key == "limits" or (in_limits and words[0].startswith("("))
        if in_limits:
            limit_lines.append((number, words))
        elif key == "name":
            bone.name = " ".join(words[1:])
        elif key == "direction":
            bone.direction = _vector(text, number, words[1:], "direction")
        elif key == "length":
            (bone.length,) = _numbers(text, number, words[1:], 1, "length")
        elif key == "axis":
            bone.axis = _vector(text, number, words[1:], "axis")
            bone.axis_order = _axis_order(text, number, words[4] if len(words) > 4 else "XYZ")
        elif key == "dof":
            dofs = [_dof(text, number, word) for word in words[1:]]
            if len(set(dofs)) < len(dofs):
                raise text.error_on_line(
                    f"a degree of freedom is named twice: {' '.join(dofs)}", number, "Name each once."
                )
            bone.dof = dofs
        elif key not in ("id", "bodymass", "cofmass"):
            raise text.error_on_line(
                f"unknown word '{make_printable(words[0])}' in a bone",
                number,
                "Bones know id, name, direction, length, axis, dof and limits.",
            )
    # Limits may go on over several lines, one (low high) for each degree of freedom
    if not bone.name:
        raise text.error_on_line("the bone that begins here has no name", bone.line, "Add: name NAME")
    for number, words in limit_lines:
        for inside in _PAIR.findall(" ".join(words).replace(",", " ")):
            ends = inside.split()
            bounds = [float(w) if w.lower() in ("inf", "-inf", "+inf") else parse_float(w) for w in ends]
            if len(bounds) != 2 or bounds[0] is None or bounds[1] is None or bounds[0] > bounds[1]:
                what = f"the limit '({make_printable(' '.join(ends))})' is no range"
                raise text.error_on_line(what, number, "Write (low high), low first.")
            bone.limits.append((bounds[0], bounds[1]))
    if limit_lines and len(bone.limits) != len(bone.dof):
        what = (
            f"bone '{make_printable(bone.name)}' has {len(bone.dof)} degrees of freedom and {len(bone.limits)} limits"
        )
        raise text.error_on_line(what, limit_lines[0][0], "Write one (low high) for each.")
    return bone


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
    warnings: tuple[str, ...] = ()


def read_asf(path: str | os.PathLike[str], *, rate_hz: float | None = None, unit: str | None = None) -> Motion:
    """Read an ASF skeleton as a motion of one frame, its rest pose; ``read_amc`` reads the moving half.

    Raises:
        MissingFileError: there is no such file.
        FormatError: it is not an ASF file; the message has the line and the fix.
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
    # Bones depth first from the root and, for each, the number of its parent joint (the root is 0)
    order: list[AsfBone] = []
    parents: list[int] = []
    seen: set[str] = set()
    # Depth first with a stack, children in the order of the file
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
    # Frames C, batch (J,), of angles about x, y and z; the first letter of the order acts first
    angles = np.array([angles for angles, _ in axes], dtype=np.float64)
    letters = np.array([["xyz".index(letter) for letter in reversed(word)] for _, word in axes], dtype=np.int64)
    columns = 3 * np.arange(len(axes))[:, None] + letters
    table = (angles if file.degrees else np.rad2deg(angles)).reshape(1, -1)
    frames = SO3(compose_euler(table, letters, columns)[0])
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


def _unit(raw: Skeleton, file: AsfFile, unit: str | None) -> UnitGuess:
    if unit is not None:
        return UnitGuess(unit, unit_in_metres(unit), f"unit {unit} as asked for")
    height = estimate_stature(raw)
    metres = INCH_M / file.length
    tall = height * metres
    if PLAUSIBLE_M[0] <= tall <= PLAUSIBLE_M[1]:
        name = "cmu" if abs(metres - METRES["cmu"]) < 1e-12 else f"inch/{file.length:g}"
        return UnitGuess(name, metres, f"length {file.length:g}: lengths are inches / {file.length:g}, {metres:.7f} m")
    return guess_body_unit(raw)


def _limits(bone: AsfBone, frame: SO3, degrees: bool) -> EulerLimits:
    turns = [(dof[1], pair) for dof, pair in zip(bone.dof, bone.limits, strict=True) if dof[0] == "r"]
    pairs: FloatArray = np.array([pair for _, pair in turns], dtype=np.float64).reshape(-1, 2)
    pairs = np.deg2rad(pairs) if degrees else pairs
    pairs.setflags(write=False)
    return EulerLimits(bone.name, "".join(letter for letter, _ in turns), pairs[:, 0], pairs[:, 1], frame)
