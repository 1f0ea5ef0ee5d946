"""Sessions of tools under the pointer and in real time, and how a recipe runs a live one again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

from marey.base import FloatArray, InputError, MareyError
from marey.pipeline.tools import Parameter, Settings, ToolContext, ToolResult, stop_if_cancelled

LIVE_RATE_HZ: Final = 60.0  # steps of a live session a second


@dataclass(frozen=True, slots=True, eq=False)
class DragAnswer:
    """One answer of a drag or a live session: arrays to draw, and facts."""

    arrays: Mapping[str, FloatArray] = field(default_factory=dict[str, FloatArray])
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


class DragSession(Protocol):
    """State of a drag between pointer-down and pointer-up; also of a live session, whose ``move`` is a time step."""

    def move(self, args: Settings) -> DragAnswer:
        """Answer one position of the pointer, or one step of time with its inputs."""
        ...

    def end(self, args: Settings) -> ToolResult:
        """Finish: ``report["edit"]`` is the edit or layer to keep, ``motion`` a new motion."""
        ...


COMMANDS: Final = Parameter(  # of a live session that is run again
    "commands", "table", shape="rows", help="What was asked for, by step of 1/60 s.",
    columns=(Parameter("step", "int", None, "", 0), Parameter("time_s", "float", None, "s", 0), Parameter("*", "text")),
)  # fmt: skip


class LiveSession(ABC):
    """A session that goes on by frames of ``LIVE_RATE_HZ``; what it obeyed is kept, so that a recipe can run it again.

    The control ``pause`` holds its time, ``single_step`` holds it after one frame, ``over_s`` tells how to obey others.
    """

    def __init__(self) -> None:
        self.step: int = 0
        self.log: list[dict[str, Any]] = []
        self.is_over = False  # whether it has come to its own end
        self._is_paused = False

    @abstractmethod
    def apply(self, changes: Settings) -> None:
        """Obey the controls that changed."""

    @abstractmethod
    def advance(self) -> None:
        """Go on by one frame, and count it in ``step``."""

    @abstractmethod
    def end(self, args: Settings) -> ToolResult:
        """Finish, as a :class:`DragSession` does."""

    def take_frame(self, args: Settings) -> list[str]:
        """Obey the controls and go on by a frame, unless time is held; a sentence for each control that was refused."""
        changes = dict(args)
        is_single = bool(changes.pop("single_step", False))
        self._is_paused = bool(changes.pop("pause", self._is_paused)) or is_single
        done, refused = self.obey(changes)
        if done:
            self.log.append({"step": self.step, **done})
        if is_single or not self._is_paused:
            self.advance()
        return refused

    def obey(self, changes: Settings) -> tuple[dict[str, Any], list[str]]:
        """Obey each control on its own: what was obeyed, and a sentence for each that was refused."""
        shared = {name: changes[name] for name in ("over_s",) if name in changes}
        done, refused = dict[str, Any](), list[str]()
        for name, value in changes.items():
            try:
                self.apply({name: value, **shared})
                done[name] = value
            except (MareyError, TypeError, ValueError, KeyError, AttributeError) as error:
                refused.append(str(error) if isinstance(error, MareyError) else f"'{name}' cannot be {value!r:.80}")
        return done, refused


def replay_session(context: ToolContext, session: LiveSession, settings: Settings) -> ToolResult:
    """Run a live session again: its ``commands`` by ``step`` or ``time_s``, for so many ``seconds``."""
    rows: dict[int, list[dict[str, Any]]] = {}
    for row in cast(Sequence[Settings], settings["commands"] or ()):
        step = int(row.get("step", round(float(row.get("time_s", 0.0)) * LIVE_RATE_HZ)))
        changes = {name: value for name, value in row.items() if name not in ("step", "time_s")}
        rows.setdefault(step, []).append(changes)
    count = max(2, round(settings["seconds"] * LIVE_RATE_HZ))
    for n in range(count):
        for changes in rows.get(n, ()):
            refused = session.obey(changes)[1]
            if refused:
                raise InputError(f"a command of step {n} cannot be obeyed: {refused[0]}", "Remove it from the recipe")
        session.advance()
        if n % 10 == 0:
            stop_if_cancelled(context)
            context.progress(n / count, f"{n / LIVE_RATE_HZ:.1f} s of {count / LIVE_RATE_HZ:.1f} s")
        if session.is_over:
            break
    return session.end({})
