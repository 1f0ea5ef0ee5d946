"""A script: what a character does, one action after another, on a time line ([Glardon2005]_ §IV.2.3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final
from warnings import warn

from marey.base import InputError, frozen
from marey.locomotion._checks import check_number, check_positive, check_weights
from marey.locomotion._engine_clip import MAX_FRAMES

if TYPE_CHECKING:
    from marey.locomotion._model import LocomotionModel
    from marey.motion import Motion

JUMP_KINDS: Final = ("walk", "run", "standing")
JUMP_PRIORITIES: Final = ("jump-parameters", "jump-now")
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
        _check_finite(self, "speed", "run", "turn_rate")
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
    kind: str = "walk"  # one of JUMP_KINDS
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
        for key, known in (("kind", JUMP_KINDS), ("priority", JUMP_PRIORITIES)):
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
        _check_finite(self, "heading_deg")
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
            model: who walks; the shipped model if not given.

        Raises:
            FormatError: an element asks for what the model does not have, or a jump does not come about; the message
                names file and line. InputError for a script that was not read from a file.
        """
        from marey.base import MareyWarning
        from marey.locomotion._script_play import perform_script

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


def _check_finite(record: object, *keys: str) -> None:
    for key in keys:
        check_number(f"'{key}'", getattr(record, key))


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
