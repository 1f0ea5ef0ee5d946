"""Which way is up for markers: what the file says, checked against how the markers lie."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray

_AXES: Final = {sign + name: (i, 1.0 if sign == "+" else -1.0) for i, name in enumerate("xyz") for sign in "+-"}
CLEARLY: Final = 1.5  # [-] a body is this much taller than wide before we doubt the file

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
    """The axis along which the markers of a frame are spread most, and whether that is clear; +y without markers."""
    spreads = np.zeros(3)
    rows = [row for row in np.linspace(0, len(positions) - 1, 50).astype(int) if valid[row].sum() >= 4]
    if rows:
        spreads = np.median([np.ptp(positions[row][valid[row]], axis=0) for row in rows], axis=0)
    best = int(np.argmax(spreads))
    others = np.delete(spreads, best).max()
    if spreads[1] > 0.999 * spreads[best]:
        best = 1
    return "+" + "xyz"[best], bool(spreads[best] > CLEARLY * others)


def turned(positions: FloatArray, axes: Axes) -> FloatArray:
    """Turn ``(..., 3)`` so that ``axes`` become our x and y; our z follows by the right-hand rule."""
    rows = np.zeros((3, 3))
    for row, axis in enumerate(axes):
        column, sign = _AXES[axis]
        rows[row, column] = sign
    rows[2] = np.cross(rows[0], rows[1])
    return positions @ rows.T + 0.0  # no negative zeros
