"""Jobs spread over worker processes; answers come back as they are ready."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Final, cast

from marey.library._records import Job
from marey.library._store import Staged

JOBS_WORTH_A_WORKER: Final = 6  # a worker needs about a second to start; a file, some hundredths


@dataclass(frozen=True, slots=True)
class Answer:
    """What a worker made of one job: a staged clip, or the sentence that says why not."""

    index: int
    staged: Staged | None
    clip_file: Path
    error: str = ""


def count_workers(num_jobs: int, wanted: int | None = None) -> int:
    """How many processes to start; 0 means in this process."""
    if wanted is not None:
        return max(0, min(wanted, num_jobs))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 0 if cores == 1 else min(cores, num_jobs // JOBS_WORTH_A_WORKER)


def answers(jobs: Sequence[Job], folder: Path, workers: int) -> Generator[Answer]:
    """Stage every job as a clip in ``folder``; yield answers in the order they are ready."""
    if workers == 0:
        yield from (_answer_here(index, job, folder) for index, job in enumerate(jobs))
        return
    pool = _Pool(jobs, folder, workers)
    try:
        for _ in jobs:
            yield pool.results.get()
    finally:
        pool.close()


def _clip_file(folder: Path, index: int) -> Path:
    return folder / f"{index:06d}.safetensors"


def _request(index: int, job: Job, folder: Path) -> str:
    return json.dumps({"job": asdict(job), "clip_file": str(_clip_file(folder, index))})


def _answer_here(index: int, job: Job, folder: Path) -> Answer:
    from marey.library._worker import answer

    return _parsed(answer(_request(index, job, folder)), index, folder)


def _parsed(line: str, index: int, folder: Path) -> Answer:
    file = _clip_file(folder, index)
    if not line.endswith("}\n") and not line.endswith("}"):
        return Answer(index, None, file, "the reader crashed on this file")
    values = cast(dict[str, Any], json.loads(line))
    if "error" in values:
        return Answer(index, None, file, values["error"])
    return Answer(index, Staged.from_json(line), file)


class _Pool:
    """Threads that each feed one worker process, and start another when it dies."""

    def __init__(self, jobs: Sequence[Job], folder: Path, workers: int) -> None:
        self.results: queue.Queue[Answer] = queue.Queue(4 * workers)  # clips not yet taken in fill the disk
        self._waiting: queue.SimpleQueue[tuple[int, Job]] = queue.SimpleQueue()
        for item in enumerate(jobs):
            self._waiting.put(item)
        self._folder, self._is_closed = folder, False
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._threads = [threading.Thread(target=self._feed, args=(n,), daemon=True) for n in range(workers)]
        for thread in self._threads:
            thread.start()

    def _feed(self, number: int) -> None:
        with contextlib.suppress(queue.Empty):
            while not self._is_closed:
                index, job = self._waiting.get_nowait()
                self.results.put(self._ask(number, index, job))

    def _ask(self, number: int, index: int, job: Job) -> Answer:
        process = self._processes.get(number)
        if process is None or process.poll() is not None:
            process = self._processes[number] = _start_worker()
        line = ""
        with contextlib.suppress(OSError, ValueError):
            print(_request(index, job, self._folder), file=cast(IO[str], process.stdin), flush=True)
            line = cast(IO[str], process.stdout).readline()
        if not line:
            _end_worker(process)
        return _parsed(line, index, self._folder)

    def close(self) -> None:
        """End every worker, busy or not, and wait for it."""
        self._is_closed = True
        while any(thread.is_alive() for thread in self._threads):
            for process in tuple(self._processes.values()):
                process.kill()
            with contextlib.suppress(queue.Empty):
                self.results.get(timeout=0.01)
        for process in self._processes.values():
            _end_worker(process)


def _start_worker() -> subprocess.Popen[str]:
    paths = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "marey.library._worker"],
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
