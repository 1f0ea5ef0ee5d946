"""Motions of a project by their content: a file a motion, named by the SHA-256 of its bytes, never changed."""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from marey.base import InputError, TensorFormat, WriteError
from marey.io import read_clip, write_clip
from marey.motion import Motion

CACHE_BYTES: Final = 512 << 20  # of motions kept in memory
SUFFIX: Final = ".safetensors"
ARRAYS: Final = TensorFormat("marey-arrays", "file of arrays", 1, "Import the file again.")


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
