"""A long job of the Muscle tab: it runs in a thread of its own, tells how far it is, and can be stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter
from typing import Final, Generic, TypeVar

HEARTBEAT_S: Final = 0.3  # the page hears that often that it goes on
T = TypeVar("T")
JobListener = Callable[[], None]


class StoppedError(Exception):
    """Raised inside a job that somebody asked to end."""


class BackgroundJob(Generic[T]):
    """One piece of work. It belongs to the document, so that a page that is loaded again finds it going on."""

    def __init__(self, what: str, work: Callable[[BackgroundJob[T]], T], listener: JobListener | None) -> None:
        """Start it.

        Args:
            what: a few words for the page.
            work: does it; calls :meth:`tell` as it goes on, which raises :class:`StoppedError` when it shall end.
            listener: told every now and then, and at the end.
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
