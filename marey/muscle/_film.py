"""A film: what a scene did, frame by frame, ready to be drawn or written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, InputError, frozen
from marey.muscle._film_skin import EmbeddedSurface
from marey.muscle._scene_parts import ViewPart
from marey.picture import linear_from_srgb

if TYPE_CHECKING:
    from marey.picture import TriangleMesh

PASSIVE: Final = linear_from_srgb("#dcb9a6")  # a spline at rest
CONTRACTED: Final = linear_from_srgb("#c1121f")  # full contraction
EXTENDED: Final = linear_from_srgb("#2a6fbb")  # the same, outwards
BONE: Final = linear_from_srgb("#efe7d3")
FULL_COLOUR_STRAIN: Final = 0.35  # [-] change of length that takes the full colour
PAINT_FRACTION: Final = 0.35  # [-] of a spline's paint radius: where its colour has fallen to 0.6


@dataclass(frozen=True, slots=True, eq=False)
class Paint:
    """How strongly each point of the skin shows the splines near to it, each by its two nearest segments."""

    segments: NDArray[np.int32]  # (N, P, 2) numbers of segments, for each of P splines
    weights: FloatArray  # (N, P, 2) 0 to 1

    def colours(self, alphas: FloatArray) -> FloatArray:
        """Linear RGB ``(N, 3)`` for lengths ``alphas`` ``(S,)``: red where it contracts, blue where it extends."""
        pulls = np.clip((1.0 - np.asarray(alphas)[self.segments]) / FULL_COLOUR_STRAIN, -1.0, 1.0)
        shown = np.sum(pulls * self.weights, axis=2)
        red = 1.0 - np.prod(1.0 - np.maximum(shown, 0.0), axis=1)
        blue = 1.0 - np.prod(1.0 + np.minimum(shown, 0.0), axis=1)
        colours = PASSIVE + red[:, None] * (CONTRACTED - PASSIVE)
        return colours + blue[:, None] * (EXTENDED - colours)


@dataclass(frozen=True, slots=True, eq=False)
class BoneTrack:
    """Rigid bones as capsules, where they stood."""

    names: tuple[str, ...]
    ends: FloatArray  # (F, B, 2, 3) [m] both ends
    radii: FloatArray  # (B, 2) [m]
    angles: FloatArray  # (F, D) [rad] of the joints that move

    @classmethod
    def empty(cls, frames: int) -> BoneTrack:
        """No bones."""
        return cls((), np.zeros((frames, 0, 2, 3)), np.zeros((0, 2)), np.zeros((frames, 0)))


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
        """The body and its bones at one frame, to be drawn."""
        from marey.picture import TriangleMesh

        skin = TriangleMesh(self.surface(frame), self.skin.faces.astype(np.int64), self.colours(frame))
        bones = [
            TriangleMesh.capsule(a, b, (float(r[0]), float(r[1])), BONE)
            for (a, b), r in zip(self.bones.ends[frame], self.bones.radii, strict=True)
        ]
        return TriangleMesh.join([skin, *bones])

    def save(self, path: str | os.PathLike[str], *, fps: float | None = None, width: int | None = None) -> Path:
        """Write the film; the suffix chooses how. Return the path.

        ``.glb`` is an animated surface, ``.npz`` holds all arrays, ``.ply`` and ``.obj`` make a folder with one file a
        frame, ``.png`` is a strip, ``.gif`` and ``.mp4`` are films in real time.

        Args:
            path: where to write.
            fps: frames a second that are written; all for ``.npz``, at most 30 else.
            width: of pictures [pixel].
        """
        from marey.muscle._film_files import save_film_file

        if not self.num_frames:
            raise InputError("a film without frames", "Run the scene first")
        return save_film_file(self, Path(path), fps, width)


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
