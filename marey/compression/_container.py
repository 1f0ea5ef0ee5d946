"""The outside of a compressed file: magic, version, method, length and a checksum over all the rest."""

from __future__ import annotations

import struct
import zlib
from typing import Final, cast

from marey.base import FormatError, InputError
from marey.compression._fields import format_error

MAGIC: Final = b"MARY"
FORMAT_VERSION: Final = 1
PREDICTIVE_CODE, WAVELET_CODE, TOURNIER_CODE = 0, 1, 2
METHODS: Final = ("default", "waves", "tournier2011")
HEADER: Final = struct.Struct("<4sBBHQI")  # magic, version, method, nothing yet, length of the rest, its CRC-32


def pack_file(method: int, body: bytes) -> bytes:
    """Return a whole file."""
    head = HEADER.pack(MAGIC, FORMAT_VERSION, method, 0, len(body), 0)
    return HEADER.pack(MAGIC, FORMAT_VERSION, method, 0, len(body), zlib.crc32(body, zlib.crc32(head))) + body


def unpack_file(data: bytes) -> tuple[int, bytes]:
    """Method and body of a file; the checksum is verified before anything else is read.

    Raises:
        FormatError: no compressed motion, another version, cut off, or damaged.
    """
    if not isinstance(cast(object, data), bytes | bytearray | memoryview):
        raise InputError(f"compressed data of type {type(data).__name__}", "Give the bytes of a compressed motion")
    data = bytes(data)
    if len(data) < HEADER.size or data[:4] != MAGIC:
        raise format_error("not a compressed motion: it does not begin with 'MARY'" if data else "no data at all")
    _, version, method, spare, length, crc = HEADER.unpack_from(data)
    if version != FORMAT_VERSION:
        fix = "Upgrade marey: pip install --upgrade marey"
        raise FormatError(f"format version {version}; this marey reads {FORMAT_VERSION}", "compressed motion", 0, fix)
    if length != len(data) - HEADER.size:
        raise format_error(f"{len(data) - HEADER.size} bytes after the header, which announces {length}")
    head = HEADER.pack(MAGIC, version, method, spare, length, 0)
    body = data[HEADER.size :]
    if zlib.crc32(body, zlib.crc32(head)) != crc:
        raise format_error("the checksum does not fit: some byte has changed")
    if method >= len(METHODS):
        raise format_error(f"method number {method} is unknown")
    return method, body
