"""The folder of a library: where clips, unfinished work and damaged files lie, and how a killed run is put right.

::

    catalogue.sqlite        one row a clip
    clips/ab/abcd….safetensors   one file a clip, named by the address of its motion
    incoming/<run>/         clips of a run that are not in the catalogue yet, each with its row as JSON
    incoming/<run>.lock     held while that run lives
    trash/                  clips on their way out
    damaged/                what `verify` with repair moved aside

A clip goes from ``incoming`` to ``clips`` and into the catalogue under one write lock. So whatever another process
sees in ``clips`` or ``trash`` while it holds that lock was left by a process that is gone. Files appear whole or not
at all: flush, rename, flush the folder; a lock dies with its process.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from marey.base import MareyError, write_atomically
from marey.library.catalogue import Catalogue
from marey.library.records import AddOutcome, ClipRecord, IngestJob
from marey.library.survey import CATALOGUE_NAME


def move_durably(path: Path, target: Path) -> None:
    """Rename within the library, so that the new name survives a power cut."""
    target.parent.mkdir(parents=True, exist_ok=True)
    path.replace(target)
    # When the names in a folder are on the disk; a system that cannot open folders does it by itself
    try:
        handle = os.open(target.parent, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class ProcessLock:
    """An exclusive lock on a small file, let go by the system when its process ends, however it ends.

    It is the lock of an sqlite transaction, which behaves the same on every system.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = sqlite3.connect(path, timeout=0.0, isolation_level=None, check_same_thread=False)

    def acquire(self) -> bool:
        """Take the lock; say whether it was free."""
        try:
            self._db.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error:
            return False
        return True

    def release(self, *, forget: bool = False) -> None:
        """Let go and close; with ``forget``, delete the file too."""
        self._db.close()
        if forget:
            self.path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class StagedClip:
    """A clip that a worker has written to ``incoming``: everything the catalogue needs to take it in."""

    job: IngestJob
    record: ClipRecord
    signature: bytes
    stamp: str  # of the file it was read from

    def to_json(self) -> bytes:
        """Text form, for the worker's answer and for the note beside the unfinished clip."""
        return json.dumps(asdict(self) | {"signature": self.signature.hex()}).encode()

    @classmethod
    def from_json(cls, data: bytes | str) -> StagedClip:
        """Undo :meth:`to_json`."""
        values = cast(dict[str, Any], json.loads(data))
        # JSON has made lists of tuples
        parts: dict[str, dict[str, Any]] = {
            part: {key: tuple(cast(list[Any], v)) if isinstance(v, list) else v for key, v in values[part].items()}
            for part in ("job", "record")
        }
        job, record = IngestJob(**parts["job"]), ClipRecord(**parts["record"])
        return cls(job, record, bytes.fromhex(values["signature"]), values["stamp"])


@dataclass(frozen=True, slots=True)
class StagedFile:
    """What a worker made of one file: its takes as staged clips, and those that could not be."""

    clips: tuple[StagedClip, ...] = ()
    refused: tuple[AddOutcome, ...] = ()

    def to_json(self) -> str:
        """Text form, one line: the worker's answer."""
        clips = [clip.to_json().decode() for clip in self.clips]
        return json.dumps({"clips": clips, "refused": [asdict(outcome) for outcome in self.refused]})

    @classmethod
    def from_json(cls, line: str) -> StagedFile:
        """Undo :meth:`to_json`."""
        values = cast(dict[str, Any], json.loads(line))
        clips = tuple(StagedClip.from_json(clip) for clip in values["clips"])
        return cls(clips, tuple(AddOutcome(**outcome) for outcome in values["refused"]))


def take_path(clip_file: Path, number: int) -> Path:
    """Where the clip of one take of a file is staged, by its number."""
    return clip_file.with_stem(f"{clip_file.stem}-{number}") if number else clip_file


class Store:
    """Paths and moves inside one library folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clips, self.incoming = folder / "clips", folder / "incoming"
        self.trash, self.damaged = folder / "trash", folder / "damaged"
        for inner in (folder, self.clips, self.incoming):
            inner.mkdir(parents=True, exist_ok=True)
        self.catalogue = Catalogue(folder / CATALOGUE_NAME)
        self.recover()

    def clip_path(self, clip_id: str) -> Path:
        """Where the clip of an address lies."""
        return self.clips / clip_id[:2] / f"{clip_id}.safetensors"

    @contextmanager
    def run(self) -> Generator[Path]:
        """A folder of its own for one adding run, removed at its end; locked, so that no other run tidies it up."""
        # A name that no other run has
        folder = self.incoming / uuid.uuid4().hex
        with self.catalogue.writing():  # see `recover`: a lock file is never seen before it is locked
            lock = ProcessLock(folder.with_suffix(".lock"))
            lock.acquire()
            folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            lock.release(forget=True)

    def take_in(self, staged: StagedClip, clip_file: Path, *, num_takes: int | None = None) -> AddOutcome:
        """Move a staged clip to its place and write its row, both or neither.

        Args:
            staged: the clip.
            clip_file: where it lies.
            num_takes: how many takes its file has, with the last of them: the next run skips the file then.
        """
        # The look-up is done before the lock; inside, only if another process has written since
        version = self.catalogue.data_version()
        known = self.catalogue.same_motion(staged.record, staged.signature)
        try:
            with self.catalogue.writing():
                if self.catalogue.data_version() != version:
                    known = self.catalogue.same_motion(staged.record, staged.signature)
                outcome = self._take_in(staged, clip_file, known, num_takes)
            # What is in, or was in already, needs its draft and its note no longer
            for left in (clip_file, clip_file.with_suffix(".json")):
                left.unlink(missing_ok=True)
            return outcome
        except BaseException:
            with contextlib.suppress(MareyError), self.catalogue.writing():
                if not self.catalogue.has(staged.record.id):
                    self.clip_path(staged.record.id).unlink(missing_ok=True)
            raise

    def _take_in(self, staged: StagedClip, clip_file: Path, known: str | None, num_takes: int | None) -> AddOutcome:
        # The row first: a failure while the file moves rolls it back
        job, record = staged.job, staged.record
        if known is None:
            self.catalogue.insert(record, staged.signature)
            if clip_file.exists():
                move_durably(clip_file, self.clip_path(record.id))
        else:
            self.catalogue.tag(known, record.tags)
        self.catalogue.note_source(job, staged.stamp, known or record.id, num_takes)
        if known is None:
            return AddOutcome(job.path, "added", record.id, take=job.take)
        how = "the same motion" if known == record.id else "the same motion but for rounding"
        return AddOutcome(job.path, "duplicate", known, f"{how} as clip {known[:12]}", take=job.take)

    def take_out(self, clip_id: str) -> None:
        """Remove a clip: its file goes to ``trash`` and its row goes, both or neither; then the file is deleted."""
        waiting = self.trash / f"{clip_id}.safetensors"
        try:
            with self.catalogue.writing():
                if self.clip_path(clip_id).exists():
                    move_durably(self.clip_path(clip_id), waiting)
                self.catalogue.delete(clip_id)
        finally:
            self._empty_trash()

    def set_aside(self, clip_id: str) -> Path:
        """Move a damaged clip out of the way and drop its row; nothing is deleted."""
        target = self.damaged / f"{clip_id}.safetensors"
        with self.catalogue.writing():
            if self.clip_path(clip_id).exists():
                move_durably(self.clip_path(clip_id), target)
            self.catalogue.delete(clip_id)
        return target

    # ---- after a crash

    def recover(self) -> None:
        """Finish or undo what killed runs left behind; does nothing, and locks nothing, when there is nothing."""
        if any(self.incoming.iterdir()):
            # Runs whose lock is free belong to processes that are gone
            dead = list[ProcessLock]()
            try:
                with self.catalogue.writing():
                    for folder in sorted({path.with_suffix("") for path in self.incoming.iterdir()}):
                        lock = ProcessLock(folder.with_suffix(".lock"))
                        if not lock.acquire():
                            lock.release()
                            continue
                        # Take in clips whose note is complete: it is written after the clip, so the clip is whole
                        for note in sorted(folder.glob("*.json")):
                            with contextlib.suppress(ValueError, KeyError, TypeError):
                                staged = StagedClip.from_json(note.read_bytes())
                                clip_file = note.with_suffix(".safetensors")
                                if clip_file.exists() or self.clip_path(staged.record.id).exists():
                                    known = self.catalogue.same_motion(staged.record, staged.signature)
                                    self._take_in(staged, clip_file, known, None if staged.job.take else 1)
                        dead.append(lock)
                for lock in dead:  # only now, when the adopted rows are committed
                    shutil.rmtree(lock.path.with_suffix(""), ignore_errors=True)
            finally:
                for lock in dead:
                    lock.release(forget=not lock.path.with_suffix("").exists())
        if self.trash.is_dir() and any(self.trash.iterdir()):
            self._empty_trash()

    def _empty_trash(self) -> None:
        with self.catalogue.writing():
            # A row that is still there means that the removal did not happen
            kept = self.catalogue.ids()
            for path in self.trash.glob("*.safetensors"):
                if path.stem in kept:  # the row was not deleted: the clip stays
                    move_durably(path, self.clip_path(path.stem))
                else:
                    path.unlink(missing_ok=True)


def write_note(staged: StagedClip, clip_file: Path) -> None:
    """Write the note that lets another process take in the clip if this run is killed."""
    write_atomically(clip_file.with_suffix(".json"), staged.to_json())
