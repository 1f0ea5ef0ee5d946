"""Quantised frames to bytes and back: which frame comes when, and what each number is expected to be."""

from __future__ import annotations

import numpy as np

from marey.base import IntArray, kernel
from marey.compression.range_coder import (
    GROUPS,
    RATIOS,
    Bytes,
    Coder,
    close_stream,
    code_number,
    code_plain,
    magnitude_bucket,
    new_coder,
    open_stream,
)

FLAG_PLACES = 8  # chances of the flags that say how far a frame is refined
MAX_REFINED = 40  # halvings of the step; the reader stops there
BYTES_PER_NUMBER = 16  # more than any number can take


@kernel
def order_frames(frames: int, levels: int) -> tuple[IntArray, IntArray]:
    """Frames in coding order and the stride of each: every 2^levels-th first, then the ones half-way, and so on."""
    order, strides = np.empty(frames, dtype=np.int64), np.empty(frames, dtype=np.int64)
    stride, count, start = 1 << levels, 0, 0
    while stride > 0:
        step = stride if start == 0 and count == 0 else 2 * stride
        for t in range(start, frames, step):
            order[count], strides[count] = t, stride
            count += 1
        stride >>= 1
        start = stride
    return order, strides


@kernel
def _code_flag(coder: Coder, data: Bytes, first: int, before: int, value: int, is_reading: bool) -> int:
    """A small count in unary: how often the step of this frame is halved."""
    count = 0
    while count < MAX_REFINED:
        place = first + (min(before, 1) if count == 0 else min(1 + count, FLAG_PLACES - 1))
        if not code_plain(coder, data, place, 1 if value > count else 0, is_reading):
            break
        count += 1
    return count


@kernel
def _code_frame(
    coder: Coder, data: Bytes, row: IntArray, previous: IntArray, fast: IntArray, slow: IntArray, group: int,
    is_reading: bool,
) -> None:  # fmt: skip
    """The numbers of one frame; ``previous`` is the frame coded before in this level."""
    unusual = 0  # running mean of how many half octaves the numbers are above what was expected, in 1/16
    for i in range(row.shape[0]):
        ratio = min(max((unusual + 8 + 16 * (RATIOS // 2)) >> 4, 0), RATIOS - 1)
        beside = row[i - 1] if i > 0 else 0
        signs = 3 * _sign_code(previous[i]) + _sign_code(beside)
        row[i] = code_number(
            coder, data, row[i], i, group, fast[i], slow[i], ratio, abs(previous[i]), abs(beside), signs, is_reading
        )  # fmt: skip
        size = 256 * abs(row[i])
        expected = (fast[i] + slow[i]) >> 1
        surprise = magnitude_bucket(size + 64) - magnitude_bucket(expected + 64)
        unusual += (16 * surprise - unusual) >> 3
        fast[i] += (size - fast[i]) >> 2
        slow[i] += (size - slow[i]) >> 5
        previous[i] = row[i]


@kernel
def _sign_code(value: int) -> int:
    return 0 if value == 0 else (1 if value > 0 else 2)


@kernel
def write_frames(numbers: IntArray, refined: IntArray, levels: int, stretch: IntArray, squash: IntArray) -> Bytes:
    """Bytes of quantised frames ``(F, n)`` and of how far each is refined ``(F,)``."""
    frames, count = numbers.shape
    coder = new_coder(count + 1, stretch, squash)
    data = np.empty(4096 + BYTES_PER_NUMBER * (count + 8), dtype=np.uint8)
    order, strides = order_frames(frames, levels)
    fast, slow = np.full(count, 512), np.full(count, 512)
    previous = np.zeros(count, dtype=np.int64)
    before = 0
    for k in range(frames):
        need = coder.interval[2] + BYTES_PER_NUMBER * (count + 8)
        if need > data.shape[0]:
            grown = np.empty(2 * need, dtype=np.uint8)
            grown[: data.shape[0]] = data
            data = grown
        group = _level_group(strides[k], levels)
        before = _code_flag(coder, data, _flag_position(coder), before, int(refined[order[k]]), False)
        row = numbers[order[k]].copy()
        _code_frame(coder, data, row, previous, fast, slow, group, False)
    length = close_stream(coder, data)
    return data[:length].copy()


@kernel
def read_frames(
    data: Bytes, frames: int, count: int, levels: int, stretch: IntArray, squash: IntArray
) -> tuple[IntArray, IntArray, int]:
    """Undo :func:`write_frames`; the last value is how many bytes were used."""
    coder = new_coder(count + 1, stretch, squash)
    open_stream(coder, data)
    numbers, refined = np.zeros((frames, count), dtype=np.int64), np.zeros(frames, dtype=np.int64)
    order, strides = order_frames(frames, levels)
    fast, slow = np.full(count, 512), np.full(count, 512)
    previous = np.zeros(count, dtype=np.int64)
    before = 0
    for k in range(frames):
        group = _level_group(strides[k], levels)
        before = _code_flag(coder, data, _flag_position(coder), before, 0, True)
        refined[order[k]] = before
        _code_frame(coder, data, numbers[order[k]], previous, fast, slow, group, True)
        if coder.interval[2] > data.shape[0] + 8:
            return numbers, refined, -1
    return numbers, refined, coder.interval[2]


@kernel
def _flag_position(coder: Coder) -> int:
    return coder.plain.shape[0] - 9


@kernel
def _level_group(stride: int, levels: int) -> int:
    depth = 0
    while (stride << depth) < (1 << levels):
        depth += 1
    return min(depth, GROUPS - 1)
