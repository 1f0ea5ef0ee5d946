"""The parameter section of a C3D file ([C3D2008]_): groups of named values; every length is checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray
from marey.io.binary import format_error

BLOCK: Final = 512  # [byte]
MAX_SECTION_BYTES: Final = 1 << 20  # the format has at most 255 blocks of 512; writers go beyond
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
        with np.errstate(invalid="ignore"):  # bytes that are no number stay NaN
            if self.processor != DEC:
                return np.frombuffer(data, dtype=">f4" if self.processor == MIPS else "<f4").astype(np.float64)
            halves = np.frombuffer(data, dtype="<u2").reshape(-1, 2)[:, ::-1]
            return np.ascontiguousarray(halves).view("<f4")[:, 0].astype(np.float64) / 4.0


@dataclass(frozen=True, slots=True)
class C3dParameters:
    """Values by ``GROUP:NAME``: arrays of numbers, or tuples of text."""

    path: str
    numbers: NumberLayout | None  # None where another library read the file
    values: dict[str, Any]
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    warnings: tuple[str, ...] = ()  # what was wrong with the section and could be passed over

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

    def array(self, name: str) -> FloatArray:
        """Numbers of a parameter, dimensions in reverse: the first varies fastest in the file; may be empty."""
        value = self.values.get(name)
        if not isinstance(value, np.ndarray):
            return np.zeros(0)
        numbers = cast(FloatArray, value)
        shape = self.shapes.get(name, ())[::-1]
        return numbers.reshape(shape) if len(shape) > 1 and int(np.prod(shape)) == numbers.size else numbers

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
        raise format_error(path, "this is not a C3D file: the first two bytes do not point to parameters")
    processor = content[start + 3]
    if processor not in (INTEL, DEC, MIPS):
        raise format_error(path, f"the parameters name processor {processor}; 84, 85 and 86 are known")
    numbers, warnings = NumberLayout(processor), list[str]()
    # Writers lie about the number of blocks: parameters go on to where the header says that the data starts
    data_start = (int(numbers.words(content[16:18])[0]) & 0xFFFF) - 1
    end = max(max(content[start + 2], 1) * BLOCK, data_start * BLOCK - start)
    section = content[start : start + min(end, MAX_SECTION_BYTES)]
    # A chain of entries: a negative number names a group, a positive one a parameter of that group
    groups: dict[int, str] = {}
    found: list[tuple[int, str, Any, tuple[int, ...]]] = []
    at, total = 4, 0
    try:
        while at + 2 <= len(section) and total <= 4 * MAX_SECTION_BYTES:
            length, group = abs(_to_signed(section[at])), _to_signed(section[at + 1])
            if length == 0 or group == 0:
                break
            name = bytes(section[at + 2 : at + 2 + length]).decode("latin-1").strip().upper()
            at += 2 + length
            step = int.from_bytes(section[at : at + 2], "big" if numbers.processor == MIPS else "little")
            if group < 0:
                groups[-group] = name
            else:
                try:
                    value, shape = _value(section, at + 2, numbers)
                except ValueError:
                    known = name if name.isprintable() and name.isascii() else "without a name"
                    warnings.append(f"the parameter {known} is damaged and was passed over")
                else:
                    found.append((group, name, value, shape))
                    total += 64 + (value.nbytes if isinstance(value, np.ndarray) else sum(len(text) for text in value))
            if step == 0:
                break
            at += step
    except (IndexError, ValueError):
        warnings.append("an entry of the parameters runs out of the file; those before it were read")
    if not found:
        raise format_error(path, "an entry of the parameters runs out of their section")
    names = [f"{groups.get(group, group)}:{name}" for group, name, _, _ in found]
    values = {name: value for name, (_, _, value, _) in zip(names, found, strict=True)}
    shapes = {name: shape for name, (_, _, _, shape) in zip(names, found, strict=True)}
    return C3dParameters(path, numbers, values, shapes, tuple(warnings[:5]))


def _value(section: memoryview, at: int, numbers: NumberLayout) -> tuple[Any, tuple[int, ...]]:
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
    # Text in rows of the first dimension, bytes, words or floats
    if kind == -1:
        width = shape[0] if shape else 1
        rows = count // width if width else 0
        texts = (bytes(data[i * width : (i + 1) * width]).decode("latin-1").strip(" \0") for i in range(rows))
        return tuple(texts), shape
    if kind == 1:
        return np.frombuffer(data, dtype=np.int8).astype(np.float64), shape
    if kind == 2:
        return numbers.words(data).astype(np.float64), shape
    return numbers.floats(data), shape


def _to_signed(byte: int) -> int:
    return byte - 256 if byte > 127 else byte
