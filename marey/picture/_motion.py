"""One or several motions in one picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, UnknownNameError
from marey.motion import Motion
from marey.picture._body import PALETTES, Palette, body_solids, resolve_frames
from marey.picture._camera import Margins, PinholeCamera, frame_balls, view_direction
from marey.picture._plants import contacts_or_detect, foot_prints, root_path
from marey.picture._render import Image, render
from marey.picture._scene import CapsuleBatch, GroundMarks, GroundPattern, RenderScene, linear_from_srgb
from marey.picture._views import ground_focus, ground_level, main_heading, make_light

VIEWS: Final = {  # turn towards the front and height above the horizon [rad]
    "side": (np.deg2rad(8.0), np.deg2rad(12.0)),
    "three-quarter": (np.deg2rad(40.0), np.deg2rad(16.0)),
    "front": (np.deg2rad(82.0), np.deg2rad(12.0)),
    "top": (np.deg2rad(8.0), np.deg2rad(62.0)),
}
FOV_RAD: Final = np.deg2rad(24.0)
OLDEST_FADE: Final = 0.6  # [-] how pale the first of several bodies is
FADE_M: Final = (1.0, 4.5)  # [m] from the bodies, where the ground fades
PATH_COLOUR: Final = linear_from_srgb("#b6bdc6")


def render_motion(
    motion: Motion | Sequence[Motion],
    frames: int | Sequence[int] | ArrayLike,
    *,
    size: tuple[int, int] = (960, 540),
    camera: PinholeCamera | None = None,
    view: str = "three-quarter",
    palettes: Sequence[Palette] = PALETTES,
    spacing_m: float | None = None,
    prints: bool = True,
    threads: int = 1,
) -> Image:
    """Draw the bodies of one motion, or of several in different colours, at some frames: ``(H, W, 3)``.

    Args:
        motion: a clip, or clips to compare. Contacts are detected where a clip has none.
        frames: frame numbers, drawn in every clip; a shorter clip shows its last. Earlier bodies are paler.
        size: (width, height) of the picture.
        camera: from where; placed to see everything if not given.
        view: ``"side"``, ``"three-quarter"``, ``"front"`` or ``"top"`` of the first motion, if no camera is given.
        palettes: one for each motion, taken in turn.
        spacing_m: sets several motions this far apart, side by side across their direction [m]; 0 lays one over
            the other. 1.2 m by default.
        prints: draw foot plants and the path of the root.
        threads: how many draw.
    """
    scene = motion_scene(
        motion, frames, size=size, camera=camera, view=view, palettes=palettes, spacing_m=spacing_m, prints=prints
    )
    return render(scene, size, threads=threads)


def motion_scene(
    motion: Motion | Sequence[Motion],
    frames: int | Sequence[int] | ArrayLike,
    *,
    size: tuple[int, int] = (960, 540),
    camera: PinholeCamera | None = None,
    view: str = "three-quarter",
    palettes: Sequence[Palette] = PALETTES,
    spacing_m: float | None = None,
    prints: bool = True,
) -> RenderScene:
    """What :func:`render_motion` draws, as plain data; the arguments are the same."""
    motions = [motion] if isinstance(motion, Motion) else list(motion)
    if not motions or not palettes:
        raise InputError("no motion or no palette to draw", "Give at least one of each")
    direction = named_view_direction(motions[0], view)
    heading = main_heading(motions[0])
    aside = (1.2 if spacing_m is None else spacing_m) * np.array([np.cos(heading), 0.0, -np.sin(heading)])
    bodies: list[CapsuleBatch] = []
    marks: list[GroundMarks] = []
    for i, clip in enumerate(motions):
        palette, move = palettes[i % len(palettes)], aside * i
        bodies += [b.moved(move) for b in _make_bodies(clip, frames, palette)]
        marks += [m.moved(move[[0, 2]]) for m in ([*make_traces(clip, palette)] if prints else [])]
    solids = CapsuleBatch.join(bodies)
    seen = camera or fit_camera(solids, direction, size)
    ground = GroundPattern(
        min(ground_level(clip, contacts_or_detect(clip)) for clip in motions), focus=ground_focus(solids), fade_m=FADE_M
    )
    return RenderScene(seen, solids, GroundMarks.join(marks), ground, make_light(direction))


def _make_bodies(motion: Motion, frames: int | Sequence[int] | ArrayLike, palette: Palette) -> list[CapsuleBatch]:
    shown = np.minimum(np.atleast_1d(np.asarray(frames, dtype=np.int64)), motion.num_frames - 1)
    chosen = resolve_frames(motion, shown)
    fades = np.linspace(OLDEST_FADE, 0.0, len(chosen)) if len(chosen) > 1 else 0.0
    return body_solids(motion, chosen, palette, contacts=contacts_or_detect(motion), fades=fades)


def make_traces(motion: Motion, palette: Palette) -> tuple[GroundMarks, GroundMarks]:
    """The path of the root and the foot plants of a clip."""
    return root_path(motion, PATH_COLOUR), foot_prints(motion, contacts_or_detect(motion), palette)


def named_view_direction(motion: Motion, view: str) -> FloatArray:
    """Direction ``(3,)`` in which a named view looks at a motion."""
    if view not in VIEWS:
        raise UnknownNameError("view", view, "marey.picture", VIEWS)
    turn, elevation = VIEWS[view]
    return view_direction(main_heading(motion), turn_rad=turn, elevation_rad=elevation)


def fit_camera(solids: CapsuleBatch, direction: FloatArray, size: tuple[int, int]) -> PinholeCamera:
    """Camera that sees all of some bodies."""
    points = np.concatenate([solids.starts, solids.ends])
    radii = np.concatenate([solids.start_radii, solids.end_radii])
    margins = Margins(0.06 * size[0], 0.07 * size[1], 0.10 * size[1])
    return frame_balls(points, radii, direction, size, fov_rad=FOV_RAD, margins=margins)
