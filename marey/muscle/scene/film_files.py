r"""Files and pictures of a film: strips, videos, and animated glTF of a rigid motion and a few morph targets.

One target a frame would be exact and huge. The shapes :math:`S_f` of a film, freed from the motion of the whole, lie
near a small linear space, :math:`S_f \approx \bar S + \sum_k w_{fk} B_k` by a singular value decomposition; the file
holds the :math:`B_k` once and the weights over time. Normals and colours follow the same weights by least squares.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray
from marey.io import GltfPack, to_glb
from marey.lie import SO3
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
    from marey.muscle.scene.film import Film

PASSIVE: Final = linear_from_srgb("#dcb9a6")  # a spline at rest
CONTRACTED: Final = linear_from_srgb("#c1121f")  # full contraction
EXTENDED: Final = linear_from_srgb("#2a6fbb")  # the same, outwards
BONE: Final = linear_from_srgb("#efe7d3")
TOLERANCE: Final = 2e-3  # [-] greatest error of a point, over the size of the body
MAX_TARGETS: Final = 64
COLOUR_WEIGHT: Final = 0.02  # [-] how much a full change of colour weighs against one body size
VERTICES: Final = 34962
INDICES: Final = 34963


class MorphTargets(NamedTuple):
    """A film in a few numbers a frame."""

    places: FloatArray  # (F, 3) [m] of the whole
    turns: FloatArray  # (F, 4) wxyz
    weights: FloatArray  # (F, K)
    mean: FloatArray  # (N, 3) [m]
    targets: FloatArray  # (K, N, 3) [m]
    colour_mean: FloatArray  # (N, 3)
    colour_targets: FloatArray  # (K, N, 3)
    error_m: float  # greatest of all points and frames


def encode_film_glb(film: Film, frames: NDArray[np.int64]) -> bytes:
    """Content of a `.glb` file that plays the given frames."""
    meshes = [film.mesh(frame) for frame in frames.tolist()]
    shapes = fit_morph_targets(np.stack([m.vertices for m in meshes]), np.stack([m.colours for m in meshes]))
    pack, faces = GltfPack(), meshes[0].faces
    # The mean shape with its normals and colours, then the change of each with every weight.
    attributes = {
        "POSITION": pack.add(_to_float32(shapes.mean), target=VERTICES, bounds=True),
        "NORMAL": pack.add(_to_float32(_normals(shapes.mean, faces)), target=VERTICES),
        "COLOR_0": pack.add(_to_float32(np.clip(shapes.colour_mean, 0.0, 1.0)), target=VERTICES),
    }
    targets: list[dict[str, int]] = []
    for k, shape in enumerate(shapes.targets):
        place = pack.add(_to_float32(shape), target=VERTICES, bounds=True)
        # Change of the normals with one weight, by a difference over its usual size.
        step = max(float(np.abs(shapes.weights[:, k]).max()), 1e-12)
        ahead, back = (_normals(shapes.mean + s * step * shape, faces) for s in (0.5, -0.5))
        normal = pack.add(_to_float32((ahead - back) / step), target=VERTICES)
        colour = pack.add(_to_float32(shapes.colour_targets[k]), target=VERTICES)
        targets.append({"POSITION": place, "NORMAL": normal, "COLOR_0": colour})
    corners = pack.add(np.ascontiguousarray(faces, dtype=np.uint32).reshape(-1), target=INDICES)
    primitive = {"attributes": attributes, "indices": corners, "material": 0, "targets": targets}
    mesh = {"name": film.name, "primitives": [primitive], "weights": [float(w) for w in shapes.weights[0]]}
    # The motion of the whole, and the weights, over time.
    when = pack.add(_to_float32(film.times[frames] - film.times[frames[0]]), bounds=True)
    xyzw = np.roll(shapes.turns, -1, axis=1)
    tracks = {"translation": shapes.places, "rotation": xyzw, "weights": shapes.weights.reshape(-1)}
    samplers = [{"input": when, "output": pack.add(_to_float32(v)), "interpolation": "LINEAR"} for v in tracks.values()]
    channels = [{"sampler": i, "target": {"node": 0, "path": path}} for i, path in enumerate(tracks)]
    root: dict[str, Any] = {
        "asset": {"version": "2.0", "generator": "marey"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [
            {  # where the node stands before anything plays
                "name": film.name,
                "mesh": 0,
                "translation": shapes.places[0].tolist(),
                "rotation": np.roll(shapes.turns[0], -1).tolist(),
            }
        ],
        "materials": [{"name": "flesh", "pbrMetallicRoughness": {"metallicFactor": 0.0, "roughnessFactor": 0.6}}],
        "meshes": [mesh],
        "animations": [{"name": film.name, "samplers": samplers, "channels": channels}],
    }
    root |= {"bufferViews": pack.views, "accessors": pack.accessors}
    return to_glb(root, pack.data())


def fit_morph_targets(points: FloatArray, colours: FloatArray) -> MorphTargets:
    """Split points ``(F, N, 3)`` and colours ``(F, N, 3)`` of a film into a motion of the whole and few targets."""
    # The motion of the whole is the best rigid fit to the first frame; shapes (F, N, 3) are what is left.
    places = points.mean(axis=1)
    centred = points - places[:, None]
    u, _, vt = np.linalg.svd(np.einsum("fna,nb->fab", centred, centred[0]))
    flip = np.ones((len(points), 3))
    flip[:, 2] = np.linalg.det(u @ vt)
    turns = SO3.from_matrix(np.einsum("fab,fb,fbc->fac", u, flip, vt)).wxyz
    signs = np.cumprod(np.where(np.sum(turns[1:] * turns[:-1], axis=1) < 0.0, -1.0, 1.0))
    turns = turns * np.concatenate([[1.0], signs])[:, None]
    local = np.einsum("fba,fnb->fna", SO3(turns).matrix(), centred)
    mean, colour_mean = local.mean(axis=0), colours.mean(axis=0)
    size = float(np.linalg.norm(np.ptp(points[0], axis=0)))
    count = len(points)
    moved, painted = (local - mean).reshape(count, -1), (colours - colour_mean).reshape(count, -1)
    together = np.concatenate([moved, COLOUR_WEIGHT * size * painted], axis=1)
    # Orthonormal weights (F, K) whose span holds all rows within the tolerance.
    values, vectors = np.linalg.eigh(together @ together.T)
    vectors = vectors[:, ::-1][:, values[::-1] > 1e-18 * max(float(values[-1]), 1e-300)]
    weights = vectors[:, :MAX_TARGETS]
    for number in range(1, weights.shape[1]):
        kept = vectors[:, :number]
        if np.abs(together - kept @ (kept.T @ together)).max() <= TOLERANCE * size:
            weights = kept
            break
    return MorphTargets(
        places,
        turns,
        weights,
        mean,
        (weights.T @ moved).reshape(-1, *mean.shape),
        colour_mean,
        (weights.T @ painted).reshape(-1, *mean.shape),
        float(np.abs(moved - weights @ (weights.T @ moved)).max(initial=0.0)),
    )


def _normals(points: FloatArray, faces: NDArray[np.int64]) -> FloatArray:
    normals = TriangleMesh(points, faces, np.zeros(points.shape)).normals()
    return np.where(np.linalg.norm(normals, axis=1, keepdims=True) > 0.5, normals, [0.0, 1.0, 0.0])


def _to_float32(values: FloatArray) -> NDArray[np.float32]:
    return np.ascontiguousarray(values, dtype=np.float32)


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
