"""Films as pictures: strips of bodies, and moving ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray
from marey.muscle._film import BONE, CONTRACTED, EXTENDED, PASSIVE
from marey.muscle._film_files import select_frames
from marey.picture import (
    GroundPattern,
    Image,
    Label,
    Margins,
    Palette,
    PinholeCamera,
    RenderScene,
    TriangleMesh,
    fit_height,
    frame_balls,
    linear_from_srgb,
    make_light,
    render_mesh,
    save_image,
    save_pictures,
    view_direction,
    write_labels,
)

if TYPE_CHECKING:
    from marey.muscle._film import Film

STRIP_PX: Final = 1600
MOVING_PX: Final = 640
WIDE_RAD: Final = np.deg2rad(24.0)  # a long lens: bodies at both ends look alike
TALL_RAD: Final = np.deg2rad(28.0)
STRIP_HEIGHTS: Final = (0.12, 0.75)  # [-] lowest and highest strip, as a share of its width
OLDEST_FADE: Final = 0.6  # [-] how pale the first body of a journey is
PAPER: Final = linear_from_srgb("#eceff2")
GAP_FRACTION: Final = 0.2  # [-] of a body's width, between bodies set side by side
CAPTIONS: Final = {  # figures in the order in which they tell, their words and what they are multiplied by
    "flexion_deg": ("{:.0f}° flexed", 1.0),
    "girth_growth": ("girth {:+.0f} %", 100.0),
    "advance_m": ("{:.2f} m gone", 1.0),
    "advance_lengths": ("{:.1f} body lengths", 1.0),
    "bone_strain": ("bones strained {:.1f} %", 100.0),
    "soft_strain": ("flesh {:.0f} %", 100.0),
    "other_branch_share": ("the other prong moves {:.1f} %", 100.0),
    "drift_lengths": ("drifts by {:.0e} of its length", 1.0),
    "shortening_spread": ("shortening alike within {:.0f} %", 100.0),
    "volume_change": ("volume within {:.1f} %", 100.0),
}
LETTER_FRACTION: Final = 0.0105  # [-] size of letters, as a share of the width


def save_strip(film: Film, path: Path, width: int | None = None) -> Path:
    """Draw a film as a strip of bodies in one picture."""
    return save_image(draw_strip(film, width or STRIP_PX), path)


def draw_strip(film: Film, width: int = STRIP_PX) -> Image:
    """A strip ``(H, W, 3)``: bodies where they were if they travel far enough, else side by side."""
    frames = np.unique(np.linspace(0, film.num_frames - 1, film.view.count).round().astype(np.int64))
    meshes = [film.mesh(frame) for frame in frames.tolist()]
    direction = _view_direction(film)
    right = PinholeCamera(np.zeros(3), direction).axes()[0]
    travels = film.view.layout == "travel" or (film.view.layout == "auto" and _is_apart(meshes, right))
    meshes = _fade_meshes(meshes) if travels else _arrange_side_by_side(meshes, right)
    points = np.concatenate([mesh.vertices for mesh in meshes])
    points = np.concatenate([points, _project_to_floor(points, film)])
    letter = max(9, round(LETTER_FRACTION * width))
    margins = Margins(0.02 * width, 2.0 * letter, 5.0 * letter)
    limits = (round(STRIP_HEIGHTS[0] * width), round(STRIP_HEIGHTS[1] * width))
    camera, height = fit_height(points, 0.0, direction, width, wide_rad=WIDE_RAD, limits=limits, margins=margins)
    scene = RenderScene(camera, ground=_make_ground(film, points), light=make_light(direction))
    image = render_mesh(scene, TriangleMesh.join(meshes), (width, height))
    return write_labels(image, _make_labels(film, frames, meshes, camera, (width, height), letter))


def save_video(film: Film, path: Path, fps: float, width: int | None = None) -> Path:
    """Draw a film in real time; the camera goes along with a body that travels."""
    frames = select_frames(film, fps)
    size = (width or MOVING_PX, 2 * round(0.375 * (width or MOVING_PX)))
    direction = _view_direction(film)
    way = _camera_path(film, frames)
    shown = frames[:: max(1, len(frames) // 40)]
    gathered = np.concatenate([film.mesh(f).vertices - way[list(frames).index(f)] for f in shown.tolist()])
    gathered = np.concatenate([gathered, _project_to_floor(gathered, film)])
    margins = Margins(0.04 * size[0], 0.05 * size[1], 0.08 * size[1])
    near = frame_balls(gathered, 0.0, direction, size, fov_rad=TALL_RAD, margins=margins)
    palette = Palette(PASSIVE, CONTRACTED, EXTENDED, BONE)
    whole = np.concatenate([gathered + way[0], gathered + way[-1]])

    def draw(number: int) -> Image:
        camera = PinholeCamera(near.position + way[number], near.target + way[number], near.fov_rad)
        scene = RenderScene(camera, ground=_make_ground(film, whole), light=make_light(direction))
        return render_mesh(scene, film.mesh(int(frames[number])), size)

    actual = min(fps, (len(frames) - 1) / max(float(film.times[-1] - film.times[0]), 1e-9)) if len(frames) > 1 else fps
    return save_pictures(draw, len(frames), path, fps=actual, palette=palette)


def _view_direction(film: Film) -> FloatArray:
    turn, elevation = np.deg2rad(film.view.turn_deg), np.deg2rad(film.view.elevation_deg)
    return view_direction(np.deg2rad(film.view.heading_deg), turn_rad=turn, elevation_rad=elevation)


def _is_apart(meshes: list[TriangleMesh], right: FloatArray) -> bool:
    """Whether bodies stand clear of one another across the picture, give or take a fifth of their width."""
    spans = np.array([[np.min(m.vertices @ right), np.max(m.vertices @ right)] for m in meshes])
    spans = spans[np.argsort(spans[:, 0])]
    return bool(np.all(spans[1:, 0] > spans[:-1, 1] - 0.2 * np.diff(spans, axis=1)[:-1, 0]))


def _fade_meshes(meshes: list[TriangleMesh]) -> list[TriangleMesh]:
    fades = np.linspace(OLDEST_FADE, 0.0, len(meshes)) if len(meshes) > 1 else [0.0]
    return [
        TriangleMesh(m.vertices, m.faces, m.colours + f * (PAPER - m.colours))
        for m, f in zip(meshes, fades, strict=True)
    ]


def _arrange_side_by_side(meshes: list[TriangleMesh], right: FloatArray) -> list[TriangleMesh]:
    """Set bodies along the picture's width, all at one depth."""
    placed: list[TriangleMesh] = []
    edge = 0.0
    for mesh in meshes:
        level = mesh.vertices.mean(axis=0) * [1.0, 0.0, 1.0]
        low, high = np.min((mesh.vertices - level) @ right), np.max((mesh.vertices - level) @ right)
        placed.append(mesh.moved(-level + (edge - low) * right))
        edge += (1.0 + GAP_FRACTION) * (high - low)
    return placed


def _project_to_floor(points: FloatArray, film: Film) -> FloatArray:
    """The floor straight below some points, so that shadows have room; nothing without a floor."""
    if film.ground_m is None:
        return np.zeros((0, 3))
    return points[:: max(1, len(points) // 500)] * [1.0, 0.0, 1.0] + [0.0, film.ground_m, 0.0]


def _make_ground(film: Film, points: FloatArray) -> GroundPattern | None:
    if film.ground_m is None:
        return None
    size = float(np.linalg.norm(np.ptp(film.surface(0), axis=0)))
    flat = points[:, [0, 2]]
    axis = int(np.argmax(np.ptp(flat, axis=0)))
    ends = np.tile(flat.mean(axis=0), (2, 1))
    ends[:, axis] = flat[:, axis].min(), flat[:, axis].max()
    tile = film.view.tile_m or 0.25 * size
    return GroundPattern(
        film.ground_m, focus=ends, fade_m=(0.5 * size, 2.4 * size), square_m=tile, line_width_m=0.03 * tile
    )


def _camera_path(film: Film, frames: NDArray[np.int64]) -> FloatArray:
    """Level way of the middle of the body ``(n, 3)`` [m], without its sway."""
    from scipy.ndimage import uniform_filter1d  # pyright: ignore[reportUnknownVariableType] (scipy has no types)

    middles = film.positions.mean(axis=1) * [1.0, 0.0, 1.0]
    smooth = np.asarray(
        uniform_filter1d(middles, max(1, round(film.rate_hz)), axis=0, mode="nearest"), dtype=np.float64
    )
    return (smooth - smooth[0])[frames]


def _make_labels(
    film: Film,
    frames: NDArray[np.int64],
    meshes: list[TriangleMesh],
    camera: PinholeCamera,
    size: tuple[int, int],
    letter: int,
) -> list[Label]:
    """Times under the bodies, and a line about the film."""
    middles = np.array([m.vertices.mean(axis=0) for m in meshes])
    places = camera.project(middles, size)[:, 0]
    times = film.times[frames]
    labels = [
        Label("   ".join([film.name, *_make_captions(film)]), letter, size[1] - 1.0 * letter, letter, centred=False)
    ]
    return labels + [Label(f"{t:.2f} s", x, size[1] - 2.6 * letter, letter) for t, x in zip(times, places, strict=True)]


def _make_captions(film: Film) -> list[str]:
    """The figures that tell most, as a person writes them."""
    told = [name for name in CAPTIONS if name in film.metrics and name in film.shown]
    return [CAPTIONS[name][0].format(film.metrics[name] * CAPTIONS[name][1]) for name in told[:3]]
