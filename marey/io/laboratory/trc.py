"""TRC files: marker trajectories as a table of text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import numpy as np

from marey.base import FormatError
from marey.io.binary import AnyPath, as_format_error, map_file
from marey.io.conventions import unit_in_metres
from marey.io.laboratory.markers import choose_axes, make_unique_labels, markers_to_motion, rotate_to_axes
from marey.motion import LoadReport, Markers, Motion, Source

MAX_TRC_BYTES: Final = 256 << 20
MAX_MARKERS: Final = 10_000
HEADER_LINES: Final = 5
CLOCK_TOL: Final = 0.02  # [-] times and header may differ by this much: times are often rounded to milliseconds
_UNITS: Final = {
    "meters": "m",
    "meter": "m",
    "metres": "m",
    "millimeters": "mm",
    "millimetres": "mm",
    "centimeters": "cm",
}
_NO_NUMBER: Final = re.compile(
    r"[-+]?(nan(\(.*\))?|1\.#(qnan|ind|inf|snan)\w*|n/?a|null|none|-+|inf(inity)?|\*+)", re.IGNORECASE
)


def read_trc(path: AnyPath, *, rate_hz: float | None = None, unit: str | None = None, up: str | None = None) -> Motion:
    """Show the markers of a TRC file as a motion; see :func:`markers_to_motion`."""
    markers = load_trc_markers(path, rate_hz=rate_hz, unit=unit, up=up)
    with as_format_error(path):
        return markers_to_motion(markers)


def load_trc_markers(
    path: AnyPath, *, rate_hz: float | None = None, unit: str | None = None, up: str | None = None
) -> Markers:
    """Read every marker of a TRC file, in metres and with +Y up.

    Args:
        path: the `.trc` file.
        rate_hz: frames per second to use instead of ``DataRate``.
        unit: length unit to use instead of ``Units``.
        up: vertical axis, when the one that was found is wrong.

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
    announced_count = int(_number(settings, "NumMarkers", file))
    if not 0 <= announced_count <= MAX_MARKERS:
        raise FormatError(f"{announced_count} markers announced", file, 3, f"Between 1 and {MAX_MARKERS} are read.")
    # Rows of cells: frame number, time, coordinates; blank cells at the end are what editors add
    table = [(n, line) for n, line in enumerate(lines[HEADER_LINES:], start=HEADER_LINES + 1) if line.strip()]
    if not table:
        raise FormatError("the file ends before the first frame", file, len(lines), "Copy or export it again.")
    rows = [(number, "\t" in line, _split_row(line)) for number, line in table]
    # Names above the columns, blank where a marker has none; each stands above the first of its three columns
    titles = lines[3]
    if "\t" not in titles:
        names = titles.split()[2:]
    else:
        cells = [cell.strip() for cell in titles.split("\t")[2:]]
        while cells and not cells[-1]:
            cells.pop()
        on_thirds = all(not cell or k % 3 == 0 for k, cell in enumerate(cells))
        names = cells[::3] if on_thirds else [cell for cell in cells if cell]
    # Where the header names fewer markers than it announces, the rows say how many there are
    widest = max(len(cells) - 2 for _, _, cells in rows)
    count = announced_count if announced_count == len(names) > 0 else max(len(names), -(-widest // 3))
    if count == 0 or count > MAX_MARKERS:
        raise FormatError(f"{count} markers announced", file, 3, f"Between 1 and {MAX_MARKERS} are read.")
    warnings: list[str] = []
    if count != announced_count:
        warnings.append(f"{announced_count} markers announced, {count} found")
    if named := sum(bool(name) for name in names[:count]) if len(names) <= count else len(names):
        warnings += [] if named == count else [f"{count} markers found, {named} named"]
    # Coordinates (F, M, 3) in the file's unit; NaN where a cell is blank
    parsed = [_parse_marker_row(cells, has_tabs, count, file, number) for number, has_tabs, cells in rows]
    values = np.array(parsed).reshape(len(parsed), count, 3)
    announced = int(_number(settings, "NumFrames", file, default=len(values)))
    if announced != len(values):
        warnings.append(f"{announced} frames announced, {len(values)} found")
    with as_format_error(path):
        # Time of the first frame [s] and frames per second; 0 and None where the times say nothing
        written = [cells[1] if len(cells) > 1 else "" for _, _, cells in rows]
        times = np.array([_to_float(cell) for cell in written])
        if not np.isfinite(times).all() or (np.abs(times) > 1e7).any():
            start_s, clock = 0.0, None
        else:
            steps = np.diff(times)
            if not len(steps) or steps.min() <= 0.0 or steps.max() > 3.0 * np.median(steps):
                start_s, clock = float(times[0]), None
            else:
                start_s, clock = float(times[0]), float(len(steps) / (times[-1] - times[0]))
        rate = rate_hz
        if rate is None:
            # The header's rate, unless the times say clearly another one
            if "DataRate" not in settings and clock is not None:
                rate = clock
            else:
                rate = _number(settings, "DataRate", file)
                if clock is not None and rate > 0.0 and abs(clock / rate - 1.0) > CLOCK_TOL:
                    warnings.append(f"the header says {rate:g} Hz, the times {clock:g} Hz; the times were used")
                    rate = clock
        named_unit = unit or settings.get("Units", "mm").lower()
        metres = unit_in_metres(_UNITS.get(named_unit, named_unit))
        finite = np.isfinite(values).all(axis=-1) & (np.abs(values) < 1e9).all(axis=-1)
        zeros = finite & (values == 0.0).all(axis=-1)
        notes: list[str] = []
        if zeros.any():
            notes.append(f"{int(zeros.sum())} positions that are exactly zero count as missing")
        if start_s != 0.0:
            notes.append(f"the clock of the file starts at {start_s:g} s")
        valid = finite & ~zeros
        seen = np.where(valid[..., None], values, 0.0) * metres
        axes, note, _ = choose_axes(seen, valid, (), (), up)
        return Markers(
            make_unique_labels(names, count),
            rate,
            rotate_to_axes(seen, axes),
            valid,
            source=Source(str(path), "trc", named_unit, metres, axes[1]),
            load_report=LoadReport(warnings, [*notes, note]),
            name=Path(path).stem,
            start_s=start_s,
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


def _split_row(line: str) -> list[str]:
    """Cells of a row, without blank ones at the end."""
    cells = [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()
    while len(cells) > 2 and not cells[-1]:
        cells.pop()
    return cells


def _to_float(cell: str) -> float:
    """A number; NaN for a blank cell and for the words that programs write for it. Raises ValueError."""
    if not cell or _NO_NUMBER.fullmatch(cell):
        return np.nan
    return float(cell.replace(",", ".")) if "," in cell else float(cell)


def _parse_marker_row(cells: list[str], has_tabs: bool, count: int, file: str, number: int) -> list[float]:
    cells = cells[2:]
    cells += [""] * (3 * count - len(cells)) if has_tabs else []
    if len(cells) != 3 * count:
        what = f"expected {3 * count} coordinates, found {len(cells)}"
        raise FormatError(what, file, number, "Check that the line was not cut off.")
    values: list[float] = []
    for cell in cells:
        try:
            values.append(_to_float(cell))
        except ValueError:
            what = f"'{cell[:40]}' is not a number"
            raise FormatError(what, file, number, "Leave the cell of a lost marker blank.") from None
    return values
