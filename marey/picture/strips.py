"""Film strips: the instants of a motion in one picture, with words, as printed in books since Marey."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from marey.base import FloatArray, InputError, UnknownNameError
from marey.motion import Motion, mean_speed
from marey.picture.bodies import (
    PALETTES,
    CharacterLike,
    Figure,
    Palette,
    contacts_or_detect,
    draw_figures,
    find_character,
    foot_prints,
)
from marey.picture.capsules import Image
from marey.picture.motions import (
    ground_focus,
    ground_level,
    is_travelling,
    main_heading,
    make_light,
    make_traces,
    named_view_direction,
    path_bend,
    strip_frames,
)
from marey.picture.scene import (
    GroundMarks,
    GroundPattern,
    Margins,
    RenderScene,
    TriangleMesh,
    fit_height,
    view_axes,
    view_direction,
)
from marey.picture.triangles import render
from marey.picture.worlds import Scenery, build_scenery, find_steps, place_objects
from marey.world import Sketch, World

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
    around_m: float = 0.6  # things so near to the bodies are held in the picture


STRIP_SETTINGS: Final = StripSettings()


def film_strip(
    motion: Motion,
    *,
    count: int = 8,
    width: int = 1600,
    height: int | None = None,
    layout: str = "auto",
    instants: str = "auto",
    view: str = "auto",
    palette: Palette | None = None,
    caption: bool = True,
    world: World | Sketch | None = None,
    character: CharacterLike | None = None,
    body: str = "auto",
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
        view: ``"side"``, ``"three-quarter"``, ``"front"`` or ``"top"``, bodies side by side, seen from there against
            the main heading of the motion; ``"auto"`` is nearly from the side.
        palette: colours of the figure.
        caption: write the clip's name, times and speed under it.
        world: what stands around, drawn too, and of a sketch its path and goal; the ground is then at height 0.
            Bodies set side by side take along the small things near them. Without a world, feet that rest above
            the ground stand on blocks.
        character: a character, or its file, on whose skeleton the motion is; by default that of the clip's own file,
            where it holds a skinned mesh.
        body: ``"capsules"`` for a plain body, ``"mesh"`` to insist on a character, ``"auto"``.
        threads: how many draw.
        settings: angles, gaps and sizes.
    """
    for kind, name, known in (("layout", layout, LAYOUTS), ("instants", instants, INSTANTS)):
        if name not in known:
            raise UnknownNameError(kind, name, "film_strip", known)
    if count < 1 or width < 64:
        raise InputError(f"a strip of {count} bodies, {width} pixels wide", "Ask for at least 1 and 64")
    frames = strip_frames(motion, count, by_movement=instants == "movement")
    is_named = view != "auto"
    travels = layout == "travel" or (layout == "auto" and not is_named and is_travelling(motion, frames))
    if instants == "auto" and not travels and not is_named:
        frames = strip_frames(motion, count, by_movement=True)
    turn = settings.travel_turn_rad if travels else settings.grid_turn_rad
    elevation = settings.elevation_rad + (path_bend(motion) * settings.bend_rad if travels else 0.0)
    direction = view_direction(main_heading(motion), turn_rad=turn, elevation_rad=elevation)
    direction = named_view_direction(motion, view) if is_named else direction
    contacts, colours = contacts_or_detect(motion), palette or PALETTES[0]
    mesh = find_character(motion, character, body)
    scenery = Scenery() if world is None else build_scenery(world)
    level = ground_level(motion, contacts, character=mesh) if world is None else 0.0
    # Bodies, what they stand on and hold, and the point under each where its time is written (n, 3) [m].
    fades = np.linspace(settings.oldest_fade if travels and len(frames) > 1 else 0.0, 0.0, len(frames))
    figures = draw_figures(motion, frames, colours, character=mesh, contacts=contacts, fades=fades)
    held = [TriangleMesh.none()] * len(frames) if world is None else place_objects(world, motion, frames)
    if travels:
        under, marks = motion.root_positions[frames], [scenery.marks, *make_traces(motion, colours)]
        steps = [find_steps(motion, contacts, level)] if world is None else list(scenery.parts)
    else:
        things = [
            [find_steps(motion, contacts, level, frames[i : i + 1])]
            if world is None
            else scenery.near(motion.root_positions[f])
            for i, f in enumerate(frames.tolist())
        ]
        held = [TriangleMesh.join([thing, *near]) for thing, near in zip(held, things, strict=True)]
        steps, scenery = [], Scenery()
        moves, under = pack_figures(figures, held, motion.root_positions[frames], direction, settings.gap_m)
        marks = [
            foot_prints(motion[f : f + 1], contacts[f : f + 1], colours).moved(move[[0, 2]])
            for f, move in zip(frames.tolist(), moves, strict=True)
        ]
        figures = [figure.moved(move) for figure, move in zip(figures, moves, strict=True)]
        held = [thing.moved(move) for thing, move in zip(held, moves, strict=True)]
    figure = Figure.join(figures)
    points, radii = figure.balls()
    ground = GroundPattern(level, focus=ground_focus(points), fade_m=settings.fade_m)
    # Camera and size that hold all bodies, their feet and the things among them, with room for a line of labels.
    feet = under * [1.0, 0.0, 1.0] + [0.0, ground.height_m, 0.0]
    around = TriangleMesh.join([*held, *steps])
    inside = (np.abs(around.vertices - points.mean(axis=0)) < np.ptp(points, axis=0) * 0.5 + settings.around_m).all(
        axis=1
    )
    points = np.concatenate([points, feet, around.vertices[inside]])
    radii = np.concatenate([radii, np.zeros(len(points) - len(radii))])
    letter = max(9, round(settings.letter_share * width))
    margins = Margins(0.02 * width, 1.5 * letter, 5.0 * letter)
    low, high = (round(share * width) if height is None else height for share in settings.height_share)
    camera, tall = fit_height(
        points, radii, direction, width, wide_rad=settings.wide_rad, limits=(low, high), margins=margins
    )
    scene = RenderScene(
        camera,
        figure.solids,
        GroundMarks.join(marks),
        ground,
        make_light(direction),
        mesh=TriangleMesh.join([figure.mesh, around]),
        panes=scenery.panes,
    )
    image = render(scene, (width, tall), threads=threads)
    # Times under the bodies, and a line about the clip.
    places = camera.project(under, (width, tall))[:, 0]
    times = motion.times()[frames]
    labels = [Label(f"{t:.2f} s", x, tall - 2.6 * letter, letter) for t, x in zip(times, places, strict=True)]
    if caption:
        text = f"{motion.name}   {motion.duration_s:.2f} s   {motion.rate_hz:g} Hz   {mean_speed(motion):.2f} m/s"
        labels.insert(0, Label(text, letter, tall - 1.0 * letter, letter, centred=False))
    return write_labels(image, labels)


def pack_figures(
    figures: Sequence[Figure], held: Sequence[TriangleMesh], roots: FloatArray, direction: FloatArray, gap_m: float
) -> tuple[FloatArray, FloatArray]:
    """Set bodies side by side along the picture's width, by their extents.

    Args:
        figures: the bodies ``(n,)``.
        held: what each holds and stands on.
        roots: their places ``(n, 3)`` [m].
        direction: in which they are seen.
        gap_m: between neighbours.

    Returns:
        How far each moves, and the point under each afterwards, both ``(n, 3)`` [m].
    """
    right, middles = view_axes(direction)[0], roots * [1.0, 0.0, 1.0]
    # Where each body, with what it holds and stands on, begins and ends along the width [m]
    lows, highs = np.empty(len(figures)), np.empty(len(figures))
    for i, (figure, thing) in enumerate(zip(figures, held, strict=True)):
        points, radii = figure.balls()
        beside = thing.vertices @ right
        lows[i] = min(float((points @ right - radii).min()), float(beside.min(initial=np.inf)))
        highs[i] = max(float((points @ right + radii).max()), float(beside.max(initial=-np.inf)))
    widths = highs - lows + gap_m
    left_ends = np.concatenate([[0.0], np.cumsum(widths)[:-1]])
    moves = (left_ends - lows + middles @ right)[:, None] * right - middles
    return moves, (left_ends + 0.5 * (widths - gap_m))[:, None] * right


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
