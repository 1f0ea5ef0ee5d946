"""Parameters and numbers of a C3D file in its own units and axes ([C3D2008]_); every length is checked.

The bytes are read here and not by a C++ library, so that a damaged file ends in a sentence and not in a crash. Where
the parameters are too damaged for us, ezc3d is asked. It trusts the counts of a file: a damaged one makes it crash or
ask for gigabytes. It therefore runs in the sandbox of other such readers, and what it finds must fit into the file that
it read (`docs/decisions/0024-ezc3d-as-fallback.md`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from marey.base import BoolArray, FloatArray, FormatError
from marey.io.binary import AnyPath, format_error, map_file
from marey.io.sandbox import run_reader

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


MAX_C3D_BYTES: Final = 1 << 30
MAX_FALLBACK_BYTES: Final = 64 << 20  # [byte] of a file that is handed to ezc3d
READER: Final = ("marey.io.laboratory.c3d.child", "read")


@dataclass(frozen=True, slots=True, eq=False)
class C3dContent:
    """Numbers of a C3D file in its own units and axes."""

    parameters: C3dParameters
    positions: FloatArray  # (F, M, 3) in the unit of the file
    valid: BoolArray  # (F, M)
    analog: FloatArray  # (N, C) scaled
    rate_hz: float
    samples: int  # analog samples in each frame
    first_frame: int  # number of the first frame on the clock of the capture, from 0
    warnings: tuple[str, ...]


def read_content(path: AnyPath, rate_hz: float | None = None) -> C3dContent:
    """Numbers of a file, by our own parser, or by ezc3d where that gives up; ``rate_hz`` serves where it has none."""
    content = map_file(path, limit=MAX_C3D_BYTES)
    if len(content) < 2 * BLOCK:
        raise format_error(path, f"a C3D file has at least {2 * BLOCK} bytes, this has {len(content)}")
    try:
        parameters = read_parameters(content, str(path))
    except FormatError as ours:
        # Only what looks like a C3D file is handed on
        found = read_with_ezc3d(path) if content[1] == 0x50 else None
        if found is None:
            raise
        return replace(found, warnings=(f"our reader gave up ({ours.what}); ezc3d read the file",))
    return _parse_content(content, parameters, str(path), rate_hz)


def _parse_content(content: memoryview, parameters: C3dParameters, path: str, rate_hz: float | None) -> C3dContent:
    numbers = parameters.numbers
    assert numbers is not None  # of a file that we parse ourselves
    header = numbers.words(content[:BLOCK])
    count = int(parameters.number("POINT:USED", float(header[1]))) & 0xFFFF
    analogs = int(header[2]) & 0xFFFF
    scale = parameters.number("POINT:SCALE", numbers.floats(content[12:16])[0])
    start = (int(parameters.number("POINT:DATA_START", float(header[8]))) & 0xFFFF) - 1
    if count == 0 and analogs == 0:
        raise format_error(path, "it holds no points", "Give a file with marker trajectories.")
    if start < 1 or start * BLOCK >= len(content) or scale == 0.0:
        other = (int(header[8]) & 0xFFFF) - 1
        if other < 1 or other * BLOCK >= len(content) or scale == 0.0:
            raise format_error(path, f"the data starts at block {start + 1} with scale {scale:g}: no such place")
        start = other
    rate = parameters.number("POINT:RATE", numbers.floats(content[20:24])[0])
    rate = rate if np.isfinite(rate) and rate > 0.0 else rate_hz
    if rate is None:
        raise format_error(path, "the parameter POINT:RATE is missing", "Give rate_hz, or export the file again.")
    # Frames that are announced: TRIAL's 32-bit numbers where they are, else the header's 16-bit ones
    ordered = parameters.numbers
    assert ordered is not None
    words = ordered.words(content[:BLOCK]).astype(np.int64) & 0xFFFF
    begin, end = (parameters.long(f"TRIAL:ACTUAL_{end}_FIELD") for end in ("START", "END"))
    if end >= begin > 0:
        announced = end - begin + 1
    else:
        counted = int(words[4] - words[3]) + 1
        if words[4] == 65535 or counted < 1:  # the header's words are full: the long count is a parameter
            announced = max(counted, int(parameters.number("POINT:FRAMES", 0.0)))
        else:
            announced = counted
    # Frames that are really there
    width = 4 if scale < 0.0 else 2  # [byte] a negative scale announces floating-point data
    size = len(content) - start * BLOCK
    per_frame = int(header[9]) & 0xFFFF
    plain, more = (size - announced * (4 * count + n) * width for n in (analogs, analogs * per_frame))
    if per_frame > 1 and not 0 <= plain < BLOCK and 0 <= more < BLOCK:
        analogs *= per_frame  # the header counts channels where it should count values, as the file's size shows
    row = (4 * count + analogs) * width
    available = size // row
    frames = min(announced, available)
    if frames < 1:
        raise format_error(path, f"{announced} frames of {count} points announced, the file holds {available}")
    warnings = list(parameters.warnings)
    if frames < announced:
        warnings.append(f"the file is cut off: {announced - frames} announced frames are missing")
    data = content[start * BLOCK : start * BLOCK + frames * row]
    values = (numbers.floats(data) if scale < 0.0 else numbers.words(data).astype(np.float64)).reshape(frames, -1)
    # Rows of x, y, z and a residual, which is negative where the point was not seen; then the analog values
    points = values[:, : 4 * count].reshape(frames, count, 4)
    positions = points[..., :3] if scale < 0.0 else points[..., :3] * scale
    # Writers put points that were lost at the origin, too
    valid: BoolArray = (points[..., 3] >= 0.0) & np.isfinite(positions).all(axis=-1) & (positions != 0.0).any(axis=-1)
    valid &= (np.abs(positions) < 1e9).all(axis=-1)
    # Samples of all channels, one after another within a frame
    samples = max(per_frame, 1)
    channels = int(parameters.number("ANALOG:USED", analogs / samples)) & 0xFFFF
    if channels == 0 or analogs % channels:
        samples, channels = (1, analogs) if analogs % samples else (samples, analogs // samples)
    else:
        samples = analogs // channels
    raw = values[:, 4 * count :].reshape(frames * samples, channels) if analogs else np.zeros((0, 0))
    if scale > 0.0 and _is_unsigned(parameters):
        raw = np.where(raw < 0.0, raw + 65536.0, raw)
    first = int(header[3]) & 0xFFFF
    long_first = parameters.long("TRIAL:ACTUAL_START_FIELD")
    # (raw - OFFSET) SCALE GEN_SCALE; what is not finite is zero
    num_channels = raw.shape[1]
    general = parameters.number("ANALOG:GEN_SCALE", 1.0)
    scales, offsets = np.ones(num_channels), np.zeros(num_channels)
    for name, target in (("SCALE", scales), ("OFFSET", offsets)):
        found = [parameters.array(f"ANALOG:{name}{suffix}").ravel() for suffix in ("", *"23456789")]
        given = np.concatenate(found)[:num_channels]
        target[: len(given)] = given
    if _is_unsigned(parameters):
        offsets = np.where(offsets < 0.0, offsets + 65536.0, offsets)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = (raw - offsets) * scales * general
    return C3dContent(
        parameters,
        positions,
        valid,
        np.where(np.isfinite(scaled), scaled, 0.0),
        rate,
        samples,
        max((long_first or first) - 1, 0),
        tuple(warnings),
    )


def _is_unsigned(parameters: C3dParameters) -> bool:
    return next(iter(parameters.texts("ANALOG:FORMAT")), "").strip().upper() == "UNSIGNED"


def read_with_ezc3d(path: AnyPath) -> C3dContent | None:
    """Return what ezc3d makes of a file, or None: it is not installed, too large, crashes or is refused there, too."""
    size = Path(path).stat().st_size
    if find_spec("ezc3d") is None or size > MAX_FALLBACK_BYTES:
        return None
    try:
        answer = run_reader(READER, path, {}, extra=("reading this C3D file", "c3d"))
        values: dict[str, Any] = {name: tuple(texts) for name, texts in answer.facts["texts"].items()}
        shapes: dict[str, tuple[int, ...]] = {}
        for name, array in answer.arrays.items():
            if ":" in name:
                # The format's order: the first dimension varies fastest
                values[name], shapes[name] = array.ravel(order="F"), array.shape
        rate = float(np.ravel(values.get("POINT:RATE", [0.0]))[:1].sum())
        found = None
        if np.isfinite(rate) and rate > 0.0:
            positions = np.ascontiguousarray(np.transpose(answer.arrays["points"], (2, 1, 0)))
            valid = np.isfinite(positions).all(axis=-1) & (np.transpose(answer.arrays["residuals"]) >= 0.0)
            analog = np.transpose(answer.arrays["analogs"])
            samples = max(len(analog) // max(len(positions), 1), 1)
            parameters = C3dParameters(str(path), None, values, shapes)
            found = C3dContent(parameters, positions, valid, analog, rate, samples, 0, ())
    except FormatError:
        return None
    # Every value takes two bytes at least: more values than that were made up
    is_made_up = found is not None and 2 * (4 * found.valid.size + found.analog.size) > size
    return None if is_made_up else found
