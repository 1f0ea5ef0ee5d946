"""Compiled reading of a plain table: one frame a line, short numbers. Two passes, the second on vector registers.

The first pass finds where words end, which is a chain of dependent steps, so two halves of the table take turns and
each fills the other's waits. The second pass turns words into numbers, eight digits at a time, without a branch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, IntArray, kernel
from marey.io._text_kernels import (
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
    blank_bits,
    parse_number,
    parse_plain,
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
    """Fill ``values`` with a table of which every line holds ``per_line`` words; tells whether it was such a table.

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
        first = (word >> (np.uint64(64 - 8 * min(length, 8)) & U63)) & U255
        is_negative = first == U45
        num_digits = length - 1 - np.int64(is_negative)
        digits = (((word & above) | ((word & below) << U8)) ^ ZEROS) & (FULL << (np.uint64(64 - 8 * num_digits) & U63))
        fits = (
            ((word >> point) & U255 == U46)
            & (((digits + BEYOND_NINE) | digits) & HIGHS == np.uint64(0))
            & (length <= 8)
            & (num_digits >= decimals)
        )
        pairs = digits * U10 + (digits >> U8)
        total = (pairs & PAIR_MASK) * MILLIONS + ((pairs >> U16) & PAIR_MASK) * TEN_THOUSANDS
        value = np.float64(np.int64(total >> U32)) / tens
        values[n] = (-value if is_negative else value) if fits else np.nan


@kernel
def read_misfits(data: NDArray[np.uint8], ends: IntArray, lengths: IntArray, values: FloatArray) -> bool:
    """Read the words of another shape one by one; tells whether all are numbers."""
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
