"""The text of an AMC file: a number, then one line a bone, frame after frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, FormatError
from marey.io._text import TextFile, make_printable, parse_float

MAX_VALUE: Final = 1e9  # [deg or unit]
MAX_WARNINGS: Final = 5  # about bones that are missing
MAX_VALUES: Final = 4_000_000  # frames times values, unless the file is large enough to hold them


@dataclass(slots=True)
class AmcFile:
    """The values of an AMC file; angles in degrees, lengths in file units."""

    channels: FloatArray  # (F, C)
    rate_hz: float | None = None
    warnings: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class _AmcState:
    """What the lines read so far amount to."""

    slots: dict[str, tuple[int, int]]  # bone -> first column, number of values
    moving: set[str]  # bones with values
    turns: BoolArray  # (C,) whether a column is an angle
    degrees: bool
    rate_hz: float | None = None
    rows: list[list[float]] = field(default_factory=list[list[float]])
    lines: list[int] = field(default_factory=list[int])  # line on which each frame starts
    bones: set[str] = field(default_factory=set[str])  # seen in the frame in hand
    missing: dict[str, int] = field(default_factory=dict[str, int])  # bone -> first frame without it


def parse_amc(text: TextFile, names: Sequence[str], dofs: Sequence[Sequence[str]], *, degrees: bool = True) -> AmcFile:
    """Parse a whole AMC file against the bones and degrees of freedom of its skeleton.

    Bones with no degree of freedom may be absent; others that are absent from a frame count as zero and are warned of.
    """
    turns = np.array([name[0] == "r" for dof in dofs for name in dof], dtype=np.bool_)
    moving = {name for name, dof in zip(names, dofs, strict=True) if dof}
    state = _AmcState(_slots(names, dofs), moving, turns, degrees)
    number = 0
    for number, line in enumerate(text.data.decode("utf-8", errors="replace").split("\n"), start=1):
        words = line.split()
        if not words or words[0][0] == "#":
            continue
        if len(words) == 1 and words[0].isdecimal():
            _new_frame(text, state, number)
        elif words[0][0] == ":":
            _keyword(text, state, words, number)
        else:
            _bone(text, state, words, number)
    if not state.rows:
        raise text.error_on_line("the file holds no frames", max(number - 1, 1), "Check that this is an AMC file.")
    _finish_frame(text, state)
    return _build_file(text, state)


def _slots(names: Sequence[str], dofs: Sequence[Sequence[str]]) -> dict[str, tuple[int, int]]:
    slots: dict[str, tuple[int, int]] = {}
    start = 0
    for name, dof in zip(names, dofs, strict=True):
        slots[name] = (start, len(dof))
        start += len(dof)
    return slots


def _new_frame(text: TextFile, state: _AmcState, line: int) -> None:
    if state.rows:
        _finish_frame(text, state)
    if (len(state.rows) + 1) * len(state.turns) > max(MAX_VALUES, len(text.data)):
        what = f"most of the {len(state.turns)} values are missing from every frame"
        raise text.error_on_line(what, line, "Use the skeleton that belongs to this motion.")
    state.rows.append([0.0] * len(state.turns))
    state.lines.append(line)
    state.bones = set()


def _finish_frame(text: TextFile, state: _AmcState) -> None:
    if not state.bones:
        raise text.error_on_line("this frame has no bones", state.lines[-1], "Export the motion again.")
    if len(state.bones) < len(state.slots):
        for name in sorted(state.moving - state.bones - state.missing.keys()):
            state.missing[name] = len(state.rows) - 1


def _keyword(text: TextFile, state: _AmcState, words: list[str], line: int) -> None:
    key = words[0].lower()
    if key.startswith(":rad"):
        state.degrees = False
    elif key.startswith(":deg"):
        state.degrees = True
    elif key == ":samples-per-second":
        rate = parse_float(words[1]) if len(words) > 1 else None
        if rate is None or rate <= 0.0:
            raise text.error_on_line("the sample rate is no positive number", line, "Write it in samples per second.")
        state.rate_hz = rate


def _bone(text: TextFile, state: _AmcState, words: list[str], line: int) -> None:
    name = words[0]
    slot = state.slots.get(name)
    if not state.rows:
        what = f"'{make_printable(name)}' stands before the first frame number"
        raise text.error_on_line(what, line, "Check that this is an AMC file.")
    if slot is None:
        fix = "The AMC does not belong to this ASF; name the right one with asf=."
        raise text.error_on_line(f"bone '{make_printable(name)}' is not in the skeleton", line, fix)
    start, count = slot
    if len(words) != count + 1:
        what = f"bone '{name}' has {len(words) - 1} values, its skeleton gives it {count}"
        raise text.error_on_line(what, line, "Check that the line was not truncated.")
    if name in state.bones:
        raise text.error_on_line(f"bone '{name}' comes twice in a frame", line, "Remove one of the lines.")
    state.bones.add(name)
    try:
        state.rows[-1][start : start + count] = map(float, words[1:])
    except ValueError:
        raise _bad_value(text, words, line) from None


def _bad_value(text: TextFile, words: list[str], line: int) -> FormatError:
    bad = next((word for word in words[1:] if parse_float(word) is None), words[-1])
    return text.error_on_line(f"'{make_printable(bad)}' is not a usable number", line, "Correct the value.")


def _bad_frame(text: TextFile, first_line: int) -> FormatError:
    """Find the unusable value in the frame that starts on a line."""
    lines = text.data.decode("utf-8", errors="replace").split("\n")
    for number in range(first_line, len(lines)):
        for word in lines[number].split()[1:]:
            value = parse_float(word)
            if value is None or abs(value) > MAX_VALUE:
                what = f"'{make_printable(word)}' is not a usable number"
                return text.error_on_line(what, number + 1, "Correct the value.")
    return text.error_on_line("a value of this frame is too large", first_line, "Correct the value.")


def _build_file(text: TextFile, state: _AmcState) -> AmcFile:
    channels = np.array(state.rows).reshape(len(state.rows), len(state.turns))
    if not state.degrees:
        channels[:, state.turns] *= 180.0 / np.pi
    bad = ~(np.abs(channels) <= MAX_VALUE)
    if bad.any():
        raise _bad_frame(text, state.lines[int(np.flatnonzero(bad.any(axis=1))[0])])
    channels.setflags(write=False)
    warnings = [
        f"bone '{name}' is missing from frame {at} and maybe others; zero taken" for name, at in state.missing.items()
    ]
    if len(warnings) > MAX_WARNINGS:
        warnings = [*warnings[:MAX_WARNINGS], f"and {len(warnings) - MAX_WARNINGS} more bones are missing"]
    return AmcFile(channels, state.rate_hz, warnings)
