"""A scene that is stepped as time passes, under sliders."""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, InputError, clamp_value
from marey.muscle.scene.film import Film
from marey.muscle.scene.run import SoftBodyScene

TIMING_MEMORY: Final = 0.95  # of the running mean of step times
BUDGET_S: Final = 0.06  # of computing for one picture; what takes longer is left behind, in slow motion
MAX_OWED_S: Final = 0.1  # a page that slept does not catch up
MAX_TAKE_S: Final = 30.0  # of a live scene that are kept
PACE_S: Final = 1.0  # over which the pace is averaged


RecordedFrame = tuple[FloatArray, FloatArray, FloatArray, FloatArray]  # positions, alphas, ends and angles of bones


class SurfaceState(NamedTuple):
    """One picture."""

    surface: FloatArray  # (N, 3) [m]
    red: FloatArray  # (N,) 0 to 1: how much it contracts
    blue: FloatArray  # (N,) 0 to 1: how much it extends
    bones: FloatArray  # (B, 2, 3) [m] both ends


class LiveScene:
    """A scene that is stepped as time passes; sliders take splines over from its programme."""

    def __init__(self, scene: SoftBodyScene) -> None:
        self.scene, self.stage = scene, scene.stage()
        self.step_s = 1.0 / scene.parts.rate_hz
        self.held: dict[str, float] = {}  # activations that a hand set
        self.step_ms, self.pace = 0.0, 1.0
        self.radii: FloatArray = self.stage.bone_radii
        self.reset()

    def reset(self) -> None:
        """Back to rest, at time zero; sliders stay where they are."""
        self.stage.body.reset()
        self.time_s, self._owed_s = 0.0, 0.0
        self.alphas: FloatArray = np.ones(self.stage.muscles.num_segments)
        self._kept: deque[RecordedFrame] = deque(maxlen=round(MAX_TAKE_S / self.step_s))
        self._keep()

    @property
    def names(self) -> tuple[str, ...]:
        """Of the splines."""
        return self.stage.muscles.names

    @property
    def faces(self) -> NDArray[np.int32]:
        """Triangles of the surface."""
        return self.stage.skin.faces

    @property
    def walks(self) -> bool:
        """Whether it stands on a ground."""
        return self.scene.parts.ground is not None

    def hold(self, name: str, activation: float) -> None:
        """Take a spline over from the programme."""
        if name not in self.names:
            raise InputError(f"there is no spline '{name}'", f"There are {', '.join(self.names)}")
        self.held[name] = clamp_value(activation, (0.0, 1.0), f"the activation of {name}")

    def give_back(self) -> None:
        """Let the programme drive all splines again."""
        self.held = {}

    def activations(self) -> dict[str, float]:
        """How active each spline is now, 0 to 1; negative where it extends."""
        muscles = self.stage.muscles
        lowest = [spline.alpha_min for spline in muscles.splines]
        return {
            name: float(np.mean(1.0 - self.alphas[muscles.owners == i])) / (1.0 - lowest[i])
            for i, name in enumerate(self.names)
        }

    def look(self) -> SurfaceState:
        """How it looks now."""
        shades = self.stage.paint.shares(self.alphas)
        return SurfaceState(self.stage.skin.at(self.stage.body.positions), *shades, self.stage.bone_state()[0])

    def advance(self, seconds: float) -> None:
        """Let real time pass; where the machine is too slow, less of it passes."""
        self._owed_s = min(self._owed_s + seconds, MAX_OWED_S)
        begin, made = perf_counter(), 0
        while self._owed_s >= self.step_s and perf_counter() - begin < BUDGET_S:
            self._owed_s -= self.step_s
            self.single_step()
            made += 1
        self._owed_s = min(self._owed_s, self.step_s)
        share = min(1.0, seconds / PACE_S)
        self.pace += share * (made * self.step_s / max(seconds, 1e-6) - self.pace)

    def single_step(self) -> None:
        """Go on by one step; a body that explodes goes back to rest."""
        begin = perf_counter()
        # What the programme says, but for the splines that a hand holds
        alphas, muscles = self.stage.plan.at(self.time_s), self.stage.muscles
        given = muscles.alphas(dict(self.held)) if self.held else alphas
        is_held = np.isin(muscles.owners, [muscles.names.index(name) for name in self.held])
        self.alphas = self.stage.apply_fades(np.where(is_held, given, alphas))
        try:
            self.stage.body.step(self.step_s, activations=self.alphas)
        except Exception:
            self.reset()
            raise
        self.time_s += self.step_s
        self._keep()
        spent_ms = 1e3 * (perf_counter() - begin)
        self.step_ms = TIMING_MEMORY * self.step_ms + (1.0 - TIMING_MEMORY) * spent_ms if self.step_ms else spent_ms

    def film(self) -> Film:
        """Recording since the last reset, at most half a minute."""
        columns = [np.stack(column) for column in zip(*self._kept, strict=True)]
        return self.scene.make_film(self.step_s * np.arange(len(self._kept), dtype=np.float64), *columns)

    def _keep(self) -> None:
        self._kept.append((self.stage.body.positions.copy(), self.alphas, *self.stage.bone_state()))
