"""GIF films: one table of 256 colours for all pictures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from marey.picture._body import Palette
from marey.picture._render import Image, encode_srgb

Bytes = NDArray[np.uint8]

TICK_S: Final = 0.01  # [s] a GIF counts in hundredths
RAMP: Final = np.linspace(0.25, 1.25, 12)  # [-] light on a body, from shade to highlight
NEAR_WHITE: Final = 254  # [0..255] lighter pixels need no colour of their own
BITS: Final = 6  # of each channel that choose a colour


def common_colours(pictures: Iterator[Image], palette: Palette) -> Bytes:
    """256 colours ``(256, 3)`` for some pictures: ramps of the body's own, white paper, and the best others.

    The ramps are given because feet are small, and a choice by frequency would forget their colour.
    """
    from PIL import Image as Pillow

    bodies = np.stack([palette.trunk, palette.left, palette.right, palette.contact])
    ramps = encode_srgb(np.minimum(bodies[:, None] * RAMP[:, None], 1.0)).reshape(-1, 3).astype(np.uint8)
    colours = np.full((256, 3), 255, dtype=np.uint8)  # the last is white
    colours[: len(ramps)] = ramps
    seen = np.concatenate(list(pictures)).reshape(-1, 3)
    coloured = seen[seen.min(axis=1) < NEAR_WHITE]
    if len(coloured):
        left = 255 - len(ramps)
        chosen = Pillow.fromarray(coloured[None]).quantize(left, method=Pillow.Quantize.MEDIANCUT).getpalette() or []
        best = np.array(chosen, dtype=np.uint8).reshape(-1, 3)[:left]
        colours[len(ramps) : len(ramps) + len(best)] = best
    return colours


def write_gif(path: Path, pictures: Iterator[Image], fps: float, colours: Bytes) -> None:
    """Write pictures with one table of colours ``(256, 3)``: no flicker, small files."""
    from PIL import Image as Pillow

    table = nearest_colour_table(colours)
    indexed: list[Pillow.Image] = []
    for picture in pictures:
        frame = Pillow.fromarray(table[_colour_cells(picture)])
        frame.putpalette(colours.tobytes())
        indexed.append(frame)
    ends = np.floor(np.arange(len(indexed) + 1) / fps / TICK_S + 0.5)
    durations = (np.diff(ends) * 1000.0 * TICK_S).astype(int).tolist()
    first, rest = indexed[0], indexed[1:]
    first.save(path, format="GIF", save_all=True, append_images=rest, duration=durations, loop=0, optimize=False)


def nearest_colour_table(colours: Bytes) -> Bytes:
    """Number of the nearest colour for every value of the leading bits of red, green and blue ``(64³,)``."""
    from scipy.spatial import KDTree

    side = 1 << BITS
    levels = (np.arange(side) + 0.5) * (256 / side)
    cells = np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), axis=-1).reshape(-1, 3)
    tree = cast(Any, KDTree(colours.astype(np.float64)))  # scipy has no types for query
    table = np.asarray(tree.query(cells)[1], dtype=np.uint8)
    table[-1] = len(colours) - 1  # white stays white
    return table


def _colour_cells(picture: Image) -> NDArray[np.int64]:
    red, green, blue = np.moveaxis(picture.astype(np.int64) >> (8 - BITS), -1, 0)
    return (red << (2 * BITS)) | (green << BITS) | blue
