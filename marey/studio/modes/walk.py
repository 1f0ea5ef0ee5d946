"""The Walk tab: drive characters live with sliders and keys, jump, drop obstacles, record."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from html import escape
from itertools import count
from math import degrees, radians
from typing import TYPE_CHECKING, Any, Final, Literal

import viser

from marey.base import InputError
from marey.studio.document.page import PageDocument
from marey.studio.document.walk import JUMP_KINDS, JUMP_RANGE_M, MAX_OVER_S, RANGES, SHOWN, WalkCharacter, WalkDocument
from marey.studio.view.widgets import SyncedWidget, make_handler

if TYPE_CHECKING:
    from marey.studio.server.session import Session


WalkEdit = Callable[[str, Callable[[WalkDocument], None]], None]  # a key, under which the newest wins, and the edit
GAITS: Final = {"Stand": (0.0, 0.0), "Walk": (1.3, 0.0), "Run": (3.0, 1.0)}  # speed [m/s], share of running
LABELS: Final = {
    "speed": ("Speed [m/s]", 0.05, 1.0),  # label, step on the page, page units in one SI unit
    "run": ("Walk to run", 0.05, 1.0),
    "turn_rate": ("Turn [°/s]", 1.0, degrees(1.0)),
    "leg_length_m": ("Leg [m]", 0.01, 1.0),
}


class SliderField:
    """A slider with its number: it follows the walk, and never overwrites a hand that moves it."""

    def __init__(self, slider: viser.GuiSliderHandle[float], page_units: float = 1.0) -> None:
        self.slider, self._units = slider, page_units
        self._known = float(slider.value)

    def on_user(self, tell: Callable[[float], None]) -> None:
        """Call back with the value in SI, read at the moment the user moved it."""

        def handle(event: Any) -> None:
            if event.client is not None:
                tell(float(self.slider.value) / self._units)

        self.slider.on_update(handle)

    def acknowledge(self, value: float) -> None:
        """Remember what the page shows by now."""
        self._known = value * self._units

    def show(self, value: float) -> None:
        """Set the slider if the page shows another value."""
        step = float(self.slider.step)
        shown = round(round(value * self._units / step) * step, 6)
        if not abs(shown - self._known) < 0.5 * step:
            self._known = shown
            self.slider.value = shown


class CharacterGroup:
    """The characters and the driven one."""

    def __init__(self, gui: viser.GuiApi, tell: WalkEdit) -> None:
        names: list[str] = ["Walker 1"]
        self.who = gui.add_dropdown("Drive", options=names)
        self._shown = SyncedWidget(self.who)
        self.change = gui.add_button_group("Character", options=("Add one", "Remove it"))
        self._shown.bind(tell, "select", WalkDocument.select)
        self.change.on_click(_only_from_user(lambda: self._add_or_remove(tell)))

    def refresh(self, walk: WalkDocument) -> None:
        """List the characters."""
        names = tuple(walker.name for walker in walk.walkers)
        if self.who.options != names:
            self.who.options = names
        self._shown.show(walk.active_character.name)

    def _add_or_remove(self, tell: WalkEdit) -> None:
        edit = WalkDocument.add if self.change.value == "Add one" else WalkDocument.remove
        tell("cast", edit)


class DriveGroup:
    """Speed, gait, turning, size, and how long a change takes."""

    def __init__(self, gui: viser.GuiApi, tell: WalkEdit) -> None:
        self.gait = gui.add_button_group("Gait", options=tuple(GAITS))
        self.fields = {what: self._add(gui, what) for what in LABELS}
        self.over = gui.add_number("Reach in [s]", 1.0, min=0.0, max=MAX_OVER_S, step=0.1)
        self._over = SyncedWidget(self.over)
        self.gait.on_click(_only_from_user(lambda: self._choose(tell)))
        self._over.bind(tell, "over", WalkDocument.take_time)
        for what, field in self.fields.items():
            field.on_user(make_handler(tell, what, field.acknowledge, _command_edit(what)))

    def refresh(self, walk: WalkDocument) -> None:
        """Show what the driven character was asked for."""
        for what, field in self.fields.items():
            field.show(walk.active_character.asked[what])
        self._over.show(walk.over_s)

    def _add(self, gui: viser.GuiApi, what: str) -> SliderField:
        label, step, units = LABELS[what]
        low, high = (round(units * bound / step) * step for bound in RANGES[what])
        start = 0.9 if what == "leg_length_m" else 0.0
        return SliderField(gui.add_slider(label, low, high, step, start), units)

    def _choose(self, tell: WalkEdit) -> None:
        speed, run = GAITS.get(self.gait.value, (0.0, 0.0))

        def edit(walk: WalkDocument) -> None:
            walk.active_character.ask("run", run, walk.over_s)
            walk.active_character.ask("speed", speed, walk.over_s)

        tell("gait", edit)


class StyleGroup:
    """A weight for each style of the model; its sliders come with the model."""

    def __init__(self, gui: viser.GuiApi, folder: viser.GuiFolderHandle, tell: WalkEdit) -> None:
        self._gui, self._folder, self._tell = gui, folder, tell
        self.fields: dict[str, SliderField] = {}

    def refresh(self, walk: WalkDocument) -> None:
        """Show the weights of the driven character."""
        if not self.fields:
            with self._folder:
                self.fields = {name: self._add(name) for name in walk.active_character.styles}
        for name, field in self.fields.items():
            field.show(walk.active_character.styles[name])

    def _add(self, name: str) -> SliderField:
        field = SliderField(self._gui.add_slider(name, 0.0, 1.0, 0.05, 0.0))
        field.on_user(make_handler(self._tell, f"style {name}", field.acknowledge, _style_edit(name)))
        return field


def _command_edit(what: str) -> Callable[[WalkDocument, float], None]:
    return lambda walk, value: walk.active_character.ask(what, value, walk.over_s)


def _style_edit(name: str) -> Callable[[WalkDocument, float], None]:
    return lambda walk, weight: walk.active_character.ask_style(name, weight, walk.over_s)


class ActionGroup:
    """Jumps and obstacles."""

    def __init__(self, gui: viser.GuiApi, tell: WalkEdit) -> None:
        self.length = gui.add_slider("Length [m]", *JUMP_RANGE_M, 0.05, 1.0)
        self.kind = gui.add_dropdown("From", options=JUMP_KINDS)
        self.jump_button = gui.add_button("Jump", icon=viser.Icon.JUMP_ROPE)
        self.drop_button = gui.add_button("Drop an obstacle", icon=viser.Icon.BARRIER_BLOCK)
        self.undo = gui.add_button_group("Never mind", options=("Cancel jump", "Clear boxes"))
        self.jump_button.on_click(_only_from_user(lambda: self.jump(tell)))
        self.drop_button.on_click(_only_from_user(lambda: tell("drop", WalkDocument.drop_obstacle)))
        self.undo.on_click(_only_from_user(lambda: self._never_mind(tell)))

    def jump(self, tell: WalkEdit) -> None:
        """Ask for the jump that the widgets describe."""
        length, kind = float(self.length.value), self.kind.value
        tell("jump", lambda walk: walk.active_character.jump(length, kind))

    def _never_mind(self, tell: WalkEdit) -> None:
        is_jump = self.undo.value == "Cancel jump"
        tell("cancel" if is_jump else "clear", WalkDocument.cancel_jump if is_jump else WalkDocument.clear_obstacles)

    def refresh(self, walk: WalkDocument) -> None:
        """Nothing here depends on the walk."""


class DisplayGroup:
    """What is drawn, and whether feet are held."""

    def __init__(self, gui: viser.GuiApi, tell: WalkEdit, shown: dict[str, bool]) -> None:
        self.boxes = {what: gui.add_checkbox(what, initial_value=on) for what, on in shown.items()}
        self.plants = gui.add_checkbox("Hold feet", initial_value=True)
        self._shown = {what: SyncedWidget(box) for what, box in self.boxes.items()}
        self._plants = SyncedWidget(self.plants)
        for what, box in self._shown.items():
            box.bind(tell, f"show {what}", _visibility_edit(what))
        self._plants.bind(tell, "plants", lambda walk, on: walk.active_character.hold_feet(on))

    def refresh(self, walk: WalkDocument) -> None:
        """Tick what is shown."""
        for what, box in self._shown.items():
            box.show(walk.shown[what])
        self._plants.show(walk.active_character.engine.plants)


def _visibility_edit(what: str) -> Callable[[WalkDocument, bool], None]:
    return lambda walk, on: walk.show(what, on)


def change_turn_rate(walk: WalkDocument, degrees_per_s: float) -> None:
    """Turn more to one side; no time to reach it beyond what the engine needs."""
    walk.active_character.ask("turn_rate", walk.active_character.asked["turn_rate"] + radians(degrees_per_s), 0.2)


def _only_from_user(handler: Callable[[], None]) -> Callable[[Any], None]:
    """Ignore events that our own assignments cause: they come without a client."""
    return lambda event: handler() if event.client is not None else None


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
    """Status text of the driven character, line by line."""
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
