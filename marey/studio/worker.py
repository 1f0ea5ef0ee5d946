"""The program of a worker process: takes one run after another, tells its progress, writes what it made.

A tool gets a context: the document, motions of the project, uploaded files, a way to tell how far it is.

Messages on stdin and stdout are msgpack, each behind its length (uint32 LE). The end of stdin is the end of the server:
the process leaves at once, whatever it is doing.
"""

from __future__ import annotations

import os
import queue
import signal
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Final, cast

import msgspec
import numpy as np

from marey.base import FormatError, InputError, MareyError, UnknownNameError
from marey.io import load_character
from marey.motion import Motion
from marey.pipeline import edit_motion
from marey.pipeline.tools import Tool
from marey.studio.project import MotionArchive, find_hash
from marey.studio.protocol import make_header
from marey.studio.schema import Tree

HASH_LENGTH: Final = 64  # of the name of a motion in the archive
PROGRESS_S: Final = 0.1  # [s] between two messages of progress


class RunContext:
    """The tool's view of a run; a ToolContext."""

    def __init__(
        self,
        project: Tree,
        store: MotionArchive,
        uploads: Path,
        *,
        seed: int = 0,
        tell: Callable[[float, str, Tree], None] | None = None,
        show: Callable[[str, str], None] | None = None,
    ) -> None:
        """Prepare a run."""
        self.project: Mapping[str, Any] = project
        self.seed = seed
        self._store, self._uploads = store, uploads
        self._tell, self._show = tell, show
        self.cancelled = False  # whoever cancels a run of the studio ends its process

    def motion(self, key: str) -> Motion:
        """Motion of a clip or take, with the layers and edits of the take; or of a hash that a page shows."""
        if len(key) == HASH_LENGTH and key not in self.project["takes"] and key not in self.project["clips"]:
            return self._store.get(key)
        take = self.project["takes"].get(key)
        if take is not None and take["result"] is None and take["base"] is not None:
            return edit_motion(self._store.get(take["base"]), take["layers"], take["edits"])
        return self._store.get(find_hash(cast(Tree, self.project), key))

    def file(self, key: str) -> str:
        """Path of an uploaded file."""
        files = list((self._uploads / key).iterdir()) if key.isalnum() and (self._uploads / key).is_dir() else []
        if not files:
            raise InputError(f"there is no uploaded file '{key[:80]}'", "Drop the file again")
        return str(files[0])

    def progress(self, fraction: float, sentence: str, **facts: Any) -> None:
        """Say how far the run is, and what can be drawn of it."""
        if self._tell is not None:
            self._tell(min(max(float(fraction), 0.0), 1.0), sentence, facts)

    def partial(self, motion: Motion) -> None:
        """Show a motion before the end."""
        if self._show is not None:
            self._show(self._store.put(motion), motion.name)


def list_tools() -> Mapping[str, Tool]:
    """The tools by id; those of :mod:`marey.studio.tools`."""
    from marey.studio.tools import TOOLS

    return TOOLS


def find_tool(name: str, *kinds: str) -> Tool:
    """Return a tool of one of these kinds, or of any where none is given."""
    known = {key: tool for key, tool in list_tools().items() if not kinds or tool.kind in kinds}
    if name not in known:
        raise UnknownNameError("tool", name, "the studio", known)
    return known[name]


def main() -> None:
    """Answer requests until stdin closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints goes to stderr, not between the answers
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def listen() -> None:
        while len(head := sys.stdin.buffer.read(4)) == 4:
            requests.put(msgspec.msgpack.decode(sys.stdin.buffer.read(struct.unpack("<I", head)[0])))
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        _answer(requests.get(), answers)


def pack_packet(message: Any) -> bytes:
    """Bytes of a message; numbers and arrays of numpy and other sequences become plain."""

    def simplify(value: Any) -> Any:
        if hasattr(value, "tolist"):
            return value.tolist()
        return dict(cast(Mapping[str, Any], value)) if isinstance(value, Mapping) else str(value)

    data = msgspec.msgpack.encode(message, enc_hook=simplify)
    return struct.pack("<I", len(data)) + data


def make_plain(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report of a tool as plain data."""
    return msgspec.msgpack.decode(pack_packet(dict(report))[4:])


def _answer(request: Mapping[str, Any], answers: IO[bytes]) -> None:
    """Carry out one run; the last message is ``done`` or ``failed``."""
    folder = Path(request["folder"])
    store = MotionArchive(folder / "motions")
    last_s = 0.0

    def send(**message: Any) -> None:
        answers.write(pack_packet(message))
        answers.flush()

    def tell(fraction: float, sentence: str, facts: dict[str, Any]) -> None:
        nonlocal last_s
        if facts or time.monotonic() - last_s >= PROGRESS_S or fraction >= 1.0:
            last_s = time.monotonic()
            send(event="progress", fraction=fraction, sentence=sentence, facts=facts)

    context = RunContext(
        request["project"], store, folder / "uploads", seed=request["seed"], tell=tell,
        show=lambda key, name: send(event="partial", hash=key, name=name),
    )  # fmt: skip
    try:
        tool, settings = find_tool(request["tool"]), request["settings"]
        result = tool.make(context, settings)
        # The motions and files of the result are written; the server is told what it needs to know of them
        target = folder / "files" / request["job"]
        files: list[dict[str, Any]] = []
        for number, (title, data) in enumerate(result.files.items()):
            target.mkdir(parents=True, exist_ok=True)
            (target / str(number)).write_bytes(data)
            files.append({"name": title, "size": len(data)})
        kept = {
            "motion": None if result.motion is None else describe_motion(result.motion, store),
            "motions": [describe_motion(motion, store) | {"name": title} for title, motion in result.motions.items()],
            "table": list(result.table),
            "text": result.text,
            "report": result.report,
            "files": files,
        }
        uploads = [settings[one.name] for one in tool.parameters if one.kind == "file" and settings.get(one.name)]
        if result.motion is not None or result.motions:
            for key in uploads:
                keep_skin(context.file(key), kept, store)
        send(event="done", **kept)
    except Exception as error:
        if not isinstance(error, MareyError):
            traceback.print_exc()
        send(event="failed", **explain(error))


def explain(error: BaseException) -> dict[str, str]:
    """Sentence and advice of an error."""
    if isinstance(error, FormatError | InputError):
        return {"sentence": error.what, "fix": error.fix}
    if isinstance(error, MareyError):
        return {"sentence": str(error), "fix": ""}
    if isinstance(error, MemoryError):
        return {"sentence": "the memory did not suffice", "fix": "Choose a shorter range"}
    return {"sentence": f"an unexpected {type(error).__name__}: {error}", "fix": "Please report it, with the file"}


def describe_motion(motion: Motion, store: MotionArchive) -> dict[str, Any]:
    """Keep a motion and its header for pages; return what the document says of it."""
    report, source = motion.load_report, motion.source
    key = store.put(motion)
    make_header(store, key)
    return {
        "name": motion.name,
        "hash": key,
        "source": "" if source is None else Path(source.path).name,
        "frames": motion.num_frames,
        "rate_hz": motion.rate_hz,
        "notes": [*report.warnings, *report.notes],
        "contacts": [] if motion.contacts is None else list(motion.contacts.names),
        "joints": list(motion.skeleton.names),
        "parents": motion.skeleton.parents.tolist(),
        "skeleton": motion.skeleton.name,
    }


def keep_skin(path: str, kept: dict[str, Any], store: MotionArchive) -> None:
    """Keep the skin of an uploaded character, for the motions that are on its skeleton."""
    try:
        character = load_character(path)
    except (MareyError, ImportError):
        return  # a file without a mesh
    skeleton = character.skeleton
    owned = [one for one in (kept["motion"], *kept["motions"]) if one and one["joints"] == list(skeleton.names)]
    if not owned:
        return
    # The rest pose has no rotations: a joint's frame is its place
    inverse_bind = np.tile(np.eye(4, dtype=np.float32), (skeleton.num_joints, 1, 1))
    inverse_bind[:, :3, 3] = -skeleton.rest_positions()
    mesh = store.put_arrays(
        {
            "vertices": character.vertices.astype(np.float32),
            "faces": character.triangles.astype(np.int32),
            "carriers": character.joints.astype(np.int32),
            "weights": character.weights.astype(np.float32),
            "colours": character.colours.astype(np.float32),
            "inverse_bind": inverse_bind,
        }
    )
    for one in owned:
        one |= {"mesh": mesh, "skeleton": character.name}


if __name__ == "__main__":
    main()
