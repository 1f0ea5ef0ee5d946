"""The plain case of a BVH table, one frame a line as announced, read by two threads at once."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray
from marey.io._euler import ChannelMap
from marey.io._text import TextFile

WORTH_A_THREAD: Final = 1 << 18  # bytes; below this, starting a thread costs more than it saves


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Channel values ``(F, C)`` and the rotations ``(F, J, 4)`` that they make, both read-only."""

    channels: FloatArray
    wxyz: FloatArray


def compose_table(channels: FloatArray, layout: ChannelMap) -> FloatArray:
    """Local rotations ``(F, J, 4)`` of channel values ``(F, C)`` [deg]."""
    from marey.io._euler_kernels import compose_into

    wxyz = np.empty((len(channels), len(layout.axes), 4))
    compose_into(channels, layout.axes, layout.columns, wxyz)
    wxyz.setflags(write=False)
    return wxyz


def read_in_halves(text: TextFile, data_at: int, frames: int, layout: ChannelMap) -> Table | None:
    """Read a large table in two halves; ``None`` when it is small or not plain, so that the careful way is taken."""
    size = len(text.data) - data_at
    width = layout.num_channels
    rotations = frames * len(layout.axes)
    if size < WORTH_A_THREAD or size // 2 < max(frames * width, rotations) or (os.cpu_count() or 1) < 2:
        return None
    middle = text.data.find(b"\n", data_at + size // 2) + 1
    rows = text.data.count(b"\n", data_at, middle) - 1  # the first line end is that of the header
    if not 0 < rows < frames:
        return None
    channels, wxyz = np.empty((frames, width)), np.empty((frames, len(layout.axes), 4))
    bytes_ = text.array()
    second = _Half(bytes_, middle, channels[rows:], wxyz[rows:], layout)
    thread = threading.Thread(target=second.read)
    thread.start()
    first = _Half(bytes_[:middle], data_at, channels[:rows], wxyz[:rows], layout)
    first.read()
    thread.join()
    if not (first.is_plain and second.is_plain):
        return None
    channels.setflags(write=False)
    wxyz.setflags(write=False)
    return Table(channels, wxyz)


class _Half:
    """One half of the table: bytes in, rows out."""

    __slots__ = ("channels", "data", "is_plain", "layout", "start", "wxyz")

    def __init__(
        self, data: NDArray[np.uint8], start: int, channels: FloatArray, wxyz: FloatArray, layout: ChannelMap
    ) -> None:
        self.data, self.start, self.channels, self.wxyz, self.layout = data, start, channels, wxyz, layout
        self.is_plain = False

    def read(self) -> None:
        """Fill the rows; they are plain if every line holds one frame and nothing is left over."""
        from marey.io._euler_kernels import compose_into
        from marey.io._text_kernels import parse_numbers

        values = self.channels.reshape(-1)
        count, stopped_at, odd_at, _, _, is_bad = parse_numbers(self.data, self.start, values, self.channels.shape[1])
        self.is_plain = count == len(values) and odd_at < 0 and not is_bad and stopped_at == len(self.data)
        if self.is_plain:
            compose_into(self.channels, self.layout.axes, self.layout.columns, self.wxyz)
