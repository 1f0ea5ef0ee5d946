"""Shapes of the sketch on the ground: the band of the corridor, the line of the way, where feet came down."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.motion import find_runs
from marey.studio._film import ClipFrames, Float32
from marey.world import Path

WAY_SAMPLES: Final = 160  # of the band; the number is fixed, so that only places are sent anew
BAND_Y_M, LINE_Y_M, MARK_Y_M = 0.006, 0.012, 0.016
FOLD: Final = 0.97  # points of the band's edge that are nearer to the way, as a share of its half width, lie in a fold
MAX_PRINTS: Final = 400
MIN_STANCE: Final = 2  # frames; shorter touches leave no print


def sample_path(path: Path) -> FloatArray:
    """Places ``(WAY_SAMPLES, 2)`` [m] along a way."""
    return path.point_at(np.linspace(0.0, path.length_m, WAY_SAMPLES))


def corridor_vertices(path: Path, width_m: float) -> Float32:
    """Vertices ``(2 WAY_SAMPLES, 3)`` of the corridor round a way: left and right edge by turns."""
    centre = sample_path(path)
    step = np.gradient(centre, axis=0)
    step /= np.maximum(np.linalg.norm(step, axis=1, keepdims=True), 1e-9)
    left = np.stack([step[:, 1], -step[:, 0]], axis=1)
    sides = [_outside(centre + sign * 0.5 * width_m * left, centre, 0.5 * width_m) for sign in (1.0, -1.0)]
    return _on_ground(np.stack(sides, axis=1).reshape(-1, 2), BAND_Y_M)


def _outside(edge: FloatArray, centre: FloatArray, half_m: float) -> FloatArray:
    """An edge of the band without the folds on the inner side of bends: those points gather in the corner."""
    away = np.linalg.norm(edge[:, None] - centre[None], axis=2).min(axis=1)
    kept = np.flatnonzero(away >= FOLD * half_m)
    if len(kept) == 0:
        return edge
    nearest = kept[np.abs(np.arange(len(edge))[:, None] - kept[None]).argmin(axis=1)]
    return edge[nearest]


def corridor_faces() -> IntArray:
    """Triangles of the band."""
    i = 2 * np.arange(WAY_SAMPLES - 1)
    return np.concatenate([np.stack([i, i + 1, i + 2], axis=1), np.stack([i + 2, i + 1, i + 3], axis=1)])


def path_line(path: Path) -> Float32:
    """Segments ``(WAY_SAMPLES - 1, 2, 3)`` of a way."""
    places = _on_ground(sample_path(path), LINE_Y_M)
    return np.stack([places[:-1], places[1:]], axis=1)


def footprints(film: ClipFrames) -> tuple[FloatArray, FloatArray, list[str]]:
    """Where feet of a clip came down: places ``(N, 2)`` [m], headings ``(N,)`` [rad], sides."""
    rows = [row for side in ("left", "right") for row in _prints_of(film, side)][:MAX_PRINTS]
    places = np.array([place for place, _, _ in rows]).reshape(-1, 2)
    return places, np.array([heading for _, heading, _ in rows]), [side for _, _, side in rows]


def _prints_of(film: ClipFrames, side: str) -> list[tuple[FloatArray, float, str]]:
    """One print in the middle of each stance of the whole foot."""
    try:
        heel, toe = film.contact_names.index(f"{side}_heel"), film.contact_names.index(f"{side}_toe")
    except ValueError:
        return []
    down = film.contacts[:, heel] | film.contacts[:, toe]
    flat = film.contacts[:, heel] & film.contacts[:, toe]
    found: list[tuple[FloatArray, float, str]] = []
    for start, stop in find_runs(down, shortest=MIN_STANCE):
        best = np.flatnonzero(flat[start:stop])
        frame = start + (int(best[len(best) // 2]) if len(best) else (stop - start) // 2)
        back, front = film.contact_points[frame, heel], film.contact_points[frame, toe]
        along = (front - back)[[0, 2]].astype(np.float64)
        found.append((back[[0, 2]].astype(np.float64), float(np.arctan2(along[0], along[1])), side))
    return found


def arrow_mesh() -> tuple[Float32, IntArray]:
    """A flat arrow-head of unit length that points along +z, for a heading."""
    corners = [(0.0, 1.0), (0.38, 0.3), (0.0, 0.45), (-0.38, 0.3)]
    return _on_ground(np.array(corners), MARK_Y_M), np.array([[0, 1, 2], [0, 2, 3]])


def ring_mesh(corners: int = 48, width: float = 0.06) -> tuple[Float32, IntArray]:
    """A flat ring of unit radius, for how near is near enough."""
    angle = np.linspace(0.0, 2.0 * np.pi, corners, endpoint=False)
    rim = np.stack([np.sin(angle), np.cos(angle)], axis=1)
    i, after = np.arange(corners), (np.arange(corners) + 1) % corners
    faces = np.concatenate(
        [np.stack([i, after, corners + i], axis=1), np.stack([corners + i, after, corners + after], axis=1)]
    )
    return _on_ground(np.concatenate([rim, (1.0 - width) * rim]), MARK_Y_M), faces


def _on_ground(places: FloatArray, y_m: float) -> Float32:
    return np.stack([places[:, 0], np.full(len(places), y_m), places[:, 1]], axis=1).astype(np.float32)
