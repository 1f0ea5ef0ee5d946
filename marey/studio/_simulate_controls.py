"""Groups of widgets of the Simulate tab. Each tells edits of the arena, and follows what the arena says."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import viser

from marey.dynamics import GRAVITY
from marey.studio._simulate import SHOWN, Arena
from marey.studio._simulate_wish import (
    BALL_KG,
    BALL_M_S,
    DIRECTION_DEG,
    FEET,
    FLAGS,
    PARTS,
    PUSH_N,
    PUSH_S,
    RANGES,
    RISE_DEG,
    WILLS,
    Wish,
)
from marey.studio._sketch_controls import when_user
from marey.studio._walk_controls import Field

Tell = Callable[[str, Callable[[Arena], None]], None]  # a key, under which the newest wins, and the edit
LABELS: Final = {  # slider -> label, step, hint
    "alpha": ("Alpha", 0.01, "of a puppet: 0 obeys physics alone, 1 the hand alone"),
    "stiffness_per_s": ("Stiffness [1/s]", 0.5, "with which a puppet and a standing figure keep their pose"),
    "pull_n_m": ("Pull [N/m]", 50.0, "of the hand's spring"),
    "damping_per_s": ("Damping [1/s]", 0.1, "of all motion inside the figure"),
    "modes": ("Dimension", 1.0, "modes of the pose space that the clip teaches"),
    "gravity_m_s2": ("Gravity [m/s²]", 0.01, f"{GRAVITY:g} on earth, 1.62 on the moon"),
    "slope_deg": ("Slope [°]", 0.5, "of the ground, rising ahead"),
}
TICKS: Final = {
    "is_full": ("All joints move", "the full space instead of modes"),
    "has_limits": ("Joint limits of the clip", "with half a radian of room"),
    "is_reaching": ("Reach for the hand", "a balancing figure follows the hand by itself instead of being pulled"),
}


class WillGroup:
    """What the figure wants, and all sliders."""

    def __init__(self, gui: viser.GuiApi, tell: Tell) -> None:
        self.will = gui.add_dropdown("The figure is", options=WILLS)
        self.feet = gui.add_dropdown("Stands on", options=FEET, hint="when it is balancing")
        start = Wish()
        self.fields = {what: self._add(gui, what, start) for what in LABELS}
        self.ticks = {
            what: gui.add_checkbox(label, bool(getattr(start, what)), hint=hint)
            for what, (label, hint) in TICKS.items()
        }
        assert set(self.ticks) == set(FLAGS) and set(self.fields) == set(RANGES)
        self.will.on_update(when_user(lambda: self._choose(tell)))
        self.feet.on_update(when_user(lambda: self._stand(tell)))
        for what, field in self.fields.items():
            field.on_user(partial(self._ask, tell, what))
        for what, box in self.ticks.items():
            box.on_update(when_user(partial(self._tick, tell, what)))

    def refresh(self, arena: Arena) -> None:
        """Show what was asked for."""
        if self.will.value != arena.wish.will:
            self.will.value = arena.wish.will
        if self.feet.value != arena.wish.feet:
            self.feet.value = arena.wish.feet
        for what, field in self.fields.items():
            field.show(float(getattr(arena.wish, what)))
        for what, box in self.ticks.items():
            if box.value != getattr(arena.wish, what):
                box.value = getattr(arena.wish, what)

    def _add(self, gui: viser.GuiApi, what: str, start: Wish) -> Field:
        label, step, hint = LABELS[what]
        return Field(gui.add_slider(label, *RANGES[what], step, float(getattr(start, what)), hint=hint))

    def _choose(self, tell: Tell) -> None:
        will = self.will.value
        tell("will", lambda arena: arena.choose(will))

    def _stand(self, tell: Tell) -> None:
        feet = self.feet.value
        tell("feet", lambda arena: arena.stand_on(feet))

    def _ask(self, tell: Tell, what: str, value: float) -> None:
        def edit(arena: Arena) -> None:
            self.fields[what].heard(value)
            arena.ask(what, value)

        tell(what, edit)

    def _tick(self, tell: Tell, what: str) -> None:
        on = bool(self.ticks[what].value)
        tell(what, lambda arena: arena.ask(what, on))


class PushGroup:
    """A push and a ball, with their direction and strength."""

    def __init__(self, gui: viser.GuiApi, tell: Tell) -> None:
        self.part = gui.add_dropdown("At the", options=tuple(PARTS))
        self.heading = gui.add_slider("Towards [°]", *DIRECTION_DEG, 5.0, 0.0, hint="0 ahead (+z), 90 to the left (+x)")
        self.rise = gui.add_slider("Rise [°]", *RISE_DEG, 5.0, 0.0, hint="90 is straight up; of the push alone")
        self.force = gui.add_slider("Strength [N]", *PUSH_N, 10.0, 200.0)
        self.duration = gui.add_slider("For [s]", *PUSH_S, 0.01, 0.1)
        self.push_button = gui.add_button("Push", icon=viser.Icon.HAND_CLICK)
        self.speed = gui.add_slider("Ball speed [m/s]", *BALL_M_S, 0.5, 8.0)
        self.mass = gui.add_slider("Ball mass [kg]", *BALL_KG, 0.1, 1.0)
        self.throw_button = gui.add_button("Throw a ball", icon=viser.Icon.BALL_BASKETBALL)
        self.push_button.on_click(when_user(lambda: self.push(tell)))
        self.throw_button.on_click(when_user(lambda: self.throw(tell)))

    def push(self, tell: Tell) -> None:
        """Push as the widgets say."""
        part, heading, rise = self.part.value, float(self.heading.value), float(self.rise.value)
        force, seconds = float(self.force.value), float(self.duration.value)
        tell("push", lambda arena: arena.push(part, heading, rise, force, seconds))

    def throw(self, tell: Tell) -> None:
        """Throw as the widgets say."""
        part, heading = self.part.value, float(self.heading.value)
        speed, mass = float(self.speed.value), float(self.mass.value)
        tell("throw", lambda arena: arena.throw(part, heading, speed, mass))

    def refresh(self, arena: Arena) -> None:
        """Nothing here depends on the arena."""


class LooksGroup:
    """What is drawn."""

    def __init__(self, gui: viser.GuiApi, tell: Tell) -> None:
        self.boxes = {what: gui.add_checkbox(f"Show {what.lower()}", on) for what, on in SHOWN.items()}
        for what, box in self.boxes.items():
            box.on_update(when_user(partial(self._show, tell, what)))

    def refresh(self, arena: Arena) -> None:
        """Tick what is shown."""
        for what, box in self.boxes.items():
            if box.value != arena.shown[what]:
                box.value = arena.shown[what]

    def _show(self, tell: Tell, what: str) -> None:
        on = bool(self.boxes[what].value)
        tell(f"show {what}", lambda arena: arena.show(what, on))
