"""Markers of any file: which way is up, and markers shown as a Motion.

The vertical axis is what the file says, checked against how the markers lie. The Motion is a star of joints round the
origin, one a marker: to look at, not to compute with.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError
from marey.io.vertical_axis import parse_up
from marey.lie import SO3
from marey.motion import Markers, Motion
from marey.skeleton import Skeleton

_AXES: Final = {sign + name: (i, 1.0 if sign == "+" else -1.0) for i, name in enumerate("xyz") for sign in "+-"}
CLEARLY: Final = 1.5  # [-] a body is this much taller than wide before we doubt the file
TALLER: Final = 1.2  # [-] spread along z over spread along y before z is called vertical
BELOW: Final = 0.15  # [-] part of the body's height that may lie below the origin of the vertical axis
SAMPLES: Final = 50  # frames looked at

Axes = tuple[str, str]  # the file's axes that become our x and our y (up)
_SHORTEST: Final = {"+y": "+x", "+z": "+x", "+x": "-y", "-y": "+x", "-z": "+x", "-x": "+y"}  # our x, by our y


def choose_axes(
    positions: FloatArray,
    valid: BoolArray,
    x_screen: tuple[str, ...],
    y_screen: tuple[str, ...],
    asked: str | None = None,
) -> tuple[Axes, str, list[str]]:
    """The file's axes to use as right and up, a note on how they were found, and doubts.

    Args:
        positions: ``(F, M, 3)`` [m] in the file's axes.
        valid: ``(F, M)`` where a marker was seen.
        x_screen: the parameter POINT:X_SCREEN, ``("+X",)`` say; may be empty.
        y_screen: POINT:Y_SCREEN, the axis that is up on a screen.
        asked: the vertical axis that the user gave.
    """
    if asked is not None:
        given = parse_up(asked)
        return (_SHORTEST[given], given), f"{given} is up, as asked for", []
    # Markers are spread along the vertical from the floor up; arms held out spread them sideways as far as a body is
    # tall, but to both sides of the origin
    rows = [row for row in np.linspace(0, len(positions) - 1, SAMPLES).astype(int) if valid[row].sum() >= 4]
    if not rows:
        found, clear = "+y", False
    else:
        # Extent and lowest point along each axis, in the middle of some frames
        spreads = np.median([np.ptp(positions[row][valid[row]], axis=0) for row in rows], axis=0)
        lowest = np.median([positions[row][valid[row]].min(axis=0) for row in rows], axis=0)
        stands_on_z = spreads[2] > TALLER * spreads[1] and lowest[2] > -BELOW * spreads[2]
        best, other = (2, 1) if stands_on_z else (1, 2)
        found, clear = "+" + "xyz"[best], bool(spreads[best] > CLEARLY * max(spreads[0], spreads[other]))
    right, up = (next(iter(texts), "").strip().lower() for texts in (x_screen, y_screen))
    if up not in _AXES:
        return (_SHORTEST[found], found), f"the file does not say which axis is up; {found} was found to be", []
    if right not in _AXES or right[1] == up[1]:
        right = _SHORTEST[up]
    doubt: list[str] = []
    if clear and found[1] != up[1]:
        doubt.append(f"the file says {up} is up, but the markers stand along {found}")
    return (right, up), f"{up} is up in the file (POINT:Y_SCREEN)", doubt


def rotate_to_axes(positions: FloatArray, axes: Axes) -> FloatArray:
    """Turn ``(..., 3)`` so that ``axes`` become our x and y; our z follows by the right-hand rule."""
    rows = np.zeros((3, 3))
    for row, axis in enumerate(axes):
        column, sign = _AXES[axis]
        rows[row, column] = sign
    rows[2] = np.cross(rows[0], rows[1])
    return positions @ rows.T + 0.0  # no negative zeros


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
    # Tracks without gaps: straight lines between sightings, the nearest sighting at the ends
    tracks: FloatArray = markers.positions[:, seen]
    frames, count = tracks.shape[:2]
    every = np.arange(len(tracks))
    for k, m in enumerate(seen.tolist()):
        known = np.flatnonzero(markers.valid[:, m])
        for axis in range(3) if len(known) < frames else ():
            tracks[:, k, axis] = np.interp(every, known, markers.positions[known, m, axis])
    names = ("origin", *make_unique_labels((markers.names[m] for m in seen), count, taken=("origin",)))
    # A star round the origin; each joint has the size of a marker
    offsets = np.concatenate([np.zeros((1, 3)), tracks.mean(axis=0)])
    tips = np.tile([0.0, MARKER_SIZE_M, 0.0], (count + 1, 1))
    tips[0] = 0.0
    skeleton = Skeleton(names, np.array([-1] + [0] * count), offsets, tips, name="markers")
    remarks: list[str] = []
    filled = 1.0 - markers.valid[:, seen].mean()
    if filled > 0.0:
        remarks.append(f"{100.0 * filled:.1f} % of the marker positions were not seen and are filled in for display")
    if count < markers.num_markers:
        lost = [name for m, name in enumerate(markers.names) if m not in seen]
        remarks.append(f"{len(lost)} markers were never seen and are left out: {', '.join(lost[:5])}")
    note = "markers are shown as a star of joints; marey.io.load_markers gives them with their mask"
    return Motion(
        skeleton,
        markers.rate_hz,
        np.zeros((frames, 3)),
        SO3.identity(frames, count + 1),
        translations=np.concatenate([np.zeros((frames, 1, 3)), tracks], axis=1),
        source=markers.source,
        load_report=markers.load_report.adding(*remarks, notes=(note,)),
        name=markers.name,
    )


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
