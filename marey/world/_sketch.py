"""The sketch: what the user wants, before any engine has seen it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Final

from marey.base import InputError
from marey.world._path import Path
from marey.world._things import Point2, Point3, World

EVENT_KINDS: Final = ("pass", "pick", "place", "jump", "stop")
HANDS: Final = ("left", "right")


@dataclass(frozen=True, slots=True)
class GroundPose:
    """Where somebody stands and which way they face (``None``: any way)."""

    position: Point2
    heading_deg: float | None = None  # 0 is +Z, positive towards +X
    tolerance_m: float = 0.2


@dataclass(frozen=True, slots=True)
class Event:
    """Something to do on the way, in the order given."""

    kind: str  # one of EVENT_KINDS
    at: Point2 | None = None  # (x, z) where; for pick and place the object or target tells
    object: str | None = None  # pick, place: name of the object
    to: Point3 | None = None  # place: where it is put down
    length_m: float | None = None  # jump: horizontal length; None leaves it to the engine
    height_m: float | None = None  # jump: rise of the centre of mass
    seconds: float | None = None  # stop: how long
    hand: str | None = None  # pick, place: "left" or "right"; None: either, but what is put down stays in its hand

    def __post_init__(self) -> None:
        if self.kind not in EVENT_KINDS:
            raise InputError(f"event kind '{self.kind}'", f"It is one of {', '.join(EVENT_KINDS)}")
        if self.hand is not None and self.hand not in HANDS:
            raise InputError(f"a hand '{self.hand}'", f"It is one of {', '.join(HANDS)}")
        if self.kind in ("pick", "place") and self.object is None:
            raise InputError(f"a {self.kind} event without an object", 'Write object = "name"')
        if self.kind == "place" and self.to is None:
            raise InputError("a place event without a target", "Write to = [x, y, z]")
        if self.kind in ("pass", "jump", "stop") and self.at is None:
            raise InputError(f"a {self.kind} event without a place", "Write at = [x, z]")


@dataclass(frozen=True, slots=True)
class KeyPose:
    """A pose to go through: one frame of a clip, at a time."""

    time_s: float
    clip: str
    frame: int


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """Start, goal, path, events and key poses, in a world."""

    start: GroundPose
    goal: GroundPose
    path: Path | None = None  # None: the engine finds its own way
    corridor_m: float = 1.0  # width of the band round the path in which the root stays
    speed_mps: float | None = None  # None: the engine chooses
    events: tuple[Event, ...] = ()
    key_poses: tuple[KeyPose, ...] = ()
    world: World = field(default_factory=World)
    name: str = "sketch"

    def __post_init__(self) -> None:
        for event in self.events:
            if event.object is not None:
                self.world.object(event.object)

    @classmethod
    def load(cls, path: str | FilePath) -> Sketch:
        """Read a sketch from a TOML file.

        Raises:
            FormatError: the file is no TOML or breaks the schema; the message names file and line.
        """
        from marey.world._toml import load_sketch

        return load_sketch(path)
