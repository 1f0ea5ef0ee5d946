"""Frames of the socket: a header in msgpack, and raw arrays behind it that the page views without copying.

::

    uint32 LE length of the header | header: a map with `t` | zeros to a multiple of 8 | arrays, each on a multiple of 8

An array in the header is ``{"$": [first byte behind the padding, "f4" | "i4" | "u1", shape]}``.
"""

from __future__ import annotations

import struct
from typing import Any, Final, Union, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from marey.base import InputError
from marey.studio.protocol.messages import ClientMessage, ServerMessage

MAX_FRAME_BYTES: Final = 8 << 20  # of a message from the page
ALIGNMENT: Final = 8  # so that a view of 32-bit numbers can start at every array
KINDS: Final = {"f": "f4", "i": "i4", "u": "u1", "b": "u1"}  # of numpy -> of the wire

_decoder: Final = msgspec.msgpack.Decoder(Union[tuple(ClientMessage.__subclasses__())])  # noqa: UP007  of any length


def encode_frame(message: ServerMessage) -> bytes:
    """Bytes of a message; its arrays become 32-bit floats, 32-bit integers or bytes."""
    parts: list[bytes] = []
    at = 0

    def refer(value: Any) -> Any:
        nonlocal at
        if isinstance(value, np.generic):
            return cast(Any, value).item()
        if not isinstance(value, np.ndarray):
            raise TypeError(f"a {type(value).__name__} in a message")
        array = cast(NDArray[Any], value)
        kind = KINDS[array.dtype.kind]
        data = np.ascontiguousarray(array, dtype=f"<{kind}").tobytes()
        reference = {"$": [at, kind, list(array.shape)]}
        padding = -len(data) % ALIGNMENT
        parts.extend((data, bytes(padding)))
        at += len(data) + padding
        return reference

    header = msgspec.msgpack.Encoder(enc_hook=refer).encode(message)
    return b"".join((struct.pack("<I", len(header)), header, bytes(-(4 + len(header)) % ALIGNMENT), *parts))


def decode_frame(data: bytes) -> ClientMessage:
    """Message of a page."""
    if not 4 <= len(data) <= MAX_FRAME_BYTES:
        raise InputError(f"a message of {len(data)} bytes", f"Send at most {MAX_FRAME_BYTES}")
    (length,) = struct.unpack_from("<I", data)
    # A page has no arrays to send
    if not 4 + length <= len(data) < 4 + length + ALIGNMENT:
        raise InputError("a message whose length does not fit its bytes", "Reload the page")
    try:
        return _decoder.decode(memoryview(data)[4 : 4 + length])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InputError(f"a message that cannot be read: {error}", "Reload the page") from error
