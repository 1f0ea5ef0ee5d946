"""The plain case of a BVH table, one frame a line as announced: most files, so it is read the fast way."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.io._euler import ChannelMap
from marey.io._text import TextFile

MARGIN: Final = 24  # bytes that must follow what is read by words of eight bytes
SMALLEST: Final = 1 << 12  # bytes; a smaller table is read at once anyway


def compose_table(channels: FloatArray, layout: ChannelMap) -> FloatArray:
    """Local rotations ``(F, J, 4)``, read-only, of channel values ``(F, C)`` [deg]."""
    from marey.io._euler_kernels import compose_euler

    wxyz = compose_euler(channels, layout.axes, layout.columns)
    wxyz.setflags(write=False)
    return wxyz


def read_plain_table(text: TextFile, start: int, frames: int, width: int) -> FloatArray | None:
    """Channel values ``(frames, width)``; ``None`` if the table is small or not plain: then go the careful way.

    ``start`` is a byte on the line before the table.
    """
    size = len(text.data) - start
    if size < SMALLEST or size // 2 < frames * width:
        return None
    stop = text.data.rfind(b"\n", 0, len(text.data) - MARGIN) + 1
    middle = text.data.find(b"\n", (start + stop) // 2, stop) + 1
    half = _count_lines(text, start, middle) - 1  # the first line end is that of the header
    rest = text.data.count(b"\n", stop)
    if not 0 < half < frames - rest:
        return None
    values = np.empty((frames, width))
    return values if _fill_values(text, (start, middle, stop), half, values) else None


def _count_lines(text: TextFile, start: int, stop: int) -> int:
    from marey.io._bvh_table_kernels import count_lines

    return int(count_lines(text.array(), start, stop))


def _fill_values(text: TextFile, bounds: tuple[int, int, int], half: int, values: FloatArray) -> bool:
    """Read all but the last lines by words, and these number by number; tells whether all lines are plain."""
    from marey.io._bvh_table_kernels import read_plain
    from marey.io._text_kernels import parse_numbers

    start, middle, stop = bounds
    width = values.shape[1]
    whole = len(values) - text.data.count(b"\n", stop)
    flat = values.reshape(-1)
    data = text.array()
    if not read_plain(data, start, middle, stop, half * width, width, flat[: whole * width]):
        return False
    last = flat[whole * width :]
    count, stopped_at, odd_at, _, _, is_bad = parse_numbers(data, stop, last, width)
    return bool(count == len(last) and stopped_at == len(data) and odd_at < 0 and not is_bad)
