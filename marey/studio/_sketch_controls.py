"""Groups of widgets of the Sketch tab. Each tells edits of the draft, and follows what the draft says."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from html import escape
from typing import Any, Final

import viser

from marey.studio._sketch import CORRIDOR_M, EVENTS, SPEED_MPS, Draft
from marey.studio._sketch_drawn import WAYS
from marey.studio._sketch_forms import FIELDS, KINDS, RANGES
from marey.studio._sketch_run import BUDGET_S, ENGINES
from marey.studio._walk_controls import Field
from marey.studio._walker import within
from marey.world import Event

Tell = Callable[[str, Callable[[Draft], None]], None]  # a key, under which the newest wins, and the edit
NOTHING: Final = "nothing"
LABELS: Final = {
    "turn_deg": ("Turn [°]", 1.0),
    "length_m": ("Length [m]", 0.05),
    "width_m": ("Width [m]", 0.05),
    "height_m": ("Height [m]", 0.01),
}
BLENDS: Final = {"one motion (k = 1)": 1, "two motions (k = 2)": 2}


class WayGroup:
    """Way-points, the curve through them, the corridor and the speed."""

    def __init__(self, gui: viser.GuiApi, tell: Tell) -> None:
        self.edit = gui.add_button_group("Way", options=("Add a way-point", "Undo", "Redo"))
        self.way = gui.add_dropdown("Curve", options=WAYS)
        self.corridor = Field(gui.add_slider("Corridor [m]", *CORRIDOR_M, 0.05, 1.0))
        self.speed = Field(gui.add_slider("Speed [m/s]", *SPEED_MPS, 0.05, 0.0, hint="0: the engine chooses"))
        self.edit.on_click(when_user(lambda: self._edit(tell)))
        self.way.on_update(when_user(lambda: self._choose(tell)))
        self.corridor.on_user(partial(self._widen, tell))
        self.speed.on_user(partial(self._hurry, tell))

    def refresh(self, draft: Draft) -> None:
        """Show what is drawn."""
        if self.way.value != draft.drawn.way:
            self.way.value = draft.drawn.way
        self.corridor.show(draft.drawn.corridor_m)
        self.speed.show(draft.drawn.speed_mps or 0.0)

    def _edit(self, tell: Tell) -> None:
        edits = {"Add a way-point": Draft.add_point, "Undo": Draft.undo, "Redo": Draft.redo}
        tell(f"way {self.edit.value}", edits[self.edit.value])

    def _choose(self, tell: Tell) -> None:
        way = self.way.value
        tell("curve", lambda draft: draft.set_way(way))

    def _widen(self, tell: Tell, width_m: float) -> None:
        self.corridor.heard(width_m)
        tell("corridor", lambda draft: draft.set_corridor(width_m))

    def _hurry(self, tell: Tell, speed_mps: float) -> None:
        self.speed.heard(speed_mps)
        tell("speed", lambda draft: draft.set_speed(speed_mps))


class ThingsGroup:
    """Drop things and events; each is put in front and dragged from there."""

    def __init__(self, gui: viser.GuiApi, tell: Tell) -> None:
        self.drop = gui.add_button_group("Drop a", options=KINDS)
        self.event = gui.add_button_group("Do", options=EVENTS)
        self.clear = gui.add_button("Clear events", icon=viser.Icon.ERASER)
        self.listing = gui.add_html("")
        self.drop.on_click(when_user(lambda: self._drop(tell)))
        self.event.on_click(when_user(lambda: self._event(tell)))
        self.clear.on_click(when_user(lambda: tell("clear", Draft.clear_events)))

    def refresh(self, draft: Draft) -> None:
        """List the events in their order."""
        rows = [f"<div>{number}. {escape(in_words(e))}</div>" for number, e in enumerate(draft.drawn.events, start=1)]
        self.listing.content = boxed("events", "".join(rows) or "<div>No events.</div>")

    def _drop(self, tell: Tell) -> None:
        kind = self.drop.value
        tell(f"drop {kind}", lambda draft: draft.drop(kind))

    def _event(self, tell: Tell) -> None:
        kind = self.event.value
        tell(f"event {kind}", lambda draft: draft.add_event(kind))


class ItemGroup:
    """What is selected: where it is, how it is turned and how large it is."""

    def __init__(self, gui: viser.GuiApi, tell: Tell) -> None:
        options: list[str] = [NOTHING]
        self.which = gui.add_dropdown("Selected", options=options)
        self.x = gui.add_number("x [m]", 0.0, step=0.01, visible=False)
        self.z = gui.add_number("z [m]", 0.0, step=0.01, visible=False)
        self.fields = {field: self._add(gui, field) for field in LABELS}
        self.remove = gui.add_button("Remove it", icon=viser.Icon.TRASH, visible=False)
        self.which.on_update(when_user(lambda: self._select(tell)))
        for number in (self.x, self.z):
            number.on_update(when_user(lambda: self._move(tell)))
        for name, field in self.fields.items():
            field.on_user(partial(self._resize, tell, name))
        self.remove.on_click(when_user(lambda: tell("remove", lambda draft: draft.remove(draft.selected))))

    def refresh(self, draft: Draft) -> None:
        """Describe the item in hand."""
        options = (NOTHING, *draft.items())
        if self.which.options != options:
            self.which.options = options
        if self.which.value != (draft.selected or NOTHING):
            self.which.value = draft.selected or NOTHING
        is_some = bool(draft.selected)
        for widget in (self.x, self.z, self.remove):
            if widget.visible != is_some:
                widget.visible = is_some
        if is_some:
            x, _, z = draft.place_of(draft.selected)
            _show(self.x, x)
            _show(self.z, z)
        form = draft.form(draft.selected)
        for name, field in self.fields.items():
            has = form is not None and name in FIELDS[form.kind]
            if field.slider.visible != has:
                field.slider.visible = has
            if form is not None and has:
                field.show(float(getattr(form, name)))

    def _add(self, gui: viser.GuiApi, name: str) -> Field:
        label, step = LABELS[name]
        low, high = RANGES[name]
        return Field(gui.add_slider(label, low, high, step, max(low, 0.0), visible=False))

    def _select(self, tell: Tell) -> None:
        label = "" if self.which.value == NOTHING else self.which.value
        tell("select", lambda draft: draft.select(label))

    def _move(self, tell: Tell) -> None:
        x, z = float(self.x.value), float(self.z.value)
        tell("place", lambda draft: draft.move(draft.selected, x, z))

    def _resize(self, tell: Tell, name: str, value: float) -> None:
        def edit(draft: Draft) -> None:
            self.fields[name].heard(value)
            draft.resize(draft.selected, name, value)

        tell(f"resize {name}", edit)


class WishGroup:
    """Which engine makes the motion, and how long it may look for it."""

    def __init__(self, gui: viser.GuiApi, tell: Tell) -> None:
        self.engine = gui.add_dropdown("Engine", options=ENGINES)
        self.blend = gui.add_dropdown("Blend", options=tuple(BLENDS), initial_value=list(BLENDS)[1])
        self.budget = gui.add_number("Look for [s]", 10.0, min=BUDGET_S[0], max=BUDGET_S[1], step=1.0)
        self.engine.on_update(when_user(lambda: self._choose(tell)))
        self.blend.on_update(when_user(lambda: self._blend(tell)))
        self.budget.on_update(when_user(lambda: self._spend(tell)))

    def refresh(self, draft: Draft) -> None:
        """Show what is asked for."""
        words = next(text for text, k in BLENDS.items() if k == draft.k)
        for widget, value in ((self.engine, draft.engine), (self.blend, words)):
            if widget.value != value:
                widget.value = value
        if self.budget.value != draft.budget_s:
            self.budget.value = draft.budget_s

    def _choose(self, tell: Tell) -> None:
        engine = self.engine.value
        tell("engine", lambda draft: _set_engine(draft, engine))

    def _blend(self, tell: Tell) -> None:
        k = BLENDS.get(self.blend.value, 2)
        tell("blend", lambda draft: setattr(draft, "k", k))

    def _spend(self, tell: Tell) -> None:
        seconds = float(self.budget.value)
        tell("budget", lambda draft: setattr(draft, "budget_s", within(seconds, BUDGET_S, "the time")))


def _set_engine(draft: Draft, engine: str) -> None:
    if engine in ENGINES:
        draft.engine = engine


def _show(number: viser.GuiNumberHandle[float], value: float) -> None:
    if not abs(number.value - value) < 5e-4:  # also if the page sent no number
        number.value = round(value, 3)


def in_words(event: Event) -> str:
    """An event for people."""
    if event.kind == "pick":
        return f"pick {event.object} up"
    if event.kind == "place" and event.to is not None:
        x, y, z = event.to
        return f"put {event.object} down at ({x:.2f}, {y:.2f}, {z:.2f})"
    x, z = event.at or (0.0, 0.0)
    size = "" if event.length_m is None else f" {event.length_m:g} m"
    stay = "" if event.seconds is None else f" for {event.seconds:g} s"
    return f"{event.kind}{size}{stay} at ({x:.2f}, {z:.2f})"


def boxed(name: str, text: str) -> str:
    """A block of small text that tests can find."""
    return f'<div data-testid="{name}" style="padding:0.2em 0.8em;font-size:0.8em;line-height:1.45">{text}</div>'


def when_user(handler: Callable[[], None]) -> Callable[[Any], None]:
    """Ignore events that our own assignments cause: they come without a client."""
    return lambda event: handler() if event.client is not None else None
