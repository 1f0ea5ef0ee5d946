"""A sketch becomes a motion beside the session: in a thread of its own, telling solutions as they come."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from time import perf_counter
from typing import TYPE_CHECKING, Final

from marey.base import InputError
from marey.world import Sketch

if TYPE_CHECKING:
    from marey.graph import MotionGraph, SearchSolution
    from marey.pipeline import SynthesisResult


BUDGET_S: Final = (1.0, 120.0)
MAX_SOLUTIONS: Final = 200  # solutions that are remembered
SYNTHESIS_HEARTBEAT_S: Final = 0.3  # the page hears that often that it goes on
_BUILDING: Final = threading.Lock()

SynthesisListener = Callable[[], None]


@dataclass(frozen=True, slots=True, eq=False)
class SynthesisOrder:
    """What is to be made."""

    sketch: Sketch
    engine: str = "auto"
    blends: tuple[int, ...] = (2,)  # motions that the graph may blend; one search for each
    budget_s: float = 10.0
    graph: MotionGraph | None = None  # the user's own; that of the shipped clips by default


class SynthesisJob:
    """One order. It belongs to the draft, so that a page that is loaded again finds it going on.

    Lists only grow, and only by the thread; anybody may read them.
    """

    def __init__(self, order: SynthesisOrder, listener: SynthesisListener | None) -> None:
        self.order = order
        self.words = "starting"
        self.runs: dict[int, list[SearchSolution]] = {}  # k that was asked for -> solutions, in the order they came
        self.results: list[SynthesisResult] = []
        self.error: Exception | None = None
        self.is_told = False  # set by the page that took the end
        self.is_running = True
        self.looking_s: float | None = None  # when the search began, on the clock of ``elapsed_s``
        self._begin = perf_counter()
        self._stop, self._ended = threading.Event(), threading.Event()
        self._listener = listener
        self._thread = threading.Thread(target=self._run, name="marey-synthesis", daemon=True)
        self._thread.start()
        threading.Thread(target=self._beat, name="marey-synthesis-beat", daemon=True).start()

    def stop(self) -> None:
        """Ask it to end; the best that a search has by then is kept."""
        self._stop.set()

    def listen(self, listener: SynthesisListener | None) -> None:
        """Tell another one from now on, or none."""
        self._listener = listener
        if listener is not None:
            listener()

    def join(self, seconds: float) -> bool:
        """Wait for the end; whether it came."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    @property
    def is_stopped(self) -> bool:
        """Whether somebody asked it to end."""
        return self._stop.is_set()

    @property
    def solutions(self) -> list[SearchSolution]:
        """All solutions, in the order they came."""
        return [solution for found in self.runs.values() for solution in found]

    @property
    def elapsed_s(self) -> float:
        """Time since it was asked for [s]."""
        return perf_counter() - self._begin

    def _run(self) -> None:
        try:
            self._make()
        except Exception as error:  # told to the user by the session
            self.error = error
        self.words = f"{self.elapsed_s:.1f} s"
        self.looking_s, self.is_running = None, False
        self._ended.set()
        self._tell()

    def _beat(self) -> None:
        """Let the page count the seconds between solutions."""
        while not self._ended.wait(SYNTHESIS_HEARTBEAT_S):
            self._tell()

    def _make(self) -> None:
        from marey.pipeline import choose_engine, synthesize_sketch

        order = self.order
        engine = choose_engine(order.sketch, order.graph) if order.engine == "auto" else order.engine
        if engine != "graph":
            self._say("walking the way" if engine == "locomotion" else f"solving with the {engine} engine")
            made = synthesize_sketch(order.sketch, engine)
            if not self.is_stopped:  # a walk is whole or nothing
                self.results.append(made)
            return
        self._say("getting the motion graph; the first time takes a while")
        graph = shipped_graph(self._count) if order.graph is None else order.graph
        for k in order.blends:
            if self.is_stopped:
                return
            self.looking_s, self.runs = self.elapsed_s, self.runs | {k: []}
            self._say(f"searching, k = {k}")
            self.results.append(
                synthesize_sketch(
                    order.sketch, engine, graph=graph, k=k, budget_s=order.budget_s,
                    on_solution=partial(self._hear, k), cancel=self._stop,
                )
            )  # fmt: skip
            self.looking_s = None

    def _hear(self, k: int, solution: SearchSolution) -> bool:
        if len(self.runs[k]) < MAX_SOLUTIONS:
            self.runs[k].append(solution)
        self._tell()
        return self.is_stopped

    def _count(self, done: int, of: int) -> None:
        if self.is_stopped:
            raise InputError("stopped while the motion graph was built", "Press 'Synthesise' to continue")
        self._say(f"building the motion graph: {done} of {of} clips")

    def _say(self, words: str) -> None:
        self.words = words
        self._tell()

    def _tell(self) -> None:
        listener = self._listener
        if listener is not None:
            listener()


def shipped_graph(on_progress: Callable[[int, int], None] | None = None) -> MotionGraph:
    """The graph of the shipped clips, built once and shared by all pages."""
    with _BUILDING:
        _progress.heard = on_progress
        try:
            return _shipped_graph()
        finally:
            _progress.heard = None


class _BuildProgress:
    heard: Callable[[int, int], None] | None = None


_progress: Final = _BuildProgress()


@lru_cache(maxsize=1)
def _shipped_graph() -> MotionGraph:
    from marey.samples import demo_graph

    return demo_graph(on_progress=_progress.heard)
