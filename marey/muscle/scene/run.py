"""Scenes: bodies, muscles and what drives them, by name or from a file; running one gives a film."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import numpy as np

from marey.base import FloatArray, InputError, UnknownNameError, frozen, read_toml_text
from marey.muscle.scene.build import SceneModel, build_scene
from marey.muscle.scene.film import BoneTrack, Film
from marey.muscle.scene.metrics import find_failed_checks, measure_film
from marey.muscle.scene.tables import SceneParts, parse_scene

SceneActivations = Mapping[str, float] | Callable[[float], FloatArray] | FloatArray
OnFrame = Callable[[int, int], None]

MAX_FRAMES: Final = 200_000
MAX_NUMBERS: Final = 400_000_000  # of positions in one film: 3.2 GB


def scene_names() -> tuple[str, ...]:
    """Names of the shipped scenes."""
    return tuple(sorted(f.name[:-5] for f in _scene_folder().iterdir() if f.name.endswith(".toml")))


def load_scene(name: str | Path) -> SoftBodyScene:
    """A shipped scene by its name, or one from a TOML file.

    Raises:
        UnknownNameError: there is no shipped scene of this name, and it is no file.
        FormatError: the file is no TOML or breaks the schema; the message names file and line.
    """
    text = str(name)
    if text in scene_names():
        return SoftBodyScene(
            text, parse_scene((_scene_folder() / f"{text}.toml").read_text(encoding="utf-8"), file=f"{text}.toml")
        )
    if isinstance(name, Path) or Path(text).suffix or Path(text).exists():
        return SoftBodyScene(Path(text).stem, parse_scene(read_toml_text(text, "scene"), file=str(text)))
    raise UnknownNameError("scene", text, "marey.muscle", scene_names())


def _scene_folder() -> Any:
    return files("marey.muscle") / "scenes"


@dataclass(frozen=True, slots=True, eq=False)
class SoftBodyScene:
    """A scene as its file says; :meth:`run` plays it from rest."""

    name: str
    parts: SceneParts
    _stages: list[SceneModel] = field(default_factory=list[SceneModel], repr=False)

    @property
    def title(self) -> str:
        """A sentence about it."""
        return self.parts.title

    def stage(self) -> SceneModel:
        """The scene set up; made once, so mind that its body keeps where it is until it is reset."""
        if not self._stages:
            self._stages.append(build_scene(self.parts))
        return self._stages[0]

    def run(
        self,
        seconds: float | None = None,
        dt: float | None = None,
        on_frame: OnFrame | None = None,
        activations: SceneActivations | None = None,
    ) -> Film:
        """Play the scene from rest.

        Args:
            seconds: how long; as the file says without it.
            dt: one step and one frame [s]; as the file says without it.
            on_frame: called with (frames done, frames in all).
            activations: instead of the programmes: activation (0 to 1) of splines by name, alphas ``(S,)`` of all
                segments, alphas of all frames ``(F, S)``, or a function of the time [s] that gives ``(S,)``.

        Raises:
            ConvergenceError: the body could not be stepped; the report tells where.
        """
        stage, h = self.stage(), 1.0 / self.parts.rate_hz if dt is None else dt
        seconds = self.parts.seconds if seconds is None else seconds
        nodes = len(stage.mesh.nodes)
        if not (np.isfinite(seconds) and seconds > 0.0 and np.isfinite(h) and 0.0 < h <= 1.0):
            raise InputError(f"{seconds} seconds in steps of {h} s", "Both must be positive, a step at most 1 s")
        count = round(seconds / h) + 1
        if count > MAX_FRAMES or 3 * count * nodes > MAX_NUMBERS:
            raise InputError(f"a film of {count} frames with {nodes} nodes", "Take fewer seconds or longer steps")
        drive = _make_drive(stage, activations, np.arange(count, dtype=np.float64) * h)
        stage.body.reset()
        record = _SceneRecorder(stage, count)
        record.keep(0, drive(0, 0.0))
        for frame in range(1, count):
            alphas = drive(frame - 1, (frame - 1) * h)
            stage.body.step(h, activations=alphas)
            record.keep(frame, alphas)
            if on_frame is not None:
                on_frame(frame, count - 1)
        times = np.arange(len(record.positions), dtype=np.float64) * h
        film = Film(
            self.name,
            times,
            record.positions,
            record.alphas,
            stage.skin,
            stage.paint,
            record.bones(),
            report=record.report(),
            view=self.parts.view,
            shown=tuple(check.metric for check in self.parts.checks),
            ground_m=None if self.parts.ground is None else self.parts.ground.height_m,
        )
        object.__setattr__(film, "metrics", measure_film(film, stage, self.parts))
        object.__setattr__(film, "failed", find_failed_checks(film.metrics, self.parts.checks))
        return film


class _SceneRecorder:
    """What is kept of each frame."""

    def __init__(self, stage: SceneModel, count: int) -> None:
        self._stage = stage
        self.positions = np.empty((count, *stage.body.positions.shape))
        self.alphas = np.ones((count, stage.muscles.num_segments))
        self._steps = np.zeros((count, 3))
        self._ends: list[FloatArray] = []
        self._angles: list[FloatArray] = []

    def keep(self, frame: int, alphas: FloatArray) -> None:
        body = self._stage.body
        self.positions[frame], self.alphas[frame] = body.positions, alphas
        report = body.report
        self._steps[frame] = report.iterations, report.inverted, report.substeps
        if self._stage.bones is not None:
            self._ends.append(self._stage.bones.ends(body))
            self._angles.append(self._stage.bones.angles(body))

    def bones(self) -> BoneTrack:
        bones = self._stage.bones
        if bones is None:
            return BoneTrack.empty(len(self.positions))
        return BoneTrack(bones.names, np.stack(self._ends), bones.radii, np.stack(self._angles))

    def report(self) -> dict[str, float]:
        iterations, inverted, substeps = self._steps[1:].T if len(self._steps) > 1 else self._steps.T
        return {
            "iterations_mean": float(iterations.mean()),
            "inverted_max": float(inverted.max()),
            "substeps_max": float(substeps.max()),
        }


def _make_drive(
    stage: SceneModel, given: SceneActivations | None, times: FloatArray
) -> Callable[[int, float], FloatArray]:
    """Function of the frame and its time that gives all alphas ``(S,)``."""
    if callable(given):
        function = given
        return lambda frame, t: stage.alphas(function(t))
    if given is None:
        table = stage.apply_fades(stage.plan.sample(times))
    elif not isinstance(given, Mapping) and np.ndim(given) == 2:
        table = np.stack([stage.muscles.alphas(row) for row in frozen(given, None, None, name="activations")])
    else:
        table = stage.alphas(given)[None]
    return lambda frame, t: table[min(frame, len(table) - 1)]
