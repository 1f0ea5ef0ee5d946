"""Requests put to worker processes, one line each; a process that dies takes one try of one request with it.

A worker is a program of its own (``python -m MODULE``) that answers each line of stdin with one line of stdout, so a
caller needs no ``if __name__ == "__main__"``, and the end of the caller closes stdin, which ends the worker.
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import IO, cast


def count_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ask_workers(
    module: str, requests: Sequence[str], workers: int, *, tries: int = 1
) -> Generator[tuple[int, str]]:  # fmt: skip
    """Number and answer of every request, in the order they are ready; an empty answer where the worker died.

    Args:
        module: of the workers; its answers end in ``}``.
        requests: lines of JSON.
        workers: how many processes, one or more.
        tries: how often a request is put before its answer is empty.
    """
    pool = _WorkerPool(module, requests, workers, tries)
    try:
        for _ in requests:
            yield pool.answers.get()
    finally:
        pool.close()


class _WorkerPool:
    """Threads that each feed one process, and start another when it dies."""

    def __init__(self, module: str, requests: Sequence[str], workers: int, tries: int) -> None:
        self.answers: queue.Queue[tuple[int, str]] = queue.Queue(4 * workers)  # what is not taken yet fills the disk
        self._waiting: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        for item in enumerate(requests):
            self._waiting.put(item)
        self._module, self._tries, self._is_closed = module, tries, False
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._threads = [threading.Thread(target=self._feed, args=(n,), daemon=True) for n in range(workers)]
        for thread in self._threads:
            thread.start()

    def _feed(self, worker: int) -> None:
        with contextlib.suppress(queue.Empty):
            while not self._is_closed:
                number, request = self._waiting.get_nowait()
                self.answers.put((number, self._ask_with_retries(worker, request)))

    def _ask_with_retries(self, worker: int, request: str) -> str:
        for _ in range(self._tries):
            answer = self._ask(worker, request)
            if answer or self._is_closed:
                return answer
        return ""

    def _ask(self, worker: int, request: str) -> str:
        process = self._processes.get(worker)
        if process is None or process.poll() is not None:
            process = self._processes[worker] = _start_worker(self._module)
        line = ""
        with contextlib.suppress(OSError, ValueError):
            print(request, file=cast(IO[str], process.stdin), flush=True)
            line = cast(IO[str], process.stdout).readline()
        if not line.endswith("}\n"):
            _end_worker(process)
            return ""
        return line

    def close(self) -> None:
        """End every process, busy or not, and wait for it."""
        self._is_closed = True
        while any(thread.is_alive() for thread in self._threads):
            for process in tuple(self._processes.values()):
                process.kill()
            with contextlib.suppress(queue.Empty):
                self.answers.get(timeout=0.01)
        for process in self._processes.values():
            _end_worker(process)


def _start_worker(module: str) -> subprocess.Popen[str]:
    paths = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": paths},
        text=True,
        encoding="utf-8",
    )


def _end_worker(process: subprocess.Popen[str]) -> None:
    process.kill()
    with contextlib.suppress(OSError), process:  # closes its pipes and waits
        pass
