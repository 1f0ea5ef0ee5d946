"""One thread for linear algebra on small blocks, where a second one costs more than it brings."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock

_PACKAGES = ("numpy", "scipy")
_PREFIXES = ("scipy_openblas", "openblas")
_SUFFIXES = ("64_", "")

Pool = tuple[Callable[[], int], Callable[[int], object]]  # reads and sets the number of threads

_lock = Lock()
_active_callers: list[list[int]] = []  # thread counts to go back to, one entry for each running block


@contextmanager
def single_thread() -> Generator[None]:
    """Keep OpenBLAS of numpy and scipy on one thread; elsewhere (other libraries) nothing happens.

    Blocks of a hundred unknowns are done in microseconds: waking a second thread takes longer, and on a busy machine
    waiting for it made a solve fifteen times slower.
    """
    pools = _load_thread_pools()
    with _lock:
        _active_callers.append([read() for read, _ in pools])
        for _, write in pools:
            write(1)
    try:
        yield
    finally:
        with _lock:
            counts = _active_callers.pop()
            if not _active_callers:
                for (_, write), count in zip(pools, counts, strict=True):
                    write(count)


@cache
def _load_thread_pools() -> tuple[Pool, ...]:
    found: list[Pool] = []
    for package in _PACKAGES:
        spec = find_spec(package)
        folder = Path(spec.origin).parent.parent / f"{package}.libs" if spec and spec.origin else None
        for path in sorted(folder.glob("*openblas*")) if folder and folder.is_dir() else ():
            found += _load_thread_pool(path)
    return tuple(found)


def _load_thread_pool(path: Path) -> list[Pool]:
    """Entries of one library, by the names that wheels give them."""
    try:
        library = ctypes.CDLL(str(path))
    except OSError:
        return []
    for prefix in _PREFIXES:
        for suffix in _SUFFIXES:
            read = getattr(library, f"{prefix}_get_num_threads{suffix}", None)
            write = getattr(library, f"{prefix}_set_num_threads{suffix}", None)
            if read is not None and write is not None:
                return [(read, write)]
    return []
