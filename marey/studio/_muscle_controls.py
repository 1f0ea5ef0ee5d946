"""Groups of widgets of the Muscle tab. Each tells edits of the lab, and follows what the lab says."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import viser

from marey.studio._muscle import MAX_SPLINES, MuscleDocument
from marey.studio._muscle_acts import LiveScene
from marey.studio._muscle_reach import EVERY_S, MAX_GOALS
from marey.studio._shown import make_handler
from marey.studio._sketch_controls import set_visible
from marey.studio._walk_controls import SliderField

MuscleEdit = Callable[[str, Callable[[MuscleDocument], None]], None]  # a key, under which the newest wins, and the edit


class SplineSliders:
    """One slider a spline; one that is moved takes its spline over from the programme."""

    def __init__(self, gui: viser.GuiApi, tell: MuscleEdit) -> None:
        self.bars = gui.add_html("")
        self.fields = [SliderField(gui.add_slider(f"Spline {i + 1}", 0.0, 1.0, 0.01, 0.0)) for i in range(MAX_SPLINES)]
        self._tell = tell
        for i, field in enumerate(self.fields):
            field.on_user(make_handler(tell, f"spline {i}", field.heard, _hold_edit(i)))

    def refresh(self, lab: MuscleDocument) -> None:
        """Name the sliders of the scene, and show how active each spline is."""
        live = lab.live
        names = () if live is None else live.names
        for i, field in enumerate(self.fields):
            set_visible(field.slider, i < len(names))
            if live is not None and i < len(names):
                if field.slider.label != names[i]:
                    field.slider.label = names[i]
                field.show(live.held.get(names[i], 0.0))
        if live is not None and lab.act is live:
            self.bars.content = bars_html(live)


def _hold_edit(number: int) -> Callable[[MuscleDocument, float], None]:
    def act(lab: MuscleDocument, value: float) -> None:
        names = lab.need_live().names
        if number < len(names):
            lab.hold(names[number], value)

    return act


def bars_html(live: LiveScene) -> str:
    """How active each spline is now, and who drives it."""
    rows = "".join(_bar(name, value, name in live.held) for name, value in live.activations().items())
    return f'<div data-testid="activations" style="padding:0.2em 0.8em;font-size:0.8em;line-height:1.5">{rows}</div>'


def _bar(name: str, value: float, is_held: bool) -> str:
    colour = "#c1121f" if value >= 0.0 else "#2a6fbb"
    width = min(abs(value), 1.0)
    text = f"{name}: {value:.2f}, {'slider' if is_held else 'programme'}"
    return (
        f'<div><div>{escape(text)}</div><div style="background:#dcb9a666;height:0.4em;border-radius:0.2em">'
        f'<div style="background:{colour};height:100%;width:{width:.0%};border-radius:0.2em"></div></div></div>'
    )


class GoalGroup:
    """How many places the hand goes to, and how fast."""

    def __init__(self, gui: viser.GuiApi, tell: MuscleEdit) -> None:
        self.count = SliderField(gui.add_slider("Goals", 1.0, float(MAX_GOALS), 1.0, 1.0))
        self.every = SliderField(gui.add_slider("Every [s]", *EVERY_S, 0.05, 0.4))
        self.count.on_user(make_handler(tell, "goals", self.count.heard, lambda lab, n: lab.goals.set_count(n)))
        self.every.on_user(make_handler(tell, "every", self.every.heard, lambda lab, s: lab.goals.set_every(s)))

    def refresh(self, lab: MuscleDocument) -> None:
        """Show what was asked for."""
        self.count.show(float(lab.goals.count))
        self.every.show(lab.goals.every_s)
