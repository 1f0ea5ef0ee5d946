"""A project in its folder: an archive of motions, a journal, and the document with its one list of undo.

A motion is a file named by the SHA-256 of its bytes, and never changed. A change of the document is in the journal, on
the disk, before anybody hears of it.

::

    project.json   the document at some number of the sequence, with its lists of undo and redo
    journal.txt    one line for every change after it: CRC-32 and the change as JSON

A line that is cut or damaged ends the journal: it was being written when the power went. Lines up to the number of
``project.json`` were left by a run that died between writing it and emptying the journal; they are skipped.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import sqlite3
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from numpy.typing import NDArray

from marey.base import FormatError, InputError, TensorFormat, WriteError, write_atomically
from marey.io import read_clip, write_clip
from marey.library import ProcessLock
from marey.motion import Motion
from marey.studio.commands import ProjectCommand
from marey.studio.schema import DocumentPatch, Tree, apply_patches, check_project, empty_project

CACHE_BYTES: Final = 512 << 20  # of motions kept in memory
SUFFIX: Final = ".safetensors"
ARRAYS: Final = TensorFormat("marey-arrays", "file of arrays", 1, "Import the file again.")
SNAPSHOT: Final = "project.json"
JOURNAL: Final = "journal.txt"
MOST_STEPS: Final = 1000  # that can be undone
COMPACT_BYTES: Final = 4 << 20  # of journal, before the document is written whole
_HASH: Final = re.compile(rb"\b[0-9a-f]{64}\b")
Act = Literal["command", "amend", "undo", "redo"]


class MotionArchive:
    """The folder of motions; safe to use from several threads and processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._cache: OrderedDict[str, Motion] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, motion: Motion) -> str:
        """Keep a motion; return its hash. What only the file it was read from needs is dropped."""
        return self._keep(lambda draft: write_clip(motion, draft, channels=False))

    def put_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> str:
        """Keep arrays by name, such as the skin of a character; return their hash."""
        return self._keep(lambda draft: ARRAYS.write(draft, arrays, {}))

    def get_arrays(self, key: str) -> Mapping[str, NDArray[Any]]:
        """Return arrays that were kept."""
        return ARRAYS.read(self.find(key))[0]

    def get(self, key: str) -> Motion:
        """Return a motion."""
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
        motion = read_clip(self.find(key))
        with self._lock:
            self._cache[key] = motion
            while len(self._cache) > 1 and sum(map(_count_bytes, self._cache.values())) > CACHE_BYTES:
                self._cache.popitem(last=False)
        return motion

    def sweep(self, kept: Collection[str]) -> None:
        """Delete every motion whose hash is not among those that are kept."""
        for path in self.folder.rglob("*"):
            if path.is_file() and path.stem not in kept:
                path.unlink(missing_ok=True)

    def _keep(self, write: Callable[[Path], None]) -> str:
        draft = self.folder / f".{secrets.token_hex(8)}{SUFFIX}"
        try:
            write(draft)
            with draft.open("rb+") as file:
                key = hashlib.file_digest(file, "sha256").hexdigest()
                os.fsync(file.fileno())
            path = self.folder / key[:2] / f"{key}{SUFFIX}"
            path.parent.mkdir(exist_ok=True)
            draft.replace(path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise WriteError(str(self.folder), error.strerror or str(error)) from error
        return key

    def find(self, key: str) -> Path:
        """File of a motion; what is derived from it lies beside, with other endings."""
        path = self.folder / key[:2] / f"{key}{SUFFIX}"
        if len(key) != 64 or not key.isalnum() or not path.is_file():
            raise InputError(f"there is no motion '{key[:80]}' in the project", "Reload the page")
        return path


def _count_bytes(motion: Motion) -> int:
    moving = 0 if motion.translations is None else motion.translations.nbytes
    return motion.rotations.wxyz.nbytes + motion.root_positions.nbytes + moving


class JournalRecord(msgspec.Struct, frozen=True):
    """One change: of a command its patches, of a step back or forth only that it was one."""

    seq: int
    act: Act
    label: str = ""
    patches: tuple[DocumentPatch, ...] = ()


class HistoryStep(msgspec.Struct, frozen=True):
    """One entry of the lists of undo and redo."""

    label: str
    patches: tuple[DocumentPatch, ...]
    inverse: tuple[DocumentPatch, ...]


class Snapshot(msgspec.Struct, frozen=True):
    """Content of ``project.json``."""

    seq: int
    project: dict[str, Any]
    undo: list[HistoryStep] = []
    redo: list[HistoryStep] = []


_decoder: Final = msgspec.json.Decoder(JournalRecord)


class Journal:
    """The two files of one folder, open for appending."""

    def __init__(self, folder: Path) -> None:
        self._snapshot, self._path = folder / SNAPSHOT, folder / JOURNAL
        self.size = 0  # [byte] of whole lines: the changes since the last snapshot
        self._file: Any = None

    def read(self) -> tuple[Snapshot | None, list[JournalRecord]]:
        """Return the last snapshot and the changes after it, and open the journal behind its last whole line."""
        snapshot: Snapshot | None = None
        if self._snapshot.is_file():
            try:
                snapshot = msgspec.json.decode(self._snapshot.read_bytes(), type=Snapshot)
            except (msgspec.MsgspecError, ValueError) as error:
                fix = "Move this file away; the journal beside it still holds the last changes"
                raise FormatError(f"the project cannot be read: {error}", str(self._snapshot), 0, fix) from error
        records: list[JournalRecord] = []
        last = 0 if snapshot is None else snapshot.seq
        data = self._path.read_bytes() if self._path.is_file() else b""
        for line in data.splitlines(keepends=True):
            record = _read_line(line)
            if record is None or record.seq > last + 1:
                break
            self.size += len(line)
            if record.seq == last + 1:
                records.append(record)
                last = record.seq
        rest = data[self.size :]
        if b"\n" in rest[:-1]:
            # More than the one line that was being written: a damage in the middle, kept for people to look at
            write_atomically(self._path.with_suffix(".damaged"), rest)
        self._open()
        return snapshot, records

    def append(self, record: JournalRecord) -> None:
        """Write one change; returns when it is on the disk."""
        text = msgspec.json.encode(record)
        line = b"%08x %s\n" % (zlib.crc32(text), text)
        try:
            self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            self._open()
            raise WriteError(str(self._path), error.strerror or str(error)) from error
        self.size += len(line)

    def compact(self, snapshot: Snapshot) -> None:
        """Write the whole document, and empty the journal."""
        write_atomically(self._snapshot, msgspec.json.encode(snapshot))
        self.size = 0
        self._open()

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> None:
        """Open the file anew, and cut what lies behind the last whole line."""
        self.close()
        self._file = self._path.open("ab", buffering=0)
        self._file.truncate(self.size)
        os.fsync(self._file.fileno())


def _read_line(line: bytes) -> JournalRecord | None:
    """Return the change of a line, None when it is not whole."""
    if not line.endswith(b"\n") or len(line) < 10:
        return None
    text = line[9:-1]
    try:
        return _decoder.decode(text) if line[:9] == b"%08x " % zlib.crc32(text) else None
    except (ValueError, msgspec.MsgspecError):
        return None


class DocumentChange(msgspec.Struct, frozen=True):
    """What every page must hear of one change."""

    seq: int
    label: str
    patches: tuple[DocumentPatch, ...]


class Project:
    """The document of a folder; one process holds it at a time."""

    def __init__(self, folder: str | Path, *, name: str | None = None) -> None:
        """Open a folder, which need not exist, as of the last command."""
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = ProcessLock(self.folder / "lock.sqlite")
        except (OSError, sqlite3.Error) as error:
            raise WriteError(str(self.folder), str(error)) from error
        if not self._lock.acquire():
            raise InputError(f"another studio has '{self.folder}' open", "Close it, or open another folder")
        self.store = MotionArchive(self.folder / "motions")
        self._journal = Journal(self.folder)
        snapshot, records = self._journal.read()
        self.is_new = snapshot is None and not records
        if snapshot is None:
            snapshot = Snapshot(0, empty_project(name or self.folder.name or "Untitled"))
        self.tree: Tree = check_project(snapshot.project)
        self.seq = snapshot.seq
        self._undo, self._redo = list(snapshot.undo), list(snapshot.redo)
        for record in records:
            self._follow(record)
        self.compact()
        # Motions that neither the document nor its history names are left over from jobs
        text = msgspec.json.encode(Snapshot(self.seq, self.tree, self._undo, self._redo))
        self.store.sweep({name.decode() for name in _HASH.findall(text)})

    def run(self, commands: ProjectCommand | Sequence[ProjectCommand], *, label: str = "") -> DocumentChange:
        """Carry out a command, or several as one step of undo; it is on the disk when this returns."""
        steps = [commands] if isinstance(commands, ProjectCommand) else list(commands)
        tree = self.tree
        patches = steps[0].compile(tree)
        for before, command in pairwise(steps):
            # Each is compiled on what the ones before it leave
            tree, _ = apply_patches(tree, before.compile(tree))
            patches += command.compile(tree)
        if not patches:
            raise InputError("this changes nothing", "Give at least one change")
        return self._write("command", label or steps[0].label, tuple(patches))

    def amend(self, command: ProjectCommand) -> DocumentChange:
        """Add what the server made of the last step to it: no step of its own in the list of undo."""
        patches = tuple(command.compile(self.tree))
        return self._write("amend" if self._undo else "command", command.label, patches)

    def undo(self) -> DocumentChange | None:
        """Take the last step back; None when there is none."""
        return self._write("undo", self._undo[-1].label, self._undo[-1].inverse) if self._undo else None

    def redo(self) -> DocumentChange | None:
        """Do again what was taken back last; None when there is nothing."""
        return self._write("redo", self._redo[-1].label, self._redo[-1].patches) if self._redo else None

    @property
    def undo_label(self) -> str | None:
        """What :meth:`undo` would take back."""
        return self._undo[-1].label if self._undo else None

    @property
    def redo_label(self) -> str | None:
        """What :meth:`redo` would do again."""
        return self._redo[-1].label if self._redo else None

    def compact(self) -> None:
        """Write the document whole and empty the journal."""
        self._journal.compact(Snapshot(self.seq, self.tree, self._undo, self._redo))

    def forget_history(self) -> None:
        """Begin the list of undo here."""
        self._undo.clear()
        self._redo.clear()
        self.compact()

    def close(self) -> None:
        """Write the document whole, and let go of the folder."""
        self.compact()
        self._journal.close()
        self._lock.release()

    def _write(self, act: Act, label: str, patches: tuple[DocumentPatch, ...]) -> DocumentChange:
        # What does not apply is refused before it is written
        tree, inverse = apply_patches(self.tree, patches)
        self._journal.append(JournalRecord(self.seq + 1, act, label, patches if act in ("command", "amend") else ()))
        self._commit(act, HistoryStep(label, patches, inverse), tree)
        if self._journal.size > COMPACT_BYTES:
            # The change is on the disk: a snapshot that fails must not look as if it were not
            with suppress(WriteError):
                self.compact()
        return DocumentChange(self.seq, label, patches)

    def _follow(self, record: JournalRecord) -> None:
        """Carry out a record of the journal, as it was carried out when it was written."""
        patches = record.patches
        if record.act in ("undo", "redo"):
            patches = self._undo[-1].inverse if record.act == "undo" else self._redo[-1].patches
        tree, inverse = apply_patches(self.tree, patches)
        self._commit(record.act, HistoryStep(record.label, patches, inverse), tree)

    def _commit(self, act: Act, step: HistoryStep, tree: Tree) -> None:
        """Take a new tree, and move along the lists of undo and redo."""
        self.tree, self.seq = tree, self.seq + 1
        if act == "undo":
            self._redo.append(self._undo.pop())
            return
        if act == "amend":
            last = self._undo.pop()
            step = HistoryStep(last.label, last.patches + step.patches, step.inverse + last.inverse)
        elif act == "redo":
            self._redo.pop()
        else:
            self._redo.clear()
        self._undo.append(step)
        del self._undo[:-MOST_STEPS]


def find_hash(tree: Tree, key: str) -> str:
    """Hash of the motion of a clip or take of a document."""
    if key in tree["clips"]:
        return tree["clips"][key]["hash"]
    if key not in tree["takes"]:
        raise InputError(f"the project has no clip or take '{key}'", "It may have been removed meanwhile")
    take = tree["takes"][key]
    # Without a result its layers and edits are being put on, and the motion below stands for it
    if found := take["result"] or take["base"]:
        return found
    if take["recipe"] is None and take["clip"] in tree["clips"]:
        return tree["clips"][take["clip"]]["hash"]
    raise InputError(f"the take '{take['name']}' has no motion yet", "Run its tool first")
