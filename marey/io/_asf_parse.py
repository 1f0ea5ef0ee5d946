"""The text of an ASF file: sections in any order, each line a keyword and its values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from marey.io._text import TextFile, make_printable, parse_float
from marey.skeleton import MAX_JOINTS

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
    sections = _sections(text)
    if not any(name in ("bonedata", "root", "hierarchy") for name, _, _ in sections):
        raise text.error_on_line(
            "no ASF section (:root, :bonedata, :hierarchy) found", 1, "Check that this is an ASF file."
        )
    file = AsfFile()
    for name, _, lines in sections:
        if name == "units":
            _units(text, file, lines)
        elif name == "root":
            _root(text, file.root, lines)
        elif name == "bonedata":
            _bones(text, file, lines)
        elif name == "hierarchy":
            _hierarchy(text, file, lines)
    if not file.children:
        last = text.line_at(len(text.data) - 1)
        raise text.error_on_line("the file has no :hierarchy", last, "Export it again: no bone hangs on the root.")
    return file


def _sections(text: TextFile) -> list[tuple[str, int, list[Line]]]:
    sections: list[tuple[str, int, list[Line]]] = [("", 1, [])]
    for number, line in enumerate(text.data.decode("utf-8", errors="replace").split("\n"), start=1):
        words = line.partition("#")[0].split()
        if words and words[0].startswith(":"):
            sections.append((words[0][1:].lower(), number, []))
            words = words[1:]
        if words:
            sections[-1][2].append((number, words))
    return sections


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


def _units(text: TextFile, file: AsfFile, lines: list[Line]) -> None:
    for number, words in lines:
        key = words[0].lower()
        if key == "length":
            (file.length,) = _numbers(text, number, words[1:], 1, "length")
            if not file.length > 0.0:
                raise text.error_on_line(
                    f"the unit of length is {file.length:g}", number, "It must be positive; CMU writes 0.45."
                )
        elif key == "angle":
            file.degrees = not (len(words) > 1 and words[1].lower().startswith("rad"))


def _root(text: TextFile, root: AsfRoot, lines: list[Line]) -> None:
    for number, words in lines:
        key = words[0].lower()
        if key == "order":
            root.order = [_dof(text, number, word) for word in words[1:]]
        elif key == "axis":
            root.axis = _axis_order(text, number, words[1] if len(words) > 1 else "")
        elif key == "position":
            root.position = _vector(text, number, words[1:], "position")
        elif key == "orientation":
            root.orientation = _vector(text, number, words[1:], "orientation")


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


def _bones(text: TextFile, file: AsfFile, lines: list[Line]) -> None:
    for block in _blocks(text, lines):
        bone = _bone(text, block)
        if bone.name in file.bones:
            raise text.error_on_line(
                f"a second bone called '{make_printable(bone.name)}'", bone.line, "Give it another name."
            )
        file.bones[bone.name] = bone


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
            bone.dof = _dofs(text, number, words[1:])
        elif key not in ("id", "bodymass", "cofmass"):
            raise text.error_on_line(
                f"unknown word '{make_printable(words[0])}' in a bone",
                number,
                "Bones know id, name, direction, length, axis, dof and limits.",
            )
    if not bone.name:
        raise text.error_on_line("the bone that begins here has no name", bone.line, "Add: name NAME")
    _set_limits(text, bone, limit_lines)
    return bone


def _dofs(text: TextFile, line: int, words: Sequence[str]) -> list[str]:
    dofs = [_dof(text, line, word) for word in words]
    if len(set(dofs)) < len(dofs):
        raise text.error_on_line(f"a degree of freedom is named twice: {' '.join(dofs)}", line, "Name each once.")
    return dofs


def _set_limits(text: TextFile, bone: AsfBone, lines: list[Line]) -> None:
    for number, words in lines:
        for inside in _PAIR.findall(" ".join(words).replace(",", " ")):
            bone.limits.append(_pair(text, number, inside.split()))
    if lines and len(bone.limits) != len(bone.dof):
        what = (
            f"bone '{make_printable(bone.name)}' has {len(bone.dof)} degrees of freedom and {len(bone.limits)} limits"
        )
        raise text.error_on_line(what, lines[0][0], "Write one (low high) for each.")


def _pair(text: TextFile, line: int, words: list[str]) -> tuple[float, float]:
    bounds = [float(w) if w.lower() in ("inf", "-inf", "+inf") else parse_float(w) for w in words]
    if len(bounds) != 2 or bounds[0] is None or bounds[1] is None or bounds[0] > bounds[1]:
        raise text.error_on_line(
            f"the limit '({make_printable(' '.join(words))})' is no range", line, "Write (low high), low first."
        )
    return (bounds[0], bounds[1])


def _hierarchy(text: TextFile, file: AsfFile, lines: list[Line]) -> None:
    for number, words in lines:
        if words[0].lower() in ("begin", "end") and len(words) == 1:
            continue
        if words[0] != "root" and words[0] not in file.bones and words[0].lower() == "root":
            words[0] = "root"
        file.children.setdefault(words[0], []).extend((word, number) for word in words[1:])
