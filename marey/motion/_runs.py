"""Stretches of frames in which a flag holds."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray


def find_runs(flags: BoolArray, bridge: int = 0, *, shortest: int = 1) -> list[tuple[int, int]]:
    """Start and stop (not included) of each run of true flags ``(F,)``.

    Args:
        flags: one flag a frame.
        bridge: gaps of up to this many frames are closed first.
        shortest: runs of fewer frames are left out.
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    starts, stops = edges[::2], edges[1::2]
    apart = starts[1:] - stops[:-1] > bridge
    starts, stops = starts[np.append(True, apart)[: len(starts)]], stops[np.append(apart, True)[: len(stops)]]
    long = stops - starts >= shortest
    return list(zip(starts[long].tolist(), stops[long].tolist(), strict=True))
