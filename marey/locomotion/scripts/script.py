"""Scripts: what a character does, one action after another, on a time line ([Glardon2005]_ §IV.2.3.1).

The time line drives the engine frame by frame; the report compares what was asked with what was measured.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final
from warnings import warn

import numpy as np

from marey.base import (
    FloatArray,
    FormatError,
    InputError,
    MareyError,
    MareyWarning,
    Result,
    UnknownNameError,
    frozen,
)
from marey.locomotion.checks import check_number, check_positive, check_weights
from marey.locomotion.engine.character import MAX_FRAMES, Engine, build_clip
from marey.locomotion.model.locomotion_model import load_model
from marey.locomotion.plants.clip import plant_slide_mm
from marey.locomotion.plants.state import EFFECTOR_POINTS
from marey.locomotion.transitions.approach import REQUEST_KINDS, REQUEST_PRIORITIES
from marey.measure import LEAST_METER_FRAMES, measure_motion
from marey.motion import Motion, contact_positions, find_runs
from marey.skeleton import Pose, contact_points

if TYPE_CHECKING:
    from marey.locomotion.model.locomotion_model import LocomotionModel


MAX_ELEMENTS: Final = 10_000
RATES_HZ: Final = (1.0, 1000.0)
DEFAULT_RAMP_S: Final = 0.5  # between two actions without a transition


@dataclass(frozen=True, slots=True)
class Action:
    """Walk, run or stand for a while with constant parameters."""

    seconds: float
    speed: float  # [m/s] zero stands
    run: float = 0.0  # 0 walks, 1 runs
    turn_rate: float = 0.0  # [rad/s] positive to the left
    style: Mapping[str, float] | None = None  # weights by name, normalised; None is the script's style
    leg_length_m: float | None = None  # None keeps the size
    name: str = ""

    def __post_init__(self) -> None:
        check_positive("'seconds'", self.seconds)
        for key in ("speed", "run", "turn_rate"):
            check_number(f"'{key}'", getattr(self, key))
        _check_positive(self, "leg_length_m")
        _check_style(self.style)


@dataclass(frozen=True, slots=True)
class Transition:
    """Go over to the next action in so many seconds; from standing at the start, to standing at the end."""

    seconds: float
    name: str = ""

    def __post_init__(self) -> None:
        check_positive("'seconds'", self.seconds)


@dataclass(frozen=True, slots=True)
class JumpAction:
    """Jump once; it lasts as long as run-up, jump and return to the last action need."""

    length_m: float
    kind: str = "walk"  # one of REQUEST_KINDS
    height_m: float | None = None
    takeoff: tuple[float, float] | None = None  # (x, z) [m] of the take-off toe; None is the next heel strike that fits
    priority: str = "jump-parameters"
    style: Mapping[str, float] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        _check_positive(self, "length_m", "height_m")
        _check_style(self.style)
        if self.takeoff is not None:
            frozen(self.takeoff, 2, name="'takeoff'")
        for key, known in (("kind", REQUEST_KINDS), ("priority", REQUEST_PRIORITIES)):
            if getattr(self, key) not in known:
                raise InputError(f"'{key}' is '{getattr(self, key)}'", f"It is one of {', '.join(known)}")


Element = Action | Transition | JumpAction


@dataclass(frozen=True, slots=True)
class Script:
    """A time line of actions, transitions and jumps, and the character that plays it."""

    timeline: tuple[Element, ...]
    rate_hz: float = 60.0
    leg_length_m: float | None = None  # None is the model's own
    style: Mapping[str, float] | None = None  # of actions that name none; None is the model's mixture
    position: tuple[float, float] = (0.0, 0.0)  # (x, z) [m] at the start
    heading_deg: float = 0.0  # 0 is +Z, positive towards +X
    scaling: str = "froude"
    timing: str = "stance"
    plants: bool = True
    name: str = "script"
    file: str = ""  # where it was read, for messages
    lines: tuple[int, ...] = ()  # of the elements in that file

    def __post_init__(self) -> None:
        if not RATES_HZ[0] <= check_number("'rate_hz'", self.rate_hz) <= RATES_HZ[1]:
            raise InputError(f"'rate_hz' is {self.rate_hz:g}", f"It is between {RATES_HZ[0]:g} and {RATES_HZ[1]:g}")
        check_number("'heading_deg'", self.heading_deg)
        _check_positive(self, "leg_length_m")
        _check_style(self.style)
        frozen(self.position, 2, name="'position'")
        check_order(self.timeline)
        if self.seconds * self.rate_hz > MAX_FRAMES:
            raise InputError(
                f"the script has {self.seconds:g} s at {self.rate_hz:g} Hz", f"At most {MAX_FRAMES} frames"
            )

    @property
    def seconds(self) -> float:
        """Sum of the written durations; jumps add their own time when they are played."""
        return float(sum(e.seconds for e in self.timeline if not isinstance(e, JumpAction)))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Remarks on what is played otherwise than one might think."""
        pairs = enumerate(pairwise(self.timeline), start=1)
        bare = [i for i, (one, two) in pairs if isinstance(one, Action) and isinstance(two, Action)]
        what = f"no transition before this action; its first {DEFAULT_RAMP_S:g} s are one"
        return tuple(f"{self.where(i)}{what}" for i in bare)

    def where(self, index: int) -> str:
        """Place of an element for a message, ``file:line: `` or its number and name."""
        if index < len(self.lines):
            return f"{self.file}:{self.lines[index]}: "
        name = self.timeline[index].name
        return f"element {index + 1}{f' ({name})' if name else ''}: "

    def render(self, model: LocomotionModel | None = None) -> Motion:
        """Play the script; frames at ``rate_hz``, with a contact track. Remarks become a :class:`MareyWarning` each.

        Args:
            model: locomotion model; the shipped one by default.

        Raises:
            FormatError: an element asks for what the model does not have, or a jump does not come about; the message
                names file and line. InputError for a script that was not read from a file.
        """
        done = perform_script(self, model)
        for text in done.warnings:
            warn(text, MareyWarning, stacklevel=2)
        return done.motion


class ElementError(InputError):
    """A mistake in one element of a time line."""

    def __init__(self, what: str, fix: str, index: int) -> None:
        super().__init__(what, fix)
        self.args = (what, fix, index)  # keeps the error picklable
        self.index = index


def check_order(timeline: tuple[Element, ...]) -> None:
    """Refuse a time line that is empty, or whose transitions lead nowhere.

    Raises:
        ElementError: the mistake, with the number of its element.
    """
    if all(isinstance(e, Transition) for e in timeline):
        raise ElementError("the time line is empty", "Add an action: its speed and how many seconds it lasts", 0)
    if len(timeline) > MAX_ELEMENTS:
        raise ElementError(f"the time line has {len(timeline)} elements", f"At most {MAX_ELEMENTS}", MAX_ELEMENTS)
    for index, (one, two) in enumerate(pairwise(timeline), start=1):
        if isinstance(one, Transition) and isinstance(two, Transition):
            raise ElementError("two transitions in a row", "Make them one", index)
        if isinstance(one, Transition) and isinstance(two, JumpAction):
            raise ElementError("a transition before a jump", "A jump brings its own run-up: remove it", index - 1)


def _check_positive(record: object, *keys: str) -> None:
    for key in keys:
        value = getattr(record, key)
        if value is not None:
            check_positive(f"'{key}'", value)


def _check_style(style: Mapping[str, float] | None) -> None:
    if style is None:
        return
    weights = check_weights("'style'", style)
    if not sum(weights.values()) > 0.0:
        raise InputError("'style' has no weight above zero", "Give at least one style some weight")


@dataclass(frozen=True, slots=True)
class ScriptPart:
    """When an element of the time line was played."""

    index: int
    start_s: float
    stop_s: float


@dataclass(frozen=True, slots=True)
class PartReport:
    """One element: what was asked, what came out."""

    kind: str  # "action", "transition" or "jump"
    name: str
    line: int | None
    start_s: float
    stop_s: float
    asked_mps: float | None = None  # speed of an action
    mean_mps: float = 0.0  # of the root, along its path
    asked_m: float | None = None  # length of a jump
    length_m: float | None = None  # from the ball of the foot that leaves to the heel that lands; None without a flight
    flight_s: float | None = None
    takeoff_error_m: float | None = None  # from the place that was asked for to the ball of the foot that leaves


@dataclass(frozen=True, slots=True, repr=False)
class ScriptReport(Result):
    """A script and its motion in figures."""

    name: str
    seconds: float
    num_frames: int
    rate_hz: float
    distance_m: float
    slide_mean_mm: dict[str, float]  # a frame, by contact point, while it is planted
    slide_max_mm: dict[str, float]
    scraped_m: float | None  # way of both feet over their floor, by the meter; None for a clip too short for it
    parts: tuple[PartReport, ...]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @property
    def sentence(self) -> str:
        """One line for a reader."""
        jumps = sum(part.kind == "jump" for part in self.parts)
        extra = f", {jumps} jump{'s' if jumps > 1 else ''}" if jumps else ""
        scraped = f"; feet scrape {100.0 * self.scraped_m:.0f} cm in all" if self.scraped_m is not None else ""
        return (
            f"{self.name}  {self.num_frames} frames at {self.rate_hz:g} Hz, {self.seconds:.2f} s, "
            f"{self.distance_m:.1f} m{extra}{scraped}"
        )


def _path_length_m(motion: Motion, start: int, stop: int) -> float:
    steps = np.diff(motion.root_positions[start : stop + 1, [0, 2]], axis=0)
    return float(np.hypot(steps[:, 0], steps[:, 1]).sum())


def _measure_flight(
    motion: Motion, joints: FloatArray, start: int, stop: int, takeoff: tuple[float, float] | None
) -> dict[str, Any]:
    """Length and time of the longest flight between two frames, and how far from its place it began."""
    assert motion.contacts is not None
    active = motion.contacts.active
    # The longest stretch in which nothing is down; empty if there is none
    leave, land = max(
        find_runs(np.asarray(~active[start:stop].any(axis=1))), key=lambda run: run[1] - run[0], default=(0, 0)
    )
    leave, land = leave + start, land + start
    if land <= leave or leave == 0 or land >= motion.num_frames:
        return {}
    travel = (motion.root_positions[land] - motion.root_positions[leave])[[0, 2]]
    ahead = travel / max(float(np.hypot(*travel)), 1e-9)
    leaving, landing = _sides_down(motion, leave - 1), _sides_down(motion, land)
    toes = joints[leave - 1, [motion.skeleton.index(f"{side}_foot") for side in leaving]][:, [0, 2]]
    names = contact_points(motion.skeleton).names
    heels = contact_positions(motion[land : land + 1])[0, [names.index(f"{side}_heel") for side in landing]]
    length = float((heels[:, [0, 2]] @ ahead).mean() - (toes @ ahead).mean())
    missed = None if takeoff is None else float(np.hypot(*(toes.mean(axis=0) - np.array(takeoff))))
    return {"length_m": length, "flight_s": (land - leave) / motion.rate_hz, "takeoff_error_m": missed}


def _sides_down(motion: Motion, frame: int) -> list[str]:
    """Sides whose heel or toe is down."""
    contacts = motion.contacts
    assert contacts is not None
    return sorted({name.split("_", maxsplit=1)[0] for name in EFFECTOR_POINTS if contacts.track(name)[frame]})


JUMP_LIMIT_S: Final = 60.0  # run-up, jump and return together
BEGIN_S: Final = 0.5  # [s] within which a jump leaves the quiet states
IDLE_STATES: Final = ("standing", "locomotion")
STANDING: Final = Action(1.0, speed=0.0)  # before a time line that begins, and after one that ends, with a transition
SAME_TIME_S: Final = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Performance:
    """A script as it was played."""

    script: Script
    motion: Motion
    parts: tuple[ScriptPart, ...]
    warnings: tuple[str, ...]

    @property
    def report(self) -> ScriptReport:
        """Requested and measured values."""
        script, motion = self.script, self.motion
        assert motion.contacts is not None
        joints, slides = motion.joint_positions(), plant_slide_mm(motion)
        tracks = [motion.contacts.track(name) for name in EFFECTOR_POINTS]
        means = [float(slides[down, k].mean()) if down.any() else 0.0 for k, down in enumerate(tracks)]
        # Each element: what was asked, and what came out
        parts: list[PartReport] = []
        for part in self.parts:
            element = script.timeline[part.index]
            start, stop = (round(time_s * motion.rate_hz) for time_s in (part.start_s, part.stop_s))
            facts: dict[str, Any] = {"kind": "transition"}
            if isinstance(element, Action):
                facts = {"kind": "action", "asked_mps": element.speed}
            elif isinstance(element, JumpAction):
                flight = _measure_flight(motion, joints, start, stop, element.takeoff)
                facts = {"kind": "jump", "asked_m": element.length_m, **flight}
            line = script.lines[part.index] if part.index < len(script.lines) else None
            mean = _path_length_m(motion, start, stop) / max(part.stop_s - part.start_s, 1e-9)
            times = {"start_s": part.start_s, "stop_s": part.stop_s}
            parts.append(PartReport(name=element.name, line=line, mean_mps=mean, **times, **facts))
        is_measured = motion.num_frames >= LEAST_METER_FRAMES
        return ScriptReport(
            name=script.name,
            seconds=motion.num_frames / motion.rate_hz,
            num_frames=motion.num_frames,
            rate_hz=motion.rate_hz,
            distance_m=_path_length_m(motion, 0, motion.num_frames),
            slide_mean_mm=dict(zip(EFFECTOR_POINTS, means, strict=True)),
            slide_max_mm={name: float(slides[:, k].max()) for k, name in enumerate(EFFECTOR_POINTS)},
            scraped_m=float(measure_motion(motion).scraped_m[-1]) if is_measured else None,
            parts=tuple(parts),
            warnings=self.warnings,
        )


def perform_script(script: Script, model: LocomotionModel | None = None, **body: Any) -> Performance:
    """Play a script and keep a record of its parts; see :meth:`Script.render`.

    ``body`` goes to the :class:`Engine`: ``skeleton``, ``ground``, ``edit`` and ``idle``.
    """
    player = _ScriptPlayer.from_script(script, model, body)
    for index, element in enumerate(script.timeline):
        start_s = player.time_s
        with player.at(index):
            player.play(index, element)
        player.parts.append(ScriptPart(index, start_s, player.time_s))
    motion = build_clip(player.poses, script.rate_hz, np.stack(player.planted), name=script.name)
    return Performance(script, motion, tuple(player.parts), (*script.warnings, *player.remarks))


@dataclass(slots=True, eq=False)
class _ScriptPlayer:
    script: Script
    engine: Engine
    styles: tuple[str, ...]
    default_style: Mapping[str, float]
    time_s: float = 0.0
    poses: list[Pose] = field(default_factory=list[Pose])
    planted: list[Any] = field(default_factory=list[Any])
    parts: list[ScriptPart] = field(default_factory=list[ScriptPart])
    remarks: list[str] = field(default_factory=list[str])

    @classmethod
    def from_script(cls, script: Script, model: LocomotionModel | None, body: Mapping[str, Any]) -> _ScriptPlayer:
        """An engine that stands, or moves as the first action says."""
        who = load_model() if model is None else model
        player = cls(script, Engine(who), who.styles, who.default_style)
        first = script.timeline[0]
        with player.at(0):
            start = player.parameters_for(first if isinstance(first, Action) else STANDING)
            start["leg_length_m"] = start["leg_length_m"] or script.leg_length_m
            start["idle"] = script.plants
            player.engine = Engine(
                who,
                scaling=script.scaling,
                timing=script.timing,
                plants=script.plants,
                position=script.position,
                heading_rad=float(np.radians(script.heading_deg)),
                **(start | dict(body)),
            )
        return player

    def play(self, index: int, element: Element) -> None:
        """One element of the time line."""
        line = self.script.timeline
        if isinstance(element, JumpAction):
            self.jump(element)
            return
        if isinstance(element, Transition):
            to = line[index + 1] if index + 1 < len(line) else None
            self.engine.set(**self.parameters_for(to if isinstance(to, Action) else STANDING), over_s=element.seconds)
        elif index > 0 and not isinstance(line[index - 1], Transition):
            self.engine.set(**self.parameters_for(element), over_s=min(DEFAULT_RAMP_S, element.seconds))
        self.until(self.time_s + element.seconds)

    def jump(self, jump: JumpAction) -> None:
        """Request a jump and step until it is over."""
        if jump.style is not None:
            self.engine.set(style=self.style(jump.style), over_s=DEFAULT_RAMP_S)
        options = {"height_m": jump.height_m, "takeoff": jump.takeoff, "priority": jump.priority}
        self.engine.jump(jump.length_m, jump.kind, **options)
        rate_hz, began, start_s = self.script.rate_hz, False, self.time_s
        while not began or self.engine.state not in IDLE_STATES:
            self.until((math.floor(self.time_s * rate_hz + 1e-6) + 1) / rate_hz)
            began = began or self.engine.state not in IDLE_STATES or self.time_s > start_s + BEGIN_S
            if self.time_s > start_s + JUMP_LIMIT_S:
                raise InputError(f"the jump was not done within {JUMP_LIMIT_S:g} s", "Ask for a shorter or nearer one")

    def until(self, stop_s: float) -> None:
        """Record every frame before a time, and move on to that time."""
        rate_hz = self.script.rate_hz
        while len(self.poses) / rate_hz < stop_s - SAME_TIME_S:
            if len(self.poses) >= MAX_FRAMES:
                raise InputError(f"the motion has more than {MAX_FRAMES} frames", "Make it shorter")
            time_s = len(self.poses) / rate_hz
            self.poses.append(self.engine.step(max(0.0, time_s - self.time_s)))
            self.time_s = time_s
            self.planted.append(np.array(self.engine.contacts, dtype=bool))
        self.engine.step(max(0.0, stop_s - self.time_s))
        self.time_s = stop_s

    def parameters_for(self, action: Action) -> dict[str, Any]:
        """Parameters of an action, for the engine."""
        values = {"speed": action.speed, "run": action.run, "turn_rate": action.turn_rate}
        return values | {"style": self.style(action.style), "leg_length_m": action.leg_length_m}

    def style(self, style: Mapping[str, float] | None) -> Mapping[str, float]:
        """Weights by name; numbers, as in the thesis, count the styles of the model from zero."""
        weights: dict[str, float] = {}
        for name, weight in (style or self.script.style or self.default_style).items():
            if name in self.styles:
                weights[name] = weight
            elif name.isdecimal() and int(name) < len(self.styles):
                weights[self.styles[int(name)]] = weight
            else:
                raise UnknownNameError("style", name, "this model", self.styles)
        return weights

    @contextmanager
    def at(self, index: int) -> Generator[None]:
        """Errors and remarks of the engine, with the place of the element they are about."""
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always", MareyWarning)
            try:
                yield
            except FormatError:
                raise
            except MareyError as error:
                # The error with file and line, or the number of the element
                what = getattr(error, "what", None) or str(error)
                fix = str(getattr(error, "fix", "")) or "Change this element of the time line"
                if index < len(self.script.lines):
                    raise FormatError(what, self.script.file, self.script.lines[index], fix) from None
                raise InputError(self.script.where(index) + what, fix) from None
        where = self.script.where(index)
        new = dict.fromkeys(f"{where}{w.message}" for w in heard if issubclass(w.category, MareyWarning))
        self.remarks += [text for text in new if text not in self.remarks]
