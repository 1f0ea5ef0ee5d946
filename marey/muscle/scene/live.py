"""A scene that is stepped as time passes, under sliders."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from time import perf_counter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, InputError, clamp_value
from marey.muscle.scene.film import BoneTrack, Film, Paint
from marey.muscle.scene.run import SceneModel, SoftBodyScene

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
        self._shades = SurfaceShades(self.stage.paint)
        self.radii: FloatArray = np.zeros((0, 2)) if self.stage.bones is None else self.stage.bones.radii
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

    @property
    def view_deg(self) -> tuple[float, float, float]:
        """From where it is seen."""
        view = self.scene.parts.view
        return view.heading_deg, view.turn_deg, view.elevation_deg

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
        red, blue = self._shades.of(self.alphas)
        return SurfaceState(self.stage.skin.at(self.stage.body.positions), red, blue, self._bones())

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
        self.alphas = self.stage.apply_fades(mix_activations(self.stage, self.held, self.time_s))
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
        positions, alphas, ends, angles = (np.stack(column) for column in zip(*self._kept, strict=True))
        names = () if self.stage.bones is None else self.stage.bones.names
        return Film(
            self.scene.name,
            self.step_s * np.arange(len(positions), dtype=np.float64),
            positions,
            alphas,
            self.stage.skin,
            self.stage.paint,
            BoneTrack(names, ends, self.radii, angles),
            view=self.scene.parts.view,
            ground_m=None if self.scene.parts.ground is None else self.scene.parts.ground.height_m,
        )

    def _bones(self) -> FloatArray:
        bones = self.stage.bones
        return np.zeros((0, 2, 3)) if bones is None else bones.ends(self.stage.body)

    def _keep(self) -> None:
        bones, body = self.stage.bones, self.stage.body
        angles = np.zeros(0) if bones is None else bones.angles(body)
        self._kept.append((body.positions.copy(), self.alphas, self._bones(), angles))


def mix_activations(stage: SceneModel, held: Mapping[str, float], time_s: float) -> FloatArray:
    """Lengths of all segments ``(S,)``: what the programme says, but for the splines that a hand holds."""
    alphas = stage.plan.at(time_s)
    muscles = stage.muscles
    given = muscles.alphas(dict(held)) if held else alphas
    for name in held:
        mine = muscles.owners == muscles.names.index(name)
        alphas[mine] = given[mine]
    return alphas


class SurfaceShades:
    """Red and blue components of the paint of a surface."""

    def __init__(self, paint: Paint) -> None:
        self._paint = paint
        self._passive, red, blue = shade_colours()
        self._apart = np.linalg.pinv(np.stack([red - self._passive, blue - self._passive]))

    def of(self, alphas: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Shares ``(N,)`` each, 0 to 1."""
        red, blue = ((self._paint.colours(alphas) - self._passive) @ self._apart).T
        return np.clip(red, 0.0, 1.0), np.clip(blue, 0.0, 1.0)


def shade_colours() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Linear RGB of a passive, a fully contracted and a fully extended surface, as every film has them."""
    dot = Paint(np.zeros((1, 1, 2), dtype=np.int32), np.array([[[1.0, 0.0]]]))
    passive, red, blue = (dot.colours(np.array([alpha]))[0] for alpha in (1.0, 0.0, 2.0))
    return passive, red, blue
