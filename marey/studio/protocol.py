"""The protocol of the studio: every message between page and server, its frame, and clips as a page reads them.

``web/generate_messages.py`` generates the page's types from here when the client is built. Raise :data:`VERSION` with
every change that an older page would misread; page and server of different versions refuse each other in words.

Frames of the socket: a header in msgpack, and raw arrays behind it that the page views without copying.

::

    uint32 LE length of the header | header: a map with `t` | zeros to a multiple of 8 | arrays, each on a multiple of 8

An array in the header is ``{"$": [first byte behind the padding, "f4" | "i4" | "u1", shape]}``. A clip is a header,
and blocks of frames in single precision.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, Final, Literal, Union, cast

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from marey.base import InputError, write_atomically
from marey.picture import describe_clip, ground_level
from marey.picture.bodies import contacts_or_detect
from marey.studio.project import MotionArchive
from marey.studio.schema import DocumentPatch

VERSION: Final = 2
MAX_FRAME_BYTES: Final = 8 << 20  # of a message from the page
ALIGNMENT: Final = 8  # so that a view of 32-bit numbers can start at every array
KINDS: Final = {"f": "f4", "i": "i4", "u": "u1", "b": "u1"}  # of numpy -> of the wire
BLOCK_FRAMES: Final = 1024
Floats = Annotated[NDArray[np.float32], "Float32Array"]  # rides behind the header as raw little-endian numbers
Arrays = Annotated[dict[str, Any], "Record<string, NumberArray>"]
PlainTable = Annotated[dict[str, Any], "Record<string, unknown>"]
Identifier = Annotated[str, Meta(max_length=120)]
DragPhase = Literal["begin", "move", "end"]
JobState = Literal["waiting", "running", "done", "failed", "cancelled"]
Level = Literal["info", "warning", "error"]


class ClientMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="t"):
    """Sent by the page."""


class ServerMessage(msgspec.Struct, frozen=True, tag_field="t"):
    """Sent by the server."""


class HelloMessage(ClientMessage, tag="hello", frozen=True):
    """First message of a page, and again where a number of the sequence is missing: asks for `welcome`."""

    version: int
    token: Identifier | None = None


class CommandMessage(ClientMessage, tag="command", frozen=True):
    """Change the document by one of the commands; the answer is a `patch` to all, or `refused`."""

    id: Identifier
    name: Identifier
    args: PlainTable


class UndoMessage(ClientMessage, tag="undo", frozen=True):
    """Undo the last command; or redo the one that was undone last."""

    redo: bool = False


class StartMessage(ClientMessage, tag="start", frozen=True):
    """Run a tool of kind `job` on a take; the result is a new take, or the new result of the take ``into``."""

    id: Identifier
    tool: Identifier
    take: Identifier
    settings: PlainTable
    into: Identifier = ""
    seed: Annotated[int, Meta(ge=0, le=2**53)] = 0


class CancelMessage(ClientMessage, tag="cancel", frozen=True):
    """End a job."""

    job: Identifier


class DragMessage(ClientMessage, tag="drag", frozen=True):
    """Position ``n`` of the pointer for a tool of kind `drag`, or controls of a `live` one; `end` makes one command."""

    channel: Identifier
    phase: DragPhase
    tool: Identifier
    args: PlainTable
    n: int = 0


class WantMessage(ClientMessage, tag="want", frozen=True):
    """Ask for the header of a clip (``count`` is 0), or for blocks that hold ``count`` frames from ``first``."""

    hash: Identifier
    first: Annotated[int, Meta(ge=0)] = 0
    count: Annotated[int, Meta(ge=0)] = 0


class AskMessage(ClientMessage, tag="ask", frozen=True):
    """Ask a tool of kind `ask`; comes back as `answer` or `refused` with the same id."""

    id: Identifier
    what: Identifier
    args: PlainTable


class JobMessage(ServerMessage, tag="job", frozen=True):
    """State of a job, to every page of the project.

    ``result`` while it runs: ``{partial: hash, partials: {name: hash}, ways}``; at the end ``{take, takes,
    clips, table, text, report, files: [{name, size, url}]}``, those that there are.
    """

    id: str
    tool: str
    take: str
    state: JobState
    fraction: float
    left_s: float | None
    sentence: str
    result: PlainTable
    fix: str = ""


class WelcomeMessage(ServerMessage, tag="welcome", frozen=True):
    """The whole document, and what runs; ``undo`` and ``redo`` name what the next step back and forth would do."""

    version: int
    seq: int
    project: Annotated[dict[str, Any], "ProjectDocument"]
    tools: tuple[Annotated[dict[str, Any], "ToolDescription"], ...]
    jobs: tuple[JobMessage, ...]
    undo: str | None
    redo: str | None


class PatchMessage(ServerMessage, tag="patch", frozen=True):
    """The document has changed; ``seq`` counts by one. ``id`` is that of the command, for the page that sent it."""

    seq: int
    label: str
    patches: tuple[DocumentPatch, ...]
    undo: str | None
    redo: str | None
    id: str = ""


class RefusedMessage(ServerMessage, tag="refused", frozen=True):
    """A message of the page was not followed: why, and what would help. ``id`` is empty where it had none."""

    id: str
    sentence: str
    fix: str


class ClipMessage(ServerMessage, tag="clip", frozen=True):
    """Header of a clip: joints, parents, sides, frames, rate_hz, capsules, contacts, bands, facts; no motion yet."""

    hash: str
    header: PlainTable
    arrays: Arrays  # offsets (J, 3), shapes (S, 8)


class BlockMessage(ServerMessage, tag="block", frozen=True):
    """Frames of a clip from ``first`` on."""

    hash: str
    first: int
    roots: Floats  # (n, 3)
    rotations: Floats  # (n, J, 4) xyzw
    translations: Floats | None = None  # (n, J, 3) where bones change their length


class FrameMessage(ServerMessage, tag="frame", frozen=True):
    """Answer to the newest `drag`, or one step of a live session; rotations are xyzw."""

    channel: str
    n: int
    arrays: Arrays
    facts: PlainTable


class AnswerMessage(ServerMessage, tag="answer", frozen=True):
    """Answer to `ask`."""

    id: str
    value: Any
    arrays: Arrays


class ToastMessage(ServerMessage, tag="toast", frozen=True):
    """A sentence for people."""

    level: Level
    sentence: str
    fix: str


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


def make_header(store: MotionArchive, key: str) -> bytes:
    """Frame with everything of a clip but its frames.

    It is kept beside the motion: detecting the contacts of a take of an hour costs seconds.
    """
    kept = store.find(key).with_suffix(f".header{VERSION}")
    if kept.is_file():
        return kept.read_bytes()
    motion = store.get(key)
    motion = replace(motion, contacts=contacts_or_detect(motion))
    assert motion.contacts is not None
    header: dict[str, Any] = describe_clip(motion, {}, lambda array: np.asarray(array, np.float32))
    arrays = {"offsets": header.pop("offsets"), "shapes": header["capsules"].pop("shapes")}
    header |= {
        "frames": motion.num_frames,
        "has_translations": motion.translations is not None,
        "ground_m": ground_level(motion, motion.contacts),
    }
    frame = encode_frame(ClipMessage(key, header, arrays))
    write_atomically(kept, frame)
    return frame


def cut_blocks(store: MotionArchive, key: str, first: int, count: int) -> Iterator[BlockMessage]:
    """Blocks that hold the frames asked for; each starts at a multiple of :data:`BLOCK_FRAMES`."""
    motion = store.get(key)
    if first >= motion.num_frames:
        raise InputError(f"frame {first} of a motion of {motion.num_frames}", "Ask for one that there is")
    for start in range(first - first % BLOCK_FRAMES, min(first + count, motion.num_frames), BLOCK_FRAMES):
        frames = slice(start, start + BLOCK_FRAMES)
        moving = None if motion.translations is None else motion.translations[frames].astype(np.float32)
        rotations = np.roll(motion.rotations.wxyz[frames], -1, axis=-1).astype(np.float32)
        yield BlockMessage(key, start, motion.root_positions[frames].astype(np.float32), rotations, moving)
