"""Journal of a project: every change is on the disk before anybody hears of it.

::

    project.json   the document at some number of the sequence, with its lists of undo and redo
    journal.txt    one line for every change after it: CRC-32 and the change as JSON

A line that is cut or damaged ends the journal: it was being written when the power went. Lines up to the number of
``project.json`` were left by a run that died between writing it and emptying the journal; they are skipped.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from marey.base import FormatError, WriteError, write_atomically
from marey.studio.project.patches import DocumentPatch

SNAPSHOT: Final = "project.json"
JOURNAL: Final = "journal.txt"

Act = Literal["command", "amend", "undo", "redo"]


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
        self._size = 0  # [byte] of whole lines
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
            self._size += len(line)
            if record.seq == last + 1:
                records.append(record)
                last = record.seq
        rest = data[self._size :]
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
        self._size += len(line)

    def compact(self, snapshot: Snapshot) -> None:
        """Write the whole document, and empty the journal."""
        write_atomically(self._snapshot, msgspec.json.encode(snapshot))
        self._size = 0
        self._open()

    @property
    def size(self) -> int:
        """Bytes of changes since the last snapshot."""
        return self._size

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> None:
        """Open the file anew, and cut what lies behind the last whole line."""
        self.close()
        self._file = self._path.open("ab", buffering=0)
        self._file.truncate(self._size)
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
