"""A long job beside the session: it runs in a thread of its own, tells how far it is, and can be stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from marey.motion import Motion
from marey.numerics import SQPIteration


class Found(Protocol):
    """What a search gives back: a motion and what happened, in one line."""

    @property
    def motion(self) -> Motion:
        """The best that was found."""
        ...

    @property
    def sentence(self) -> str:
        """How it went."""
        ...


Solve = Callable[[Callable[[SQPIteration], bool]], Found]


class Task:
    """One optimisation. The callbacks are called from its thread; they leave notes with the session's worker."""

    def __init__(
        self,
        solve: Solve,
        *,
        on_step: Callable[[SQPIteration], None],
        on_end: Callable[[Found], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        self._stop = threading.Event()
        self._solve, self._on_step, self._on_end, self._on_error = solve, on_step, on_end, on_error
        self._thread = threading.Thread(target=self._run, name="marey-task", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end after the iteration in hand; the best motion so far is kept."""
        self._stop.set()

    @property
    def is_running(self) -> bool:
        """Whether it still works."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._on_end(self._solve(self._step))
        except Exception as error:  # told to the user by the session
            self._on_error(error)

    def _step(self, step: SQPIteration) -> bool:
        self._on_step(step)
        return self._stop.is_set()
