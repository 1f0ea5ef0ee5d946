"""A film: the frames of a scene, its files and its pictures.

Films are saved as arrays, mesh sequences, animated glTF, strips of bodies and videos.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, InputError, MissingFileError, atomic_file, frozen, write_atomically
from marey.muscle.body.contact import ContactBox
from marey.muscle.muscles.embedding import EmbeddedSurface
from marey.muscle.scene.film_gltf import encode_film_glb
from marey.muscle.scene.tables import ViewPart
from marey.picture import (
    GroundPattern,
    Image,
    Label,
    Margins,
    Palette,
    PinholeCamera,
    RenderScene,
    TriangleMesh,
    encode_srgb,
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

PASSIVE: Final = linear_from_srgb("#dcb9a6")  # a spline at rest
CONTRACTED: Final = linear_from_srgb("#c1121f")  # full contraction
EXTENDED: Final = linear_from_srgb("#2a6fbb")  # the same, outwards
BONE: Final = linear_from_srgb("#efe7d3")
STONE: Final = linear_from_srgb("#9aa0a6")  # boxes
# Triangles of a box whose corners are counted with z fastest, then y, then x
BOX_FACES: Final = np.array(
    [0, 1, 3, 0, 3, 2, 4, 6, 7, 4, 7, 5, 0, 4, 5, 0, 5, 1, 2, 3, 7, 2, 7, 6, 0, 2, 6, 0, 6, 4, 1, 5, 7, 1, 7, 3]
).reshape(-1, 3)
FULL_COLOUR_STRAIN: Final = 0.35  # [-] change of length that takes the full colour
PAINT_FRACTION: Final = 0.35  # [-] of a spline's paint radius: where its colour has fallen to 0.6


@dataclass(frozen=True, slots=True, eq=False)
class Paint:
    """Colour weights of surface points by the two nearest segments of each spline."""

    segments: NDArray[np.int32]  # (N, P, 2) numbers of segments, for each of P splines
    weights: FloatArray  # (N, P, 2) 0 to 1

    def shares(self, alphas: FloatArray) -> tuple[FloatArray, FloatArray]:
        """How much each point contracts and extends ``(N,)``, 0 to 1, for lengths ``alphas`` ``(S,)``."""
        pulls = np.clip((1.0 - np.asarray(alphas)[self.segments]) / FULL_COLOUR_STRAIN, -1.0, 1.0)
        shown = np.sum(pulls * self.weights, axis=2)
        blue = 1.0 - np.prod(1.0 + np.minimum(shown, 0.0), axis=1)
        return (1.0 - np.prod(1.0 - np.maximum(shown, 0.0), axis=1)) * (1.0 - blue), blue

    def colours(self, alphas: FloatArray) -> FloatArray:
        """Linear RGB ``(N, 3)`` for lengths ``alphas`` ``(S,)``: red where it contracts, blue where it extends."""
        red, blue = self.shares(alphas)
        return PASSIVE + red[:, None] * (CONTRACTED - PASSIVE) + blue[:, None] * (EXTENDED - PASSIVE)


@dataclass(frozen=True, slots=True, eq=False)
class BoneTrack:
    """Rigid bones as capsules, where they stood."""

    names: tuple[str, ...]
    ends: FloatArray  # (F, B, 2, 3) [m] both ends
    radii: FloatArray  # (B, 2) [m]
    angles: FloatArray  # (F, D) [rad] of the joints that move


@dataclass(frozen=True, slots=True, eq=False)
class Film:
    """Positions of all nodes over time, the activations that made them and what was measured."""

    name: str
    times: FloatArray  # (F,) [s]
    positions: FloatArray  # (F, V, 3) [m]
    alphas: FloatArray  # (F, S) wanted length over rest length of each segment
    skin: EmbeddedSurface
    paint: Paint
    bones: BoneTrack
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    failed: tuple[str, ...] = ()  # checks of the scene that do not hold, each a sentence
    shown: tuple[str, ...] = ()  # figures that a caption names, if it knows words for them
    report: Mapping[str, float] = field(default_factory=dict[str, float])  # of the solver
    view: ViewPart = field(default_factory=ViewPart)
    ground_m: float | None = None  # height of the floor
    boxes: tuple[ContactBox, ...] = ()  # steps and slopes on it

    def __post_init__(self) -> None:
        count = len(self.times)
        object.__setattr__(self, "times", frozen(self.times, count, name="times"))
        object.__setattr__(self, "positions", frozen(self.positions, count, None, 3, name="positions"))
        object.__setattr__(self, "alphas", frozen(self.alphas, count, None, name="alphas"))

    @property
    def num_frames(self) -> int:
        """How many instants there are."""
        return len(self.times)

    @property
    def rate_hz(self) -> float:
        """Frames a second."""
        return (self.num_frames - 1) / max(float(self.times[-1] - self.times[0]), 1e-9) if self.num_frames > 1 else 1.0

    def surface(self, frame: int) -> FloatArray:
        """Points ``(N, 3)`` [m] of the drawn surface."""
        return self.skin.at(self.positions[frame])

    def colours(self, frame: int) -> FloatArray:
        """Linear RGB ``(N, 3)`` of the drawn surface: activation."""
        return self.paint.colours(self.alphas[frame])

    def mesh(self, frame: int) -> TriangleMesh:
        """The body, its bones and the boxes around it at one frame, to be drawn."""
        skin = TriangleMesh(self.surface(frame), self.skin.faces.astype(np.int64), self.colours(frame))
        bones = [
            TriangleMesh.capsule(a, b, (float(r[0]), float(r[1])), BONE)
            for (a, b), r in zip(self.bones.ends[frame], self.bones.radii, strict=True)
        ]
        boxes = list[TriangleMesh]()
        for box in self.boxes:
            x, y, z = 0.5 * np.array(box.size)
            corners = np.array([[a, b, c] for a in (-x, x) for b in (-y, y) for c in (-z, z)]) @ box.axes + box.centre
            boxes.append(TriangleMesh(corners, BOX_FACES, np.tile(STONE, (8, 1))))
        return TriangleMesh.join([skin, *bones, *boxes])

    def save(self, path: str | os.PathLike[str], *, fps: float | None = None, width: int | None = None) -> Path:
        """Write the film; the suffix chooses how. Return the path.

        ``.glb`` is an animated surface, ``.npz`` holds all arrays, ``.ply`` and ``.obj`` make a folder with one file a
        frame, ``.png`` is a strip, ``.gif`` and ``.mp4`` are films in real time.

        Args:
            path: where to write.
            fps: frames a second that are written; all for ``.npz``, at most 30 else.
            width: of pictures [pixel].
        """
        if not self.num_frames:
            raise InputError("a film without frames", "Run the scene first")
        target, suffix = Path(path), Path(path).suffix.lower()
        if suffix not in FILM_FILE_SUFFIXES:
            raise InputError(
                f"'{target.name}' has no suffix that can be written", f"Use {', '.join(FILM_FILE_SUFFIXES)}"
            )
        if not target.resolve().parent.is_dir():
            raise MissingFileError(str(target.parent), "Make the folder first.")
        if fps is not None and not 0.0 < fps <= 1000.0:
            raise InputError(f"a film of {fps} frames a second", "Ask for more than 0 and at most 1000")
        if suffix == ".png":
            return save_strip(self, target, width)
        if suffix in (".gif", ".mp4"):
            return save_video(self, target, fps or FILM_FPS, width)
        if suffix == ".npz":
            # All arrays of the film
            bones = {"bone_ends": self.bones.ends, "bone_radii": self.bones.radii, "bone_angles": self.bones.angles}
            skin = {"skin_nodes": self.skin.nodes, "skin_weights": self.skin.weights, "skin_faces": self.skin.faces}
            arrays: dict[str, Any] = bones | skin
            arrays["metric_names"] = np.array(list(self.metrics), dtype=np.str_)
            arrays["metrics"] = np.array(list(self.metrics.values()), dtype=np.float64)
            with atomic_file(target) as draft, draft.open("wb") as file:
                np.savez_compressed(
                    file,
                    times=self.times,
                    positions=self.positions.astype(np.float32),
                    alphas=self.alphas,
                    skin_offsets=self.skin.offsets,
                    **arrays,
                )
            return target
        frames = select_frames(self, fps or FILM_FPS)
        if suffix == ".glb":
            write_atomically(target, encode_film_glb(self, frames))
            return target
        # One numbered file a frame in a folder named like the film.
        folder = target.with_suffix("")
        if folder.exists() and any(folder.iterdir()):
            raise InputError(f"the folder '{folder}' is not empty", "Choose another name, or empty it")
        folder.mkdir(exist_ok=True)
        for number, frame in enumerate(frames.tolist()):
            mesh = self.mesh(frame)
            # A surface with a colour at each corner: binary .ply, or .obj with colours behind the coordinates
            if suffix == ".obj":
                rows = [
                    f"v {x:.6f} {y:.6f} {z:.6f} {r:.3f} {g:.3f} {b:.3f}"
                    for (x, y, z), (r, g, b) in zip(mesh.vertices, mesh.colours, strict=True)
                ]
                rows += [f"f {a} {b} {c}" for a, b, c in (mesh.faces + 1).tolist()]
                content = ("\n".join(rows) + "\n").encode()
            else:
                corners = np.zeros(len(mesh.vertices), dtype=np.dtype([("p", "<f4", 3), ("c", "u1", 3)]))
                corners["p"], corners["c"] = mesh.vertices, encode_srgb(mesh.colours)
                triangles = np.zeros(len(mesh.faces), dtype=np.dtype([("n", "u1"), ("v", "<i4", 3)]))
                triangles["n"], triangles["v"] = 3, mesh.faces
                axes = "".join(f"property float {a}\n" for a in "xyz")
                paint = "".join(f"property uchar {a}\n" for a in ("red", "green", "blue"))
                head = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(mesh.vertices)}\n{axes}{paint}"
                head += f"element face {len(mesh.faces)}\nproperty list uchar int vertex_indices\nend_header\n"
                content = head.encode() + corners.tobytes() + triangles.tobytes()
            write_atomically(folder / f"{number:04d}{suffix}", content)
        return folder


def make_paint(points: FloatArray, segments: FloatArray, owners: NDArray[np.int64], reach_m: FloatArray) -> Paint:
    """Paint of skin points ``(N, 3)``: for each spline its nearest segment, fading with the distance.

    Args:
        points: where the skin is at rest.
        segments: middles of all segments ``(S, 3)`` [m].
        owners: spline of each segment ``(S,)``.
        reach_m: for each spline, how far its colour reaches.
    """
    count = len(points)
    numbers, weights = np.zeros((count, len(reach_m), 2), dtype=np.int32), np.zeros((count, len(reach_m), 2))
    for spline in range(len(reach_m)):
        here = np.flatnonzero(owners == spline)
        gaps = np.linalg.norm(points[:, None] - segments[here][None], axis=-1)
        two = np.argsort(gaps, axis=1)[:, [0, min(1, len(here) - 1)]]
        near, next_near = np.take_along_axis(gaps, two, axis=1).T
        step = np.linalg.norm(segments[here[two[:, 0]]] - segments[here[two[:, 1]]], axis=1)
        lead = 0.5 + 0.5 * (next_near**2 - near**2) / np.maximum(step, 1e-12) ** 2  # linear between the middles
        lead = np.where(step > 0.0, np.clip(lead, 0.5, 1.0), 1.0)
        far = np.maximum(near / reach_m[spline] - PAINT_FRACTION, 0.0) / PAINT_FRACTION
        numbers[:, spline] = here[two]
        weights[:, spline] = np.exp(-(far**2))[:, None] * np.stack([lead, 1.0 - lead], axis=1)
    return Paint(numbers, weights)


FILM_FPS: Final = 30.0  # frames a second of what is written, if nothing is said
FILM_FILE_SUFFIXES: Final = (".glb", ".npz", ".ply", ".obj", ".png", ".gif", ".mp4")


def select_frames(film: Film, fps: float) -> NDArray[np.int64]:
    """Frames that show a film at ``fps``: the nearest to each instant, never more than there are."""
    count = max(1, round(float(film.times[-1] - film.times[0]) * min(fps, film.rate_hz)) + 1)
    return np.unique(np.linspace(0, film.num_frames - 1, count).round().astype(np.int64))


STRIP_PX: Final = 1600
MOVING_PX: Final = 640
WIDE_RAD: Final = np.deg2rad(24.0)  # a long lens: bodies at both ends look alike
TALL_RAD: Final = np.deg2rad(28.0)
STRIP_HEIGHTS: Final = (0.12, 0.75)  # [-] lowest and highest strip, as a share of its width
OLDEST_FADE: Final = 0.6  # [-] how pale the first body of a journey is
PAPER: Final = linear_from_srgb("#eceff2")
GAP_FRACTION: Final = 0.2  # [-] of a body's width, between bodies set side by side
CAPTIONS: Final = {  # measurements in order of importance, their labels and factors
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
    """Draw a film as one picture: bodies where they were if they travel far enough, else side by side."""
    width = width or STRIP_PX
    frames = np.unique(np.linspace(0, film.num_frames - 1, film.view.count).round().astype(np.int64))
    meshes = [film.mesh(frame) for frame in frames.tolist()]
    direction = _view_direction(film)
    right = PinholeCamera(np.zeros(3), direction).axes()[0]
    # Bodies travel if they stand clear of one another across the picture, give or take a fifth of their width.
    spans = np.array([[np.min(m.vertices @ right), np.max(m.vertices @ right)] for m in meshes])
    spans = spans[np.argsort(spans[:, 0])]
    apart = bool(np.all(spans[1:, 0] > spans[:-1, 1] - 0.2 * np.diff(spans, axis=1)[:-1, 0]))
    if film.view.layout == "travel" or (film.view.layout == "auto" and apart):
        fades = np.linspace(OLDEST_FADE, 0.0, len(meshes)) if len(meshes) > 1 else [0.0]
        meshes = [
            TriangleMesh(m.vertices, m.faces, m.colours + f * (PAPER - m.colours))
            for m, f in zip(meshes, fades, strict=True)
        ]
    else:
        # Bodies are set along the picture's width, all at one depth.
        placed, edge = list[TriangleMesh](), 0.0
        for mesh in meshes:
            level = mesh.vertices.mean(axis=0) * [1.0, 0.0, 1.0]
            low, high = np.min((mesh.vertices - level) @ right), np.max((mesh.vertices - level) @ right)
            placed.append(mesh.moved(-level + (edge - low) * right))
            edge += (1.0 + GAP_FRACTION) * (high - low)
        meshes = placed
    points = np.concatenate([mesh.vertices for mesh in meshes])
    points = np.concatenate([points, _project_to_floor(points, film)])
    letter = max(9, round(LETTER_FRACTION * width))
    margins = Margins(0.02 * width, 2.0 * letter, 5.0 * letter)
    limits = (round(STRIP_HEIGHTS[0] * width), round(STRIP_HEIGHTS[1] * width))
    camera, height = fit_height(points, 0.0, direction, width, wide_rad=WIDE_RAD, limits=limits, margins=margins)
    scene = RenderScene(camera, ground=_make_ground(film, points), light=make_light(direction))
    image = render_mesh(scene, TriangleMesh.join(meshes), (width, height))
    # Times under the bodies, and a line about the film.
    middles = np.array([m.vertices.mean(axis=0) for m in meshes])
    places = camera.project(middles, (width, height))[:, 0]
    told = [name for name in CAPTIONS if name in film.metrics and name in film.shown]
    captions = [CAPTIONS[name][0].format(film.metrics[name] * CAPTIONS[name][1]) for name in told[:3]]
    about = "   ".join([film.name, *captions])
    labels = [Label(about, letter, height - 1.0 * letter, letter, centred=False)]
    for t, x in zip(film.times[frames], places, strict=True):
        labels.append(Label(f"{t:.2f} s", x, height - 2.6 * letter, letter))
    return save_image(write_labels(image, labels), path)


def save_video(film: Film, path: Path, fps: float, width: int | None = None) -> Path:
    """Draw a film in real time; the camera goes along with a body that travels."""
    from scipy.ndimage import uniform_filter1d

    frames = select_frames(film, fps)
    size = (width or MOVING_PX, 2 * round(0.375 * (width or MOVING_PX)))
    direction = _view_direction(film)
    # The camera goes level with the middle of the body (n, 3) [m], without its sway.
    middles = film.positions.mean(axis=1) * [1.0, 0.0, 1.0]
    smooth = uniform_filter1d(middles, max(1, round(film.rate_hz)), axis=0, mode="nearest")
    way = (smooth - smooth[0])[frames]
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
