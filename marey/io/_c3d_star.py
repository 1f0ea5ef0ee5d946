"""Markers shown as a Motion: a star of joints round the origin, one a marker. To look at, not to compute with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray
from marey.lie import SO3
from marey.motion import Markers, Motion
from marey.skeleton import Skeleton

MARKER_SIZE_M: Final = 0.014  # the usual diameter of a retroreflective marker


def markers_to_motion(markers: Markers) -> Motion:
    """Show markers as a motion: the root rests at the world's origin, each marker is a joint that moves freely.

    A Motion has no gaps, so they are filled by straight lines between sightings, and held at both ends; the warnings
    say how much was filled. Markers that were never seen are left out. :func:`load_markers` gives the exact data.

    Raises:
        InputError: no marker was ever seen.
    """
    seen = np.flatnonzero(markers.valid.any(axis=0))
    if len(seen) == 0:
        raise InputError("no marker was ever seen", "Give a file with marker positions")
    tracks = np.stack([fill_track(markers.positions[:, m], markers.valid[:, m]) for m in seen], axis=1)
    frames, count = tracks.shape[:2]
    names = ("origin", *make_unique_labels((markers.names[m] for m in seen), count, taken=("origin",)))
    offsets = np.concatenate([np.zeros((1, 3)), tracks.mean(axis=0)])
    tips = np.tile([0.0, MARKER_SIZE_M, 0.0], (count + 1, 1))
    tips[0] = 0.0
    skeleton = Skeleton(names, np.array([-1] + [0] * count), offsets, tips, name="markers")
    return Motion(
        skeleton,
        markers.rate_hz,
        np.zeros((frames, 3)),
        SO3.identity(frames, count + 1),
        translations=np.concatenate([np.zeros((frames, 1, 3)), tracks], axis=1),
        source=markers.source,
        load_report=markers.load_report.adding(*_describe_gaps(markers, seen), notes=_NOTES),
        name=markers.name,
    )


_NOTES: Final = ("markers are shown as a star of joints; marey.io.load_markers gives them with their mask",)


def _describe_gaps(markers: Markers, seen: IntArray) -> list[str]:
    remarks: list[str] = []
    filled = 1.0 - markers.valid[:, seen].mean()
    if filled > 0.0:
        remarks.append(f"{100.0 * filled:.1f} % of the marker positions were not seen and are filled in for display")
    if len(seen) < markers.num_markers:
        lost = [name for m, name in enumerate(markers.names) if m not in seen]
        remarks.append(f"{len(lost)} markers were never seen and are left out: {', '.join(lost[:5])}")
    return remarks


def fill_track(positions: FloatArray, valid: BoolArray) -> FloatArray:
    """Positions ``(F, 3)`` without gaps: straight lines between sightings, the nearest sighting at the ends."""
    frames, known = np.arange(len(valid)), np.flatnonzero(valid)
    if len(known) == len(valid):
        return positions
    filled = np.empty_like(positions)
    for axis in range(3):
        filled[:, axis] = np.interp(frames, known, positions[known, axis])
    return filled


def make_unique_labels(labels: Iterable[str], count: int, *, taken: Iterable[str] = ()) -> tuple[str, ...]:
    """``count`` names that differ: given ones, ``name_2`` for repeated ones, ``marker_7`` where there is none."""
    given = list(labels)[:count]
    used, names = set(taken), list[str]()
    for i in range(count):
        base = (given[i] if i < len(given) else "") or f"marker_{i + 1}"
        name, again = base, 2
        while name in used:
            name, again = f"{base}_{again}", again + 1
        used.add(name)
        names.append(name)
    return tuple(names)
