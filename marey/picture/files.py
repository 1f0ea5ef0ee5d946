"""Pictures and films on disk; GIF films share one table of 256 colours."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from marey.base import (
    InputError,
    MissingExtraError,
    MissingFileError,
    UnknownNameError,
    atomic_file,
    check_frame_count,
)
from marey.io import Character
from marey.motion import Motion
from marey.picture.bodies import (
    PALETTES,
    CharacterLike,
    Figure,
    Palette,
    body_solids,
    contacts_or_detect,
    draw_figures,
    find_character,
)
from marey.picture.capsules import Image, encode_srgb
from marey.picture.motions import (
    FADE_M,
    fit_camera,
    ground_focus,
    ground_level,
    make_light,
    make_traces,
    named_view_direction,
    smooth_camera_path,
)
from marey.picture.scene import GroundMarks, GroundPattern, PinholeCamera, RenderScene, TriangleMesh
from marey.picture.triangles import render
from marey.picture.worlds import Scenery, build_scenery, find_steps, place_objects
from marey.world import Sketch, World

Bytes = NDArray[np.uint8]

TICK_S: Final = 0.01  # [s] a GIF counts in hundredths
RAMP: Final = np.linspace(0.25, 1.25, 12)  # [-] light on a body, from shade to highlight
NEAR_WHITE: Final = 254  # [0..255] lighter pixels need no colour of their own
BITS: Final = 6  # of each channel that choose a colour


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


Progress = Callable[[int, int], None]

PICTURE_SUFFIXES: Final = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp")
FILM_SUFFIXES: Final = (".gif", ".mp4")
MAX_PICTURES: Final = 200_000  # of a film: almost two hours at 30 a second
CAMERAS: Final = ("follow", "all")
FRAME_SAMPLES: Final = 60  # frames from which a film's camera distance is found
COLOUR_SAMPLES: Final = 6  # pictures from which a GIF's colours are chosen


def save_image(image: NDArray[np.uint8], path: str | os.PathLike[str]) -> Path:
    """Write a picture ``(H, W, 3)``; the suffix chooses the format. Return the path.

    The file appears whole or not at all.
    """
    from PIL import Image as Pillow

    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[-1] != 3:
        raise InputError(f"a picture of {image.dtype} and shape {image.shape}", "Give uint8 values (H, W, 3)")
    target = _check_target(path, PICTURE_SUFFIXES)
    with atomic_file(target) as draft:
        Pillow.fromarray(np.ascontiguousarray(image)).save(draft)
    return target


def save_film(
    motion: Motion,
    path: str | os.PathLike[str],
    *,
    fps: float = 30.0,
    size: tuple[int, int] = (640, 480),
    view: str = "three-quarter",
    camera: str | PinholeCamera = "follow",
    palette: Palette | None = None,
    world: World | Sketch | None = None,
    character: CharacterLike | None = None,
    body: str = "auto",
    progress: Progress | None = None,
    threads: int = 1,
) -> Path:
    """Write a motion as a film in real time: ``.gif``, or ``.mp4`` (extra ``video``). Return the path.

    The film shows the frame nearest to each of its instants, so its length is that of the clip. A GIF counts time in
    hundredths of a second: the length stays right, single frames may be shown 5 ms early or late.

    Args:
        motion: the clip. Contacts are detected if it has none.
        path: where to write; the suffix chooses the format.
        fps: pictures per second, at most 50 for a GIF.
        size: (width, height) [pixel]; even numbers for MP4.
        view: ``"side"``, ``"three-quarter"``, ``"front"`` or ``"top"``.
        camera: ``"follow"`` goes along with the body, ``"all"`` stands still and sees the whole way, or your own.
        palette: colours of the figure.
        world: what stands around, drawn too; the ground is then at height 0.
        character: a character, or its file, on whose skeleton the motion is; by default that of the clip's own file,
            where it holds a skinned mesh.
        body: ``"capsules"`` for a plain body, ``"mesh"`` to insist on a character, ``"auto"``.
        progress: called with (pictures drawn, pictures in all).
        threads: how many draw.
    """
    target = _check_target(path, FILM_SUFFIXES)
    _check_film(target, fps, size, camera)
    frames, colours = film_frames(motion, fps), palette or PALETTES[0]
    mesh = find_character(motion, character, body)

    def drawn(few: NDArray[np.int64], report: Progress | None) -> Iterator[Image]:
        scenes = _film_scenes(motion, few, size, view, camera, colours, world=world, character=mesh)
        for done, scene in enumerate(scenes, 1):
            yield render(scene, size, threads=threads)
            if report is not None:
                report(done, len(few))

    return _write_film(drawn, frames, target, fps, colours, progress)


def save_pictures(
    draw: Callable[[int], Image],
    count: int,
    path: str | os.PathLike[str],
    *,
    fps: float = 30.0,
    palette: Palette | None = None,
) -> Path:
    """Write pictures of your own as a film: ``.gif``, or ``.mp4`` (extra ``video``). Return the path.

    Args:
        draw: gives picture 0, 1, ...; all of one size, even for MP4. A GIF asks for some of them twice.
        count: how many there are.
        path: where to write; the suffix chooses the format.
        fps: pictures per second, at most 50 for a GIF.
        palette: colours that a GIF must keep.
    """
    target = _check_target(path, FILM_SUFFIXES)
    height, width, _ = draw(0).shape
    _check_film(target, fps, (width, height), "all")

    def drawn(few: NDArray[np.int64], report: Progress | None) -> Iterator[Image]:
        return (draw(number) for number in few.tolist())

    return _write_film(drawn, np.arange(count), target, fps, palette or PALETTES[0], None)


def _write_film(
    drawn: Callable[[NDArray[np.int64], Progress | None], Iterator[Image]],
    frames: NDArray[np.int64],
    target: Path,
    fps: float,
    palette: Palette,
    progress: Progress | None,
) -> Path:
    check_frame_count(len(frames), "the film", MAX_PICTURES)
    pictures = drawn(frames, progress)
    if target.suffix.lower() == ".gif":
        # 256 colours (256, 3) for some of the pictures: ramps of the body's own, white paper, and the best others. The
        # ramps are given because feet are small, and a choice by frequency would forget their colour.
        from PIL import Image as Pillow

        bodies = np.stack([palette.trunk, palette.left, palette.right, palette.contact])
        ramps = encode_srgb(np.minimum(bodies[:, None] * RAMP[:, None], 1.0)).reshape(-1, 3).astype(np.uint8)
        colours = np.full((256, 3), 255, dtype=np.uint8)  # the last is white
        colours[: len(ramps)] = ramps
        seen = np.concatenate(list(drawn(frames[:: max(1, len(frames) // COLOUR_SAMPLES)], None))).reshape(-1, 3)
        coloured = seen[seen.min(axis=1) < NEAR_WHITE]
        if len(coloured):
            left = 255 - len(ramps)
            chosen = (
                Pillow.fromarray(coloured[None]).quantize(left, method=Pillow.Quantize.MEDIANCUT).getpalette() or []
            )
            best = np.array(chosen, dtype=np.uint8).reshape(-1, 3)[:left]
            colours[len(ramps) : len(ramps) + len(best)] = best
        with atomic_file(target) as draft:
            # All pictures share one table of colours (256, 3): no flicker, small files.
            table = nearest_colour_table(colours)
            indexed: list[Pillow.Image] = []
            for picture in pictures:
                red, green, blue = np.moveaxis(picture.astype(np.int64) >> (8 - BITS), -1, 0)
                frame = Pillow.fromarray(table[(red << (2 * BITS)) | (green << BITS) | blue])
                frame.putpalette(colours.tobytes())
                indexed.append(frame)
            # A GIF counts in hundredths of a second: ends are rounded, so that the length stays right.
            ends = np.floor(np.arange(len(indexed) + 1) / fps / TICK_S + 0.5)
            durations = (np.diff(ends) * 1000.0 * TICK_S).astype(int).tolist()
            first, rest = indexed[0], indexed[1:]
            first.save(
                draft, format="GIF", save_all=True, append_images=rest, duration=durations, loop=0, optimize=False
            )
        return target
    with atomic_file(target) as draft:
        _write_mp4(draft, pictures, fps)
    return target


def film_frames(motion: Motion, fps: float) -> NDArray[np.int64]:
    """Frames of a clip that a film of ``fps`` pictures per second shows, one for each picture."""
    count = max(1, round((motion.duration_s + 1.0 / motion.rate_hz) * fps))
    nearest = np.floor(np.arange(count) / fps * motion.rate_hz + 0.5).astype(np.int64)
    return np.minimum(nearest, motion.num_frames - 1)


def _check_film(target: Path, fps: float, size: tuple[int, int], camera: str | PinholeCamera) -> None:
    if isinstance(camera, str) and camera not in CAMERAS:
        raise UnknownNameError("camera", camera, "save_film", CAMERAS)
    is_gif = target.suffix.lower() == ".gif"
    if not 0.0 < fps <= (50.0 if is_gif else 1000.0):
        raise InputError(f"a film of {fps} pictures per second", "Ask for more than 0 and, in a GIF, at most 50")
    if not is_gif and (size[0] % 2 or size[1] % 2):
        raise InputError(f"an MP4 of {size[0]} x {size[1]} pixels", "Both must be even")


def _film_scenes(
    motion: Motion,
    frames: NDArray[np.int64],
    size: tuple[int, int],
    view: str,
    camera: str | PinholeCamera,
    palette: Palette,
    *,
    world: World | Sketch | None = None,
    character: Character | None = None,
) -> Iterator[RenderScene]:
    """One scene a picture; the ground, its marks, the world and the lamp stay as they are."""
    direction, contacts = named_view_direction(motion, view), contacts_or_detect(motion)
    scenery = Scenery() if world is None else build_scenery(world)
    marks = GroundMarks.join([scenery.marks, *make_traces(motion, palette)])
    level = ground_level(motion, contacts, character=character) if world is None else 0.0
    standing = [find_steps(motion, contacts, level)] if world is None else list(scenery.parts)
    few = np.unique(np.linspace(0, motion.num_frames - 1, FRAME_SAMPLES).round().astype(np.int64))
    # A camera that goes along holds all bodies as if they were at one place.
    samples = [Figure(body) for body in body_solids(motion, few, palette)]
    way = smooth_camera_path(motion)
    still = camera if isinstance(camera, PinholeCamera) else None
    if camera == "all":
        still = fit_camera(Figure.join(samples), direction, size)
    gathered = Figure.join([body.moved(-place) for body, place in zip(samples, way[few], strict=True)])
    near = still or fit_camera(gathered, direction, size)
    lamp, whole = make_light(direction), ground_focus(Figure.join(samples).balls()[0])
    objects = iter(() if world is None else place_objects(world, motion, frames))
    for f in frames.tolist():
        (body,) = draw_figures(motion, np.array([f]), palette, character=character, contacts=contacts)
        seen = still or PinholeCamera(near.position + way[f], near.target + way[f], near.fov_rad)
        focus = whole if still is not None else ground_focus(body.balls()[0])
        ground = GroundPattern(level, focus=focus, fade_m=FADE_M)
        mesh = TriangleMesh.join([body.mesh, *standing, next(objects, TriangleMesh.none())])
        yield RenderScene(seen, body.solids, marks, ground, lamp, mesh=mesh, panes=scenery.panes)


def _write_mp4(path: Path, pictures: Iterator[Image], fps: float) -> None:
    """Pipe pictures into ffmpeg as H.264 that every player shows; one thread, so that bytes repeat.

    (imageio's own writer leaves pipes open, which shows as warnings in the programs that use us.)
    """
    if find_spec("imageio_ffmpeg") is None:
        raise MissingExtraError("writing MP4 films", "video")
    program, first = str(cast(Any, import_module("imageio_ffmpeg")).get_ffmpeg_exe()), next(pictures)
    height, width, _ = first.shape
    reads = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{fps:.12g}", "-i", "-"]
    codes = ["-an", "-c:v", "libx264", "-preset", "veryfast", "-crf", "18", "-pix_fmt", "yuv420p", "-threads", "1"]
    writes = ["-fflags", "+bitexact", "-flags:v", "+bitexact", "-movflags", "+faststart", str(path)]
    command = [program, "-y", "-loglevel", "error", *reads, *codes, *writes]
    with Popen(command, stdin=PIPE, stderr=PIPE) as process:
        assert process.stdin is not None and process.stderr is not None
        try:
            for picture in chain([first], pictures):
                process.stdin.write(picture.tobytes())
            process.stdin.close()
        except BrokenPipeError:
            pass  # ffmpeg gave up; its reason follows
        except BaseException:
            process.kill()
            raise
        reason = process.stderr.read().decode(errors="replace").strip()
    if process.returncode:
        raise InputError(f"ffmpeg could not write '{path.name}': {reason or process.returncode}")


def _check_target(path: str | os.PathLike[str], suffixes: tuple[str, ...]) -> Path:
    target = Path(path)
    if target.suffix.lower() not in suffixes:
        raise InputError(f"'{target.name}' has no suffix that can be written", f"Use one of {', '.join(suffixes)}")
    if not target.parent.is_dir():
        raise MissingFileError(str(target.parent), "Make the folder first.")
    return target
