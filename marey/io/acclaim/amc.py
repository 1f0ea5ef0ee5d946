"""AMC reader: the motion of an Acclaim pair; a number, then one line a bone, frame after frame."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, MissingFileError
from marey.io.acclaim.asf import AsfSkeleton, load_asf
from marey.io.euler import compose_euler
from marey.io.text import TextFile, make_printable, parse_float, plural, read_text
from marey.lie import SO3
from marey.motion import LoadReport, Motion, Source

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
    """State of the parser after the lines read so far."""

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
    # Columns of each bone, in the order of the skeleton
    turns = np.array([name[0] == "r" for dof in dofs for name in dof], dtype=np.bool_)
    moving = {name for name, dof in zip(names, dofs, strict=True) if dof}
    slots: dict[str, tuple[int, int]] = {}
    start = 0
    for name, dof in zip(names, dofs, strict=True):
        slots[name] = (start, len(dof))
        start += len(dof)
    state = _AmcState(slots, moving, turns, degrees)
    number = 0
    for number, line in enumerate(text.data.decode("utf-8", errors="replace").split("\n"), start=1):
        words = line.split()
        if not words or words[0][0] == "#":
            continue
        # A number alone begins a frame
        if len(words) == 1 and words[0].isdecimal():
            if state.rows:
                _finish_frame(text, state)
            if (len(state.rows) + 1) * len(state.turns) > max(MAX_VALUES, len(text.data)):
                what = f"most of the {len(state.turns)} values are missing from every frame"
                raise text.error_on_line(what, number, "Use the skeleton that belongs to this motion.")
            state.rows.append([0.0] * len(state.turns))
            state.lines.append(number)
            state.bones = set()
        # A keyword of the header
        elif words[0][0] == ":":
            key = words[0].lower()
            if key.startswith(":rad"):
                state.degrees = False
            elif key.startswith(":deg"):
                state.degrees = True
            elif key == ":samples-per-second":
                rate = parse_float(words[1]) if len(words) > 1 else None
                if rate is None or rate <= 0.0:
                    raise text.error_on_line(
                        "the sample rate is no positive number", number, "Write it in samples per second."
                    )
                state.rate_hz = rate
        else:
            _bone(text, state, words, number)
    if not state.rows:
        raise text.error_on_line("the file holds no frames", max(number - 1, 1), "Check that this is an AMC file.")
    _finish_frame(text, state)
    channels = np.array(state.rows).reshape(len(state.rows), len(state.turns))
    if not state.degrees:
        channels[:, state.turns] *= 180.0 / np.pi
    # NaN fails this comparison too
    bad = ~(np.abs(channels) <= MAX_VALUE)
    if bad.any():
        # The first value of the frame, from its first line on, that is no usable number
        first_line = state.lines[int(np.flatnonzero(bad.any(axis=1))[0])]
        rows = text.data.decode("utf-8", errors="replace").split("\n")
        for number in range(first_line, len(rows)):
            for word in rows[number].split()[1:]:
                value = parse_float(word)
                if value is None or abs(value) > MAX_VALUE:
                    what = f"'{make_printable(word)}' is not a usable number"
                    raise text.error_on_line(what, number + 1, "Correct the value.")
        raise text.error_on_line("a value of this frame is too large", first_line, "Correct the value.")
    channels.setflags(write=False)
    warnings = [
        f"bone '{name}' is missing from frame {at} and maybe others; zero taken" for name, at in state.missing.items()
    ]
    if len(warnings) > MAX_WARNINGS:
        warnings = [*warnings[:MAX_WARNINGS], f"and {len(warnings) - MAX_WARNINGS} more bones are missing"]
    return AmcFile(channels, state.rate_hz, warnings)


def _finish_frame(text: TextFile, state: _AmcState) -> None:
    if not state.bones:
        raise text.error_on_line("this frame has no bones", state.lines[-1], "Export the motion again.")
    if len(state.bones) < len(state.slots):
        for name in sorted(state.moving - state.bones - state.missing.keys()):
            state.missing[name] = len(state.rows) - 1


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
        bad = next((word for word in words[1:] if parse_float(word) is None), words[-1])
        what = f"'{make_printable(bad)}' is not a usable number"
        raise text.error_on_line(what, line, "Correct the value.") from None


ASSUMED_RATE_HZ: Final = 120.0  # AMC files carry no rate; nearly all of the CMU database was recorded at this one


def read_amc(
    path: str | os.PathLike[str],
    *,
    asf: str | os.PathLike[str] | None = None,
    rate_hz: float | None = None,
    unit: str | None = None,
) -> Motion:
    """Read an AMC file with the ASF skeleton that belongs to it.

    Args:
        path: the AMC file.
        asf: its skeleton; by default the ASF of the same name, of the same name up to the first ``_``,
            or the only one in the folder.
        rate_hz: frames per second; 120 if not given.
        unit: unit of length of both files, when the one of the ASF is wrong.

    Raises:
        MissingFileError: there is no such file, or no ASF can be found.
        FormatError: a file breaks its format; the message has the line and the fix.
    """
    text = read_text(path)
    if asf is not None:
        skeleton_path = Path(asf)
    else:
        # The skeleton beside the file: of its own name, of the name before the underscore, or the only one
        own = Path(path)
        beside = sorted(p for p in own.parent.iterdir() if p.suffix.lower() == ".asf" and p.is_file())
        stems = (own.stem, own.stem.split("_")[0])
        matches = [p for stem in stems for p in beside if p.stem.lower() == stem.lower()]
        if not matches and len(beside) != 1:
            wanted = own.with_name(f"{stems[1]}.asf")
            found = f"The folder has {', '.join(p.name for p in beside[:4])}. " if beside else ""
            fix = f"{found}An AMC needs its ASF skeleton beside it, or name it with asf=."
            raise MissingFileError(str(wanted), fix)
        skeleton_path = (matches or beside)[0]
    body = load_asf(skeleton_path, unit=unit)
    file = parse_amc(text, body.skeleton.names, body.dofs, degrees=body.degrees)
    filled = np.flatnonzero(file.channels.any(axis=1))
    empty = int(filled[0]) if len(filled) else 0
    channels = file.channels[empty:]
    rate = rate_hz if rate_hz is not None else file.rate_hz or ASSUMED_RATE_HZ
    warnings = [*body.warnings, *file.warnings]
    if empty:
        what = f"only zeros at the start, for {plural(empty, 'frame')}"
        warnings.append(f"{what}: not captured, left out (source.dropped keeps them)")
    notes = [body.unit.note]
    if rate_hz is None and file.rate_hz is None:
        notes.append(f"an AMC file carries no frame rate; {ASSUMED_RATE_HZ:g} Hz assumed. Give rate_hz= to override")
    # Root positions in file units; axes without a channel stay where the skeleton puts the root
    positions = np.zeros((len(channels), 3))
    positions[:] = body.skeleton.offsets[0] / body.unit.metres
    for column, dof in enumerate(body.dofs[0]):
        if dof[0] == "t":
            positions[:, "xyz".index(dof[1])] = channels[:, column]
    return Motion(
        body.skeleton,
        rate,
        positions * body.unit.metres,
        _rotations(channels, body),
        source=Source(
            str(path),
            "asf/amc",
            body.unit.name,
            body.unit.metres,
            layout={"asf": str(skeleton_path), "dofs": body.dofs},
            channels=channels,
            dropped=file.channels[:empty] if empty else None,
        ),
        load_report=LoadReport(warnings, notes),
        name=Path(path).stem,
    )


def _rotations(channels: FloatArray, body: AsfSkeleton) -> SO3:
    """Local rotations ``R = C E C^-1``, where E is the product of the joint's Euler angles."""
    # Rotation axes and columns (J, 3) for the composing kernel, whose first factor acts last
    axes = np.full((len(body.dofs), 3), -1, dtype=np.int64)
    columns = np.full((len(body.dofs), 3), -1, dtype=np.int64)
    start = 0
    for joint, dofs in enumerate(body.dofs):
        letters = [letter for letter in body.turn_order[joint] if f"r{letter}" in dofs]
        for slot, letter in enumerate(reversed(letters)):
            axes[joint, slot] = "xyz".index(letter)
            columns[joint, slot] = start + dofs.index(f"r{letter}")
        start += len(dofs)
    turns = SO3(compose_euler(np.ascontiguousarray(channels), axes, columns))
    return body.frames @ turns @ body.frames.inverse()
