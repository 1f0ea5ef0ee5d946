"""Marker files of any kind by one name."""

from __future__ import annotations

from pathlib import Path

from marey.base import InputError
from marey.io._bytes import AnyPath
from marey.io._c3d import load_c3d_markers
from marey.io._trc import load_trc_markers
from marey.motion import Markers


def load_markers(path: AnyPath, *, rate_hz: float | None = None, unit: str | None = None) -> Markers:
    """Read the markers of a `.c3d` or `.trc` file exactly, with a mask for what was not seen.

    Args:
        path: the file; its suffix names the format.
        rate_hz: frames per second to use instead of the file's.
        unit: length unit to use instead of the file's.

    Raises:
        InputError: the suffix is neither.
        FormatError: the file is damaged.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (".c3d", ".trc"):
        raise InputError(f"no markers in '{suffix or path}' files", "Markers are read from .c3d and .trc files")
    reader = load_c3d_markers if suffix == ".c3d" else load_trc_markers
    return reader(path, rate_hz=rate_hz, unit=unit)
