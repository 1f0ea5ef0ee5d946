"""Where compiled kernels are kept on disk: folders with one file per kernel, stamp and signature.

New machine code goes to one writable folder, the user's. Code is also read from the folder of the environment
(``share/marey/kernels`` below ``sys.prefix``), which ``marey warm-up --environment`` fills when an image or a shared
installation is made, and from a folder of the user that may no longer be written.

The name of a file holds the stamp, so several versions of the product (a checkout, a wheel, a branch) share the folder
without disturbing one another. numba adds its own version, the processor and the signature to the key.

Processes that share the folder compile a kernel once: the second waits for the first and reads what it made. So several
commands, or the workers of a test run, fill the folder together.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sys
import tempfile
import time
import warnings
from functools import cache
from pathlib import Path
from typing import Any, cast

from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile

from marey.base.errors import MareyWarning
from marey.base.files import cache_folder

try:
    import fcntl
except ImportError:  # no such locks on Windows: there each process compiles for itself
    fcntl = None

FOLDER_VARIABLE = "MAREY_KERNEL_CACHE"
MAX_WAIT_S, POLL_S = 120.0, 0.05  # [s] for another process that compiles the same kernel; then it is compiled here too
UNUSED_DAYS = 30.0  # versions of a kernel that were not loaded for this long are removed when a new one is written


def enable_cache(dispatcher: Any, *stamps: str) -> None:
    """Let ``dispatcher`` keep its machine code on disk under the first of ``stamps``, and read that of the others too.

    Without a folder it compiles anew.
    """
    folder, others = kernel_folder(), readable_folders()
    if folder is not None or others:
        dispatcher._cache = _StampedCache(dispatcher.py_func, stamps, folder, others)


def environment_folder() -> Path:
    """Return the folder of the environment's own compiled kernels; it need not exist."""
    return Path(sys.prefix) / "share" / "marey" / "kernels"


def _own_folders() -> list[Path]:
    """Folders of this user: ``MAREY_KERNEL_CACHE``, then the user's cache."""
    user = cache_folder() / "kernels"
    return [Path(own), user] if (own := os.environ.get(FOLDER_VARIABLE)) else [user]


@cache
def readable_folders() -> tuple[Path, ...]:
    """Return the folders that are only read: those of the user before the writable one, and the environment's."""
    own, writable = _own_folders(), kernel_folder()
    folders = [*(own if writable is None else own[: own.index(writable)]), environment_folder()]
    readable = [folder for folder in folders if folder != writable and os.access(folder, os.R_OK | os.X_OK)]
    return tuple(folder for folder in readable if any(folder.iterdir()))


@cache
def kernel_folder() -> Path | None:
    """Return the first folder of the user that is writable, or None where there is none."""
    for folder in _own_folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError:
            continue
        return folder
    warnings.warn(
        f"no folder is writable for compiled code, so each run compiles what it finds nowhere. Set {FOLDER_VARIABLE} "
        "to a writable one.",
        MareyWarning,
        stacklevel=2,
    )
    return None


@cache
def _open_locks(folder: Path) -> int:
    """Open the file whose bytes are locks, one for each kernel; it stays open, since closing it frees them all."""
    return os.open(folder / "locks", os.O_RDWR | os.O_CREAT, 0o666)


def _set_lock(folder: Path, byte: int, *, is_held: bool) -> bool:
    """Take or free the lock of one kernel; False if another process holds it. A folder without locks locks nothing."""
    try:
        file = _open_locks(folder)
    except OSError:
        file = None
    if fcntl is not None and file is not None:
        mode = fcntl.LOCK_EX | fcntl.LOCK_NB if is_held else fcntl.LOCK_UN
        try:
            fcntl.lockf(file, mode, 1, byte)
        except OSError as error:
            return error.errno not in (errno.EACCES, errno.EAGAIN)
    return True


def free_locks() -> None:
    """Free all locks of this process: what was to be compiled failed."""
    folder = kernel_folder()
    if fcntl is not None and folder is not None:
        try:
            fcntl.lockf(_open_locks(folder), fcntl.LOCK_UN)
        except OSError:
            return


class _StampedImpl(CompileResultCacheImpl):
    """numba's way to store a compiled function, named by its stamp instead of by file and line."""

    def __init__(self, function: Any, stamp: str, folder: Path) -> None:
        self._lineno = function.__code__.co_firstlineno
        self._locator = _Locator(function, stamp, folder)
        self._filename_base = cast(Any, self).get_filename_base(f"{function.__module__}.{function.__qualname__}", "")


class _Locator:
    """Tells numba the folder and the stamp of one kernel."""

    def __init__(self, function: Any, stamp: str, folder: Path) -> None:
        self._py_file = function.__code__.co_filename
        self._stamp, self._folder = stamp, folder

    def ensure_cache_path(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return self._stamp

    def get_disambiguator(self) -> str:
        return self._stamp[:22]


class _TolerantFiles(IndexDataCacheFile):
    """Files of one kernel; a signature of another version, or a damaged file, counts as not compiled.

    An index names the types of arguments. A type that was renamed or moved since cannot be unpickled.
    """

    def _load_index(self) -> dict[Any, str]:
        try:
            return cast(Any, super())._load_index()
        except OSError:
            raise
        except Exception:
            return {}

    def _load_data(self, name: str) -> Any:
        try:
            return cast(Any, super())._load_data(name)
        except OSError:
            raise
        except Exception as error:
            raise OSError(str(error)) from error


class _StampedCache(FunctionCache):
    """A cache of one kernel whose freshness is its stamp; written to one folder, read from others as well.

    Code of any of the stamps will do; the first is that of what is written.
    """

    def __init__(
        self, function: Any, stamps: tuple[str, ...], folder: Path | None, others: tuple[Path, ...] = ()
    ) -> None:
        self._name = repr(function)
        self._py_func = function
        self._is_written = folder is not None
        stamp, first = stamps[0], folder or others[0]
        folders = [first, *(other for other in others if other != first)]
        places = [(other, place) for other in stamps for place in folders]
        self._others = [_StampedCache(function, (other,), place) for other, place in places[1:]]
        self._impl = _StampedImpl(function, stamp, first)
        self._cache_path = str(first)
        self._cache_file = _TolerantFiles(self._cache_path, self._impl.filename_base, stamp)
        self._kernel = f"{function.__module__}.{function.__qualname__}"
        self._lock_byte = int.from_bytes(hashlib.sha256(f"{self._kernel} {stamp}".encode()).digest()[:5])
        self.enable()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Read the code, or wait for the process that is making it; None: it is to be made here."""
        found = self.read_overload(sig, target_context)
        if found is None and self._is_written:
            give_up = time.monotonic() + MAX_WAIT_S
            while not _set_lock(Path(self._cache_path), self._lock_byte, is_held=True) and time.monotonic() < give_up:
                time.sleep(POLL_S)
            # Held from here until the code is saved, unless another process saved it in between
            found = self.read_overload(sig, target_context)
            if found is not None:
                _set_lock(Path(self._cache_path), self._lock_byte, is_held=False)
        return found

    def read_overload(self, sig: Any, target_context: Any) -> Any:
        """Look into the folder of this cache, then into the others."""
        found = cast(Any, super()).load_overload(sig, target_context)
        for other in self._others if found is None else ():
            found = found or other.read_overload(sig, target_context)
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        if not self._is_written:
            return
        try:
            cast(Any, super()).save_overload(sig, data)
            # Remove files of this kernel's other versions that nobody read for `UNUSED_DAYS`
            oldest = time.time() - UNUSED_DAYS * 86400.0
            for path in Path(self._cache_path).glob(f"{self._kernel}-*"):
                status = path.stat()
                if max(status.st_atime, status.st_mtime) < oldest:
                    path.unlink(missing_ok=True)
        except OSError as error:  # a full disk costs time at the next start, not the result
            warnings.warn(
                f"compiled code was not kept ({error}); the next run compiles it anew", MareyWarning, stacklevel=2
            )
        finally:
            _set_lock(Path(self._cache_path), self._lock_byte, is_held=False)
