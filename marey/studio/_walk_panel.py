"""The Walk tab: drive characters live with sliders and keys, jump, drop obstacles, record."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from html import escape
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal

import viser

from marey.base import InputError
from marey.studio._document import PageDocument
from marey.studio._walk import SHOWN, WalkDocument
from marey.studio._walk_controls import (
    ActionGroup,
    CharacterGroup,
    DisplayGroup,
    DriveGroup,
    StyleGroup,
    change_turn_rate,
)
from marey.studio._walker import WalkCharacter

if TYPE_CHECKING:
    from marey.studio._session import Session

SPEED_STEP, TURN_STEP = 0.1, 10.0  # of one press of a key, [m/s] and [°/s]
KEYS_HTML: Final = (
    '<div style="padding:0.2em 0.8em;font-size:0.8em;line-height:1.5;opacity:0.75">'
    "<b>I</b> faster, <b>K</b> slower, <b>J</b> left, <b>L</b> right, <b>U</b> straight on, <b>H</b> jump, "
    "<b>O</b> obstacle, <b>P</b> pause, <b>N</b> one frame; W A S D and the arrows move the camera.</div>"
)
EXPORTS: Final = {"GLB": ".glb", "BVH": ".bvh"}


class WalkPanel:
    """Commands and widgets of the Walk tab; the session's worker runs them."""

    def __init__(self, gui: viser.GuiApi, session: Session) -> None:
        self._session = session
        self._presses = count()
        self._start = gui.add_button("Walk here", icon=viser.Icon.WALK)
        self._back = gui.add_button("Back to the clip", icon=viser.Icon.MOVIE, disabled=True)
        self._state = gui.add_html(state_html(None))
        self._pause = gui.add_button_group("Time", options=("Go or pause", "One frame"))
        self._cast, self._drive = CharacterGroup(gui, self._tell), DriveGroup(gui, self._tell)
        with gui.add_folder("Jump and obstacles"):
            self._actions = ActionGroup(gui, self._tell)
        with gui.add_folder("Take"):
            self._record = gui.add_button("Record", icon=viser.Icon.PLAYER_RECORD)
            self._keep = gui.add_button_group("Keep it as", options=("Clip", *EXPORTS))
        with gui.add_folder("Draw"):
            self._looks = DisplayGroup(gui, self._tell, SHOWN)
        self._style = StyleGroup(gui, gui.add_folder("Style", expand_by_default=False), self._tell)
        gui.add_html(KEYS_HTML)
        self._groups = (self._cast, self._drive, self._actions, self._looks, self._style)
        self._connect()
        self.commands = self._add_keys(gui)

    def refresh(self, document: PageDocument) -> None:
        """Show how it goes."""
        walk = document.walk
        self._start.disabled, self._back.disabled = document.live is not None, document.live is None
        self._state.content = state_html(walk)
        if walk is None:
            return
        for group in self._groups:
            group.refresh(walk)
        label = "Stop recording" if walk.active_character.is_recording else "Record"
        if self._record.label != label:
            self._record.label = label

    def click(self, number: int) -> None:
        """A body was clicked: drive it."""
        self._tell("select", lambda walk: walk.select(walk.walkers[number].name))

    def _connect(self) -> None:
        self._start.on_click(self._when("start", self._begin))
        self._back.on_click(self._when("back", self._end))
        self._pause.on_click(self._when("time", lambda: _pass_time(self._need(), self._pause.value)))
        self._record.on_click(self._when("record", lambda: self._need().toggle_record()))
        self._keep.on_click(self._when("keep", lambda: self._keep_take(self._keep.value)))

    def _add_keys(self, gui: viser.GuiApi) -> list[viser.CommandHandle]:
        keys: dict[Literal["I", "K", "J", "L", "U", "O"], tuple[str, Callable[[WalkDocument], None]]] = {
            "I": ("Walk faster", lambda walk: walk.active_character.ask_more("speed", SPEED_STEP)),
            "K": ("Walk slower", lambda walk: walk.active_character.ask_more("speed", -SPEED_STEP)),
            "J": ("Turn left", lambda walk: change_turn_rate(walk, TURN_STEP)),
            "L": ("Turn right", lambda walk: change_turn_rate(walk, -TURN_STEP)),
            "U": ("Walk straight on", lambda walk: walk.active_character.ask("turn_rate", 0.0)),
            "O": ("Drop an obstacle", WalkDocument.drop_obstacle),
        }
        commands: list[viser.CommandHandle] = []
        for key, (label, edit) in keys.items():
            command = gui.add_command(label, hotkey=key)
            command.on_trigger(partial(self._press, edit))
            commands.append(command)
        jump = gui.add_command("Jump", hotkey="H")
        jump.on_trigger(lambda _: self._actions.jump(self._tell))
        return [*commands, jump]

    def _press(self, edit: Callable[[WalkDocument], None], _: Any) -> None:
        """Every press counts, so each has a key of its own with the worker."""
        self._tell(f"press {next(self._presses) % 100}", edit)

    def _tell(self, key: str, edit: Callable[[WalkDocument], None]) -> None:
        self._session.post(f"walk {key}", lambda: edit(self._need()))

    def _when(self, key: str, job: Callable[[], None]) -> Callable[[Any], None]:
        """A handler that leaves the job with the worker; our own assignments come without a client."""
        return lambda event: self._session.post(f"walk {key}", job) if event.client is not None else None

    def _begin(self) -> None:
        document = self._session.document
        if document.walk is None:
            from marey.locomotion import load_model

            self._state.content = _box_html("<div>Preparing the engine; the first time takes a while.</div>")
            self._session.flush()
            document.walk = WalkDocument(load_model())
        document.playing, document.walk.is_on, document.walk.is_running = False, True, True
        if document.arena is not None:
            document.arena.is_on = False
        self._session.frame_body()

    def _end(self) -> None:
        self._need().is_on = False

    def _need(self) -> WalkDocument:
        walk = self._session.document.live
        if walk is None:
            raise InputError("nobody walks", "Press 'Walk here' first")
        return walk

    def _keep_take(self, kind: str) -> None:
        """Open the take in the Play tab, or send it as a file."""
        walker = self._need().active_character
        motion = walker.finished_take()
        if kind in EXPORTS:
            self._session.send(motion, f"{walker.name}{EXPORTS[kind]}")
        else:
            self._session.open_motion(f"{walker.name}, take", motion)


def _pass_time(walk: WalkDocument, what: str) -> None:
    if what == "One frame":
        walk.single_step()
    else:
        walk.is_running = not walk.is_running


def state_html(walk: WalkDocument | None) -> str:
    """State, speed, phase, decision and timings of the driven character."""
    if walk is None:
        text = "<div>Press 'Walk here' and drive a character.</div>"
    else:
        text = "".join(f"<div>{escape(line)}</div>" for line in state_lines(walk))
    return _box_html(text)


def _box_html(text: str) -> str:
    return f'<div data-testid="walk" style="padding:0.2em 0.8em;font-size:0.85em;line-height:1.45">{text}</div>'


def state_lines(walk: WalkDocument) -> list[str]:
    """What is told of the driven character, line by line."""
    walker = walk.active_character
    engine = walker.engine
    lines = [
        f"{walker.name}: {engine.state}{'' if walk.is_running else ', paused'}",
        f"{engine.speed:.2f} m/s, phase {engine.phase % 1.0:.2f}, {engine.time_s:.1f} s",
        f"{walker.step_ms:.2f} ms a frame",
    ]
    return [*lines, *_remarks(walker)]


def _remarks(walker: WalkCharacter) -> list[str]:
    remarks = [f"Obstacle: {dropped.words}" for dropped in walker.obstacles()[-1:]]
    if walker.take is not None:
        doing = "Recording" if walker.is_recording else "Take"
        remarks.append(f"{doing}: {walker.take.seconds:.1f} s")
    return remarks + walker.remarks
