"""The live walk of one page, free of any browser type: who walks, who is driven, whether time passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import InputError
from marey.studio._walker import MAX_OVER_S, RATE_HZ, WalkCharacter, clamp_value

if TYPE_CHECKING:
    from marey.locomotion import LocomotionModel

MAX_WALKERS: Final = 8
MAX_STEPS: Final = 15  # of the engine at once; a page that slept does not catch up
CHARACTER_SPACING_M: Final = 1.2  # between characters when they start
GHOST_TIMES_S: Final = (0.2, 0.4, 0.6, 0.8)
SHOWN: Final = {"Footprints": True, "Targets": True, "Ghosts": False, "Chase": True}
CHASE_S: Final = 0.5  # in which the camera follows most of a turn


class WalkDocument:
    """Edited only by the session's worker."""

    def __init__(self, model: LocomotionModel, *, rng: np.random.Generator | None = None) -> None:
        self.model = model
        self.walkers: list[WalkCharacter] = []
        self.selected = 0
        self.is_on = True  # on the stage; otherwise the clip is
        self.is_running = True
        self.over_s = 1.0
        self.shown = dict(SHOWN)
        self._rng = np.random.default_rng(0) if rng is None else rng
        self.view_rad = 0.0  # heading that points away from the camera
        self._owed_s = 0.0
        self._made = 0
        self.add()

    @property
    def active_character(self) -> WalkCharacter:
        """The character that the controls drive."""
        return self.walkers[self.selected]

    @property
    def leg_length_m(self) -> float:
        """Of the model itself; characters are scaled from it."""
        return self.model.leg_length_m

    def place(self) -> tuple[float, float]:
        """Where the driven character is, (x, z) [m]."""
        x, _, z = self.active_character.pose.root_position
        return float(x), float(z)

    def take_time(self, seconds: float) -> None:
        """How long changes of the sliders take."""
        self.over_s = clamp_value(seconds, (0.0, MAX_OVER_S), "the time to reach it")

    def toggle_record(self) -> None:
        """Record the driven character, or end its take."""
        self.active_character.record(not self.active_character.is_recording)

    def add(self) -> None:
        """Bring another character, to the right of the driven one, and drive it."""
        from marey.locomotion import Engine

        if len(self.walkers) >= MAX_WALKERS:
            raise InputError(f"there are {MAX_WALKERS} characters already", "Remove one first")
        position, heading = (0.0, 0.0), 0.0
        if self.walkers:
            engine = self.active_character.engine
            heading = engine.heading_rad
            x, z = engine.position
            position = (
                float(x - CHARACTER_SPACING_M * np.cos(heading)),
                float(z + CHARACTER_SPACING_M * np.sin(heading)),
            )
        self._made += 1
        walker = WalkCharacter(f"Walker {self._made}", Engine(self.model, position=position, heading_rad=heading))
        walker.styles = dict(zip(self.model.styles, self.model.weights().tolist(), strict=True))
        self.walkers.append(walker)
        self.selected = len(self.walkers) - 1

    def remove(self) -> None:
        """Take the driven character away; one always stays."""
        if len(self.walkers) == 1:
            raise InputError("the last character cannot be removed", "Add another one first")
        del self.walkers[self.selected]
        self.selected = max(0, self.selected - 1)

    def select(self, name: str) -> None:
        """Drive another character."""
        names = [walker.name for walker in self.walkers]
        if name not in names:
            raise InputError(f"there is no '{name}'", f"There are {', '.join(names)}")
        self.selected = names.index(name)

    def show(self, what: str, on: bool) -> None:
        """Switch a part of the picture on or off."""
        if what not in self.shown:
            raise InputError(f"there is no '{what}' to show", f"There are {', '.join(self.shown)}")
        self.shown[what] = bool(on)

    def advance(self, seconds: float) -> None:
        """Let real time pass, in equal steps of the engine."""
        if not self.is_running:
            return
        self._owed_s = min(self._owed_s + seconds, MAX_STEPS / RATE_HZ)
        while self._owed_s >= 1.0 / RATE_HZ:
            self._owed_s -= 1.0 / RATE_HZ
            self._step()

    def single_step(self) -> None:
        """Stop, and go on by one frame."""
        self.is_running = False
        self._step()

    def _step(self) -> None:
        for walker in self.walkers:
            walker.advance(1.0 / RATE_HZ)
        goal = self.active_character.engine.heading_rad if self.shown["Chase"] else 0.0
        self.view_rad += (goal - self.view_rad) / (CHASE_S * RATE_HZ)

    def cancel_jump(self) -> None:
        """Think better of it, while the run-up lasts."""
        self.active_character.engine.cancel_jump()

    def clear_obstacles(self) -> None:
        """Take away all obstacles of the driven character."""
        self.active_character.clear()

    def drop_obstacle(self) -> None:
        """Put an obstacle in front of the driven character."""
        self.active_character.drop(self._rng)
