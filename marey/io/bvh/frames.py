"""The MOTION of a BVH file: how many frames, how far apart, and the table of channel values.

The plain case, one frame a line as announced, is read the fast way: two passes, the second on vector registers.

The first pass finds where words end, which is a chain of dependent steps, so two halves of the table take turns and
each fills the other's waits. The second pass turns words into numbers, eight digits at a time, without a branch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, FormatError, IntArray, kernel
from marey.io.euler import ChannelMap, compose_euler
from marey.io.text import (
    BEYOND_NINE,
    FULL,
    HIGHS,
    MILLIONS,
    PAIR_MASK,
    TEN_THOUSANDS,
    TENS,
    U0,
    U1,
    U3,
    U6,
    U7,
    U8,
    U10,
    U16,
    U32,
    U45,
    U46,
    U56,
    U63,
    U255,
    ZEROS,
    Int,
    TextFile,
    blank_bits,
    is_decimal_comma,
    make_printable,
    parse_float,
    parse_number,
    parse_numbers,
    parse_plain,
    plural,
    trailing_zeros,
    word_at,
)

ONES = np.uint64(0x0101010101010101)
LINE_ENDS = np.uint64(0x0A0A0A0A0A0A0A0A)
LONGEST = 15  # bytes of a word that can be measured
BLOCK = 512  # words found before they are turned into numbers: few enough to stay in the nearest cache


@kernel
def read_plain(
    data: NDArray[np.uint8], start: Int, middle: Int, stop: Int, half: Int, per_line: Int, values: FloatArray
) -> bool:
    """Fill ``values`` with a table whose lines hold ``per_line`` words each; returns whether it was such a table.

    Two parts are read in turns, from ``start`` to ``middle`` and from there to ``stop``; each ends with a line end.
    ``start`` lies on the line before the table, and 24 bytes follow ``stop``.
    """
    words, ends = np.empty((2, BLOCK), dtype=np.uint64), np.empty((2, BLOCK), dtype=np.int64)
    lengths = np.empty((2, BLOCK), dtype=np.int64)
    a, b, done_a, done_b, line_a, line_b = start, middle, 0, half, 0, half
    decimals = 0
    while a < middle or b < stop:
        i, k = 0, 0
        while (a < middle or b < stop) and i < BLOCK and k < BLOCK:
            # One step in the first half: a word, or the blank after it
            if a < middle:
                if data[a] > 32:
                    lengths[0, i] = word_length(data, a)
                    a += lengths[0, i]
                    words[0, i], ends[0, i] = word_at(data, a - 8), a
                    i += 1
                if data[a] == 10:
                    if done_a + i != line_a and done_a + i != line_a + per_line:
                        return False
                    line_a = done_a + i
                a += 1
            # The same in the second half
            if b < stop:
                if data[b] > 32:
                    lengths[1, k] = word_length(data, b)
                    b += lengths[1, k]
                    words[1, k], ends[1, k] = word_at(data, b - 8), b
                    k += 1
                if data[b] == 10:
                    if done_b + k != line_b and done_b + k != line_b + per_line:
                        return False
                    line_b = done_b + k
                b += 1
        if done_a + i > half or done_b + k > len(values):
            return False
        # The first word says how many decimals to expect; words of another shape are read one by one
        if decimals == 0:
            decimals = count_decimals(data, ends[0, 0], lengths[0, 0]) if i > 0 else 4
        to_numbers(words[0, :i], lengths[0, :i], decimals, values[done_a : done_a + i])
        to_numbers(words[1, :k], lengths[1, :k], decimals, values[done_b : done_b + k])
        if not (
            read_misfits(data, ends[0, :i], lengths[0, :i], values[done_a : done_a + i])
            and read_misfits(data, ends[1, :k], lengths[1, :k], values[done_b : done_b + k])
        ):
            return False
        done_a, done_b = done_a + i, done_b + k
    return done_a == half and done_b == len(values)


@kernel
def count_lines(data: NDArray[np.uint8], start: Int, stop: Int) -> Int:
    """How many line ends lie between two bytes, eight bytes at a time; ``stop`` is followed by eight more."""
    count, p = U0, start
    while p + 8 <= stop:
        other = word_at(data, p) ^ LINE_ENDS
        found = ~((((other & ~HIGHS) + ~HIGHS) | other) | ~HIGHS)  # the high bit of each byte that is a line end
        count += ((found >> U7) * ONES) >> U56
        p += 8
    for last in range(p, stop):
        count += np.uint64(data[last] == 10)
    return np.int64(count)


@kernel
def word_length(data: NDArray[np.uint8], p: Int) -> Int:
    """Bytes up to the next white space, 16 if it is not among the next sixteen."""
    near = trailing_zeros(blank_bits(word_at(data, p)))  # 64 if there is none
    far = trailing_zeros(blank_bits(word_at(data, p + 8)))
    return np.int64((near + (near >> U6) * far) >> U3)


@kernel
def to_numbers(words: NDArray[np.uint64], lengths: IntArray, decimals: Int, values: FloatArray) -> None:
    """Turn the last eight bytes of words into ``values``: a sign, digits, a point, digits; NaN for other shapes."""
    point = np.uint64(8 * (7 - decimals))
    below = (U1 << point) - U1
    above = ~((below << U8) | U255)
    tens = TENS[decimals]
    for n in range(len(values)):
        word, length = words[n], lengths[n]
        # The sign, then the digits without the point, those before the word cleared
        first = (word >> (np.uint64(64 - 8 * min(length, 8)) & U63)) & U255
        is_negative = first == U45
        num_digits = length - 1 - np.int64(is_negative)
        digits = (((word & above) | ((word & below) << U8)) ^ ZEROS) & (FULL << (np.uint64(64 - 8 * num_digits) & U63))
        # A point where it is expected, digits elsewhere, and room in eight bytes
        fits = (
            ((word >> point) & U255 == U46)
            & (((digits + BEYOND_NINE) | digits) & HIGHS == np.uint64(0))
            & (length <= 8)
            & (num_digits >= decimals)
        )
        # Eight digits at once ([Lemire2021]_): pairs, then hundreds and ten thousands
        pairs = digits * U10 + (digits >> U8)
        total = (pairs & PAIR_MASK) * MILLIONS + ((pairs >> U16) & PAIR_MASK) * TEN_THOUSANDS
        value = np.float64(np.int64(total >> U32)) / tens
        values[n] = (-value if is_negative else value) if fits else np.nan


@kernel
def read_misfits(data: NDArray[np.uint8], ends: IntArray, lengths: IntArray, values: FloatArray) -> bool:
    """Read the words of an irregular table one by one; returns whether all are numbers."""
    for n in range(len(values)):
        if np.isnan(values[n]):
            start = ends[n] - lengths[n]
            value, end = parse_plain(data, start)
            if end < 0:
                value, end = parse_number(data, start)
            if end != ends[n] or lengths[n] > LONGEST:
                return False
            values[n] = value
    return True


@kernel
def count_decimals(data: NDArray[np.uint8], end: Int, length: Int) -> Int:
    """How many digits follow the point of a word, from 1 to 7; 4 if that does not fit."""
    for n in range(1, min(length, 8)):
        if data[end - 1 - n] == 46:
            return n
    return 4


MARGIN: Final = 24  # bytes that must follow what is read by words of eight bytes
SMALLEST: Final = 1 << 12  # bytes; a smaller table is read at once anyway


def read_plain_table(text: TextFile, start: int, frames: int, width: int) -> FloatArray | None:
    """Channel values ``(frames, width)``; ``None`` if the table is small or not plain: then go the careful way.

    ``start`` is a byte on the line before the table.
    """
    size = len(text.data) - start
    if size < SMALLEST or size // 2 < frames * width:
        return None
    # Two halves of whole lines, and the last lines, whose bytes are too near to the end
    stop = text.data.rfind(b"\n", 0, len(text.data) - MARGIN) + 1
    middle = text.data.find(b"\n", (start + stop) // 2, stop) + 1
    half = int(count_lines(text.array(), start, middle)) - 1  # the first line end is that of the header
    rest = text.data.count(b"\n", stop)
    if not 0 < half < frames - rest:
        return None
    # All but the last lines by words of eight bytes, those by numbers
    values = np.empty((frames, width))
    flat, whole, data = values.reshape(-1), (frames - rest) * width, text.array()
    if not read_plain(data, start, middle, stop, half * width, width, flat[:whole]):
        return None
    count, stopped_at, odd_at, _, _, is_bad = parse_numbers(data, stop, flat[whole:], width)
    is_regular = count == len(flat) - whole and stopped_at == len(data) and odd_at < 0 and not is_bad
    return values if is_regular else None


MAX_CHANNEL: Final = 1e9  # [deg or unit] far above any capture; keeps every later product finite
MAX_ROTATIONS: Final = 2_000_000  # frames times joints, unless the file is as large as such a motion should be
BYTES_A_ROTATION: Final = 2  # the shortest way to write a joint's turn, a digit and a blank
_FIELD: Final = re.compile(rb"[\s:]*(frames|frame[ \t_]*time)[ \t]*:?[ \t]*([^\s:]*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class BvhFrames:
    """The MOTION section."""

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
    # Fields "Frames:" and "Frame Time:", in either order
    at = start
    frames, frame_time = None, ""
    while (match := _FIELD.match(text.data, at)) is not None:
        at = match.end()
        word = match[2].decode("utf-8", errors="replace")
        if match[1].lower() == b"frames":
            value = parse_float(word)
            if value is None or value < 0 or value != int(value):
                what = f"the number of frames is '{make_printable(word)}'"
                raise text.error(what, match.start(2), "Write a whole number after 'Frames:'.")
            frames = int(value)
        else:
            frame_time = word
    said = _AnnouncedTable(frames, frame_time, at)
    plain = read_plain_table(text, said.data_at, said.frames or 0, layout.num_channels)
    if plain is not None:
        return _build_frames(text, said, plain, layout, (), ())
    # The careful way: as many numbers as announced, or all that the bytes have room for
    room = (len(text.data) - said.data_at) // 2 + 1  # a number and its separator take two bytes
    guess = room if said.frames is None else min(room, (said.frames + 1) * layout.num_channels)
    values = np.empty(guess)
    scan = _scan_table(text, said.data_at, values, layout.num_channels)
    if scan.count == guess < room and scan.stopped_at < len(text.data) and not scan.is_bad:
        values = np.empty(room)
        scan = _scan_table(text, said.data_at, values, layout.num_channels)
    warnings: list[str] = []
    notes: list[str] = []
    # How many frames there are: the numbers as they stand, against what the header announces
    num_channels = layout.num_channels
    count, rest = divmod(scan.count, num_channels)
    whole = said.frames is not None and count >= said.frames > 0
    if scan.is_bad:
        if not whole or scan.in_line:
            # Say what stands there in place of a number
            at = scan.stopped_at
            word = text.word_at(at)
            if is_decimal_comma(word):
                raise text.error(f"'{word}' has a decimal comma", at, "Write decimals with a point.")
            if word.lower().lstrip("+-")[:3] in ("nan", "inf", "1.#"):
                raise text.error(f"the channel value '{word}' is not finite", at, "Fill or cut the gap first.")
            raise text.error(f"'{word}' is not a number", at, "Channel values are numbers parted by spaces.")
        line = text.line_at(scan.stopped_at)
        warnings.append(f"text after the last frame was ignored, from line {line}: '{text.word_at(scan.stopped_at)}'")
    if scan.odd_at >= 0 and not (said.frames == count and rest == 0):
        # A line of the wrong length is an error, unless it is the last one and the file ends in its midst
        is_last = not text.data[scan.odd_at :].strip()
        if not (is_last and text.was_cut and scan.odd_count < num_channels):
            what = f"expected {num_channels} channel values, found {scan.odd_count}"
            raise text.error(what, scan.odd_at, "Check that the line was not truncated.")
        line = text.line_at(scan.odd_at)
        found = f"{scan.odd_count} of {num_channels} values"
        warnings.append(f"the file ends within line {line}, at {found}; line left out")
        rest = 0
    elif scan.odd_at >= 0:
        notes.append(f"lines do not hold one frame each; the values were cut every {num_channels}")
    if count == 0:
        raise text.error("the file holds no frames", len(text.data) - 1, "Export it again with its motion.")
    if said.frames is None:
        warnings.append(f"the header gives no number of frames; {count} were found")
    elif said.frames != count:
        warnings.append(f"the header announces {plural(said.frames, 'frame')}, the file holds {count}")
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
    if not channels.size or not max(channels.max(), -channels.min()) <= MAX_CHANNEL:
        frame, column = (int(i) for i in np.argwhere(~(np.abs(channels) <= MAX_CHANNEL))[0])
        line = text.line_at(said.data_at) + 1 + frame
        what = f"channel {column + 1} of frame {frame} is {channels[frame, column]:g}"
        raise FormatError(what, text.path, line, f"No capture exceeds {MAX_CHANNEL:g}; correct the value.")
    # Refuse a small file that would become a huge motion: many joints without channels, many frames
    frames, joints = len(channels), len(layout.names)
    if frames * joints > max(MAX_ROTATIONS, len(text.data) // BYTES_A_ROTATION):
        what = f"{frames} frames of {joints} joints, most of them without channels, are too many"
        raise text.error(what, len(text.data) - 1, "Remove the joints that never move.")
    channels.setflags(write=False)
    wxyz = compose_euler(channels, layout.axes, layout.columns)
    wxyz.setflags(write=False)
    return BvhFrames(channels, wxyz, said.frame_time, warnings, notes)


@dataclass(frozen=True, slots=True)
class _TableScan:
    count: int  # numbers read
    stopped_at: int  # byte
    odd_at: int  # byte that ends the first line with a wrong number of values, or -1
    odd_count: int  # how many that line holds
    in_line: int  # values of the current line when reading stopped
    is_bad: bool  # stopped at a word that is not a number


def _scan_table(text: TextFile, at: int, values: FloatArray, num_channels: int) -> _TableScan:
    count, stopped, odd, odd_count, in_line, is_bad = parse_numbers(text.array(), at, values, num_channels)
    return _TableScan(int(count), int(stopped), int(odd), int(odd_count), int(in_line), is_bad)
