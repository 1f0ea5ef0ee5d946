"""What a tool is: settings that a panel shows and a recipe holds, a run, a result, drags."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final, Literal, Protocol, cast

import numpy as np

from marey.base import FloatArray, InputError, MareyError, UnknownNameError
from marey.motion import Motion
from marey.skeleton import Pose

Settings = Mapping[str, Any]
Kind = Literal["job", "drag", "live", "ask"]
ParameterKind = Literal[
    "float", "int", "bool", "choice", "text", "range", "joint", "clip", "take", "file", "points", "table"
]
INPUT_KINDS: Final = ("clip", "take")  # values are ids of motions; a recipe keeps them apart from the settings
MAX_ROWS: Final = 100_000
MAX_TEXT: Final = 1_000_000  # characters of a text: a sketch or a schedule, not a file


@dataclass(frozen=True, slots=True)
class Parameter:
    """One setting of a tool; the client draws a control from it.

    Values: ``float`` and ``int`` numbers in ``unit``; ``range`` two numbers; ``points`` numbers or rows of numbers;
    ``clip`` and ``take`` an id; ``file`` the id of an upload; ``choice`` one of ``choices``; ``text`` and ``joint``
    words; ``table`` plain data: a ``tree`` (maps and lists), ``rows`` (maps with ``columns``; others too if the last
    column is called ``*``), a ``map`` (of values like the one column) or ``words``. ``None`` means not given.
    """

    name: str
    kind: ParameterKind
    default: Any = None
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    help: str = ""
    shape: Literal["tree", "rows", "map", "words"] = "tree"
    columns: tuple[Parameter, ...] = ()
    is_required: bool = False  # of a column

    def check(self, value: Any, owner: str) -> Any:
        """Return the value in its plain type.

        Raises:
            InputError: it is of another type, or out of its range.
        """
        what = f"'{self.name}' of '{owner}'"
        if value is None:
            return None
        if self.kind in ("float", "int"):
            return self._check_number(value, what)
        if self.kind == "bool":
            if not isinstance(value, bool):
                raise InputError(f"{what} is no switch", "Give true or false")
            return value
        if self.kind == "choice":
            if value not in self.choices:
                raise UnknownNameError(self.name, str(value), owner, self.choices)
            return value
        if self.kind == "range":
            ends = cast(Sequence[Any], value)
            if not isinstance(value, list | tuple) or len(ends) != 2:
                raise InputError(f"{what} is no range", "Give its beginning and its end")
            begin, end = (self._check_number(one, what) for one in ends)
            if begin >= end:
                raise InputError(f"{what} ends at {end:g}, not after {begin:g}", "Choose an end after the beginning")
            return [begin, end]
        if self.kind == "points":
            return self._check_points(value, what)
        if self.kind == "table":
            if self.shape in ("map", "tree") and isinstance(value, dict):
                items = cast(dict[str, Any], value)
                return {str(k): self.columns[0].check(v, owner) for k, v in items.items()} if self.columns else items
            if self.shape == "map" or not isinstance(value, list | tuple):
                raise InputError(f"{what} is no {'map' if self.shape == 'map' else 'list'}", f"Give a {self.shape}")
            rows = cast(Sequence[Any], value)
            if len(rows) > MAX_ROWS:
                raise InputError(f"{what} has {len(rows)} rows", f"Give at most {MAX_ROWS}")
            if self.shape == "words":
                if not all(isinstance(one, str) for one in rows):
                    raise InputError(f"{what} is no list of words", "Give words")
                return list(rows)
            return (
                [self._check_row(row, f"{owner}.{self.name}") for row in rows] if self.shape == "rows" else list(rows)
            )
        if not isinstance(value, str) or len(value) > MAX_TEXT:
            raise InputError(f"{what} is no text of at most {MAX_TEXT} characters", "Give words")
        return value

    def _check_points(self, value: Any, what: str) -> Any:
        if not isinstance(value, list | tuple) or len(cast(Sequence[Any], value)) > MAX_ROWS:
            raise InputError(f"{what} is no list of numbers", f"Give at most {MAX_ROWS} numbers, or rows of them")
        items = cast(Sequence[Any], value)
        return [self._check_points(one, what) if isinstance(one, list | tuple) else self._check_number(one, what)
                for one in items]  # fmt: skip

    def _check_row(self, row: Any, owner: str) -> dict[str, Any]:
        if not isinstance(row, dict):
            raise InputError(f"a row of '{owner}' is no map", f"Give {', '.join(c.name for c in self.columns)}")
        given = cast(dict[str, Any], row)
        known = {column.name: column for column in self.columns}
        for name in given:
            if name not in known and "*" not in known:
                raise UnknownNameError("column", str(name), f"'{owner}'", known)
        missing = [c.name for c in self.columns if c.is_required and given.get(c.name) is None]
        if missing:
            raise InputError(f"a row of '{owner}' has no {missing[0]}", f"Give {', '.join(known)}")
        return {name: known[name].check(v, owner) if name in known else v for name, v in given.items() if v is not None}

    def _check_number(self, value: Any, what: str) -> float | int:
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise InputError(f"{what} is not a number", "Give a finite number")
        if self.kind == "int" and value != int(value):
            raise InputError(f"{what} is {value}, not a whole number", "Give a whole number")
        low, high = self.minimum, self.maximum
        if (low is not None and value < low) or (high is not None and value > high):
            unit = f" {self.unit}" if self.unit else ""
            bounds = (("at least", low), ("at most", high))
            sides = [f"{words} {bound:g}" for words, bound in bounds if bound is not None]
            raise InputError(f"{what} is {value:g}{unit}", f"Give {' and '.join(sides)}{unit}")
        return int(value) if self.kind == "int" else float(value)

    def to_json(self) -> dict[str, Any]:
        """Plain data for the client."""
        names = ("name", "kind", "default", "unit", "minimum", "maximum", "help")
        shape: dict[str, Any] = {"shape": self.shape, "columns": [column.to_json() for column in self.columns]}
        shape |= {"required": self.is_required, "choices": list(self.choices)}
        return {name: getattr(self, name) for name in names} | shape


class ToolContext(Protocol):
    """What a tool can ask of the session that runs it."""

    @property
    def project(self) -> Mapping[str, Any]:
        """The document, read only."""
        ...

    @property
    def seed(self) -> int:
        """Of everything random in this run."""
        ...

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked this job to end."""
        ...

    def motion(self, key: str) -> Motion:
        """The motion of a clip or of a take."""
        ...

    def file(self, key: str) -> str:
        """Path of a file that was uploaded for this run."""
        ...

    def progress(self, fraction: float, sentence: str, **facts: Any) -> None:
        """Say how far the job is, 0 to 1; facts are plain data to draw meanwhile."""
        ...

    def partial(self, motion: Motion) -> None:
        """Show a motion before the job ends; it replaces the last one of its name."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ToolResult:
    """What a tool gives: a motion, a table, words, files, or several of them."""

    motion: Motion | None = None
    table: Sequence[Mapping[str, Any]] = ()  # rows of plain data
    text: str = ""  # one sentence for people
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])  # by file name
    report: Mapping[str, Any] = field(default_factory=dict[str, Any])  # plain data for panels and the timeline
    arrays: Mapping[str, FloatArray] = field(default_factory=dict[str, FloatArray])  # for drawing
    motions: Mapping[str, Motion] = field(default_factory=dict[str, Motion])  # further ones by name: clips of an import


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """One tool of the studio.

    ``run`` of a ``job`` or an ``ask`` returns a :class:`ToolResult`; of a ``drag`` or ``live`` tool a session that is
    asked again and again.
    """

    id: str
    title: str
    group: str
    help: str
    kind: Kind
    run: Callable[[ToolContext, Settings], Any]
    parameters: tuple[Parameter, ...] = ()
    shortcut: str = ""
    replay: Callable[[ToolContext, Settings], ToolResult] | None = None  # of a live tool: the same again, from a recipe

    @property
    def input_names(self) -> tuple[str, ...]:
        """Parameters whose values are motions."""
        return tuple(p.name for p in self.parameters if p.kind in INPUT_KINDS)

    @property
    def file_names(self) -> tuple[str, ...]:
        """Parameters whose values are files."""
        return tuple(p.name for p in self.parameters if p.kind == "file")

    @property
    def has_recipe(self) -> bool:
        """Whether a recipe can run it again."""
        return self.kind == "job" or self.replay is not None

    def make(self, context: ToolContext, settings: Settings) -> ToolResult:
        """Run it to the end, without anybody at the pointer.

        Raises:
            InputError: it only works under a hand.
        """
        run = self.replay if self.kind in ("drag", "live") else self.run
        if run is None:
            raise InputError(f"'{self.id}' works under the pointer only", "Bake what it made, and use that")
        return cast(ToolResult, run(context, settings))

    def check(self, settings: Settings) -> dict[str, Any]:
        """Return all settings, with defaults for those that are not given.

        Raises:
            UnknownNameError: there is no such setting.
            InputError: a value is of another type, or out of its range.
        """
        names = [parameter.name for parameter in self.parameters]
        for name in settings:
            if name not in names:
                raise UnknownNameError("setting", name, f"the tool '{self.id}'", names)
        given = {p.name: p.check(settings.get(p.name), self.id) for p in self.parameters}
        return {p.name: p.default if given[p.name] is None else given[p.name] for p in self.parameters}

    def split(self, settings: Settings) -> tuple[dict[str, str], dict[str, Any]]:
        """Inputs (ids of motions) and the other settings, of those that are given."""
        inputs = self.input_names
        kept = {name: value for name, value in settings.items() if value is not None}
        return (
            {name: str(value) for name, value in kept.items() if name in inputs},
            {name: value for name, value in kept.items() if name not in inputs},
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data for the client."""
        names = ("id", "title", "group", "help", "kind", "shortcut")
        return {name: getattr(self, name) for name in names} | {
            "has_recipe": self.has_recipe,
            "parameters": [p.to_json() for p in self.parameters],
        }


def need_motion(context: ToolContext, settings: Settings, name: str = "motion") -> Motion:
    """The motion of a setting.

    Raises:
        InputError: none was chosen.
    """
    key = settings.get(name)
    if not key:
        raise InputError(f"no {name} is chosen", "Select a clip or a take")
    return context.motion(str(key))


def stop_if_cancelled(context: ToolContext) -> None:
    """End a job that somebody cancelled.

    Raises:
        CancelledJobError: it was.
    """
    if context.cancelled:
        raise CancelledJobError


class CancelledJobError(MareyError):
    """Somebody cancelled the job."""

    def __str__(self) -> str:
        return "the job was cancelled"


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


def find_frame(motion: Motion, time_s: float) -> int:
    """The frame nearest to a time, inside the clip."""
    return min(max(round(time_s * motion.rate_hz), 0), motion.num_frames - 1)


def read_point(value: Any, what: str) -> FloatArray:
    """Three numbers from a page."""
    try:
        point = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        point = np.zeros(0)
    if point.shape != (3,) or not np.isfinite(point).all():
        raise InputError(f"the {what} is no place", "Give x, y and z in metres")
    return point


def pose_arrays(pose: Pose) -> dict[str, FloatArray]:
    """A pose as a client draws it."""
    return {"pose_root": pose.root_position, "pose_rotations": pose.rotations.wxyz}


def stretch_arrays(motion: Motion) -> dict[str, FloatArray]:
    """A stretch of a clip as a client draws it."""
    return {"roots": motion.root_positions, "rotations": motion.rotations.wxyz}
