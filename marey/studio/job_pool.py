"""Jobs in worker processes: progress, partial motions, cancelling by killing, a new process for one that died."""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from marey.base import InputError, UnknownNameError
from marey.studio.protocol import JobMessage, JobState
from marey.studio.worker import pack_packet

MOST_WAITING: Final = 100  # jobs
MOST_KEPT: Final = 50  # jobs that have ended, for pages that are loaded later
TRIES: Final = 2  # of a job whose process dies without being asked to
MODULE: Final = "marey.studio.worker"


@dataclass(eq=False)
class StudioJob:
    """One run of a tool: what was asked, and how far it is."""

    id: str
    tool: str
    take: str  # that it works on, and belongs to
    request: dict[str, Any]
    into: str = ""  # take whose result it makes anew
    state: JobState = "waiting"
    fraction: float = 0.0
    sentence: str = "waiting for a free process"
    fix: str = ""
    result: dict[str, Any] = field(default_factory=dict[str, Any])
    began_s: float = 0.0
    tries: int = 0
    num_told: int = 0  # messages of progress
    outcome: dict[str, Any] | None = None  # what the worker gave
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in ("done", "failed", "cancelled")

    def describe(self) -> JobMessage:
        """For the pages."""
        left_s = None
        # A run that has told one fraction alone may stand there for long
        if self.state == "running" and self.fraction > 0.02 and self.num_told > 2:
            left_s = (time.monotonic() - self.began_s) * (1.0 - self.fraction) / self.fraction
        return JobMessage(
            self.id, self.tool, self.take, self.state, self.fraction, left_s, self.sentence, self.result, self.fix
        )


class JobPool:
    """Processes that run jobs in the order they came; lives in one event loop."""

    def __init__(
        self, report: Callable[[StudioJob], None], finish: Callable[[StudioJob], None], *, workers: int = 1
    ) -> None:
        """Prepare; :meth:`start` begins."""
        self.jobs: dict[str, StudioJob] = {}
        self._report, self._finish, self._num_workers = report, finish, workers
        self._waiting: asyncio.Queue[StudioJob] = asyncio.Queue()
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._running: dict[str, int] = {}  # job -> worker
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to serve; the first process starts now, so that the first job need not wait for it."""
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._serve(worker)) for worker in range(self._num_workers)]

    def submit(self, job: StudioJob) -> None:
        """Put a job at the end of the line."""
        if self._waiting.qsize() >= MOST_WAITING:
            raise InputError(f"{MOST_WAITING} jobs are waiting", "Wait for some of them, or cancel them")
        self.start()
        over = [known.id for known in self.jobs.values() if known.is_over]
        for old in over[: max(0, len(over) - MOST_KEPT)]:
            del self.jobs[old]
        self.jobs[job.id] = job
        self._waiting.put_nowait(job)
        self._report(job)

    def cancel(self, key: str) -> None:
        """End a job: its process is killed."""
        job = self.jobs.get(key)
        if job is None:
            raise UnknownNameError("job", key, "the studio", self.jobs)
        if job.is_over:
            return
        self._end(job, "cancelled", "cancelled")
        worker = self._running.get(key)
        if worker is not None:
            self._kill(worker)

    async def close(self) -> None:
        """End every process, busy or not."""
        for task in self._tasks:
            task.cancel()
        for worker in list(self._processes):
            self._kill(worker)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for process in self._processes.values():
            await process.wait()

    async def _serve(self, worker: int) -> None:
        """Feed one process."""
        if worker == 0:
            self._processes[worker] = await _start_process()
        while True:
            job = await self._waiting.get()
            while not job.is_over:
                job.tries += 1
                self._running[job.id] = worker
                try:
                    is_whole = await self._run(worker, job)
                except Exception as error:  # the process could not be started, or does not speak our language
                    is_whole = False
                    job.sentence = f"its process could not be used: {error}"
                finally:
                    self._running.pop(job.id, None)
                if is_whole or job.is_over:
                    break
                code = await self._bury(worker)
                if job.tries >= TRIES:
                    why = f"its process ended twice (exit code {code})"
                    self._end(job, "failed", why, "The memory may not have sufficed: choose a shorter range")
                else:
                    job.state, job.sentence = "running", f"its process ended (exit code {code}); started again"
                    self._report(job)
            if job.state == "cancelled":
                await self._bury(worker)

    async def _run(self, worker: int, job: StudioJob) -> bool:
        """Put a job to a process; return whether its end was heard."""
        process = self._processes.get(worker)
        if process is None or process.returncode is not None:
            process = self._processes[worker] = await _start_process()
        assert process.stdin is not None and process.stdout is not None
        job.began_s = time.monotonic()
        job.state, job.sentence, job.fraction = "running", job.sentence if job.tries > 1 else "started", 0.0
        self._report(job)
        try:
            process.stdin.write(pack_packet(job.request))
            await process.stdin.drain()
            while not job.is_over:
                head = await process.stdout.readexactly(4)
                data = await process.stdout.readexactly(struct.unpack("<I", head)[0])
                message = msgspec.msgpack.decode(data)
                if job.is_over:
                    continue
                match message["event"]:
                    case "progress":
                        job.fraction, job.sentence = message["fraction"], message["sentence"]
                        job.num_told += 1
                        job.result |= message["facts"]
                        self._report(job)
                    case "partial":
                        partials = {**job.result.get("partials", {}), message["name"]: message["hash"]}
                        job.result |= {"partial": message["hash"], "partials": partials}
                        self._report(job)
                    case "failed":
                        self._end(job, "failed", message["sentence"], message["fix"])
                    case _:
                        job.outcome = dict(message)
                        self._end(job, "done", message["text"] or "done")
        except (asyncio.IncompleteReadError, ConnectionError):
            return False
        return True

    def _end(self, job: StudioJob, state: JobState, sentence: str, fix: str = "") -> None:
        job.state, job.sentence, job.fix, job.result = state, sentence, fix, {}
        if state == "done":
            job.fraction = 1.0
            self._finish(job)
        job.request = {}  # the document that it started from
        job.outcome = None
        self._report(job)
        job.ended.set()

    def _kill(self, worker: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._processes[worker].kill()

    async def _bury(self, worker: int) -> int | None:
        """Wait for the end of a process; return its exit code."""
        process = self._processes.pop(worker, None)
        if process is None:
            return None
        try:
            # Killing one that has just died would reap it, and its exit code would be lost
            return await asyncio.wait_for(process.wait(), 2.0)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            return await process.wait()


async def _start_process() -> asyncio.subprocess.Process:
    # The worker finds marey where this process has found it
    paths = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path)
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        MODULE,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": paths},
    )
