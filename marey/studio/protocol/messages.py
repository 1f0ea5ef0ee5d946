"""Every message between the studio's page and its server: one definition for both sides.

``web/src/protocol/messages.gen.ts`` is generated from here. Raise :data:`VERSION` with every change that an older page
would misread; page and server of different versions refuse each other in words.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from marey.studio.project.patches import DocumentPatch

VERSION: Final = 2

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
