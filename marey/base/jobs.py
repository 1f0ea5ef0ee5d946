"""Parallel jobs: worker programs that answer lines of JSON, a pool of processes, a Dask cluster.

A worker program (``python -m MODULE``) answers each line of stdin with one line of stdout, so a caller needs no
``if __name__ == "__main__"``; when the caller exits, stdin closes and the worker ends. A worker that dies costs one
attempt at one request.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import IO, Any, Final, TypeVar, cast

from marey.base.errors import InputError, MissingExtraError, WorkerError

RETRIES: Final = 3  # consecutive deaths of workers without a result before the work is given up
CONNECT_S: Final = 10.0  # [s] to wait for the scheduler of a cluster
Item = TypeVar("Item")
Result = TypeVar("Result")
IsCancelled = Callable[[], bool]


def count_cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def serve_requests(answer: Callable[[str], str]) -> None:
    """Answer lines of stdin until it closes: the main function of a worker program.

    Output of libraries goes to stderr, so that it does not mix with the answers. Ctrl-C is handled by the caller.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Answers go to the old stdout, everything else to stderr
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        for line in sys.stdin:
            print(answer(line), file=answers, flush=True)
    except BrokenPipeError:
        sys.exit(1)


def ask_workers(module: str, requests: Sequence[str], workers: int, *, tries: int = 1) -> Generator[tuple[int, str]]:
    """Yield number and answer of each request in order of completion; the answer is empty if the worker died.

    Args:
        module: module of the worker program; its answers end in ``}``.
        requests: lines of JSON.
        workers: number of processes, at least one.
        tries: attempts at a request before its answer is empty.
    """
    pool = _WorkerPool(module, requests, workers, tries)
    try:
        for _ in requests:
            yield pool.answers.get()
    finally:
        pool.close()


class _WorkerPool:
    """Threads that each feed one process and replace it when it dies."""

    def __init__(self, module: str, requests: Sequence[str], workers: int, tries: int) -> None:
        self.answers: queue.Queue[tuple[int, str]] = queue.Queue(4 * workers)  # bounded: answers may be large
        self._waiting: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        for item in enumerate(requests):
            self._waiting.put(item)
        self._module, self._tries, self._is_closed = module, tries, False
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._threads = [threading.Thread(target=self._feed, args=(n,), daemon=True) for n in range(workers)]
        # One thread for each process
        for thread in self._threads:
            thread.start()

    def _feed(self, worker: int) -> None:
        with contextlib.suppress(queue.Empty):
            while not self._is_closed:
                number, request = self._waiting.get_nowait()
                answer, tries = "", 0
                while not answer and tries < self._tries and not self._is_closed:
                    answer, tries = self._ask(worker, request), tries + 1
                self.answers.put((number, answer))

    def _ask(self, worker: int, request: str) -> str:
        process = self._processes.get(worker)
        if process is not None and process.poll() is not None:
            _end_worker(process)  # it died between two requests, and its pipes are still open
            process = None
        if process is None:
            # The worker imports marey from the same location as this process
            paths = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path)
            process = self._processes[worker] = subprocess.Popen(
                [sys.executable, "-P", "-m", self._module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": paths},
                text=True,
                encoding="utf-8",
            )
        # A dead worker breaks the pipe or returns an incomplete line
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
        # Taking an answer releases a thread that waits to put one
        while any(thread.is_alive() for thread in self._threads):
            for process in tuple(self._processes.values()):
                process.kill()
            with contextlib.suppress(queue.Empty):
                self.answers.get(timeout=0.01)
        for process in self._processes.values():
            _end_worker(process)


def _end_worker(process: subprocess.Popen[str]) -> None:
    process.kill()
    with contextlib.suppress(OSError), process:  # closes its pipes and waits
        pass


def run_in_pool(
    function: Callable[[Item], Result], items: Sequence[Item], workers: int, cancel: IsCancelled | None = None
) -> Generator[tuple[int, Result]]:
    """Yield number and result of each item in order of completion; stops early when cancelled between items.

    One worker or one item runs in this process; otherwise ``function`` and the items are pickled. Workers that die are
    replaced and their items repeated.

    Raises:
        WorkerError: workers died several times in a row without a result.
    """
    if workers <= 1 or len(items) <= 1:
        for number, item in enumerate(items):
            if cancel is not None and cancel():
                return
            yield number, function(item)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool

    left, deaths = dict(enumerate(items)), 0
    while left:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, mp_context=context, initializer=end_with_parent) as pool:
            try:
                jobs = {pool.submit(function, item): number for number, item in left.items()}
                for job in as_completed(jobs):
                    result = job.result()
                    deaths = 0
                    del left[jobs[job]]
                    yield jobs.pop(job), result
                    if cancel is not None and cancel():
                        return
            except BrokenProcessPool:
                # One dead worker breaks the whole pool; a new pool takes the remaining items
                deaths += 1
                if deaths > RETRIES:
                    raise WorkerError(deaths, len(left)) from None
            finally:
                pool.shutdown(wait=False, cancel_futures=True)


def end_with_parent() -> None:
    """Make this worker exit when its parent process ends for any reason.

    Otherwise a worker that sends a large result would block forever, since all workers hold both ends of the pipe.
    """
    import multiprocessing

    def watch() -> None:
        if (parent := multiprocessing.parent_process()) is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class DaskJobs:
    """A connection to a Dask cluster, used as a context manager.

    Raises:
        MissingExtraError: Dask is not installed.
        InputError: no scheduler answers at the address.
    """

    def __init__(self, address: str, what: str, on_link: Callable[[str], None] | None = None) -> None:
        try:
            import distributed
        except ImportError as error:
            raise MissingExtraError(what, "cluster") from error
        self._dask = cast(Any, distributed)
        try:
            self.client = self._dask.Client(address, set_as_default=False, timeout=CONNECT_S)
        except (OSError, ValueError) as error:
            fix = "Start `dask scheduler` and `dask worker` there"
            raise InputError(f"no Dask scheduler answers at '{address}'", fix) from error
        if on_link is not None:
            on_link(str(self.client.dashboard_link))

    def __enter__(self) -> DaskJobs:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def run(
        self, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], cancel: IsCancelled | None = None
    ) -> Generator[tuple[int, Any]]:
        """Yield number and future of each job in order of completion; the caller takes ``future.result()``."""
        jobs = {
            self.client.submit(function, *values, pure=False, retries=RETRIES): number
            for number, values in enumerate(arguments)
        }
        for job in self._dask.as_completed(list(jobs), loop=self.client.loop):
            yield jobs[job], job
            if cancel is not None and cancel():
                self.client.cancel(list(jobs))
                return
