"""Where compiled kernels are kept on disk: one folder of the user, one file per kernel, stamp and signature.

The name of a file holds the stamp, so several versions of the product (a checkout, a wheel, a branch) share the folder
without disturbing one another. numba adds its own version, the processor and the signature to the key.
"""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from functools import cache
from pathlib import Path
from typing import Any, cast

from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile

from marey.base.errors import MareyWarning
from marey.base.files import cache_folder

FOLDER_VARIABLE = "MAREY_KERNEL_CACHE"
UNUSED_DAYS = 30.0  # versions of a kernel that were not loaded for this long are removed when a new one is written


def enable_cache(dispatcher: Any, stamp: str) -> None:
    """Let ``dispatcher`` keep its machine code on disk under ``stamp``; without a writable folder it compiles anew."""
    folder = kernel_folder()
    if folder is not None:
        dispatcher._cache = _StampedCache(dispatcher.py_func, stamp, folder)


@cache
def kernel_folder() -> Path | None:
    """Return the first writable folder: ``MAREY_KERNEL_CACHE``, then the user's cache; None where there is none."""
    for folder in (os.environ.get(FOLDER_VARIABLE), cache_folder() / "kernels"):
        if folder:
            try:
                Path(folder).mkdir(parents=True, exist_ok=True)
                tempfile.TemporaryFile(dir=folder).close()
            except OSError:
                continue
            return Path(folder)
    warnings.warn(
        f"no folder is writable for compiled code, so each run compiles anew. Set {FOLDER_VARIABLE} to a writable one.",
        MareyWarning,
        stacklevel=2,
    )
    return None


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
    """A cache of one kernel whose freshness is its stamp."""

    def __init__(self, function: Any, stamp: str, folder: Path) -> None:
        self._name = repr(function)
        self._py_func = function
        self._impl = _StampedImpl(function, stamp, folder)
        self._cache_path = str(folder)
        self._cache_file = _TolerantFiles(self._cache_path, self._impl.filename_base, stamp)
        self._kernel = f"{function.__module__}.{function.__qualname__}"
        self.enable()

    def save_overload(self, sig: Any, data: Any) -> None:
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
