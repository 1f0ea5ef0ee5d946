"""BVH reader: any channel order, any subset of channels, one character a file."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from marey.base import FloatArray, FormatError
from marey.io._axes import detect_up, to_world, turn_wxyz
from marey.io._bvh_frames import BvhFrames, read_frames
from marey.io._bvh_header import BvhHeader, read_header
from marey.io._bvh_repair import leading_rows, profile_of
from marey.io._euler import ChannelMap, channels_to_positions, channels_to_wxyz
from marey.io._text import TextFile, parse_float, printable, read_text
from marey.io._units import METRES, UnitGuess, guess_unit, rate_from_frame_time, reach, unit_in_metres
from marey.lie import SO3
from marey.motion import LoadReport, Motion, Source
from marey.skeleton import Skeleton, SkeletonDraft


def read_bvh(path: str | os.PathLike[str], *, rate_hz: float | None = None, unit: str | None = None) -> Motion:
    """Read a BVH file.

    Args:
        path: the file.
        rate_hz: frames per second, when the header's frame time is wrong.
        unit: the file's unit of length (``m``, ``cm``, ``mm``, ``inch``, ``cmu``), when the guess is wrong.

    Raises:
        MissingFileError: there is no such file.
        FormatError: it is no BVH; the message has the line and the fix.
    """
    text = read_text(path)
    header, at = read_header(text)
    names, warnings = _unique(header.names)
    layout = ChannelMap.from_names(header.channels)
    if layout.num_channels == 0:
        raise text.error("no joint has channels", at, "Add a CHANNELS line to each joint.")
    frames = read_frames(text, at, layout.num_channels)
    draft = _draft(header, names, Path(path).stem)
    return _assemble(text, header, draft, layout, frames, warnings, rate_hz, unit)


def _assemble(
    text: TextFile,
    header: BvhHeader,
    draft: SkeletonDraft,
    layout: ChannelMap,
    frames: BvhFrames,
    warnings: list[str],
    rate_hz: float | None,
    unit: str | None,
) -> Motion:
    raw = draft.build()
    profile = profile_of(raw)
    guess = _unit(raw, unit, profile)
    rate, rate_note = _rate(text, frames, rate_hz)
    dropped, remarks, notes = leading_rows(frames.channels, layout, profile, raw)
    channels = frames.channels[dropped:]
    wxyz = channels_to_wxyz(channels, layout)
    roots = channels_to_positions(channels, layout, 0, raw.offsets[0])
    moving = _translations(channels, layout, raw)
    up = detect_up(raw, roots, wxyz, moving)
    if up != "+y":
        notes.append("Z is up in the file; turned so that Y is up")
    motion = Motion(
        _turned(raw, up, guess.metres),
        rate,
        to_world(roots, up) * guess.metres,
        SO3(turn_wxyz(wxyz, up)),
        translations=None if moving is None else to_world(moving, up) * guess.metres,
        source=Source(
            text.path,
            "bvh",
            guess.name,
            guess.metres,
            up,
            _layout(header, layout, frames, profile, rate),
            channels,
            frames.channels[:dropped] if dropped else None,
        ),
        name=draft.name,
    )
    lines = [*header.warnings, *warnings, *frames.warnings, *remarks, *([guess.warning] if guess.warning else [])]
    remembered = [guess.note, *([rate_note] if rate_note else []), *frames.notes, *notes]
    return replace(motion, load_report=LoadReport(lines, remembered))


def _layout(
    header: BvhHeader, layout: ChannelMap, frames: BvhFrames, profile: str, rate: float
) -> dict[str, Any]:
    return {
        "names": tuple(header.names),
        "channels": layout.names,
        "end_sites": tuple(header.end_sites),
        "frame_time": frames.frame_time,
        "rate_hz": rate,
        "profile": profile,
    }


def _unique(names: list[str]) -> tuple[list[str], list[str]]:
    """Give each joint a name of its own; returns the names and a warning for each change."""
    taken: set[str] = set()
    result: list[str] = []
    warnings: list[str] = []
    for index, name in enumerate(names):
        new = name or f"joint{index}"
        count = 2
        while new in taken:
            new = f"{name}_{count}"
            count += 1
        if new != name:
            warnings.append(f"joint {index} is called '{name}' as another is; renamed '{new}'" if name else
                            f"joint {index} has no name; called '{new}'")
        taken.add(new)
        result.append(new)
    return result, warnings


def _draft(header: BvhHeader, names: list[str], name: str) -> SkeletonDraft:
    tips: dict[int, Any] = {}
    for joint, tip in header.end_sites:
        tips.setdefault(joint, tip)
    return SkeletonDraft(name, names, header.parents, list(header.offsets), tips)


def _unit(raw: Skeleton, unit: str | None, profile: str) -> UnitGuess:
    if unit is not None:
        return UnitGuess(unit, unit_in_metres(unit), f"unit {unit} as asked for")
    guess = guess_unit(reach(raw.parents, raw.offsets, raw.tips))
    if profile == "cmu":
        note = f"CMU skeleton: lengths are inches / 0.45, {METRES['cmu']:.7f} m"
        return UnitGuess("cmu", METRES["cmu"], note)
    return guess


def _rate(text: TextFile, frames: BvhFrames, rate_hz: float | None) -> tuple[float, str | None]:
    if rate_hz is not None:
        return float(rate_hz), f"rate {rate_hz:g} Hz as asked for; the header's frame time is {frames.frame_time}"
    seconds = parse_float(frames.frame_time)
    if seconds is None or not 1e-6 <= seconds <= 1e6:
        line = text.line_at(max(text.data.lower().find(b"frame time"), 0))
        what = f"the frame time is '{printable(frames.frame_time)}'"
        raise FormatError(what, text.path, line, "Write 'Frame Time: seconds' after MOTION, or give rate_hz=.")
    return rate_from_frame_time(frames.frame_time)


def _turned(raw: Skeleton, up: str, metres: float) -> Skeleton:
    """The skeleton in metres with Y up."""
    offsets, tips = to_world(raw.offsets, up) * metres, to_world(raw.tips, up) * metres
    return replace(raw, offsets=offsets, tips=tips)


def _translations(channels: FloatArray, layout: ChannelMap, raw: Skeleton) -> FloatArray | None:
    """Moving offsets ``(F, J, 3)`` in file units, unless the position channels only repeat the offsets."""
    moving = [j for j in range(1, raw.num_joints) if (layout.positions[j] >= 0).any()]
    tracks = {j: channels_to_positions(channels, layout, j, raw.offsets[j]) for j in moving}
    if all(np.allclose(track, raw.offsets[j], rtol=0.0, atol=1e-6) for j, track in tracks.items()):
        return None
    result = np.repeat(raw.offsets[None], len(channels), axis=0)
    for j, track in tracks.items():
        result[:, j] = track
    return result
