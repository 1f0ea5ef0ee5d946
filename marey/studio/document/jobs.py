"""Long jobs of a session: each runs in its own thread, reports progress, and can be stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Final, Generic, Protocol, TypeVar

from marey.motion import Motion
from marey.numerics import SQPIteration


class SearchOutcome(Protocol):
    """Result of a search: a motion and a summary line."""

    @property
    def motion(self) -> Motion:
        """The best that was found."""
        ...

    @property
    def sentence(self) -> str:
        """How it went."""
        ...


OptimisationSolve = Callable[[Callable[[SQPIteration], bool]], SearchOutcome]


@dataclass(frozen=True, slots=True)
class OptimisationListener:
    """Progress callbacks; called from the job's thread, they post to the session's worker."""

    on_step: Callable[[SQPIteration], None]
    on_end: Callable[[SearchOutcome], None]
    on_error: Callable[[Exception], None]


class OptimisationJob:
    """One optimisation. It belongs to the document, so that a page that is loaded again finds it going on."""

    def __init__(
        self, solve: OptimisationSolve, listener: OptimisationListener, *, what: str = "task", label: str = ""
    ) -> None:
        """Start it.

        Args:
            solve: does the work; calls what it is given after every iteration, and ends where that says True.
            listener: notified immediately.
            what: repair or jump, for the progress line.
            label: of the clip it will give.
        """
        self.what, self.label = what, label
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._solve = solve
        self._listener: OptimisationListener | None = listener
        self._outcome: SearchOutcome | Exception | None = None
        self._thread = threading.Thread(target=self._run, name="marey-task", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Request a stop after the current iteration; the best motion is kept."""
        self._stop.set()

    def listen(self, listener: OptimisationListener | None) -> None:
        """Replace the listener, or remove it; a result that is ready is reported immediately."""
        with self._lock:
            self._listener, outcome = listener, self._outcome
        if listener is not None and outcome is not None:
            _report_end(listener, outcome)

    @property
    def is_running(self) -> bool:
        """Whether the job is running; false once its end was reported."""
        return self._outcome is None

    def _run(self) -> None:
        try:
            outcome: SearchOutcome | Exception = self._solve(self._step)
        except Exception as error:  # told to the user by the session
            outcome = error
        with self._lock:
            self._outcome, listener = outcome, self._listener
        if listener is not None:
            _report_end(listener, outcome)

    def _step(self, step: SQPIteration) -> bool:
        listener = self._listener
        if listener is not None:
            listener.on_step(step)
        return self._stop.is_set()


def _report_end(listener: OptimisationListener, outcome: SearchOutcome | Exception) -> None:
    if isinstance(outcome, Exception):
        listener.on_error(outcome)
    else:
        listener.on_end(outcome)


HEARTBEAT_S: Final = 0.3  # the page hears that often that it goes on
T = TypeVar("T")
JobListener = Callable[[], None]


class StoppedError(Exception):
    """Raised inside a job that was asked to stop."""


class BackgroundJob(Generic[T]):
    """One piece of work. It belongs to the document, so that a page that is loaded again finds it going on."""

    def __init__(self, what: str, work: Callable[[BackgroundJob[T]], T], listener: JobListener | None) -> None:
        """Start it.

        Args:
            what: a few words for the page.
            work: calls :meth:`tell` with its progress, which raises :class:`StoppedError` after a stop request.
            listener: notified periodically and at the end.
        """
        self.what, self.words, self.share = what, "starting", 0.0
        self.result: T | None = None
        self.error: Exception | None = None
        self.is_running = True
        self.is_taken = False  # set by the page that took the end
        self._begin = perf_counter()
        self._work, self._listener = work, listener
        self._stop, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="marey-muscle", daemon=True)
        self._thread.start()
        threading.Thread(target=self._beat, name="marey-muscle-beat", daemon=True).start()

    def stop(self) -> None:
        """Ask it to end."""
        self._stop.set()

    @property
    def is_stopped(self) -> bool:
        """Whether somebody asked it to end."""
        return self._stop.is_set()

    @property
    def elapsed_s(self) -> float:
        """Time since it was asked for [s]."""
        return perf_counter() - self._begin

    def tell(self, words: str, share: float) -> None:
        """Say how far it is, 0 to 1; called by the work."""
        if self.is_stopped:
            raise StoppedError
        self.words, self.share = words, share

    def listen(self, listener: JobListener | None) -> None:
        """Tell another one from now on, or none."""
        self._listener = listener
        if listener is not None:
            listener()

    def join(self, seconds: float) -> bool:
        """Wait for the end; whether it came."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self.result = self._work(self)
        except StoppedError:
            pass
        except Exception as error:  # told to the user by the session
            self.error = error
        self.is_running = False
        self._ended.set()
        self._hear()

    def _beat(self) -> None:
        while not self._ended.wait(HEARTBEAT_S):
            self._hear()

    def _hear(self) -> None:
        listener = self._listener
        if listener is not None:
            listener()
