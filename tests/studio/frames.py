"""Frames of the socket as a program in Python reads and writes them, apart from the server's code."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import numpy as np

ALIGNMENT = 8


def read_frame(data: bytes) -> dict[str, Any]:
    """Header of any frame as plain data, with its arrays: for clients in Python, and for checks."""
    (length,) = struct.unpack_from("<I", data)
    header: Any = msgspec.msgpack.decode(data[4 : 4 + length])
    start = 4 + length + (-(4 + length) % ALIGNMENT)

    def restore(node: Any) -> Any:
        if isinstance(node, dict):
            items = node
            if set(items) == {"$"}:
                first, kind, shape = items["$"]
                count = int(np.prod(shape))
                return np.frombuffer(data, f"<{kind}", count, start + first).reshape(shape)
            return {key: restore(child) for key, child in items.items()}
        return [restore(child) for child in node] if isinstance(node, list) else node

    return restore(header)


def write_frame(header: dict[str, Any]) -> bytes:
    """Bytes of a message of a page, given as plain data."""
    packed = msgspec.msgpack.encode(header)
    return struct.pack("<I", len(packed)) + packed + bytes(-(4 + len(packed)) % ALIGNMENT)
