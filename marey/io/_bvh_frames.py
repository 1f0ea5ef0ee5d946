"""The MOTION of a BVH file: how many frames, how far apart, and the table of channel values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, FormatError
from marey.io._bvh_table import compose_table, read_plain_table
from marey.io._euler import ChannelMap
from marey.io._text import TextFile, is_decimal_comma, make_printable, parse_float, plural

MAX_CHANNEL: Final = 1e9  # [deg or unit] far above any capture; keeps every later product finite
MAX_ROTATIONS: Final = 2_000_000  # frames times joints, unless the file is as large as such a motion should be
BYTES_A_ROTATION: Final = 2  # the shortest way to write a joint's turn, a digit and a blank
_FIELD: Final = re.compile(rb"[\s:]*(frames|frame[ \t]*time)[ \t]*:?[ \t]*([^\s:]*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class BvhFrames:
    """What follows the word MOTION."""

    channels: FloatArray  # (F, C) [deg or file unit], read-only
    wxyz: FloatArray  # (F, J, 4) local rotations in the file's axes, read-only
    frame_time: str  # as the header spells it, empty if it does not
    warnings: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _AnnouncedTable:
    frames: int | None
    frame_time: str
    data_at: int  # byte where the values begin


def read_frames(text: TextFile, start: int, layout: ChannelMap) -> BvhFrames:
    """Read the table of channel values that starts after byte ``start``, and the rotations it makes."""
    said = _read_fields(text, start)
    plain = read_plain_table(text, said.data_at, said.frames or 0, layout.num_channels)
    if plain is not None:
        return _build_frames(text, said, plain, layout, (), ())
    values, scan = _scan(text, said, layout.num_channels)
    warnings: list[str] = []
    notes: list[str] = []
    count = _count_frames(text, said, layout.num_channels, scan, warnings, notes)
    channels = values[: count * layout.num_channels].reshape(count, layout.num_channels)
    return _build_frames(text, said, channels, layout, tuple(warnings), tuple(notes))


def _build_frames(
    text: TextFile,
    said: _AnnouncedTable,
    channels: FloatArray,
    layout: ChannelMap,
    warnings: tuple[str, ...],
    notes: tuple[str, ...],
) -> BvhFrames:
    _check_range(text, channels, said.data_at)
    _check_size(text, len(channels), len(layout.names))
    channels.setflags(write=False)
    return BvhFrames(channels, compose_table(channels, layout), said.frame_time, warnings, notes)


def _read_fields(text: TextFile, at: int) -> _AnnouncedTable:
    frames, frame_time = None, ""
    while (match := _FIELD.match(text.data, at)) is not None:
        at = match.end()
        word = match[2].decode("utf-8", errors="replace")
        if match[1].lower() == b"frames":
            frames = _parse_count(text, word, match.start(2))
        else:
            frame_time = word
    return _AnnouncedTable(frames, frame_time, at)


def _parse_count(text: TextFile, word: str, at: int) -> int:
    value = parse_float(word)
    if value is None or value < 0 or value != int(value):
        what = f"the number of frames is '{make_printable(word)}'"
        raise text.error(what, at, "Write a whole number after 'Frames:'.")
    return int(value)


@dataclass(frozen=True, slots=True)
class _TableScan:
    count: int  # numbers read
    stopped_at: int  # byte
    odd_at: int  # byte that ends the first line with a wrong number of values, or -1
    odd_count: int  # how many that line holds
    in_line: int  # values of the line in hand when reading stopped
    is_bad: bool  # stopped at something that is no number


def _scan(text: TextFile, said: _AnnouncedTable, num_channels: int) -> tuple[FloatArray, _TableScan]:
    """Read all numbers. Memory follows what the file holds, never what it announces."""
    room = (len(text.data) - said.data_at) // 2 + 1  # a number and its separator take two bytes
    guess = room if said.frames is None else min(room, (said.frames + 1) * num_channels)
    values = np.empty(guess)
    scan = _parse(text, said.data_at, values, num_channels)
    if scan.count == guess < room and scan.stopped_at < len(text.data) and not scan.is_bad:
        values = np.empty(room)
        scan = _parse(text, said.data_at, values, num_channels)
    return values, scan


def _parse(text: TextFile, at: int, values: FloatArray, num_channels: int) -> _TableScan:
    from marey.io._text_kernels import parse_numbers

    count, stopped, odd, odd_count, in_line, is_bad = parse_numbers(text.array(), at, values, num_channels)
    return _TableScan(int(count), int(stopped), int(odd), int(odd_count), int(in_line), is_bad)


def _count_frames(
    text: TextFile, said: _AnnouncedTable, num_channels: int, scan: _TableScan, warnings: list[str], notes: list[str]
) -> int:
    count, rest = divmod(scan.count, num_channels)
    whole = said.frames is not None and count >= said.frames > 0
    if scan.is_bad:
        if not whole or scan.in_line:
            raise _bad_value(text, scan.stopped_at)
        line = text.line_at(scan.stopped_at)
        warnings.append(f"text after the last frame was ignored, from line {line}: '{text.word_at(scan.stopped_at)}'")
    if scan.odd_at >= 0 and not (said.frames == count and rest == 0):
        rest = _check_last_line(text, num_channels, scan, warnings)
    elif scan.odd_at >= 0:
        notes.append(f"lines do not hold one frame each; the values were cut every {num_channels}")
    if count == 0:
        raise text.error("the file holds no frames", len(text.data) - 1, "Export it again with its motion.")
    if said.frames is None:
        warnings.append(f"the header gives no number of frames; {count} were found")
    elif said.frames != count:
        warnings.append(f"the header announces {plural(said.frames, 'frame')}, the file holds {count}")
    return count


def _check_last_line(text: TextFile, num_channels: int, scan: _TableScan, warnings: list[str]) -> int:
    """A line of the wrong length is an error, unless it is the last one and the file ends in its midst."""
    is_last = not text.data[scan.odd_at :].strip()
    if not (is_last and text.was_cut and scan.odd_count < num_channels):
        what = f"expected {num_channels} channel values, found {scan.odd_count}"
        raise text.error(what, scan.odd_at, "Check that the line was not truncated.")
    line = text.line_at(scan.odd_at)
    warnings.append(f"the file ends within line {line}, at {scan.odd_count} of {num_channels} values; line left out")
    return 0


def _bad_value(text: TextFile, at: int) -> FormatError:
    word = text.word_at(at)
    if is_decimal_comma(word):
        return text.error(f"'{word}' has a decimal comma", at, "Write decimals with a point.")
    if word.lower().lstrip("+-")[:3] in ("nan", "inf", "1.#"):
        return text.error(f"the channel value '{word}' is not finite", at, "Fill or cut the gap first.")
    return text.error(f"'{word}' is not a number", at, "Channel values are numbers parted by spaces.")


def _check_range(text: TextFile, channels: FloatArray, data_at: int) -> None:
    if channels.size and max(channels.max(), -channels.min()) <= MAX_CHANNEL:
        return
    frame, column = (int(i) for i in np.argwhere(~(np.abs(channels) <= MAX_CHANNEL))[0])
    line = text.line_at(data_at) + 1 + frame
    what = f"channel {column + 1} of frame {frame} is {channels[frame, column]:g}"
    raise FormatError(what, text.path, line, f"No capture exceeds {MAX_CHANNEL:g}; correct the value.")


def _check_size(text: TextFile, frames: int, joints: int) -> None:
    """Refuse a small file that would become a huge motion: many joints without channels, many frames."""
    if frames * joints > max(MAX_ROTATIONS, len(text.data) // BYTES_A_ROTATION):
        what = f"{frames} frames of {joints} joints, most of them without channels, are too many"
        raise text.error(what, len(text.data) - 1, "Remove the joints that never move.")
