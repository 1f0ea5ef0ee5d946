"""Words on a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.picture._render import Image

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont

INK: Final = (70, 76, 84)


@dataclass(frozen=True, slots=True)
class Label:
    """A line of text; ``x`` [pixel] is its middle or its left end, ``y`` its middle height."""

    text: str
    x: float
    y: float
    size_px: int
    centred: bool = True


def write_labels(image: Image, labels: Sequence[Label]) -> Image:
    """Return the picture with the labels written on it; a label that would touch an earlier one is left out."""
    from PIL import Image as Pillow
    from PIL import ImageDraw

    paper = Pillow.fromarray(image)
    pen = ImageDraw.Draw(paper)
    taken: list[tuple[float, float, float, float]] = []
    for label in labels:
        font, anchor = _load_font(label.size_px), "mm" if label.centred else "lm"
        box = pen.textbbox((label.x, label.y), label.text, font=font, anchor=anchor)
        if not any(_overlap(box, other, 0.4 * label.size_px) for other in taken):
            pen.text((label.x, label.y), label.text, font=font, anchor=anchor, fill=INK)
            taken.append(box)
    return np.array(paper)


def _overlap(a: tuple[float, ...], b: tuple[float, ...], gap: float) -> bool:
    return a[0] < b[2] + gap and b[0] < a[2] + gap and a[1] < b[3] and b[1] < a[3]


@lru_cache(maxsize=16)
def _load_font(size_px: int) -> FreeTypeFont:
    """DejaVu Sans, which matplotlib brings: the same letters on every machine."""
    import matplotlib
    from PIL import ImageFont

    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf", size_px)
