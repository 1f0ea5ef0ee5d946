"""Sessions of tools under the pointer and in real time, and how a recipe runs a live one again."""

from __future__ import annotations

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


class LiveClock:
    """Time of a live session: ``pause`` holds it, ``single_step`` holds it after one step."""

    def __init__(self) -> None:
        self.is_paused = False

    def take(self, args: Settings) -> tuple[dict[str, Any], bool]:
        """The arguments that are left for the session, and whether time goes on by a step."""
        left = dict(args)
        is_single = bool(left.pop("single_step", False))
        self.is_paused = bool(left.pop("pause", self.is_paused)) or is_single
        return left, is_single or not self.is_paused


class LiveSession(DragSession, Protocol):
    """A session that a recipe can run again."""

    @property
    def is_over(self) -> bool:
        """Whether it has come to its own end."""
        ...

    def apply(self, changes: Settings) -> None:
        """Obey the controls that changed."""
        ...

    def advance(self) -> None:
        """Go on by one frame of ``LIVE_RATE_HZ``."""
        ...


def obey(session: LiveSession, changes: Settings, together: tuple[str, ...] = ()) -> tuple[dict[str, Any], list[str]]:
    """Obey each control on its own: what was obeyed, to be kept in a log, and a sentence for each that was refused.

    Args:
        session: which goes on whatever it is asked for.
        changes: controls and their values.
        together: controls that say how the others are obeyed.
    """
    shared = {name: changes[name] for name in together if name in changes}
    done, refused = dict[str, Any](), list[str]()
    for name, value in changes.items():
        try:
            session.apply({name: value, **shared})
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
            refused = obey(session, changes, ("over_s",))[1]
            if refused:
                raise InputError(f"a command of step {n} cannot be obeyed: {refused[0]}", "Remove it from the recipe")
        session.advance()
        if n % 10 == 0:
            stop_if_cancelled(context)
            context.progress(n / count, f"{n / LIVE_RATE_HZ:.1f} s of {count / LIVE_RATE_HZ:.1f} s")
        if session.is_over:
            break
    return session.end({})
