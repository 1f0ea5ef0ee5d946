"""Tables of OpenSim, `.mot` and `.sto`: named columns over time, such as measured ground reaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, FormatError, UnknownNameError, frozen
from marey.io._bytes import AnyPath, map_file

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
    titles = next((i for i in range(end + 1, len(lines)) if lines[i].strip()), None)
    if titles is None:
        raise FormatError("no column names after 'endheader'", file, end + 1, "Copy or export the file again.")
    names = tuple(lines[titles].split("\t") if "\t" in lines[titles] else lines[titles].split())
    names = tuple(name.strip() for name in names if name.strip())
    rows = [
        _parse_table_row(line, len(names), file, titles + 2 + i)
        for i, line in enumerate(lines[titles + 1 :])
        if line.strip()
    ]
    values = np.array(rows, dtype=np.float64).reshape(len(rows), len(names))
    return OpenSimTable(names, frozen(values, None, len(names), name="values"), header)


def _parse_table_row(line: str, count: int, file: str, number: int) -> list[float]:
    cells = line.split()
    if len(cells) != count:
        raise FormatError(f"expected {count} values, found {len(cells)}", file, number, "Check the line.")
    try:
        values = [float(cell) for cell in cells]
    except ValueError:
        raise FormatError("a value is not a number", file, number, "Check the line.") from None
    if not np.isfinite(values).all():
        raise FormatError("a value is not finite", file, number, "Fill or cut the gap first.")
    return values
