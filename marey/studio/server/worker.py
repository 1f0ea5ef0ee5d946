"""One thread a session: it runs what the user asked for, newest first, and keeps time while a clip plays.

Handlers of the server only leave a note here. Nothing slow runs inside them, so one busy tab stalls no other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

WorkerCommand = Callable[[], None]


class SessionWorker:
    """Runs jobs in the order they came; a newer job with the same key replaces one that still waits."""

    def __init__(self, tick: Callable[[float], None], *, rate_hz: float, on_error: Callable[[Exception], None]) -> None:
        self._tick, self._period_s, self._on_error = tick, 1.0 / rate_hz, on_error
        self._jobs: dict[str, WorkerCommand] = {}
        self._change = threading.Condition()
        self._ticking = False
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="marey-session", daemon=True)
        self._thread.start()

    def post(self, key: str, job: WorkerCommand) -> None:
        """Leave a job; returns at once."""
        with self._change:
            self._jobs.pop(key, None)
            self._jobs[key] = job
            self._change.notify()

    def set_ticking(self, on: bool) -> None:
        """Call ``tick(seconds since the last call)`` at the worker's rate, or stop doing so."""
        with self._change:
            self._ticking = on
            self._change.notify()

    def stop(self) -> None:
        """End the thread after the current job."""
        with self._change:
            self._stopped = True
            self._change.notify()

    def _run(self) -> None:
        last = time.perf_counter()
        while True:
            with self._change:
                idle_s = max(0.0, last + self._period_s - time.perf_counter()) if self._ticking else None
                if not self._jobs and not self._stopped:
                    self._change.wait(idle_s)
                if self._stopped:
                    return
                job = self._jobs.pop(next(iter(self._jobs))) if self._jobs else None
                ticking = self._ticking
            if job is not None:
                self._run_guarded(job)
            now = time.perf_counter()
            if ticking and now - last >= self._period_s:
                elapsed = min(now - last, 0.5)  # a tab that slept does not jump ahead
                last = now
                self._run_guarded(partial(self._tick, elapsed))
            elif not ticking:
                last = now

    def _run_guarded(self, job: WorkerCommand) -> None:
        try:
            job()
        except Exception as error:  # a bad clip or a closed page must not end the session
            self._on_error(error)
