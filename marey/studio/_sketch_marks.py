"""Shapes of the sketch on the ground: the band of the corridor, the line of the way, where feet came down."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.studio._film import Film, Float32
from marey.world import Path

WAY_SAMPLES: Final = 160  # of the band; the number is fixed, so that only places are sent anew
BAND_Y_M, LINE_Y_M = 0.006, 0.012
MAX_PRINTS: Final = 400
MIN_STANCE: Final = 2  # frames; shorter touches leave no print


def way_samples(path: Path) -> FloatArray:
    """Places ``(WAY_SAMPLES, 2)`` [m] along a way."""
    return path.point_at(np.linspace(0.0, path.length_m, WAY_SAMPLES))


def band(path: Path, width_m: float) -> Float32:
    """Vertices ``(2 WAY_SAMPLES, 3)`` of the corridor round a way: left and right edge by turns."""
    centre = way_samples(path)
    step = np.gradient(centre, axis=0)
    step /= np.maximum(np.linalg.norm(step, axis=1, keepdims=True), 1e-9)
    left = np.stack([step[:, 1], -step[:, 0]], axis=1)
    edges = np.stack([centre + 0.5 * width_m * left, centre - 0.5 * width_m * left], axis=1).reshape(-1, 2)
    return _on_ground(edges, BAND_Y_M)


def band_faces() -> IntArray:
    """Triangles of the band."""
    i = 2 * np.arange(WAY_SAMPLES - 1)
    return np.concatenate([np.stack([i, i + 1, i + 2], axis=1), np.stack([i + 2, i + 1, i + 3], axis=1)])


def line(path: Path) -> Float32:
    """Segments ``(WAY_SAMPLES - 1, 2, 3)`` of a way."""
    places = _on_ground(way_samples(path), LINE_Y_M)
    return np.stack([places[:-1], places[1:]], axis=1)


def footprints(film: Film) -> tuple[FloatArray, FloatArray, list[str]]:
    """Where feet of a clip came down: places ``(N, 2)`` [m], headings ``(N,)`` [rad], sides."""
    rows = [row for side in ("left", "right") for row in _prints_of(film, side)][:MAX_PRINTS]
    places = np.array([place for place, _, _ in rows]).reshape(-1, 2)
    return places, np.array([heading for _, heading, _ in rows]), [side for _, _, side in rows]


def _prints_of(film: Film, side: str) -> list[tuple[FloatArray, float, str]]:
    """One print in the middle of each stance of the whole foot."""
    try:
        heel, toe = film.contact_names.index(f"{side}_heel"), film.contact_names.index(f"{side}_toe")
    except ValueError:
        return []
    down = film.contacts[:, heel] | film.contacts[:, toe]
    flat = film.contacts[:, heel] & film.contacts[:, toe]
    edges = np.flatnonzero(np.diff(np.concatenate([[False], down, [False]]).astype(np.int8)))
    found: list[tuple[FloatArray, float, str]] = []
    for start, stop in edges.reshape(-1, 2).tolist():
        if stop - start < MIN_STANCE:
            continue
        best = np.flatnonzero(flat[start:stop])
        frame = start + (int(best[len(best) // 2]) if len(best) else (stop - start) // 2)
        back, front = film.contact_points[frame, heel], film.contact_points[frame, toe]
        along = (front - back)[[0, 2]].astype(np.float64)
        found.append((back[[0, 2]].astype(np.float64), float(np.arctan2(along[0], along[1])), side))
    return found


def _on_ground(places: FloatArray, y_m: float) -> Float32:
    return np.stack([places[:, 0], np.full(len(places), y_m), places[:, 1]], axis=1).astype(np.float32)
