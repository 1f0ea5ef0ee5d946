"""Groups of widgets of the Sketch tab. Each reports edits of the sketch and follows its state."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from html import escape
from typing import Any, Final

import viser

from marey.pipeline import ENGINES
from marey.studio.document.sketch.editor import BRUSH_KINDS, CORRIDOR_M, SPEED_MPS, WAY_POINT, SketchEditor
from marey.studio.document.sketch.forms import FOUND_BY_ENGINE, KINDS, PATH_KINDS
from marey.studio.document.sketch.items import EVENTS, MEASURES, event_labels
from marey.studio.document.sketch.synthesis import BUDGET_S
from marey.studio.document.walk import clamp_value
from marey.studio.modes.progress import box_html, describe_event
from marey.studio.modes.walk import SliderField

SketchEdit = Callable[[str, Callable[[SketchEditor], None]], None]  # a key, under which the newest wins, and the edit
NOTHING: Final = "nothing"
ENGINE_CHOOSES: Final = "0: the engine chooses"
LABELS: Final = {  # measure -> label, step, hint
    "turn_deg": ("Turn [°]", 1.0, None),
    "length_m": ("Length [m]", 0.05, None),
    "width_m": ("Width [m]", 0.05, None),
    "height_m": ("Height [m]", 0.01, None),
    "facing_deg": ("Facing [°]", 1.0, "0 is along +z, 90 along +x"),
    "tolerance_m": ("Within [m]", 0.05, "how near is near enough"),
    "jump_m": ("Length [m]", 0.05, ENGINE_CHOOSES),
    "rise_m": ("Rise [m]", 0.05, ENGINE_CHOOSES),
    "seconds": ("Stay [s]", 0.5, None),
    "put_m": ("Height [m]", 0.01, None),
}
BLENDS: Final = {"one motion (k = 1)": 1, "two motions (k = 2)": 2}


class PathGroup:
    """Way-points, the curve through them, the corridor and the speed."""

    def __init__(self, gui: viser.GuiApi, tell: SketchEdit) -> None:
        self.way = gui.add_dropdown("Way", options=PATH_KINDS)
        self.corridor = SliderField(
            gui.add_slider("Corridor [m]", *CORRIDOR_M, 0.05, 1.0, hint="width of the band in which the root stays")
        )
        self.speed = SliderField(gui.add_slider("Speed [m/s]", *SPEED_MPS, 0.05, 0.0, hint=ENGINE_CHOOSES))
        self.way.on_update(only_from_user(lambda: self._choose(tell)))
        self.corridor.on_user(partial(self._widen, tell))
        self.speed.on_user(partial(self._hurry, tell))

    def refresh(self, draft: SketchEditor) -> None:
        """Show what is drawn."""
        if self.way.value != draft.drawn.way:
            self.way.value = draft.drawn.way
        set_visible(self.corridor.slider, draft.drawn.way != FOUND_BY_ENGINE)
        self.corridor.show(draft.drawn.corridor_m)
        self.speed.show(draft.drawn.speed_mps or 0.0)

    def _choose(self, tell: SketchEdit) -> None:
        way = self.way.value
        tell("curve", lambda draft: draft.set_way(way))

    def _widen(self, tell: SketchEdit, width_m: float) -> None:
        self.corridor.acknowledge(width_m)
        tell("corridor", lambda draft: draft.set_corridor(width_m))

    def _hurry(self, tell: SketchEdit, speed_mps: float) -> None:
        self.speed.acknowledge(speed_mps)
        tell("speed", lambda draft: draft.set_speed(speed_mps))


class ObjectsGroup:
    """What a click puts on the ground; things and events that are put in front and dragged from there."""

    def __init__(self, gui: viser.GuiApi, tell: SketchEdit) -> None:
        self.brush = gui.add_dropdown("Ctrl-click puts", options=BRUSH_KINDS, hint="where you click on the ground")
        self.drop = gui.add_button_group("Drop a", options=(WAY_POINT, *KINDS), hint="on the way, or beside it")
        self.event = gui.add_button_group("Then", options=EVENTS, hint="with what is selected, or on the way")
        self.listing = gui.add_html("")
        self.edit = gui.add_button_group("Edit", options=tuple(EDITS))
        self.brush.on_update(only_from_user(lambda: self._take(tell)))
        self.drop.on_click(only_from_user(lambda: self._drop(tell)))
        self.event.on_click(only_from_user(lambda: self._event(tell)))
        self.edit.on_click(only_from_user(lambda: self._edit(tell)))

    def refresh(self, draft: SketchEditor) -> None:
        """List the events in their order."""
        if self.brush.value != draft.brush:
            self.brush.value = draft.brush
        # The events in their order
        events = draft.drawn.events
        rows = [f"<div>{number}. {escape(describe_event(e))}</div>" for number, e in enumerate(events, start=1)]
        content = box_html("events", "".join(rows) or "<div>No events on the path.</div>")
        if self.listing.content != content:
            self.listing.content = content

    def _take(self, tell: SketchEdit) -> None:
        brush = self.brush.value
        tell("brush", lambda draft: draft.take_brush(brush))

    def _drop(self, tell: SketchEdit) -> None:
        kind = self.drop.value
        tell(f"drop {kind}", lambda draft: draft.add_point() if kind == WAY_POINT else draft.drop(kind))

    def _edit(self, tell: SketchEdit) -> None:
        edit = EDITS.get(self.edit.value)
        if edit is not None:
            tell(f"edit {self.edit.value}", edit)

    def _event(self, tell: SketchEdit) -> None:
        kind = self.event.value
        tell(f"event {kind}", lambda draft: draft.add_event(kind))


class ItemGroup:
    """What is selected: where it is, how it is turned and how large it is."""

    def __init__(self, gui: viser.GuiApi, tell: SketchEdit) -> None:
        options: list[str] = [NOTHING]
        self.which = gui.add_dropdown("Item", options=options)
        self.x = gui.add_number("x [m]", 0.0, step=0.01, visible=False)
        self.z = gui.add_number("z [m]", 0.0, step=0.01, visible=False)
        self.any = gui.add_checkbox("Faces any way", False, visible=False)
        self.fields = {field: self._add(gui, field) for field in LABELS}
        self.order = gui.add_button_group("Do it", options=("Earlier", "Later"), visible=False)
        self.remove = gui.add_button("Remove it", icon=viser.Icon.TRASH, visible=False)
        self.which.on_update(only_from_user(lambda: self._select(tell)))
        for number in (self.x, self.z):
            number.on_update(only_from_user(lambda: self._move(tell)))
        for name, field in self.fields.items():
            field.on_user(partial(self._resize, tell, name))
        self.any.on_update(only_from_user(lambda: self._face(tell)))
        self.order.on_click(only_from_user(lambda: self._shift(tell)))
        self.remove.on_click(only_from_user(lambda: tell("remove", lambda draft: draft.remove(draft.selected))))

    def refresh(self, draft: SketchEditor) -> None:
        """Describe the selected item."""
        options = (NOTHING, *draft.items())
        if self.which.options != options:
            self.which.options = options
        if self.which.value != (draft.selected or NOTHING):
            self.which.value = draft.selected or NOTHING
        for widget in (self.x, self.z, self.remove):
            set_visible(widget, bool(draft.selected))
        if draft.selected:
            x, _, z = draft.place_of(draft.selected)
            _show(self.x, x)
            _show(self.z, z)
        stand = draft.stand(draft.selected)
        set_visible(self.any, stand is not None)
        if stand is not None:
            self.any.value = stand.heading_deg is None
        set_visible(self.order, draft.selected in event_labels(draft.drawn) and len(draft.drawn.events) > 1)
        # Show what of the item can be turned or resized
        measures = draft.measures(draft.selected)
        stand_measure = draft.stand(draft.selected)
        if stand_measure is not None and stand_measure.heading_deg is None:
            measures.pop("facing_deg")
        for name, field in self.fields.items():
            set_visible(field.slider, name in measures)
            if name in measures:
                field.show(measures[name])

    def _add(self, gui: viser.GuiApi, name: str) -> SliderField:
        label, step, hint = LABELS[name]
        low, high = MEASURES[name]
        return SliderField(gui.add_slider(label, low, high, step, max(low, 0.0), visible=False, hint=hint))

    def _select(self, tell: SketchEdit) -> None:
        label = "" if self.which.value == NOTHING else self.which.value
        tell("select", lambda draft: draft.select(label))

    def _move(self, tell: SketchEdit) -> None:
        x, z = float(self.x.value), float(self.z.value)
        tell("place", lambda draft: draft.move(draft.selected, x, z))

    def _face(self, tell: SketchEdit) -> None:
        is_any = bool(self.any.value)
        tell("face", lambda draft: draft.face_any_way(draft.selected, is_any))

    def _shift(self, tell: SketchEdit) -> None:
        by = -1 if self.order.value == "Earlier" else 1
        tell("shift", lambda draft: draft.shift_event(draft.selected, by))

    def _resize(self, tell: SketchEdit, name: str, value: float) -> None:
        def edit(draft: SketchEditor) -> None:
            self.fields[name].acknowledge(value)
            draft.resize(draft.selected, name, value)

        tell(f"resize {name}", edit)


class EngineGroup:
    """Which engine makes the motion, and how long it may look for it."""

    def __init__(self, gui: viser.GuiApi, tell: SketchEdit) -> None:
        engines: list[str] = list(ENGINES)
        self.engine = gui.add_dropdown("Engine", options=engines)
        self.blend = gui.add_dropdown("Graph blends", options=tuple(BLENDS), initial_value=list(BLENDS)[1])
        self.budget = gui.add_number("Search for [s]", 10.0, min=BUDGET_S[0], max=BUDGET_S[1], step=1.0)
        self.engine.on_update(only_from_user(lambda: self._choose(tell)))
        self.blend.on_update(only_from_user(lambda: self._blend(tell)))
        self.budget.on_update(only_from_user(lambda: self._spend(tell)))

    def refresh(self, draft: SketchEditor) -> None:
        """Show what is asked for."""
        words = next(text for text, k in BLENDS.items() if k == draft.k)
        for widget, value in ((self.engine, draft.engine), (self.blend, words)):
            if widget.value != value:
                widget.value = value
        if self.budget.value != draft.budget_s:
            self.budget.value = draft.budget_s

    def _choose(self, tell: SketchEdit) -> None:
        engine = self.engine.value
        tell("engine", lambda draft: _set_engine(draft, engine))

    def _blend(self, tell: SketchEdit) -> None:
        k = BLENDS.get(self.blend.value, 2)
        tell("blend", lambda draft: setattr(draft, "k", k))

    def _spend(self, tell: SketchEdit) -> None:
        seconds = float(self.budget.value)
        tell("budget", lambda draft: setattr(draft, "budget_s", clamp_value(seconds, BUDGET_S, "the time")))


def _set_engine(draft: SketchEditor, engine: str) -> None:
    if engine in ENGINES:
        draft.engine = engine


def _show(number: viser.GuiNumberHandle[float], value: float) -> None:
    if not abs(number.value - value) < 5e-4:  # also if the page sent no number
        number.value = round(value, 3)


def set_visible(widget: Any, is_seen: bool) -> None:
    """Show or hide a widget; nothing is sent where nothing changes."""
    if widget.visible != is_seen:
        widget.visible = is_seen


EDITS: Final[dict[str, Callable[[SketchEditor], None]]] = {
    "Undo": SketchEditor.undo,
    "Redo": SketchEditor.redo,
    "New": SketchEditor.clear,
}


def only_from_user(handler: Callable[[], None]) -> Callable[[Any], None]:
    """Ignore events that our own assignments cause: they come without a client."""
    return lambda event: handler() if event.client is not None else None
