"""One or several motions in one picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, UnknownNameError
from marey.motion import Motion
from marey.picture._body import PALETTES, Palette, body_solids, chosen_frames
from marey.picture._camera import Camera, Margins, frame_balls, view_direction
from marey.picture._plants import contacts_of, foot_prints, root_path
from marey.picture._render import Image, render
from marey.picture._scene import Ground, Marks, Scene, Solids, srgb
from marey.picture._views import ground_focus, ground_level, lamp_for, main_heading

VIEWS: Final = {  # turn towards the front and height above the horizon [rad]
    "side": (np.deg2rad(8.0), np.deg2rad(12.0)),
    "three-quarter": (np.deg2rad(40.0), np.deg2rad(16.0)),
    "front": (np.deg2rad(82.0), np.deg2rad(12.0)),
    "top": (np.deg2rad(8.0), np.deg2rad(62.0)),
}
FOV_RAD: Final = np.deg2rad(24.0)
OLDEST_FADE: Final = 0.6  # [-] how pale the first of several bodies is
FADE_M: Final = (1.0, 4.5)  # [m] from the bodies, where the ground fades
PATH_COLOUR: Final = srgb("#b6bdc6")


def render_motion(
    motion: Motion | Sequence[Motion],
    frames: int | Sequence[int] | ArrayLike,
    *,
    size: tuple[int, int] = (960, 540),
    camera: Camera | None = None,
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
    camera: Camera | None = None,
    view: str = "three-quarter",
    palettes: Sequence[Palette] = PALETTES,
    spacing_m: float | None = None,
    prints: bool = True,
) -> Scene:
    """What :func:`render_motion` draws, as plain data; the arguments are the same."""
    motions = [motion] if isinstance(motion, Motion) else list(motion)
    if not motions or not palettes:
        raise InputError("no motion or no palette to draw", "Give at least one of each")
    direction = viewing(motions[0], view)
    heading = main_heading(motions[0])
    aside = (1.2 if spacing_m is None else spacing_m) * np.array([np.cos(heading), 0.0, -np.sin(heading)])
    bodies: list[Solids] = []
    marks: list[Marks] = []
    for i, clip in enumerate(motions):
        palette, move = palettes[i % len(palettes)], aside * i
        bodies += [b.moved(move) for b in _bodies(clip, frames, palette)]
        marks += [m.moved(move[[0, 2]]) for m in ([*trace(clip, palette)] if prints else [])]
    solids = Solids.join(bodies)
    seen = camera or camera_for(solids, direction, size)
    ground = Ground(
        min(ground_level(clip, contacts_of(clip)) for clip in motions), focus=ground_focus(solids), fade_m=FADE_M
    )
    return Scene(seen, solids, Marks.join(marks), ground, lamp_for(direction))


def _bodies(motion: Motion, frames: int | Sequence[int] | ArrayLike, palette: Palette) -> list[Solids]:
    shown = np.minimum(np.atleast_1d(np.asarray(frames, dtype=np.int64)), motion.num_frames - 1)
    chosen = chosen_frames(motion, shown)
    fades = np.linspace(OLDEST_FADE, 0.0, len(chosen)) if len(chosen) > 1 else 0.0
    return body_solids(motion, chosen, palette, contacts=contacts_of(motion), fades=fades)


def trace(motion: Motion, palette: Palette) -> tuple[Marks, Marks]:
    """The path of the root and the foot plants of a clip."""
    return root_path(motion, PATH_COLOUR), foot_prints(motion, contacts_of(motion), palette)


def viewing(motion: Motion, view: str) -> FloatArray:
    """Direction ``(3,)`` in which a named view looks at a motion."""
    if view not in VIEWS:
        raise UnknownNameError("view", view, "marey.picture", VIEWS)
    turn, elevation = VIEWS[view]
    return view_direction(main_heading(motion), turn_rad=turn, elevation_rad=elevation)


def camera_for(solids: Solids, direction: FloatArray, size: tuple[int, int]) -> Camera:
    """Camera that sees all of some bodies."""
    points = np.concatenate([solids.starts, solids.ends])
    radii = np.concatenate([solids.start_radii, solids.end_radii])
    margins = Margins(0.06 * size[0], 0.07 * size[1], 0.10 * size[1])
    return frame_balls(points, radii, direction, size, fov_rad=FOV_RAD, margins=margins)
