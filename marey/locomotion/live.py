"""The live walk of one page: its characters, the driven one, and whether time advances.

A character has an engine, the commands given to it, its footprints, obstacles and recording.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, UnknownNameError, clamp_value
from marey.lie import SO3
from marey.motion import Contacts, Motion
from marey.skeleton import Pose, Skeleton

if TYPE_CHECKING:
    from marey.locomotion import Engine, LocomotionModel, Obstacle, ObstacleDecision


RATE_HZ: Final = 60.0  # the engine takes equal steps, so that a take has an even rate
MAX_TAKE_S: Final = 600.0
MAX_OVER_S: Final = 10.0
MAX_OBSTACLES: Final = 20
TIMING_MEMORY: Final = 0.95  # of the running mean of step times
CONTACT_NAMES: Final = ("right_heel", "right_toe", "left_heel", "left_toe")
RANGES: Final = {  # what the page may ask for, in SI
    "speed": (0.0, 6.0),
    "run": (0.0, 1.0),
    "turn_rate": (-1.5, 1.5),
    "leg_length_m": (0.45, 1.35),
}
JUMP_RANGE_M: Final = (0.2, 2.6)  # what the page may ask for; the model holds it in its own range
CURRENT_GAIT: Final = "as it moves"
JUMP_KINDS: Final = (CURRENT_GAIT, "walk", "run", "standing")
_WARNINGS: Final = threading.Lock()


@dataclass(frozen=True, slots=True, eq=False)
class DroppedObstacle:
    """An obstacle on the ground and what was decided about it."""

    obstacle: Obstacle
    decision: ObstacleDecision

    @property
    def words(self) -> str:
        """The decision with its reasons, for people."""
        return str(self.decision)

    @property
    def label(self) -> str:
        """The decision alone, short enough to stand over the box."""
        return str(replace(self.decision, reasons=()))


@dataclass(slots=True)
class WalkRecording:
    """What was recorded, frame by frame."""

    skeleton: Skeleton
    roots: list[FloatArray] = field(default_factory=list[FloatArray])
    rotations: list[FloatArray] = field(default_factory=list[FloatArray])
    contacts: list[BoolArray] = field(default_factory=list[BoolArray])

    def append(self, pose: Pose, contacts: BoolArray) -> None:
        """Keep a frame, up to MAX_TAKE_S."""
        if len(self.roots) < MAX_TAKE_S * RATE_HZ:
            self.roots.append(pose.root_position)
            self.rotations.append(pose.rotations.wxyz)
            self.contacts.append(contacts.copy())

    @property
    def seconds(self) -> float:
        """How long it is by now."""
        return len(self.roots) / RATE_HZ

    def motion(self) -> Motion:
        """The take as a clip with its contact track."""
        if len(self.roots) < 2:
            raise InputError("nothing was recorded", "Press 'Record' and let the character walk")
        contacts = Contacts(CONTACT_NAMES, np.stack(self.contacts))
        return Motion(self.skeleton, RATE_HZ, np.stack(self.roots), SO3(np.stack(self.rotations)), contacts)


class WalkCharacter:
    """Commands of one character. Values that are not numbers are refused; values out of range are clamped."""

    def __init__(self, name: str, engine: Engine) -> None:
        self.name, self.engine = name, engine
        self.pose = engine.pose
        self.asked = {"speed": 0.0, "run": 0.0, "turn_rate": 0.0, "leg_length_m": engine.leg_length_m}
        self.styles: dict[str, float] = {}
        self.remarks: list[str] = []  # of the last command: values that the engine held back
        self.take: WalkRecording | None = None
        self.is_recording = False
        self.step_ms = 0.0
        self._decisions: list[ObstacleDecision] = []  # about each obstacle of the course

    def ask(self, what: str, value: float, over_s: float = 0.0) -> None:
        """Go to a speed [m/s], a share of running, a turn rate [rad/s] or a leg length [m] within a time."""
        if what not in RANGES:
            raise UnknownNameError("control", what, "a character", RANGES)
        if what == "leg_length_m" and self.is_recording:
            raise InputError("the size cannot change while recording", "Stop the recording first")
        wish = {what: clamp_value(value, RANGES[what], what)}
        speed, run, turn_rate, leg_length_m = (wish.get(name) for name in RANGES)
        over = clamp_value(over_s, (0.0, MAX_OVER_S), "the time to reach it")
        with capture_warnings(self.remarks):
            self.engine.set(speed=speed, run=run, turn_rate=turn_rate, leg_length_m=leg_length_m, over_s=over)
        targets = self.engine.targets
        for changed in {what, "speed"}:  # a run that becomes a walk may be held at a lower speed
            self.asked[changed] = float(getattr(targets, changed))

    def ask_style(self, name: str, weight: float, over_s: float = 0.0) -> None:
        """Give one style another weight; weights are shares, their sum does not matter."""
        if name not in self.styles:
            raise UnknownNameError("style", name, "the model", self.styles)
        wanted = {**self.styles, name: clamp_value(weight, (0.0, 1.0), name)}
        with capture_warnings(self.remarks):
            self.engine.set(style=wanted, over_s=clamp_value(over_s, (0.0, MAX_OVER_S), "the time to reach it"))
        self.styles = wanted

    def jump(self, length_m: float, kind: str) -> None:
        """Jump from a walk, a run or standing; AS_IT_MOVES takes what it does now."""
        if kind not in JUMP_KINDS:
            raise UnknownNameError("kind of jump", kind, "the model", JUMP_KINDS)
        if kind == CURRENT_GAIT:
            moving = "run" if self.asked["run"] >= 0.5 else "walk"
            kind = moving if self.engine.speed > 0.0 else "standing"
        length = clamp_value(length_m, JUMP_RANGE_M, "the length")
        with capture_warnings(self.remarks):
            self.engine.jump(length_m=length, kind=kind)

    def drop(self, rng: np.random.Generator) -> None:
        """Put a flat box across the way ahead, at random, and decide what to do about it."""
        from marey.locomotion.steering.course import get_obstacle_course
        from marey.locomotion.steering.obstacles import sample_obstacle

        if len(self._decisions) >= MAX_OBSTACLES:
            raise InputError(f"there are {MAX_OBSTACLES} obstacles already", "Clear them first")
        box = sample_obstacle(rng, self.engine.position, self.engine.heading_rad)
        with capture_warnings(self.remarks):
            self._decisions.append(get_obstacle_course(self.engine).add(box))

    def clear(self) -> None:
        """Take all obstacles away."""
        from marey.locomotion.steering.course import get_obstacle_course

        if self._decisions:
            get_obstacle_course(self.engine).clear()
            self._decisions.clear()

    def obstacles(self) -> list[DroppedObstacle]:
        """Obstacles where they are now, each with the newest decision about it."""
        from marey.locomotion.steering.course import get_obstacle_course

        if not self._decisions:
            return []
        course = get_obstacle_course(self.engine)
        for i, box in enumerate(course.obstacles):
            if course.decision is not None and course.decision.obstacle == box:
                self._decisions[i] = course.decision
        return [DroppedObstacle(*pair) for pair in zip(course.obstacles, self._decisions, strict=True)]

    def hold_feet(self, on: bool) -> None:
        """Hold feet on the ground while they stand, or show the motion as the model gives it."""
        self.engine.plants = bool(on)

    def advance(self, seconds: float) -> None:
        """Let time pass by one step of the engine."""
        start = perf_counter()
        self.pose = self.engine.step(seconds)
        spent_ms = 1e3 * (perf_counter() - start)
        self.step_ms = TIMING_MEMORY * self.step_ms + (1.0 - TIMING_MEMORY) * spent_ms if self.step_ms else spent_ms
        if self.is_recording and self.take is not None:
            self.take.append(self.pose, self.engine.contacts)

    def record(self, on: bool) -> None:
        """Begin a new take, or end it."""
        if on:
            self.take = WalkRecording(self.engine.skeleton)
        self.is_recording = on

    def finished_take(self) -> Motion:
        """End the take and give it as a clip."""
        self.is_recording = False
        return (self.take or WalkRecording(self.engine.skeleton)).motion()

    def goals(self) -> tuple[FloatArray, BoolArray]:
        """Where ankles and toes are held ``(4, 3)`` [m], and which are."""
        return self.engine.plant_goals, self.engine.contacts


@contextmanager
def capture_warnings(remarks: list[str]) -> Generator[None]:
    """Take an engine's warnings for the page, off the terminal; filters are shared, hence the lock."""
    with _WARNINGS, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        remarks.clear()
        yield
        remarks += [str(warning.message) for warning in caught]


MAX_WALKERS: Final = 8
MAX_STEPS: Final = 15  # of the engine at once; a page that slept does not catch up
CHARACTER_SPACING_M: Final = 1.2  # between characters when they start
GHOST_TIMES_S: Final = (0.2, 0.4, 0.6, 0.8)
SHOWN: Final = {"Footprints": True, "Targets": True, "Ghosts": False, "Chase": True}
CHASE_S: Final = 0.5  # in which the camera follows most of a turn


class LiveWalk:
    """Edited only by the session's worker."""

    def __init__(self, model: LocomotionModel, *, rng: np.random.Generator | None = None) -> None:
        self.model = model
        self.walkers: list[WalkCharacter] = []
        self.selected = 0
        self.is_on = True  # on the stage; otherwise the clip is
        self.is_running = True
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

    def toggle_record(self) -> None:
        """Record the driven character, or end its take."""
        self.active_character.record(not self.active_character.is_recording)

    def add(self) -> None:
        """Bring another character, to the right of the driven one, and drive it."""
        from marey.locomotion.engine.character import Engine

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
        walker = WalkCharacter(
            f"Walker {self._made}", Engine(self.model, position=position, heading_rad=heading, idle=True)
        )
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
