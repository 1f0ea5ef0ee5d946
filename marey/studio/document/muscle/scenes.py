"""Contents of the Muscle tab: a live scene or a film, free of browser types."""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray
from marey.muscle import Film
from marey.muscle.scene.live import (
    BUDGET_S,
    MAX_OWED_S,
    MAX_TAKE_S,
    PACE_S,
    LiveScene,
    SurfaceShades,
    SurfaceState,
    mix_activations,
    shade_colours,
)

__all__ = [
    "BUDGET_S",
    "MAX_OWED_S",
    "MAX_TAKE_S",
    "PACE_S",
    "FilmReplay",
    "LiveScene",
    "StageAct",
    "SurfaceShades",
    "SurfaceState",
    "mix_activations",
    "shade_colours",
]
HOLD_S: Final = 0.6  # that a film rests on its last frame


class StageAct(Protocol):
    """A scene with its own clock."""

    time_s: float

    @property
    def faces(self) -> NDArray[np.int32]:
        """Triangles of the surface ``(M, 3)``."""
        ...

    @property
    def radii(self) -> FloatArray:
        """Of the bones ``(B, 2)`` [m]."""
        ...

    @property
    def walks(self) -> bool:
        """Whether it goes about on a ground, so that the view must follow."""
        ...

    @property
    def view_deg(self) -> tuple[float, float, float]:
        """From where it is seen: heading, turn and elevation, as in its film."""
        ...

    def look(self) -> SurfaceState:
        """How it looks now."""
        ...

    def advance(self, seconds: float) -> None:
        """Let real time pass."""
        ...

    def single_step(self) -> None:
        """Go on by one frame."""
        ...

    def film(self) -> Film:
        """All that can be written to a file."""
        ...


class FilmReplay:
    """A film that is played in real time, again and again."""

    def __init__(self, film: Film) -> None:
        self._film, self.time_s = film, 0.0
        self._shades = SurfaceShades(film.paint)

    @property
    def faces(self) -> NDArray[np.int32]:
        """Triangles of the surface."""
        return self._film.skin.faces

    @property
    def radii(self) -> FloatArray:
        """Of the bones."""
        return self._film.bones.radii

    @property
    def walks(self) -> bool:
        """Whether it stands on a ground."""
        return self._film.ground_m is not None

    @property
    def view_deg(self) -> tuple[float, float, float]:
        """From where it is seen."""
        view = self._film.view
        return view.heading_deg, view.turn_deg, view.elevation_deg

    @property
    def frame(self) -> int:
        """The frame on screen."""
        return min(round(self.time_s * self._film.rate_hz), self._film.num_frames - 1)

    @property
    def seconds(self) -> float:
        """How long the film is."""
        return float(self._film.times[-1])

    def look(self) -> SurfaceState:
        """How it looks now."""
        red, blue = self._shades.of(self._film.alphas[self.frame])
        return SurfaceState(self._film.surface(self.frame), red, blue, self._film.bones.ends[self.frame])

    def advance(self, seconds: float) -> None:
        """Let real time pass; after a short rest at its end the film begins again."""
        self.time_s += seconds
        if self.time_s > self.seconds + HOLD_S:
            self.time_s = 0.0

    def single_step(self) -> None:
        """Go on by one frame."""
        self.time_s = (self.frame + 1) % self._film.num_frames / self._film.rate_hz

    def film(self) -> Film:
        """The film itself."""
        return self._film
