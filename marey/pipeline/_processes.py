"""Jobs on the cores of this machine; a process that dies takes one try of one job with it."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Final, cast

from marey.pipeline._job import BatchItem, BatchJob, item_of

TRIES: Final = 3  # of a job whose process dies


def count_workers(num_jobs: int, wanted: int | None) -> int:
    """How many processes to start."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores if wanted is None else wanted, num_jobs))


def in_processes(jobs: Sequence[BatchJob], folder: Path, workers: int) -> Generator[BatchItem]:
    """Run jobs in worker processes; items in the order they are ready."""
    pool = _Pool(jobs, folder, workers)
    try:
        for _ in jobs:
            yield pool.results.get()
    finally:
        pool.close()


class _Pool:
    """Threads that each feed one process, and start another when it dies."""

    def __init__(self, jobs: Sequence[BatchJob], folder: Path, workers: int) -> None:
        self.results: queue.SimpleQueue[BatchItem] = queue.SimpleQueue()
        self._waiting: queue.SimpleQueue[BatchJob] = queue.SimpleQueue()
        for job in jobs:
            self._waiting.put(job)
        self._folder, self._is_closed = folder, False
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._threads = [threading.Thread(target=self._feed, args=(n,), daemon=True) for n in range(workers)]
        for thread in self._threads:
            thread.start()

    def _feed(self, number: int) -> None:
        with contextlib.suppress(queue.Empty):
            while not self._is_closed:
                self.results.put(self._tried(number, self._waiting.get_nowait()))
        self._end(number)

    def _tried(self, number: int, job: BatchJob) -> BatchItem:
        for _ in range(TRIES):
            report = self._ask(number, job)
            if report is not None or self._is_closed:
                break
        else:
            report = None
        if report is None:
            return BatchItem(job.name, "ERROR", error=f"its process died {TRIES} times. Run the batch again to retry")
        return item_of(report)

    def _ask(self, number: int, job: BatchJob) -> dict[str, Any] | None:
        process = self._processes.get(number)
        if process is None or process.poll() is not None:
            process = self._processes[number] = _start()
        line = ""
        with contextlib.suppress(OSError, ValueError):
            request = json.dumps({"job": asdict(job), "folder": str(self._folder)})
            print(request, file=cast(IO[str], process.stdin), flush=True)
            line = cast(IO[str], process.stdout).readline()
        if not line.endswith("}\n"):
            self._end(number)
            return None
        return cast(dict[str, Any], json.loads(line))

    def _end(self, number: int) -> None:
        process = self._processes.pop(number, None)
        if process is not None:
            process.kill()
            with contextlib.suppress(OSError), process:  # closes its pipes and waits
                pass

    def close(self) -> None:
        """End every process, busy or not."""
        self._is_closed = True
        for process in tuple(self._processes.values()):
            process.kill()
        for thread in self._threads:
            thread.join()


def _start() -> subprocess.Popen[str]:
    paths = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "marey.pipeline._worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": paths},
        text=True,
        encoding="utf-8",
    )
