"""Tables of OpenSim: marker trajectories (`.trc`), and measured ground reaction in `.mot` and `.sto`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, FormatError, InputError, UnknownNameError, frozen
from marey.io.binary import AnyPath, as_format_error, map_file
from marey.io.conventions import unit_in_metres
from marey.io.laboratory.c3d import load_c3d_markers
from marey.io.laboratory.markers import choose_axes, make_unique_labels, markers_to_motion, rotate_to_axes
from marey.motion import LoadReport, Markers, Motion, Source

MAX_TABLE_BYTES: Final = 256 << 20
MAX_HEADER_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OpenSimTable:
    """Columns of numbers with names; ``table["ground_force_r_vy"]`` is one of them."""

    names: tuple[str, ...]  # (C,)
    values: FloatArray  # (N, C)
    header: Mapping[str, str]  # what stands above the table: version, inDegrees, ...

    def __getitem__(self, name: str) -> FloatArray:
        if name not in self.names:
            raise UnknownNameError("column", name, "this table", self.names)
        return self.values[:, self.names.index(name)]

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"Table({len(self)} rows; {', '.join(self.names)})"


def load_table(path: AnyPath) -> OpenSimTable:
    """Read an OpenSim table, `.mot` or `.sto`.

    Raises:
        FormatError: there is no header or no table, or a row is damaged; the message names the line.
    """
    file = str(path)
    content = map_file(path, limit=MAX_TABLE_BYTES)
    is_table = b"endheader" in bytes(content[:MAX_HEADER_BYTES]).lower()
    lines = bytes(content).decode("latin-1").splitlines() if is_table else []
    ends = (i for i, line in enumerate(lines) if line.strip().lower() == "endheader")
    end = next(ends, None)
    if end is None:
        raise FormatError("no line 'endheader'", file, 1, "Give an OpenSim .mot or .sto file.")
    header = {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines[:end]) if value}
    # Column names on the first line after the header, then one row a line
    titles = next((i for i in range(end + 1, len(lines)) if lines[i].strip()), None)
    if titles is None:
        raise FormatError("no column names after 'endheader'", file, end + 1, "Copy or export the file again.")
    names = tuple(lines[titles].split("\t") if "\t" in lines[titles] else lines[titles].split())
    names = tuple(name.strip() for name in names if name.strip())
    rows: list[list[float]] = []
    for i, line in enumerate(lines[titles + 1 :]):
        if line.strip():
            number, cells = titles + 2 + i, line.split()
            if len(cells) != len(names):
                raise FormatError(f"expected {len(names)} values, found {len(cells)}", file, number, "Check the line.")
            try:
                row = [float(cell) for cell in cells]
            except ValueError:
                raise FormatError("a value is not a number", file, number, "Check the line.") from None
            if not np.isfinite(row).all():
                raise FormatError("a value is not finite", file, number, "Fill or cut the gap first.")
            rows.append(row)
    values = np.array(rows, dtype=np.float64).reshape(len(rows), len(names))
    return OpenSimTable(names, frozen(values, None, len(names), name="values"), header)


LOADED_N: Final = 20.0  # [N] a plate that feels less is not stepped on; it is the usual threshold in gait analysis
# ground_force_r_vx, r_ground_force_vx, 1_ground_force_vx, ground_force_1_vx, ground_force_vx; torque alike
_COLUMN: Final = re.compile(r"(?:(\w+?)_)?ground_(force|torque|moment)(?:_(\w+?))?_([vpm]?)([xyz])", re.IGNORECASE)
_SIDES: Final = {"r": "right", "right": "right", "l": "left", "left": "left"}
_FIXED: Final = "Name the columns as OpenSim does: ground_force_r_vx, ground_force_r_px, ground_torque_r_x, ..."


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GroundReaction:
    """What P force plates or feet measured over time, axes as in the file."""

    names: tuple[str, ...]  # (P,) "left", "right", or the label of the plate
    times: FloatArray  # (N,) [s] rising
    forces: FloatArray  # (N, P, 3) [N] on the body
    places: FloatArray  # (N, P, 3) [m] centre of pressure; means nothing where the plate is not loaded
    moments: FloatArray  # (N, P, 3) [N m] about the centre of pressure

    def __post_init__(self) -> None:
        count, plates = len(self.times), len(self.names)
        if count == 0 or np.any(np.diff(self.times) < 0.0):
            raise InputError(f"{count} rows of ground reaction", "Give at least one, in the order of their times")
        object.__setattr__(self, "times", frozen(self.times, count, name="times"))
        for name in ("forces", "places", "moments"):
            object.__setattr__(self, name, frozen(getattr(self, name), count, plates, 3, name=name))

    def at(self, times: FloatArray) -> GroundReaction:
        """Return the values at other times [s], by linear interpolation; past the ends nothing is loaded."""
        inside = (times >= self.times[0]) & (times <= self.times[-1])
        sampled: list[FloatArray] = []
        for values in (self.forces, self.places, self.moments):
            flat = values.reshape(len(values), -1)
            columns = [np.interp(times, self.times, flat[:, k]) for k in range(flat.shape[1])]
            sampled.append(np.stack(columns, axis=1).reshape(len(times), *values.shape[1:]))
        forces, places, moments = sampled
        loaded = inside[:, None, None]
        return GroundReaction(self.names, times, forces * loaded, places, moments * loaded)

    def over_ground(self, belt_mps: FloatArray, start_s: float) -> GroundReaction:
        """Move the centres of pressure onto a floor that rests: a treadmill's belt ran with ``belt_mps`` [m/s]."""
        way = -np.asarray(belt_mps) * (self.times - start_s)[:, None, None]
        return GroundReaction(self.names, self.times, self.forces, self.places + way, self.moments)

    def is_loaded(self, threshold_n: float = LOADED_N) -> BoolArray:
        """Whether each plate is stepped on ``(N, P)``."""
        return np.linalg.norm(self.forces, axis=-1) > threshold_n

    def wrench(self) -> FloatArray:
        """Sum over the plates ``(N, 6)``: force [N], moment about the world origin [N m]."""
        moments = np.where(self.is_loaded(0.0)[..., None], np.cross(self.places, self.forces), 0.0) + self.moments
        return np.concatenate([self.forces.sum(axis=1), moments.sum(axis=1)], axis=-1)

    def __repr__(self) -> str:
        return (
            f"GroundReaction({', '.join(self.names)}; {len(self.times)} rows, {self.times[-1] - self.times[0]:.2f} s)"
        )


def load_ground_reaction(path: AnyPath) -> GroundReaction:
    """Read measured ground reaction: newtons and metres, +Y up.

    From an OpenSim table, `.mot` or `.sto`, whose columns name feet or plates; or from the force plates of a C3D file,
    called ``plate1``, ``plate2``, ... in the axes of its markers.

    Raises:
        FormatError: the table has no time, no columns of force, or times that do not rise.
    """
    file = str(path)
    if file.lower().endswith(".c3d"):
        markers = load_c3d_markers(path)
        if not markers.plates:
            raise FormatError("it holds no force plates of types 1 to 4", file, 0, "Give a file with FORCE_PLATFORM.")
        first = markers.plates[0]
        times = first.start_s + np.arange(len(first.forces)) / first.rate_hz
        names = tuple(f"plate{p + 1}" for p in range(len(markers.plates)))
        forces, places, moments = (
            np.stack([getattr(plate, kind) for plate in markers.plates], axis=1)
            for kind in ("forces", "places", "moments")
        )
        return GroundReaction(names, times, forces, places, moments)
    table = load_table(path)
    if "time" not in table.names:
        raise FormatError("no column 'time'", file, 1, _FIXED)
    times = table["time"]
    if len(times) < 2 or not (np.diff(times) > 0.0).all():
        raise FormatError("the times do not rise", file, 1, "Export the file again.")
    # Columns by plate: vx of the force, px of its place, mx of the moment, and so on
    found: dict[str, dict[str, str]] = {}
    for name in table.names:
        match = _COLUMN.fullmatch(name)
        if match:
            label = (match[1] or match[3] or "0").lower()
            kind = "m" if match[2].lower() != "force" else match[4].lower()
            found.setdefault(_SIDES.get(label, label), {})[kind + match[5].lower()] = name
    plates = {label: columns for label, columns in found.items() if all("v" + axis in columns for axis in "xyz")}
    if not plates:
        raise FormatError("no columns of ground force", file, 1, _FIXED)
    # Vectors (N, P, 3) of forces, places and moments; zero where the table has no column
    forces, places, moments = (np.zeros((len(times), len(plates), 3)) for _ in range(3))
    for p, columns in enumerate(plates.values()):
        for kind, vectors in (("v", forces), ("p", places), ("m", moments)):
            for axis, letter in enumerate("xyz"):
                if kind + letter in columns:
                    vectors[:, p, axis] = table[columns[kind + letter]]
    return GroundReaction(tuple(plates), times, forces, places, moments)


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
