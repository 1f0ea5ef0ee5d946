"""C3D files: marker trajectories as captured, with a mask for what was not seen ([C3D2008]_).

The bytes are read here and not by a C++ library, so that a damaged file ends in a sentence and not in a crash.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.io._bytes import AnyPath, as_format_error, format_error, map_file
from marey.io._c3d_axes import choose_axes, rotate_to_axes
from marey.io._c3d_parameters import BLOCK, C3dParameters, read_parameters
from marey.io._c3d_star import make_unique_labels, markers_to_motion
from marey.io._units import unit_in_metres
from marey.motion import LoadReport, Markers, Motion, Source

MAX_C3D_BYTES: Final = 1 << 30


@dataclass(frozen=True, slots=True, eq=False)
class _Points:
    positions: FloatArray  # (F, M, 3) in the file's unit and axes
    residuals: FloatArray  # (F, M) negative where the point was not seen
    missing_frames: int  # announced, but cut off


def read_c3d(path: AnyPath, *, rate_hz: float | None = None, unit: str | None = None) -> Motion:
    """Show the markers of a C3D file as a motion; see :func:`markers_to_motion`."""
    markers = load_c3d_markers(path, rate_hz=rate_hz, unit=unit)
    with as_format_error(path):
        return markers_to_motion(markers)


def load_c3d_markers(path: AnyPath, *, rate_hz: float | None = None, unit: str | None = None) -> Markers:
    """Read every point of a C3D file, in metres and with +Y up.

    Args:
        path: the `.c3d` file.
        rate_hz: frames per second to use instead of ``POINT:RATE``.
        unit: length unit to use instead of ``POINT:UNITS``.

    Raises:
        FormatError: the file is damaged or holds no points.
    """
    content = map_file(path, limit=MAX_C3D_BYTES)
    if len(content) < 2 * BLOCK:
        raise format_error(path, f"a C3D file has at least {2 * BLOCK} bytes, this has {len(content)}")
    with as_format_error(path):
        parameters = read_parameters(content, str(path))
        points = _points(content, parameters)
        return _markers(points, parameters, path, rate_hz, unit)


def _points(content: memoryview, parameters: C3dParameters) -> _Points:
    header = parameters.numbers.words(content[:BLOCK])
    count = int(parameters.number("POINT:USED", float(header[1]))) & 0xFFFF
    analogs = int(header[2]) & 0xFFFF
    scale = parameters.number("POINT:SCALE", parameters.numbers.floats(content[12:16])[0])
    start = (int(parameters.number("POINT:DATA_START", float(header[8]))) & 0xFFFF) - 1
    if count == 0:
        raise format_error(parameters.path, "it holds no points", "Give a file with marker trajectories.")
    if start < 1 or start * BLOCK >= len(content) or scale == 0.0:
        raise format_error(parameters.path, f"the data starts at block {start + 1} with scale {scale:g}: no such place")
    width = 4 if scale < 0.0 else 2  # [byte] a negative scale announces floating-point data
    row = (4 * count + analogs) * width
    announced, available = _announced_frames(content, parameters), (len(content) - start * BLOCK) // row
    frames = min(announced, available)
    if frames < 1:
        what = f"{announced} frames of {count} points announced, the file holds {available}"
        raise format_error(parameters.path, what)
    data = content[start * BLOCK : start * BLOCK + frames * row]
    numbers = parameters.numbers
    values = numbers.floats(data) if scale < 0.0 else numbers.words(data).astype(np.float64)
    points = values.reshape(frames, -1)[:, : 4 * count].reshape(frames, count, 4)
    positions = points[..., :3] if scale < 0.0 else points[..., :3] * scale
    return _Points(positions, points[..., 3], announced - frames)


def _announced_frames(content: memoryview, parameters: C3dParameters) -> int:
    """Frames in all: TRIAL's 32-bit numbers where they are, else the header's 16-bit ones."""
    header = parameters.numbers.words(content[:BLOCK]).astype(np.int64) & 0xFFFF
    first, last = (parameters.long(f"TRIAL:ACTUAL_{end}_FIELD") for end in ("START", "END"))
    if last >= first > 0:
        return last - first + 1
    frames = int(header[4] - header[3]) + 1
    if header[4] == 65535 or frames < 1:  # the header's words are full: the long count is a parameter
        return max(frames, int(parameters.number("POINT:FRAMES", 0.0)))
    return frames


def _markers(
    points: _Points, parameters: C3dParameters, path: AnyPath, rate_hz: float | None, unit: str | None
) -> Markers:
    valid: BoolArray = (points.residuals >= 0.0) & np.isfinite(points.positions).all(axis=-1)
    warnings: list[str] = []
    if points.missing_frames:
        warnings.append(f"the file is cut off: {points.missing_frames} announced frames are missing")
    named = next(iter(parameters.texts("POINT:UNITS")), "").lower()
    if not named and unit is None:
        warnings.append("the file names no length unit; millimetres are assumed")
    metres = unit_in_metres(unit or named or "mm")
    seen = np.where(valid[..., None], points.positions, 0.0) * metres
    axes, note, doubt = choose_axes(seen, valid, parameters.texts("POINT:X_SCREEN"), parameters.texts("POINT:Y_SCREEN"))
    rate = parameters.number("POINT:RATE") if rate_hz is None else rate_hz
    return Markers(
        make_unique_labels(parameters.texts("POINT:LABELS"), seen.shape[1]),
        rate,
        rotate_to_axes(seen, axes),
        valid,
        source=Source(str(path), "c3d", unit or named or "mm", metres, axes[1]),
        load_report=LoadReport(warnings + doubt, [note]),
        name=Path(path).stem,
    )
