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
from marey.picture.bodies import PALETTES, Palette, body_solids, contacts_or_detect, foot_prints
from marey.picture.motions import (
    ground_focus,
    ground_level,
    is_travelling,
    main_heading,
    make_light,
    make_traces,
    path_bend,
    strip_frames,
)
from marey.picture.raycast.capsules import Image, render
from marey.picture.raycast.scene import (
    CapsuleBatch,
    GroundMarks,
    GroundPattern,
    Margins,
    RenderScene,
    fit_height,
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
        left, top, right, bottom = box
        gap = 0.4 * label.size_px
        if not any(left < r + gap and x < right + gap and top < b and t < bottom for x, t, r, b in taken):
            pen.text((label.x, label.y), label.text, font=font, anchor=anchor, fill=INK)
            taken.append(box)
    return np.array(paper)


@lru_cache(maxsize=16)
def _load_font(size_px: int) -> FreeTypeFont:
    """DejaVu Sans, which matplotlib brings: the same letters on every machine."""
    import matplotlib
    from PIL import ImageFont

    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf", size_px)


LAYOUTS: Final = ("auto", "travel", "grid")
INSTANTS: Final = ("auto", "time", "movement")


@dataclass(frozen=True, slots=True)
class StripSettings:
    """How a film strip looks."""

    wide_rad: float = np.deg2rad(26.0)  # angle of view across: a long lens, so that bodies at both ends look alike
    elevation_rad: float = np.deg2rad(13.0)  # of the camera above the horizon
    bend_rad: float = np.deg2rad(24.0)  # how much higher it stands for a path as wide as it is long
    travel_turn_rad: float = np.deg2rad(5.0)  # nearly from the side, so that the path runs level
    grid_turn_rad: float = np.deg2rad(24.0)  # a little of the front, so that near and far limbs part
    oldest_fade: float = 0.62  # [-] how pale the first body is
    gap_m: float = 0.14  # between bodies set side by side
    height_share: tuple[float, float] = (0.14, 0.6)  # [-] lowest and highest strip, as a share of its width
    letter_share: float = 0.0105  # [-] size of letters, as a share of the width
    fade_m: tuple[float, float] = (0.5, 2.6)  # from the line of feet, where the ground fades


STRIP_SETTINGS: Final = StripSettings()


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
    settings: StripSettings = STRIP_SETTINGS,
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
        settings: angles, gaps and sizes.
    """
    for kind, name, known in (("layout", layout, LAYOUTS), ("instants", instants, INSTANTS)):
        if name not in known:
            raise UnknownNameError(kind, name, "film_strip", known)
    if count < 1 or width < 64:
        raise InputError(f"a strip of {count} bodies, {width} pixels wide", "Ask for at least 1 and 64")
    frames = strip_frames(motion, count, by_movement=instants == "movement")
    travels = layout == "travel" or (layout == "auto" and is_travelling(motion, frames))
    if instants == "auto" and not travels:
        frames = strip_frames(motion, count, by_movement=True)
    turn = settings.travel_turn_rad if travels else settings.grid_turn_rad
    elevation = settings.elevation_rad + (path_bend(motion) * settings.bend_rad if travels else 0.0)
    direction = view_direction(main_heading(motion), turn_rad=turn, elevation_rad=elevation)
    contacts, colours = contacts_or_detect(motion), palette or PALETTES[0]
    # Bodies, marks, and the point under each body where its time is written (n, 3) [m].
    if travels:
        fades = np.linspace(settings.oldest_fade, 0.0, len(frames)) if len(frames) > 1 else 0.0
        bodies = body_solids(motion, frames, colours, contacts=contacts, fades=fades)
        marks, under = list[GroundMarks](make_traces(motion, colours)), motion.root_positions[frames]
    else:
        right = view_axes(direction)[0]
        bodies, marks, under = _place_side_by_side(motion, frames, colours, contacts, right, settings.gap_m)
    solids = CapsuleBatch.join(bodies)
    ground = GroundPattern(ground_level(motion, contacts), focus=ground_focus(solids), fade_m=settings.fade_m)
    # Camera and size that hold all bodies and their feet, with room for a line of labels.
    feet = under * [1.0, 0.0, 1.0] + [0.0, ground.height_m, 0.0]
    points = np.concatenate([solids.starts, solids.ends, feet])
    radii = np.concatenate([solids.start_radii, solids.end_radii, np.zeros(len(feet))])
    letter = max(9, round(settings.letter_share * width))
    margins = Margins(0.02 * width, 1.5 * letter, 5.0 * letter)
    low, high = (round(share * width) if height is None else height for share in settings.height_share)
    camera, tall = fit_height(
        points, radii, direction, width, wide_rad=settings.wide_rad, limits=(low, high), margins=margins
    )
    scene = RenderScene(camera, solids, GroundMarks.join(marks), ground, make_light(direction))
    image = render(scene, (width, tall), threads=threads)
    # Times under the bodies, and a line about the clip.
    places = camera.project(under, (width, tall))[:, 0]
    times = motion.times()[frames]
    labels = [Label(f"{t:.2f} s", x, tall - 2.6 * letter, letter) for t, x in zip(times, places, strict=True)]
    if caption:
        text = f"{motion.name}   {motion.duration_s:.2f} s   {motion.rate_hz:g} Hz   {mean_speed(motion):.2f} m/s"
        labels.insert(0, Label(text, letter, tall - 1.0 * letter, letter, centred=False))
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


def _place_side_by_side(
    motion: Motion, frames: IntArray, palette: Palette, contacts: Contacts, right: FloatArray, gap_m: float
) -> tuple[list[CapsuleBatch], list[GroundMarks], FloatArray]:
    """Pack the bodies along the picture's width by their own extents, all at one depth."""
    bodies = body_solids(motion, frames, palette, contacts=contacts)
    roots = motion.root_positions[frames] * [1.0, 0.0, 1.0]
    # Where each body begins and ends along the width [m].
    sides = [(b.starts @ right, b.start_radii, b.ends @ right, b.end_radii) for b in bodies]
    lows = np.array([float(np.minimum(a - r, b - q).min()) for a, r, b, q in sides])
    highs = np.array([float(np.maximum(a + r, b + q).max()) for a, r, b, q in sides])
    widths = highs - lows + gap_m
    left_ends = np.concatenate([[0.0], np.cumsum(widths)[:-1]])
    moves = (left_ends - lows + roots @ right)[:, None] * right - roots
    prints = [
        foot_prints(motion[f : f + 1], contacts[f : f + 1], palette).moved(move[[0, 2]])
        for f, move in zip(frames.tolist(), moves, strict=True)
    ]
    feet = (left_ends + 0.5 * (widths - gap_m))[:, None] * right
    return [b.moved(m) for b, m in zip(bodies, moves, strict=True)], prints, feet
