"""TRC files, marker trajectories as a table of text; and marker files of any kind by one name."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from marey.base import FormatError, InputError
from marey.io.binary import AnyPath, as_format_error, map_file
from marey.io.c3d import load_c3d_markers
from marey.io.conventions import unit_in_metres
from marey.io.markers import choose_axes, make_unique_labels, markers_to_motion, rotate_to_axes
from marey.motion import LoadReport, Markers, Motion, Source

MAX_TRC_BYTES: Final = 256 << 20
MAX_MARKERS: Final = 10_000
HEADER_LINES: Final = 5


def read_trc(path: AnyPath, *, rate_hz: float | None = None, unit: str | None = None) -> Motion:
    """Show the markers of a TRC file as a motion; see :func:`markers_to_motion`."""
    markers = load_trc_markers(path, rate_hz=rate_hz, unit=unit)
    with as_format_error(path):
        return markers_to_motion(markers)


def load_trc_markers(path: AnyPath, *, rate_hz: float | None = None, unit: str | None = None) -> Markers:
    """Read every marker of a TRC file, in metres and with +Y up.

    Args:
        path: the `.trc` file.
        rate_hz: frames per second to use instead of ``DataRate``.
        unit: length unit to use instead of ``Units``.

    Raises:
        FormatError: the header or a row is damaged; the message names the line.
    """
    file = str(path)
    content = map_file(path, limit=MAX_TRC_BYTES)
    if not bytes(content[:64]).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"PathFileType"):
        raise FormatError("the first line does not start with 'PathFileType'", file, 1, "Give a TRC file.")
    lines = bytes(content).decode("latin-1").splitlines()
    if len(lines) < HEADER_LINES:
        raise FormatError("the file ends within its header", file, len(lines), "Copy or export it again.")
    settings = dict(zip(lines[1].split(), lines[2].split(), strict=False))
    if "NumMarkers" not in settings:
        raise FormatError("the second line names no 'NumMarkers'", file, 2, "Copy or export the file again.")
    names = [cell.strip() for cell in lines[3].split("\t")[2:] if cell.strip()]
    count = int(_number(settings, "NumMarkers", file))
    if not 0 < count <= MAX_MARKERS:
        raise FormatError(f"{count} markers announced", file, 3, f"Between 1 and {MAX_MARKERS} are read.")
    if count > 2 * max(len(names), 1):
        raise FormatError(f"{count} markers announced, {len(names)} named", file, 4, "Export the file again.")
    warnings = [] if len(names) == count else [f"{count} markers announced, {len(names)} named"]
    # Coordinates (F, M, 3) in the file's unit; NaN where a cell is blank
    table = enumerate(lines[HEADER_LINES:], start=HEADER_LINES + 1)
    rows = [_parse_marker_row(line, count, file, number) for number, line in table if line.strip()]
    if not rows:
        raise FormatError("the file ends before the first frame", file, len(lines), "Copy or export it again.")
    values = np.array(rows).reshape(len(rows), count, 3)
    announced = int(_number(settings, "NumFrames", file, default=len(values)))
    if announced != len(values):
        warnings.append(f"{announced} frames announced, {len(values)} found")
    with as_format_error(path):
        rate = _number(settings, "DataRate", file) if rate_hz is None else rate_hz
        named = unit or settings.get("Units", "mm").lower()
        metres = unit_in_metres(named)
        finite = np.isfinite(values).all(axis=-1)
        zeros = finite & (values == 0.0).all(axis=-1)
        notes: list[str] = []
        if zeros.any():
            notes.append(f"{int(zeros.sum())} positions that are exactly zero count as missing")
        valid = finite & ~zeros
        seen = np.where(valid[..., None], values, 0.0) * metres
        axes, note, _ = choose_axes(seen, valid, (), ())
        return Markers(
            make_unique_labels(names, count),
            rate,
            rotate_to_axes(seen, axes),
            valid,
            source=Source(str(path), "trc", named, metres, axes[1]),
            load_report=LoadReport(warnings, [*notes, note]),
            name=Path(path).stem,
        )


def _number(settings: dict[str, str], name: str, file: str, default: float | None = None) -> float:
    try:
        value = float(settings[name])
    except KeyError:
        if default is not None:
            return default
        raise FormatError(f"the second line names no '{name}'", file, 2, "Copy or export the file again.") from None
    except ValueError:
        raise FormatError(f"{name} is '{settings[name][:40]}'", file, 3, "It must be a number.") from None
    if not np.isfinite(value) or abs(value) > 1e12:
        raise FormatError(f"{name} is {value}", file, 3, "It must be a plain number.")
    return value


def _parse_marker_row(line: str, count: int, file: str, number: int) -> list[float]:
    cells = line.split("\t") if "\t" in line else line.split()
    cells = [cell.strip() for cell in cells[2:]]
    # Editors add blank cells at the end, or leave out those of markers that were lost
    while len(cells) > 3 * count and not cells[-1]:
        cells.pop()
    cells += [""] * (3 * count - len(cells)) if "\t" in line else []
    if len(cells) != 3 * count:
        what = f"expected {3 * count} coordinates, found {len(cells)}"
        raise FormatError(what, file, number, "Check that the line was not cut off.")
    values: list[float] = []
    for cell in cells:
        try:
            values.append(float(cell) if cell else np.nan)
        except ValueError:
            what = f"'{cell[:40]}' is not a number"
            raise FormatError(what, file, number, "Leave the cell of a lost marker blank.") from None
    return values


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
