"""BVH reader: any channel order, any subset of channels, one character a file."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from marey.base import FloatArray, FormatError
from marey.io.bvh.frames import BvhFrames, read_frames
from marey.io.bvh.hierarchy import BvhTree, build_skeleton, find_motion, joint_flips, leading_rows, read_tree
from marey.io.conventions import UnitGuess, detect_up, rate_from_frame_time, rotate_wxyz, to_world, unit_in_metres
from marey.io.euler import NONE, ChannelMap, channels_to_positions, wrap_rotations
from marey.io.text import TextFile, make_printable, parse_float, read_text
from marey.motion import LoadReport, Motion, Source
from marey.skeleton import Skeleton


def read_bvh(path: str | os.PathLike[str], *, rate_hz: float | None = None, unit: str | None = None) -> Motion:
    """Read a BVH file.

    Args:
        path: the file.
        rate_hz: frames per second, when the header's frame time is wrong.
        unit: the file's unit of length (``m``, ``cm``, ``mm``, ``inch``, ``cmu``), when the guess is wrong.

    Raises:
        MissingFileError: there is no such file.
        FormatError: it is not a BVH file; the message has the line and the fix.
    """
    text = read_text(path)
    tree, at = read_tree(text)
    frames = read_frames(text, at, tree.layout)
    rate, rate_note = _rate(text, frames, rate_hz)
    guess = tree.unit if unit is None else UnitGuess(unit, unit_in_metres(unit), f"unit {unit} as asked for")
    dropped, warnings, notes = leading_rows(frames.channels, tree.layout, tree.profile, tree.raw)
    motion = _motion(tree, frames, dropped, guess, rate, text.path)
    if motion.source is not None and motion.source.up != "+y":
        notes.append("Z is up in the file; rotated so that Y is up")
    said = [*tree.warnings, *frames.warnings, *warnings, *([guess.warning] if guess.warning else [])]
    noted = [guess.note, *([rate_note] if rate_note else []), *frames.notes, *notes]
    report = LoadReport(said, noted, later=lambda: joint_flips(motion))
    return replace(motion, load_report=report)


def _motion(tree: BvhTree, frames: BvhFrames, dropped: int, guess: UnitGuess, rate: float, path: str) -> Motion:
    raw, layout = tree.raw, tree.layout
    channels, wxyz = frames.channels[dropped:], frames.wxyz[dropped:]
    # Root and moving offsets in the file's own axes, which then say which way is up
    roots = channels_to_positions(channels, layout, 0, raw.offsets[0])
    moving = _translations(channels, layout, raw)
    up = "+y" if tree.profile == "cmu" else detect_up(raw, roots, wxyz, moving)
    return Motion(
        build_skeleton(tree, up, guess.metres),
        rate,
        to_world(roots, up) * guess.metres,
        wrap_rotations(rotate_wxyz(wxyz, up)),
        translations=None if moving is None else to_world(moving, up) * guess.metres,
        name=Path(path).stem,
        source=Source(
            path,
            "bvh",
            guess.name,
            guess.metres,
            up,
            {
                "names": tree.names,
                "channels": tree.layout.names,
                "end_sites": tree.end_sites,
                "frame_time": frames.frame_time,
                "rate_hz": rate,
                "profile": tree.profile,
            },
            channels,
            frames.channels[:dropped] if dropped else None,
        ),
    )


def _rate(text: TextFile, frames: BvhFrames, rate_hz: float | None) -> tuple[float, str | None]:
    if rate_hz is not None:
        return float(rate_hz), f"rate {rate_hz:g} Hz as asked for; the header's frame time is {frames.frame_time}"
    seconds = parse_float(frames.frame_time)
    if seconds is None or not 1e-6 <= seconds <= 1e6:
        line = text.line_at(max(text.data.lower().find(b"frame time"), find_motion(text)[0]))
        what = f"the frame time is '{make_printable(frames.frame_time)}'"
        raise FormatError(what, text.path, line, "Write 'Frame Time: seconds' after MOTION, or give rate_hz=.")
    return rate_from_frame_time(frames.frame_time)


def _translations(channels: FloatArray, layout: ChannelMap, raw: Skeleton) -> FloatArray | None:
    """Moving offsets ``(F, J, 3)`` in file units, unless the position channels only repeat the offsets."""
    moving = (np.flatnonzero((layout.positions[1:] != NONE).any(axis=1)) + 1).tolist()
    tracks = {j: channels_to_positions(channels, layout, j, raw.offsets[j]) for j in moving}
    if all(np.allclose(track, raw.offsets[j], rtol=0.0, atol=1e-6) for j, track in tracks.items()):
        return None
    result = np.repeat(raw.offsets[None], len(channels), axis=0)
    for j, track in tracks.items():
        result[:, j] = track
    return result
