"""Scripts played: the time line drives the engine, frame by frame."""

from __future__ import annotations

import math
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from marey.base import FormatError, InputError, MareyError, MareyWarning, UnknownNameError
from marey.locomotion._engine_clip import MAX_FRAMES
from marey.locomotion._script import DEFAULT_RAMP_S, Action, Element, JumpAction, Script, Transition
from marey.locomotion._script_report import CONTACT_POINTS, ScriptPart, ScriptReport, measure_script
from marey.motion import Contacts, Motion
from marey.skeleton import Pose

if TYPE_CHECKING:
    from marey.locomotion._engine import Engine
    from marey.locomotion._model import LocomotionModel

JUMP_LIMIT_S: Final = 60.0  # run-up, jump and return together
BEGIN_S: Final = 0.5  # [s] within which a jump leaves the quiet states
IDLE_STATES: Final = ("standing", "locomotion")
SAME_TIME_S: Final = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Performance:
    """A script as it was played."""

    script: Script
    motion: Motion
    parts: tuple[ScriptPart, ...]
    warnings: tuple[str, ...]

    @property
    def report(self) -> ScriptReport:
        """What was asked and what was measured."""
        return measure_script(self.script, self.motion, self.parts, self.warnings)


def perform_script(script: Script, model: LocomotionModel | None = None) -> Performance:
    """Play a script and keep a record of its parts; see :meth:`Script.render`."""
    player = _ScriptPlayer.from_script(script, model)
    for index, element in enumerate(script.timeline):
        start_s = player.time_s
        with player.at(index):
            player.play(index, element)
        player.parts.append(ScriptPart(index, start_s, player.time_s))
    return Performance(script, player.motion(), tuple(player.parts), (*script.warnings, *player.remarks))


@dataclass(slots=True, eq=False)
class _ScriptPlayer:
    script: Script
    engine: Engine
    styles: tuple[str, ...]
    default_style: Mapping[str, float]
    time_s: float = 0.0
    poses: list[Pose] = field(default_factory=list[Pose])
    planted: list[Any] = field(default_factory=list[Any])
    parts: list[ScriptPart] = field(default_factory=list[ScriptPart])
    remarks: list[str] = field(default_factory=list[str])

    @classmethod
    def from_script(cls, script: Script, model: LocomotionModel | None) -> _ScriptPlayer:
        """An engine that stands, or moves as the first action says."""
        from marey.locomotion._engine import Engine
        from marey.locomotion._model_file import load_model

        who = load_model() if model is None else model
        player = cls(script, Engine(who), who.styles, who.default_style)
        first = script.timeline[0]
        with player.at(0):
            start = player.wish(first) if isinstance(first, Action) else player.standing()
            start["leg_length_m"] = start["leg_length_m"] or script.leg_length_m
            player.engine = Engine(
                who,
                scaling=script.scaling,
                timing=script.timing,
                plants=script.plants,
                position=script.position,
                heading_rad=float(np.radians(script.heading_deg)),
                **start,
            )
        return player

    def play(self, index: int, element: Element) -> None:
        """One element of the time line."""
        line = self.script.timeline
        if isinstance(element, JumpAction):
            self.jump(element)
            return
        if isinstance(element, Transition):
            to = line[index + 1] if index + 1 < len(line) else None
            self.engine.set(**(self.wish(to) if isinstance(to, Action) else self.standing()), over_s=element.seconds)
        elif index > 0 and not isinstance(line[index - 1], Transition):
            self.engine.set(**self.wish(element), over_s=min(DEFAULT_RAMP_S, element.seconds))
        self.until(self.time_s + element.seconds)

    def jump(self, jump: JumpAction) -> None:
        """Ask for a jump and go on until it is over."""
        if jump.style is not None:
            self.engine.set(style=self.style(jump.style), over_s=DEFAULT_RAMP_S)
        options = {"height_m": jump.height_m, "takeoff": jump.takeoff, "priority": jump.priority}
        self.engine.jump(jump.length_m, jump.kind, **options)
        rate_hz, began, start_s = self.script.rate_hz, False, self.time_s
        while not began or self.engine.state not in IDLE_STATES:
            self.until((math.floor(self.time_s * rate_hz + 1e-6) + 1) / rate_hz)
            began = began or self.engine.state not in IDLE_STATES or self.time_s > start_s + BEGIN_S
            if self.time_s > start_s + JUMP_LIMIT_S:
                raise InputError(f"the jump was not done within {JUMP_LIMIT_S:g} s", "Ask for a shorter or nearer one")

    def until(self, stop_s: float) -> None:
        """Record every frame before a time, and move on to that time."""
        rate_hz = self.script.rate_hz
        while len(self.poses) / rate_hz < stop_s - SAME_TIME_S:
            if len(self.poses) >= MAX_FRAMES:
                raise InputError(f"the motion has more than {MAX_FRAMES} frames", "Make it shorter")
            self.poses.append(self.move(len(self.poses) / rate_hz))
            self.planted.append(np.array(self.engine.contacts, dtype=bool))
        self.move(stop_s)

    def move(self, time_s: float) -> Pose:
        pose = self.engine.step(max(0.0, time_s - self.time_s))
        self.time_s = time_s
        return pose

    def wish(self, action: Action) -> dict[str, Any]:
        """Parameters of an action, for the engine."""
        values = {"speed": action.speed, "run": action.run, "turn_rate": action.turn_rate}
        return values | {"style": self.style(action.style), "leg_length_m": action.leg_length_m}

    def standing(self) -> dict[str, Any]:
        return {"speed": 0.0, "run": 0.0, "turn_rate": 0.0, "style": self.style(None), "leg_length_m": None}

    def style(self, style: Mapping[str, float] | None) -> Mapping[str, float]:
        """Weights by name; numbers, as in the thesis, count the styles of the model from zero."""
        wanted = style or self.script.style or self.default_style
        return {self.style_name(name): weight for name, weight in wanted.items()}

    def style_name(self, name: str) -> str:
        if name not in self.styles and name.isdecimal() and int(name) < len(self.styles):
            return self.styles[int(name)]
        if name not in self.styles:
            raise UnknownNameError("style", name, "this model", self.styles)
        return name

    @contextmanager
    def at(self, index: int) -> Generator[None]:
        """Errors and remarks of the engine, with the place of the element they are about."""
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always", MareyWarning)
            try:
                yield
            except FormatError:
                raise
            except MareyError as error:
                raise _add_location(self.script, index, error) from None
        where = self.script.where(index)
        new = dict.fromkeys(f"{where}{w.message}" for w in heard if issubclass(w.category, MareyWarning))
        self.remarks += [text for text in new if text not in self.remarks]

    def motion(self) -> Motion:
        """All frames as one clip; bones that change with the size travel along."""
        sizes = np.stack([pose.skeleton.offsets for pose in self.poses])
        is_same = bool(np.abs(sizes - sizes[0]).max() < SAME_TIME_S)
        from marey.lie import SO3

        return Motion(
            self.poses[0].skeleton,
            self.script.rate_hz,
            np.stack([pose.root_position for pose in self.poses]),
            SO3(np.stack([pose.rotations.wxyz for pose in self.poses])),
            contacts=Contacts(CONTACT_POINTS, np.stack(self.planted)),
            translations=None if is_same else sizes,
            name=self.script.name,
        )


def _add_location(script: Script, index: int, error: MareyError) -> MareyError:
    """The error with file and line, or the number of the element."""
    what = getattr(error, "what", None) or str(error)
    fix = str(getattr(error, "fix", "")) or "Change this element of the time line"
    if index < len(script.lines):
        return FormatError(what, script.file, script.lines[index], fix)
    return InputError(script.where(index) + what, fix)
