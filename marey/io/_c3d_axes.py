"""Which way is up for markers: what the file says, checked against how the markers lie."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray

_AXES: Final = {sign + name: (i, 1.0 if sign == "+" else -1.0) for i, name in enumerate("xyz") for sign in "+-"}
CLEARLY: Final = 1.5  # [-] a body is this much taller than wide before we doubt the file
TALLER: Final = 1.2  # [-] spread along z over spread along y before z is called vertical
BELOW: Final = 0.15  # [-] part of the body's height that may lie below the origin of the vertical axis
SAMPLES: Final = 50  # frames looked at

Axes = tuple[str, str]  # the file's axes that become our x and our y (up)
_SHORTEST: Final = {"+y": "+x", "+z": "+x", "+x": "-y", "-y": "+x", "-z": "+x", "-x": "+y"}  # our x, by our y


def choose_axes(
    positions: FloatArray, valid: BoolArray, x_screen: tuple[str, ...], y_screen: tuple[str, ...]
) -> tuple[Axes, str, list[str]]:
    """The file's axes to use as right and up, a note on how they were found, and doubts.

    Args:
        positions: ``(F, M, 3)`` [m] in the file's axes.
        valid: ``(F, M)`` where a marker was seen.
        x_screen: the parameter POINT:X_SCREEN, ``("+X",)`` say; may be empty.
        y_screen: POINT:Y_SCREEN, the axis that is up on a screen.
    """
    found, clear = upright_axis(positions, valid)
    right, up = (next(iter(texts), "").strip().lower() for texts in (x_screen, y_screen))
    if up not in _AXES:
        return (_SHORTEST[found], found), f"the file does not say which axis is up; {found} was found to be", []
    if right not in _AXES or right[1] == up[1]:
        right = _SHORTEST[up]
    doubt: list[str] = []
    if clear and found[1] != up[1]:
        doubt.append(f"the file says {up} is up, but the markers stand along {found}")
    return (right, up), f"{up} is up in the file (POINT:Y_SCREEN)", doubt


def upright_axis(positions: FloatArray, valid: BoolArray) -> tuple[str, bool]:
    """``"+z"`` where markers are spread along z from the floor up, else ``"+y"``; and whether that is clear.

    Arms held out spread the markers sideways as far as a body is tall, but to both sides of the origin.
    """
    rows = [row for row in np.linspace(0, len(positions) - 1, SAMPLES).astype(int) if valid[row].sum() >= 4]
    if not rows:
        return "+y", False
    spreads = np.median([np.ptp(positions[row][valid[row]], axis=0) for row in rows], axis=0)
    lowest = np.median([positions[row][valid[row]].min(axis=0) for row in rows], axis=0)
    stands_on_z = spreads[2] > TALLER * spreads[1] and lowest[2] > -BELOW * spreads[2]
    best, other = (2, 1) if stands_on_z else (1, 2)
    return "+" + "xyz"[best], bool(spreads[best] > CLEARLY * max(spreads[0], spreads[other]))


def rotate_to_axes(positions: FloatArray, axes: Axes) -> FloatArray:
    """Turn ``(..., 3)`` so that ``axes`` become our x and y; our z follows by the right-hand rule."""
    rows = np.zeros((3, 3))
    for row, axis in enumerate(axes):
        column, sign = _AXES[axis]
        rows[row, column] = sign
    rows[2] = np.cross(rows[0], rows[1])
    return positions @ rows.T + 0.0  # no negative zeros
