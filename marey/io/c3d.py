"""C3D files: marker trajectories as captured, with a mask for what was not seen ([C3D2008]_); every length is checked.

The bytes are read here and not by a C++ library, so that a damaged file ends in a sentence and not in a crash.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from marey.base import BoolArray, FloatArray
from marey.io.binary import AnyPath, as_format_error, format_error, map_file
from marey.io.conventions import unit_in_metres
from marey.io.markers import choose_axes, make_unique_labels, markers_to_motion, rotate_to_axes
from marey.motion import LoadReport, Markers, Motion, Source

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
        raise format_error(path, "this is not a C3D file: the first two bytes do not point to parameters")
    processor = content[start + 3]
    if processor not in (INTEL, DEC, MIPS):
        raise format_error(path, f"the parameters name processor {processor}; 84, 85 and 86 are known")
    size = max(content[start + 2], 1) * BLOCK
    section = content[start : min(start + size, len(content))]
    numbers = NumberLayout(processor)
    try:
        # A chain of entries: a negative number names a group, a positive one a parameter of that group
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
    except (IndexError, ValueError) as error:
        raise format_error(path, "an entry of the parameters runs out of their section") from error
    values = {f"{groups.get(group, group)}:{name}": value for group, name, value in found}
    return C3dParameters(path, numbers, values)


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
    # Text in rows of the first dimension, bytes, words or floats
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


MAX_C3D_BYTES: Final = 1 << 30


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
        header = parameters.numbers.words(content[:BLOCK])
        count = int(parameters.number("POINT:USED", float(header[1]))) & 0xFFFF
        analogs = int(header[2]) & 0xFFFF
        scale = parameters.number("POINT:SCALE", parameters.numbers.floats(content[12:16])[0])
        start = (int(parameters.number("POINT:DATA_START", float(header[8]))) & 0xFFFF) - 1
        if count == 0:
            raise format_error(parameters.path, "it holds no points", "Give a file with marker trajectories.")
        if start < 1 or start * BLOCK >= len(content) or scale == 0.0:
            raise format_error(
                parameters.path, f"the data starts at block {start + 1} with scale {scale:g}: no such place"
            )
        # Frames that are announced and really there
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
        # Rows of x, y, z and a residual, which is negative where the point was not seen; then the analog values
        points = values.reshape(frames, -1)[:, : 4 * count].reshape(frames, count, 4)
        positions = points[..., :3] if scale < 0.0 else points[..., :3] * scale
        valid: BoolArray = (points[..., 3] >= 0.0) & np.isfinite(positions).all(axis=-1)
        warnings: list[str] = []
        if frames < announced:
            warnings.append(f"the file is cut off: {announced - frames} announced frames are missing")
        named = next(iter(parameters.texts("POINT:UNITS")), "").lower()
        if not named and unit is None:
            warnings.append("the file names no length unit; millimetres are assumed")
        metres = unit_in_metres(unit or named or "mm")
        seen = np.where(valid[..., None], positions, 0.0) * metres
        axes, note, doubt = choose_axes(
            seen, valid, parameters.texts("POINT:X_SCREEN"), parameters.texts("POINT:Y_SCREEN")
        )
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
