"""Groups of widgets of the Walk tab. Each tells edits of the walk, and follows what the walk says."""

from __future__ import annotations

from collections.abc import Callable
from math import degrees, radians
from typing import Any, Final

import viser

from marey.studio._shown import SyncedWidget, make_handler
from marey.studio._walk import WalkDocument
from marey.studio._walker import JUMP_KINDS, JUMP_RANGE_M, MAX_OVER_S, RANGES

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

    def heard(self, value: float) -> None:
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
    """Who walks, and who is driven."""

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
            field.on_user(make_handler(tell, what, field.heard, _command_edit(what)))

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
        field.on_user(make_handler(self._tell, f"style {name}", field.heard, _style_edit(name)))
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
