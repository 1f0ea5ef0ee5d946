"""A film: the frames of a scene, and figures of it: how far it went, how it bent, what it kept.

Films are saved as arrays, mesh sequences, animated glTF, strips of bodies and videos.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, InputError, MissingFileError, atomic_file, frozen, write_atomically
from marey.muscle.body.contact import ContactBox
from marey.muscle.elastic.mesh import TetMesh, compute_cell_volumes
from marey.muscle.muscles.spline import EmbeddedSurface, Embedding
from marey.muscle.scene.film_files import (
    BONE,
    CONTRACTED,
    EXTENDED,
    PASSIVE,
    encode_film_glb,
    save_strip,
    save_video,
    select_frames,
)
from marey.muscle.scene.tables import SceneParts, ViewPart
from marey.picture import (
    TriangleMesh,
    encode_srgb,
    linear_from_srgb,
)

if TYPE_CHECKING:
    from marey.muscle.scene.run import SceneModel

FILM_FPS: Final = 30.0  # frames a second of what is written, if nothing is said
FILM_FILE_SUFFIXES: Final = (".glb", ".npz", ".ply", ".obj", ".png", ".gif", ".mp4")
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


NUM_SAMPLES: Final = 40  # frames at which cells are looked at
NUM_SECTIONS: Final = 20  # sections across the middle of a spline
MIN_SLICE: Final = 8  # points that make a section


def measure_film(film: Film, stage: SceneModel, parts: SceneParts) -> dict[str, float]:
    """Measures that are defined for a scene."""
    figures = {"seconds": float(film.times[-1])}
    if parts.ground is not None:
        # Way of the centre of mass over the ground, against the length of the body at rest.
        weights = stage.body.masses / stage.body.masses.sum()
        path = np.einsum("v,fva->fa", weights, film.positions)
        body_length = float(np.ptp(film.positions[0][:, [0, 2]], axis=0).max())
        advance = float(np.linalg.norm((path[-1] - path[0])[[0, 2]]))
        figures |= {
            "advance_m": advance,
            "body_length_m": body_length,
            "advance_lengths": advance / body_length,
            "speed_m_s": advance / max(float(film.times[-1]), 1e-9),
            "sunk_max_m": max(0.0, float(parts.ground.height_m - film.positions[:, :, 1].min())),
        }
    for k, bone in enumerate(parts.bones):
        # Greatest turn of a bone in space, and against its parent, from where it began [deg].
        if bone.axis is None and not bone.ball:
            continue
        along = film.bones.ends[:, k, 1] - film.bones.ends[:, k, 0]
        figures[f"turned_{bone.name}_deg"] = _largest_turn(along, np.broadcast_to(along[:1], along.shape))
        if bone.parent:
            above = film.bones.ends[:, film.bones.names.index(bone.parent)]
            figures[f"bent_{bone.name}_deg"] = _largest_turn(along, above[:, 1] - above[:, 0])
    if film.bones.angles.shape[1]:
        # Greatest turn of the last joint from where it began, and where it ended [deg].
        turns = np.rad2deg(film.bones.angles[:, -1] - film.bones.angles[0, -1])
        peak = float(turns[np.argmax(np.abs(turns))])
        figures |= {"flexion_deg": abs(peak), "return_deg": abs(float(turns[-1]))}
    if isinstance(stage.mesh, TetMesh):
        # Change of volume, and the greatest principal strain of soft cells and of bones inside
        mesh = stage.mesh
        rest = compute_cell_volumes(film.positions[0], mesh.cells)
        inverse = np.linalg.inv(_edge_lengths(mesh.nodes, mesh))
        change, smallest, soft, bone = 0.0, 1.0, 0.0, 0.0
        for frame in _sample_frames(film.num_frames):
            volumes = compute_cell_volumes(film.positions[frame], mesh.cells)
            change = max(change, abs(float(volumes.sum() / rest.sum()) - 1.0))
            smallest = min(smallest, float((volumes / rest).min()))
            stretch = np.linalg.svd(_edge_lengths(film.positions[frame], mesh) @ inverse, compute_uv=False)
            strain = np.abs(0.5 * (stretch**2 - 1.0)).max(axis=1)
            soft = max(soft, float(strain[~stage.stiff].max(initial=0.0)))
            bone = max(bone, float(strain[stage.stiff].max(initial=0.0)))
        cells = {
            "cells": float(len(mesh.cells)),
            "volume_change": change,
            "smallest_cell": smallest,
            "soft_strain": soft,
        }
        figures |= cells | ({"bone_strain": bone} if stage.stiff.any() else {})
    if "girth_spline" in parts.measure:
        figures |= _measure_girth(film, stage, int(parts.measure["girth_spline"]))
    if parts.ground is None and not parts.pins and not parts.bones:
        # Drift of the centre of mass over the body's length, and angular momentum over the largest sum of m |r| |v|.
        m = stage.body.masses
        centres = np.einsum("v,fva->fa", m / m.sum(), film.positions)
        length = float(np.ptp(film.positions[0], axis=0).max())
        velocities = np.diff(film.positions, axis=0) * film.rate_hz
        arms = film.positions[1:] - centres[1:, None]
        turning = np.linalg.norm(np.einsum("v,fva->fa", m, np.cross(arms, velocities)), axis=1).max(initial=0.0)
        size = np.einsum("v,fv->f", m, np.linalg.norm(arms, axis=2)).max() * np.linalg.norm(velocities, axis=2).max()
        drift = float(np.linalg.norm(centres - centres[0], axis=1).max())
        figures |= {"drift_lengths": drift / length, "spin": float(turning / max(float(size), 1e-300))}
    # Length of each spline along it, at some frames (n, splines) [m].
    pairs, owners = stage.muscles.arrays.segments, np.asarray(stage.muscles.owners)
    rows: list[FloatArray] = []
    for frame in _sample_frames(film.num_frames):
        p = stage.muscles.points(film.positions[frame])[pairs]
        rows.append(np.asarray(np.bincount(owners, np.linalg.norm(p[:, 1] - p[:, 0], axis=1)), dtype=np.float64))
    lengths = np.array(rows)
    figures["shortening_max"] = float(np.max(1.0 - lengths / lengths[0]))
    if parts.measure.get("compare_splines"):
        # Equality of the final shortening of splines, and order of the roughness of the strains.
        short = 1.0 - lengths[-1] / lengths[0]
        rough: list[float] = []
        for spline in range(stage.muscles.num_splines):
            # Variance of the strain of the body along the straight line between the ends of a spline
            points = stage.muscles.points()[stage.muscles.arrays.segments[np.asarray(stage.muscles.owners) == spline]]
            shares = np.linspace(0.0, 1.0, NUM_SECTIONS + 1)[:, None]
            line = Embedding.from_points(
                (1.0 - shares) * points[0, 0] + shares * points[-1, 1], stage.mesh.nodes, stage.mesh.cells
            )
            before, after = (
                np.linalg.norm(np.diff(line(x), axis=0), axis=1) for x in (stage.mesh.nodes, film.positions[-1])
            )
            variance = float(np.var(after / before - 1.0))
            rough.append(variance)
        figures |= {f"shortening_{i}": float(s) for i, s in enumerate(short)}
        figures |= {f"roughness_{i}": r for i, r in enumerate(rough)}
        figures["shortening_spread"] = float(np.ptp(short) / max(float(np.abs(short).max()), 1e-12))
        figures["smoother_when_wider"] = float(all(a > b for a, b in pairwise(rough)))
    if "branch_x_m" in parts.measure:
        # What the resting branch does: its greatest way over that of all nodes.
        ways = np.linalg.norm(film.positions - film.positions[0], axis=2).max(axis=0)
        resting = film.positions[0][:, 0] < -parts.measure["branch_x_m"]
        figures["other_branch_share"] = float(ways[resting].max() / max(float(ways.max()), 1e-12))
    return figures


def _largest_turn(along: FloatArray, other: FloatArray) -> float:
    """Greatest change of the angle between two directions ``(F, 3)`` since the first frame [deg]."""
    sizes = np.linalg.norm(along, axis=1) * np.linalg.norm(other, axis=1)
    angles = np.arccos(np.clip(np.einsum("fi,fi->f", along, other) / np.maximum(sizes, 1e-12), -1.0, 1.0))
    return float(np.rad2deg(np.abs(angles - angles[0]).max()))


def _edge_lengths(nodes: FloatArray, mesh: TetMesh) -> FloatArray:
    p = nodes[mesh.cells]
    return np.swapaxes(p[:, 1:] - p[:, :1], 1, 2)


def _sample_frames(count: int) -> list[int]:
    return np.unique(np.linspace(0, count - 1, NUM_SAMPLES).round().astype(np.int64)).tolist()


def _measure_girth(film: Film, stage: SceneModel, spline: int) -> dict[str, float]:
    """Greatest girth of the skin around a spline at rest, and how much it grows: the bulge."""
    from scipy.spatial import ConvexHull

    mine = np.flatnonzero(np.asarray(stage.muscles.owners) == spline)
    pairs = stage.muscles.arrays.segments[mine]
    middles = stage.muscles.points()[stage.muscles.arrays.segments].mean(axis=1)
    rest = stage.skin.at(stage.mesh.nodes)
    nearest = np.argmin(np.linalg.norm(rest[:, None] - middles[None], axis=-1), axis=1)  # of all splines
    slices = [np.flatnonzero(nearest == k) for k in mine[1:-1]]

    def largest(frame: int) -> float:
        points, skin = stage.muscles.points(film.positions[frame]), film.surface(frame)
        along = points[pairs[1:-1, 1]] - points[pairs[1:-1, 0]]
        # Sections of the skin, in the plane of the two unit vectors across each axis.
        flat = [
            skin[here] @ np.linalg.svd(axis[None])[2][1:].T
            for here, axis in zip(slices, along, strict=True)
            if len(here) > MIN_SLICE
        ]
        return max(float(ConvexHull(section).area) for section in flat)  # in the plane, area is the perimeter

    girths = np.array([largest(frame) for frame in _sample_frames(film.num_frames)])
    return {"girth_m": float(girths[0]), "girth_growth": float(girths.max() / girths[0] - 1.0)}
