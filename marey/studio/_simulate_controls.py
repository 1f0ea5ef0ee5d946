"""Groups of widgets of the Simulate tab. Each tells edits of the arena, and follows what the arena says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import viser

from marey.dynamics import GRAVITY
from marey.studio._shown import SyncedWidget, make_handler
from marey.studio._simulate import SHOWN, SimulationDocument
from marey.studio._simulate_wish import (
    BALL_KG,
    BALL_M_S,
    CONTROLLERS,
    DIRECTION_DEG,
    FEET,
    FLAGS,
    ON_FEET,
    PARTS,
    PUSH_N,
    PUSH_S,
    RANGES,
    RISE_DEG,
    SimulationSettings,
)
from marey.studio._sketch_controls import only_from_user, set_visible
from marey.studio._walk_controls import SliderField

SimulationEdit = Callable[
    [str, Callable[[SimulationDocument], None]], None
]  # a key, under which the newest wins, and the edit
LABELS: Final = {  # slider -> label, step, hint
    "alpha": ("Alpha", 0.01, "of a puppet: 0 obeys physics alone, 1 the hand alone"),
    "stiffness_per_s": ("Stiffness [1/s]", 0.5, "with which a puppet and a standing figure keep their pose"),
    "pull_n_m": ("Pull [N/m]", 50.0, "of the hand's spring"),
    "damping_per_s": ("Damping [1/s]", 0.1, "of all motion inside the figure"),
    "modes": ("Dimension", 1.0, "modes of the pose space that the clip teaches"),
    "gravity_m_s2": ("Gravity [m/s²]", 0.01, f"{GRAVITY:g} on earth, 1.62 on the moon"),
    "slope_deg": ("Slope [°]", 0.5, "of the ground, rising ahead"),
}
CHECKBOXES: Final = {
    "is_full": ("All joints move", "the full space instead of modes"),
    "has_limits": ("Joint limits of the clip", "with half a radian of room"),
    "is_reaching": ("Reach for the hand", "the figure follows the hand by itself instead of being pulled"),
}

RELEVANT_MODES: Final = {  # wills to which a widget means something, where it is not all of them
    "alpha": ("puppet",),
    "stiffness_per_s": ("puppet", *ON_FEET),
    "pull_n_m": ("free", *ON_FEET),
    "has_limits": ("free", "puppet"),
    "is_reaching": ON_FEET,
    "feet": ("balance",),
}


class ControllerGroup:
    """What the figure wants, and all sliders."""

    def __init__(self, gui: viser.GuiApi, tell: SimulationEdit) -> None:
        self.will = SyncedWidget(gui.add_dropdown("The figure is", options=CONTROLLERS))
        self.feet = SyncedWidget(gui.add_dropdown("Stands on", options=FEET, hint="when it is balancing"))
        start = SimulationSettings()
        self.fields = {what: self._add(gui, what, start) for what in LABELS}
        self.ticks = {
            what: SyncedWidget(gui.add_checkbox(label, bool(getattr(start, what)), hint=hint))
            for what, (label, hint) in CHECKBOXES.items()
        }
        assert set(self.ticks) == set(FLAGS) and set(self.fields) == set(RANGES)
        self._widgets = {"feet": self.feet.widget} | {what: field.slider for what, field in self.fields.items()}
        self._widgets |= {what: box.widget for what, box in self.ticks.items()}
        self.will.bind(tell, "will", SimulationDocument.choose)
        self.feet.bind(tell, "feet", SimulationDocument.stand_on)
        for what, field in self.fields.items():
            field.on_user(make_handler(tell, what, field.heard, _setting_edit(what)))
        for what, box in self.ticks.items():
            box.bind(tell, what, _setting_edit(what))

    def refresh(self, arena: SimulationDocument) -> None:
        """Show what was asked for, and what means something to this will."""
        wish, most = arena.wish, arena.figures.num_modes
        if most is not None and self.fields["modes"].slider.max != most:
            self.fields["modes"].slider.max = most
        self.will.show(wish.will)
        self.feet.show(wish.feet)
        for what, field in self.fields.items():
            field.show(min(wish.modes, most or wish.modes) if what == "modes" else getattr(wish, what))
        for what, box in self.ticks.items():
            box.show(getattr(wish, what))
        for what, widget in self._widgets.items():
            set_visible(
                widget, wish.will in RELEVANT_MODES.get(what, CONTROLLERS) and not (what == "modes" and wish.is_full)
            )

    def _add(self, gui: viser.GuiApi, what: str, start: SimulationSettings) -> SliderField:
        label, step, hint = LABELS[what]
        return SliderField(gui.add_slider(label, *RANGES[what], step, float(getattr(start, what)), hint=hint))


def _setting_edit(what: str) -> Callable[[SimulationDocument, float], None]:
    return lambda arena, value: arena.ask(what, value)


class PushGroup:
    """A push and a ball, with their direction and strength."""

    def __init__(self, gui: viser.GuiApi, tell: SimulationEdit) -> None:
        self.part = gui.add_dropdown("At the", options=tuple(PARTS))
        self.heading = gui.add_slider("Towards [°]", *DIRECTION_DEG, 5.0, 0.0, hint="0 ahead (+z), 90 to the left (+x)")
        self.rise = gui.add_slider("Rise [°]", *RISE_DEG, 5.0, 0.0, hint="90 is straight up; of the push alone")
        self.force = gui.add_slider("Strength [N]", *PUSH_N, 10.0, 200.0)
        self.duration = gui.add_slider("For [s]", *PUSH_S, 0.01, 0.1)
        self.push_button = gui.add_button("Push", icon=viser.Icon.HAND_CLICK)
        self.speed = gui.add_slider("Ball speed [m/s]", *BALL_M_S, 0.5, 8.0)
        self.mass = gui.add_slider("Ball mass [kg]", *BALL_KG, 0.1, 1.0)
        self.throw_button = gui.add_button("Throw a ball", icon=viser.Icon.BALL_BASKETBALL)
        self.push_button.on_click(only_from_user(lambda: self.push(tell)))
        self.throw_button.on_click(only_from_user(lambda: self.throw(tell)))

    def push(self, tell: SimulationEdit) -> None:
        """Push as the widgets say."""
        part, heading, rise = self.part.value, float(self.heading.value), float(self.rise.value)
        force, seconds = float(self.force.value), float(self.duration.value)
        tell("push", lambda arena: arena.push(part, heading, rise, force, seconds))

    def throw(self, tell: SimulationEdit) -> None:
        """Throw as the widgets say."""
        part, heading = self.part.value, float(self.heading.value)
        speed, mass = float(self.speed.value), float(self.mass.value)
        tell("throw", lambda arena: arena.throw(part, heading, speed, mass))

    def refresh(self, arena: SimulationDocument) -> None:
        """Nothing here depends on the arena."""


class LooksGroup:
    """What is drawn."""

    def __init__(self, gui: viser.GuiApi, tell: SimulationEdit) -> None:
        self.boxes = {what: SyncedWidget(gui.add_checkbox(f"Show {what.lower()}", on)) for what, on in SHOWN.items()}
        for what, box in self.boxes.items():
            box.bind(tell, f"show {what}", _visibility_edit(what))

    def refresh(self, arena: SimulationDocument) -> None:
        """Tick what is shown."""
        for what, box in self.boxes.items():
            box.show(arena.shown[what])


def _visibility_edit(what: str) -> Callable[[SimulationDocument, bool], None]:
    return lambda arena, on: arena.show(what, on)
