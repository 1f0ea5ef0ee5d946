"""Tables of OpenSim, `.mot` and `.sto`, and the measured ground reaction that they hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, FormatError, InputError, UnknownNameError, frozen
from marey.io.binary import AnyPath, map_file
from marey.io.laboratory.c3d import load_c3d_markers

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
