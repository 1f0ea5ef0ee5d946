"""BVH reader: any channel order, any subset of channels, one of the characters of a file."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from marey.base import FloatArray, FormatError
from marey.io.bvh.frames import BvhFrames, read_frames
from marey.io.bvh.hierarchy import (
    BvhTree,
    build_skeleton,
    find_motion,
    joint_flips,
    leading_rows,
    read_bvh_text,
    read_tree,
)
from marey.io.conventions import UnitGuess, guess_body_unit, longest_reach, rate_from_frame_time, unit_in_metres
from marey.io.euler import NONE, ChannelMap, channels_to_positions
from marey.io.text import TextFile, make_printable, parse_float
from marey.io.vertical_axis import SAMPLED_FRAMES, detect_up, rotate_wxyz, to_world
from marey.lie import SO3
from marey.motion import LoadReport, Motion, Source
from marey.skeleton import Skeleton, assess_anatomy, joint_positions


def read_bvh(
    path: str | os.PathLike[str],
    *,
    rate_hz: float | None = None,
    unit: str | None = None,
    clip: str | int | None = None,
) -> Motion:
    """Read a BVH file.

    Args:
        path: the file.
        rate_hz: frames per second, when the header's frame time is wrong.
        unit: the file's unit of length (``m``, ``cm``, ``mm``, ``inch``, ``cmu``, ``dm``), when the guess is wrong.
        clip: which character of a file that holds several: the name of its root, or its number from 0.

    Raises:
        MissingFileError: there is no such file.
        FormatError: it is not a BVH file; the message has the line and the fix.
    """
    text, text_notes = read_bvh_text(path)
    tree, at = read_tree(text, clip)
    frames = read_frames(text, at, tree.whole)
    is_scaled = bool(np.abs(frames.channels[:, tree.scales] - 1.0).max(initial=0.0) > SCALED)
    if tree.whole.num_channels > tree.layout.num_channels:
        frames = replace(
            frames,
            channels=np.ascontiguousarray(frames.channels[:, tree.columns]),
            wxyz=frames.wxyz[:, tree.first : tree.first + len(tree.names)],
        )
    rate, rate_note = _rate(text, frames, rate_hz)
    dropped, warnings, notes = leading_rows(frames.channels, tree.layout, tree.profile, tree.raw)
    tracks = _read_tracks(frames.channels[dropped:], tree.layout, tree.raw)
    guess = tree.unit
    # A header that was read before has a unit without what its frames tell
    if tracks.raw is not tree.raw or guess.warning is not None or not assess_anatomy(tracks.raw).is_human:
        # The rest pose shows no human: some frames may show one
        channels = frames.channels[dropped:]
        index = np.unique(np.linspace(0, len(channels) - 1, SAMPLED_FRAMES).astype(np.int64))
        roots = channels_to_positions(channels[index], tree.layout, 0, tracks.raw.offsets[0])
        moving = None if tracks.moving is None else tracks.moving[index]
        posed = joint_positions(tracks.raw, roots, frames.wxyz[dropped:][index], moving)
        is_human = assess_anatomy(tracks.raw, posed).is_human
        guess = guess_body_unit(tracks.raw) if is_human or tracks.raw is not tree.raw else tree.unit
    if unit is not None:
        guess = UnitGuess(unit, unit_in_metres(unit), f"unit {unit} as asked for")
    motion = _motion(tree, frames, dropped, tracks, guess, rate, text.path)
    if motion.source is not None and motion.source.up != "+y":
        notes.append(f"{motion.source.up.lstrip('+').upper()} is up in the file; rotated so that Y is up")
    if len(tree.scales):
        (warnings if is_scaled else notes).append(
            "joints have channels of scale, which were left out" + (" although some are not 1" if is_scaled else "")
        )
    said = [*tree.warnings, *frames.warnings, *warnings, *([guess.warning] if guess.warning else [])]
    noted = [
        *text_notes,
        guess.note,
        *([rate_note] if rate_note else []),
        *tree.notes,
        *tracks.notes,
        *frames.notes,
        *notes,
    ]
    report = LoadReport(said, noted, later=lambda: joint_flips(motion))
    return replace(motion, load_report=report)


@dataclass(frozen=True, slots=True, eq=False)
class _Tracks:
    """What the position channels below the root say."""

    raw: Skeleton  # file units and axes; bones have the length that they have in the frames
    moving: FloatArray | None = None  # (F, J, 3) offsets that change
    is_relative: bool = False  # channels are added to the offsets, and do not replace them
    notes: tuple[str, ...] = ()


def _motion(
    tree: BvhTree, frames: BvhFrames, dropped: int, tracks: _Tracks, guess: UnitGuess, rate: float, path: str
) -> Motion:
    raw, layout, moving = tracks.raw, tree.layout, tracks.moving
    channels, wxyz = frames.channels[dropped:], frames.wxyz[dropped:]
    # Root in the file's own axes, which then say which way is up
    roots = channels_to_positions(channels, layout, 0, raw.offsets[0])
    up = "+y" if tree.profile == "cmu" else detect_up(raw, roots, wxyz, moving)
    skeleton = build_skeleton(tree, up, guess.metres)
    details: dict[str, Any] = {
        "names": tree.names,
        "channels": tree.layout.names,
        "end_sites": tree.end_sites,
        "frame_time": frames.frame_time,
        "rate_hz": rate,
        "profile": tree.profile,
    }
    if raw is not tree.raw:
        skeleton = replace(skeleton, offsets=to_world(raw.offsets, up) * guess.metres)
        details["offsets"] = tree.raw.offsets
    if tracks.is_relative:
        details["positions"] = "relative"
    # Quaternions of our own kernel are finite and unit to rounding: they are wrapped without another check
    turned = rotate_wxyz(wxyz, up)
    rotations = SO3.__new__(SO3)
    turned.setflags(write=False)
    object.__setattr__(rotations, "wxyz", turned)
    return Motion(
        skeleton,
        rate,
        to_world(roots, up) * guess.metres,
        rotations,
        translations=None if moving is None else to_world(moving, up) * guess.metres,
        name=Path(path).stem,
        source=Source(
            path,
            "bvh",
            guess.name,
            guess.metres,
            up,
            details,
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


SCALED: Final = 1e-3  # [-] a scale that differs less from 1 is none
STILL: Final = 1e-6  # [file unit] a position that changes less is constant
SAME_BONE: Final = 0.05  # [-] a bone whose length in the frames differs more has another than its offset says
TRAVELS: Final = 0.3  # [-] a joint that wanders this part of the body's height leads the body and is no bone


def _read_tracks(channels: FloatArray, layout: ChannelMap, raw: Skeleton) -> _Tracks:
    """Position channels below the root: repeated offsets, the true lengths of bones, or bones that change length."""
    moving = (np.flatnonzero((layout.positions[1:] != NONE).any(axis=1)) + 1).tolist()
    tracks = {j: channels_to_positions(channels, layout, j, raw.offsets[j]) for j in moving}
    if all(np.allclose(track, raw.offsets[j], rtol=0.0, atol=STILL) for j, track in tracks.items()):
        return _Tracks(raw)
    # Most programs write where a joint is; a few write how far it has moved, which is nothing for most joints
    bones = [j for j in moving if raw.offsets[j].any()]
    gone = [j for j in bones if np.abs(tracks[j]).max() < 0.1 * np.abs(raw.offsets[j]).max()]
    is_relative = len(gone) > max(2, len(bones) // 2)
    notes: list[str] = []
    if is_relative:
        tracks = {j: track + raw.offsets[j] for j, track in tracks.items()}
        notes.append("positions of joints are relative to their offsets")
    # Lengths of bones as the frames have them
    offsets = raw.offsets.copy()
    reach = longest_reach(raw.parents, raw.offsets, raw.tips)
    for j, track in tracks.items():
        middle = np.median(track, axis=0)
        length = float(np.linalg.norm(middle))
        wanders = float(np.ptp(track, axis=0).max()) > TRAVELS * max(reach, length)
        if not wanders and np.abs(middle - raw.offsets[j]).max() > SAME_BONE * length + STILL:
            offsets[j] = middle
    if (offsets != raw.offsets).any():
        notes.append("bone lengths are those of the frames, which differ from the offsets of the hierarchy")
        raw = replace(raw, offsets=offsets)
    if all(np.allclose(track, raw.offsets[j], rtol=0.0, atol=STILL) for j, track in tracks.items()):
        return _Tracks(raw, None, is_relative, tuple(notes))
    result = np.repeat(raw.offsets[None], len(channels), axis=0)
    for j, track in tracks.items():
        result[:, j] = track
    return _Tracks(raw, result, is_relative, tuple(notes))
