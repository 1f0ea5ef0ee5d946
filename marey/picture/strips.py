"""Film strips: the instants of a motion in one picture, with words, as printed in books since Marey."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray, UnknownNameError
from marey.motion import Contacts, Motion, mean_speed
from marey.picture.bodies import PALETTES, Palette, body_solids, contacts_or_detect, foot_prints, root_path
from marey.picture.motions import (
    ground_focus,
    ground_level,
    is_travelling,
    main_heading,
    make_light,
    path_bend,
    strip_frames,
)
from marey.picture.raycast.capsules import Image, render
from marey.picture.raycast.scene import (
    CapsuleBatch,
    GroundMarks,
    GroundPattern,
    Margins,
    PinholeCamera,
    RenderScene,
    fit_height,
    linear_from_srgb,
    view_axes,
    view_direction,
)

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


LAYOUTS: Final = ("auto", "travel", "grid")
INSTANTS: Final = ("auto", "time", "movement")
WIDE_RAD: Final = np.deg2rad(26.0)  # a long lens: bodies at both ends look alike
ELEVATION_RAD: Final = np.deg2rad(13.0)
BEND_RAD: Final = np.deg2rad(24.0)  # how much higher the camera stands for a path as wide as it is long
TRAVEL_TURN_RAD: Final = np.deg2rad(5.0)  # nearly from the side, so that the path runs level
GRID_TURN_RAD: Final = np.deg2rad(24.0)  # a little of the front, so that near and far limbs part
OLDEST_FADE: Final = 0.62  # [-] how pale the first body is
GAP_M: Final = 0.14  # [m] between bodies set side by side
HEIGHT_SHARE: Final = (0.14, 0.6)  # [-] lowest and highest strip, as a share of its width
LETTER_SHARE: Final = 0.0105  # [-] size of letters, as a share of the width
FADE_M: Final = (0.5, 2.6)  # [m] from the line of feet, where the ground fades
PATH_COLOUR: Final = linear_from_srgb("#b6bdc6")


@dataclass(frozen=True, slots=True, eq=False)
class _StripLayout:
    """The picture: from where, and how large."""

    camera: PinholeCamera
    size: tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class _StripContent:
    """What a strip shows: bodies, marks and where the time labels go."""

    bodies: list[CapsuleBatch]
    marks: GroundMarks
    contacts: Contacts
    feet: FloatArray  # (n, 3) [m] ground point under each body


def film_strip(
    motion: Motion,
    *,
    count: int = 8,
    width: int = 1600,
    height: int | None = None,
    layout: str = "auto",
    instants: str = "auto",
    palette: Palette | None = None,
    caption: bool = True,
    threads: int = 1,
) -> Image:
    """Draw a motion as ``count`` solid bodies in one picture ``(H, W, 3)``, with shadows and foot plants.

    Args:
        motion: the clip. Without a contact track, contacts are detected.
        count: how many instants, from the first frame to the last.
        width: of the picture [pixel].
        height: of the picture [pixel]; chosen to fit if not given.
        layout: ``"travel"`` leaves the bodies where they were, older ones paler, with the foot plants and the path
            of the root; ``"grid"`` sets them side by side, for motions that stay in place; ``"auto"`` chooses.
        instants: ``"time"`` spaces them evenly, ``"movement"`` shows more of them where the body moves more;
            ``"auto"`` is time for a motion that travels, movement for one that stays.
        palette: colours of the figure.
        caption: write the clip's name, times and speed under it.
        threads: how many draw.
    """
    _check_name("layout", layout, LAYOUTS)
    _check_name("instants", instants, INSTANTS)
    if count < 1 or width < 64:
        raise InputError(f"a strip of {count} bodies, {width} pixels wide", "Ask for at least 1 and 64")
    frames = strip_frames(motion, count, by_movement=instants == "movement")
    travels = layout == "travel" or (layout == "auto" and is_travelling(motion, frames))
    if instants == "auto" and not travels:
        frames = strip_frames(motion, count, by_movement=True)
    turn = TRAVEL_TURN_RAD if travels else GRID_TURN_RAD
    elevation = ELEVATION_RAD + (path_bend(motion) * BEND_RAD if travels else 0.0)
    direction = view_direction(main_heading(motion), turn_rad=turn, elevation_rad=elevation)
    row = (_place_in_world if travels else _place_side_by_side)(motion, frames, palette or PALETTES[0], direction)
    solids = CapsuleBatch.join(row.bodies)
    ground = GroundPattern(ground_level(motion, row.contacts), focus=ground_focus(solids), fade_m=FADE_M)
    # Camera and size that hold all bodies and their feet, with room for a line of labels
    solids_strip = CapsuleBatch.join(row.bodies)
    feet = row.feet * [1.0, 0.0, 1.0] + [0.0, ground.height_m, 0.0]
    points = np.concatenate([solids_strip.starts, solids_strip.ends, feet])
    radii = np.concatenate([solids_strip.start_radii, solids_strip.end_radii, np.zeros(len(feet))])
    letter = _letter_px(width)
    margins = Margins(0.02 * width, 1.5 * letter, 5.0 * letter)
    limits = (round(HEIGHT_SHARE[0] * width), round(HEIGHT_SHARE[1] * width)) if height is None else (height, height)
    camera, tall = fit_height(points, radii, direction, width, wide_rad=WIDE_RAD, limits=limits, margins=margins)
    sheet = _StripLayout(camera, (width, tall))
    image = render(
        RenderScene(sheet.camera, solids, row.marks, ground, make_light(direction)), sheet.size, threads=threads
    )
    # Times under the bodies, and a line about the clip
    width_labels, height_labels = sheet.size
    size = _letter_px(width_labels)
    places = sheet.camera.project(row.feet, sheet.size)[:, 0]
    times = motion.times()[frames]
    labels = [Label(f"{t:.2f} s", x, height_labels - 2.6 * size, size) for t, x in zip(times, places, strict=True)]
    if caption:
        text = f"{motion.name}   {motion.duration_s:.2f} s   {motion.rate_hz:g} Hz   {mean_speed(motion):.2f} m/s"
        labels.insert(0, Label(text, size, height_labels - 1.0 * size, size, centred=False))
    return write_labels(image, labels)


def compare_strips(
    motions: Sequence[Motion], *, palettes: Sequence[Palette] = PALETTES, width: int = 1600, **options: Any
) -> Image:
    """Film strips of several motions, one below the other, each in its own colours ``(H, W, 3)``.

    ``options`` are those of :func:`film_strip` and hold for all.
    """
    if not motions or not palettes:
        raise InputError("no motion or no palette to draw", "Give at least one of each")
    return np.concatenate(
        [film_strip(m, palette=palettes[i % len(palettes)], width=width, **options) for i, m in enumerate(motions)]
    )


def _check_name(kind: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise UnknownNameError(kind, name, "film_strip", known)


def _place_in_world(motion: Motion, frames: IntArray, palette: Palette, direction: FloatArray) -> _StripContent:
    contacts = contacts_or_detect(motion)
    fades = np.linspace(OLDEST_FADE, 0.0, len(frames)) if len(frames) > 1 else 0.0
    bodies = body_solids(motion, frames, palette, contacts=contacts, fades=fades)
    marks = GroundMarks.join([root_path(motion, PATH_COLOUR), foot_prints(motion, contacts, palette)])
    return _StripContent(bodies, marks, contacts, motion.root_positions[frames])


def _place_side_by_side(motion: Motion, frames: IntArray, palette: Palette, direction: FloatArray) -> _StripContent:
    """Pack the bodies along the picture's width by their own extents, all at one depth."""
    contacts, right = contacts_or_detect(motion), view_axes(direction)[0]
    bodies = body_solids(motion, frames, palette, contacts=contacts)
    roots = motion.root_positions[frames] * [1.0, 0.0, 1.0]
    lows, highs = zip(*(_body_extent(body, right) for body in bodies), strict=True)
    widths = np.array(highs) - np.array(lows) + GAP_M
    left_ends = np.concatenate([[0.0], np.cumsum(widths)[:-1]])
    moves = (left_ends - np.array(lows) + roots @ right)[:, None] * right - roots
    prints = [
        foot_prints(motion[f : f + 1], contacts[f : f + 1], palette).moved(move[[0, 2]])
        for f, move in zip(frames.tolist(), moves, strict=True)
    ]
    feet = (left_ends + 0.5 * (widths - GAP_M))[:, None] * right
    return _StripContent(
        [b.moved(m) for b, m in zip(bodies, moves, strict=True)], GroundMarks.join(prints), contacts, feet
    )


def _body_extent(body: CapsuleBatch, axis: FloatArray) -> tuple[float, float]:
    """Where a body begins and ends along a direction [m]."""
    starts, ends = body.starts @ axis, body.ends @ axis
    low = np.minimum(starts - body.start_radii, ends - body.end_radii).min()
    return float(low), float(np.maximum(starts + body.start_radii, ends + body.end_radii).max())


def _letter_px(width: int) -> int:
    return max(9, round(LETTER_SHARE * width))
