"""Files that are there whole or not at all: flush, rename, flush the folder; and a lock that dies with its process."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from pathlib import Path


def flush_file(path: Path) -> None:
    """Return when the file's content is on the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """Return when the names in a folder are on the disk; a system that cannot open folders does it by itself."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that its name appears only when all of it is on the disk."""
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def move_durably(path: Path, target: Path) -> None:
    """Rename within the library, so that the new name survives a power cut."""
    target.parent.mkdir(parents=True, exist_ok=True)
    path.replace(target)
    flush_folder(target.parent)


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
