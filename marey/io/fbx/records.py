"""Binary FBX 7.4: a tree of named records with typed values, between a header and a footer; objects and connections.

A record is its end in the file, the number and size of its values, its name, the values, the records below it and, if
there are any, thirteen zero bytes. The layout is known from readers (ufbx, Blender); there is no public specification.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray

CENTIMETRES: Final = 100.0  # in a metre
FIRST_ID: Final = 1_000_000
VERSION: Final = 7400
MAGIC: Final = b"Kaydara FBX Binary  \x00\x1a\x00"
CREATION_TIME: Final = "1970-01-01 10:00:00:000"  # fixed: the same motion gives the same bytes
FILE_ID: Final = bytes.fromhex("28b32aebb624ccc2bfc8b02aa92bfcf1")  # belongs to that time
FOOTER_ID: Final = bytes.fromhex("fabcab09d0c8d466b176fb831cf7267e")  # belongs to that time
FOOTER_MAGIC: Final = bytes.fromhex("f85a8c6adef5d97eece90ce3758f290b")
NO_RECORD: Final = b"\0" * 13  # ends a list of records
EMPTY_BLOCKS: Final = ("AnimationStack", "AnimationLayer")  # end with a list even where it is empty
COMPRESSED_BYTES: Final = 256  # [byte] shorter arrays are stored plainly
FAST: Final = 1  # level of zlib: times shrink a hundredfold, values hardly
_ARRAYS: Final = {"float32": b"f", "float64": b"d", "int64": b"l", "int32": b"i"}


@dataclass(slots=True)
class FbxRecord:
    """One record; values are ints (64 bits), floats, strings, bytes, arrays, or whatever :func:`short` makes."""

    name: str
    values: tuple[Any, ...] = ()
    records: list[FbxRecord] = field(default_factory=list["FbxRecord"])

    def add(self, name: str, *values: Any) -> FbxRecord:
        """Append a record and return it."""
        self.records.append(FbxRecord(name, values))
        return self.records[-1]


@dataclass(frozen=True, slots=True)
class PackedValue:
    """A value that is encoded already."""

    content: bytes


def short(value: int) -> PackedValue:
    """Encode an integer of 32 bits."""
    return PackedValue(b"I" + struct.pack("<i", value))


def pack_array(array: NDArray[Any]) -> PackedValue:
    """Encode an array of float32, float64, int32 or int64, compressed where that pays."""
    content = np.ascontiguousarray(array).tobytes()
    code, plain = _ARRAYS[array.dtype.name], len(content)
    is_long = plain > COMPRESSED_BYTES
    content = zlib.compress(content, FAST) if is_long else content
    return PackedValue(code + struct.pack("<III", array.size, int(is_long), len(content)) + content)


@dataclass(slots=True)
class FbxScene:
    """Objects and connections of a file while they are collected."""

    objects: FbxRecord = field(default_factory=lambda: FbxRecord("Objects"))
    connections: FbxRecord = field(default_factory=lambda: FbxRecord("Connections"))

    def add(self, kind: str, name: str, label: str, form: str) -> tuple[int, FbxRecord]:
        """Append an object such as ``Model`` of ``form`` ``LimbNode``; returns its number and its record."""
        number = FIRST_ID + len(self.objects.records)
        return number, self.objects.add(kind, number, f"{name}\x00\x01{label}", form)

    def connect(self, child: int, parent: int, to: str | None = None) -> None:
        """Hang an object on another, or on a property of it; 0 is the scene."""
        values = ("OO", child, parent) if to is None else ("OP", child, parent, to)
        self.connections.add("C", *values)


def add_properties(record: FbxRecord, *rows: tuple[Any, ...]) -> None:
    """Append typed properties: name, type, label, flags, values."""
    table = record.add("Properties70")
    for row in rows:
        table.add("P", *row)


def matrix_values(place: FloatArray) -> PackedValue:
    """Encode a translation as a matrix of 16 numbers, columns first."""
    matrix = np.eye(4)
    matrix[3, :3] = place
    return pack_array(matrix.reshape(-1))


def pack_file(records: list[FbxRecord]) -> bytes:
    """Return the content of a binary FBX file."""
    parts = [MAGIC, struct.pack("<I", VERSION)]
    size = len(MAGIC) + 4
    for record in records:
        size = _pack_record(record, size, parts)
    parts += [NO_RECORD, FOOTER_ID, b"\0" * 4]
    size += len(NO_RECORD) + len(FOOTER_ID) + 4
    # The version starts on a multiple of sixteen, after at least one zero
    parts += [b"\0" * (16 - size % 16), struct.pack("<I", VERSION), b"\0" * 120, FOOTER_MAGIC]
    return b"".join(parts)


def _pack_record(record: FbxRecord, start: int, parts: list[bytes]) -> int:
    """Append one record, which begins at byte ``start`` of the file, and return where it ends."""
    values = b"".join([_pack_value(value) for value in record.values])
    name = record.name.encode()
    place = len(parts)
    parts += [b"", values]
    end = start + 13 + len(name) + len(values)
    for below in record.records:
        end = _pack_record(below, end, parts)
    if record.records or not record.values or record.name in EMPTY_BLOCKS:
        parts.append(NO_RECORD)
        end += len(NO_RECORD)
    parts[place] = struct.pack("<IIIB", end, len(record.values), len(values), len(name)) + name
    return end


def _pack_value(value: Any) -> bytes:
    if isinstance(value, PackedValue):
        return value.content
    if isinstance(value, bool):
        return b"C" + struct.pack("<?", value)
    if isinstance(value, int):
        return b"L" + struct.pack("<q", value)
    if isinstance(value, float):
        return b"D" + struct.pack("<d", value)
    kind, content = (b"R", value) if isinstance(value, bytes) else (b"S", str(value).encode())
    return kind + struct.pack("<I", len(content)) + content
