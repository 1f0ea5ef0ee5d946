"""The parameter section of a C3D file: names and values by group ([C3D2008]_ ch. 4), every length checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray
from marey.io._bytes import format_error

BLOCK: Final = 512  # [byte]
INTEL, DEC, MIPS = 84, 85, 86  # who wrote the numbers


@dataclass(frozen=True, slots=True)
class NumberLayout:
    """How numbers are laid out in one file."""

    processor: int  # INTEL, DEC or MIPS

    def words(self, data: bytes | memoryview) -> NDArray[np.int16]:
        """Signed 16-bit words."""
        return np.frombuffer(data, dtype=">i2" if self.processor == MIPS else "<i2").astype(np.int16)

    def floats(self, data: bytes | memoryview) -> FloatArray:
        """32-bit floating-point numbers; DEC's have their halves exchanged and are four times too large."""
        if self.processor != DEC:
            return np.frombuffer(data, dtype=">f4" if self.processor == MIPS else "<f4").astype(np.float64)
        halves = np.frombuffer(data, dtype="<u2").reshape(-1, 2)[:, ::-1]
        return np.ascontiguousarray(halves).view("<f4")[:, 0].astype(np.float64) / 4.0


@dataclass(frozen=True, slots=True)
class C3dParameters:
    """Values by ``GROUP:NAME``: arrays of numbers, or tuples of text."""

    path: str
    numbers: NumberLayout
    values: dict[str, Any]

    def number(self, name: str, default: float | None = None) -> float:
        """First number of a parameter.

        Raises:
            FormatError: it is missing and has no default.
        """
        value = self.values.get(name)
        if isinstance(value, np.ndarray) and value.size:
            return float(value.reshape(-1)[0])
        if default is None:
            raise format_error(self.path, f"the parameter {name} is missing")
        return default

    def long(self, name: str) -> int:
        """A 32-bit number kept as two words, the low one first; 0 where it is missing."""
        value = self.values.get(name)
        if not isinstance(value, np.ndarray) or value.size < 2:
            return 0
        low, high = cast(FloatArray, value).reshape(-1)[:2]
        return int(low) % 65536 + 65536 * (int(high) % 65536)

    def texts(self, name: str) -> tuple[str, ...]:
        """Every text of a parameter; labels beyond 255 go on in ``NAME2``, ``NAME3``, ..."""
        found: list[str] = []
        for suffix in ("", *(str(i) for i in range(2, 100))):
            value = self.values.get(name + suffix)
            if not isinstance(value, tuple):
                break
            found += value
        return tuple(found)


def read_parameters(content: memoryview, path: str) -> C3dParameters:
    """Walk through the parameter section.

    Raises:
        FormatError: the section lies outside the file, or an entry runs out of it.
    """
    start = (content[0] - 1) * BLOCK
    if content[1] != 0x50 or start < 0 or start + 4 > len(content):
        raise format_error(path, "this is no C3D file: the first two bytes point to no parameters")
    processor = content[start + 3]
    if processor not in (INTEL, DEC, MIPS):
        raise format_error(path, f"the parameters name processor {processor}; 84, 85 and 86 are known")
    size = max(content[start + 2], 1) * BLOCK
    section = content[start : min(start + size, len(content))]
    numbers = NumberLayout(processor)
    try:
        groups, found = _entries(section, numbers)
    except (IndexError, ValueError) as error:
        raise format_error(path, "an entry of the parameters runs out of their section") from error
    values = {f"{groups.get(group, group)}:{name}": value for group, name, value in found}
    return C3dParameters(path, numbers, values)


def _entries(section: memoryview, numbers: NumberLayout) -> tuple[dict[int, str], list[tuple[int, str, Any]]]:
    groups: dict[int, str] = {}
    found: list[tuple[int, str, Any]] = []
    at = 4
    while at + 2 <= len(section):
        length, group = abs(_to_signed(section[at])), _to_signed(section[at + 1])
        if length == 0 or group == 0:
            break
        name = bytes(section[at + 2 : at + 2 + length]).decode("latin-1").strip().upper()
        at += 2 + length
        step = int.from_bytes(section[at : at + 2], "big" if numbers.processor == MIPS else "little")
        if group < 0:
            groups[-group] = name
        else:
            found.append((group, name, _value(section, at + 2, numbers)))
        if step == 0:
            break
        at += step
    return groups, found


def _value(section: memoryview, at: int, numbers: NumberLayout) -> Any:
    kind, rank = _to_signed(section[at]), section[at + 1]
    shape = tuple(section[at + 2 : at + 2 + rank])
    if kind not in (-1, 1, 2, 4) or rank > 7:
        raise ValueError
    count = 1
    for length in shape:
        count *= length
    size = abs(kind) * count
    data = section[at + 2 + rank : at + 2 + rank + size]
    if len(data) < size:
        raise ValueError
    if kind == -1:
        width = shape[0] if shape else 1
        rows = count // width if width else 0
        return tuple(bytes(data[i * width : (i + 1) * width]).decode("latin-1").strip(" \0") for i in range(rows))
    if kind == 1:
        return np.frombuffer(data, dtype=np.int8).astype(np.float64)
    if kind == 2:
        return numbers.words(data).astype(np.float64)
    return numbers.floats(data)


def _to_signed(byte: int) -> int:
    return byte - 256 if byte > 127 else byte
