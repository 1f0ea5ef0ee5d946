"""The sketch as plain data, its path on the ground, and its TOML file.

Every mistake in a file is named with its line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Final, cast

import numpy as np
from numpy.typing import ArrayLike

from marey.base import (
    FloatArray,
    InputError,
    TomlLocation,
    UnknownNameError,
    as_number,
    as_numbers,
    as_table,
    as_text,
    check_keys,
    find_shipped_file,
    format_toml_keys,
    format_toml_value,
    frozen,
    parse_toml,
    read_record,
    read_records,
    read_toml_text,
    write_atomically,
)
from marey.world.things import Bar, Box, Point2, Point3, River, Stone, Table, Thing, Wall, World

SPLINE_SAMPLES = 32  # per segment: the chord error of a 1 m turn stays below 0.2 mm


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Path:
    """A polyline or a smooth curve through way-points, walked at unit speed.

    ``kind="spline"`` is the centripetal Catmull-Rom curve, which passes through every way-point and has
    no loops between them ([Yuksel2011]_).
    """

    points: FloatArray  # (N, 2) [m] way-points (x, z), N >= 2, neighbours apart
    kind: str = "polyline"
    _samples: FloatArray = field(init=False)  # (S, 2) [m]
    _lengths: FloatArray = field(init=False)  # (S,) [m] arc length at each sample

    def __post_init__(self) -> None:
        points = frozen(self.points, None, 2, name="path points")
        if len(points) < 2:
            raise InputError(f"a path of {len(points)} points", "It needs at least two")
        if (np.linalg.norm(np.diff(points, axis=0), axis=1) < 1e-6).any():
            raise InputError("two neighbouring path points are the same", "Remove one of them")
        if self.kind not in ("polyline", "spline"):
            raise InputError(f"path kind '{self.kind}'", "It is 'polyline' or 'spline'")
        # Arc lengths are those of the samples
        samples = _catmull_rom(points) if self.kind == "spline" else points
        steps = np.linalg.norm(np.diff(samples, axis=0), axis=1)
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "_samples", frozen(samples, None, 2, name="samples"))
        object.__setattr__(self, "_lengths", frozen(np.concatenate([[0.0], np.cumsum(steps)]), None, name="lengths"))

    @property
    def length_m(self) -> float:
        """Arc length from the first way-point to the last [m]."""
        return float(self._lengths[-1])

    def point_at(self, distance_m: ArrayLike) -> FloatArray:
        """Return points ``(..., 2)`` [m] at arc lengths ``(...)``, held at the ends."""
        s = np.asarray(distance_m, dtype=np.float64)
        x = np.interp(s, self._lengths, self._samples[:, 0])
        return np.stack([x, np.interp(s, self._lengths, self._samples[:, 1])], axis=-1)

    def heading_at(self, distance_m: ArrayLike) -> FloatArray:
        """Direction of travel ``(...)`` [rad] at arc lengths: 0 is +Z, positive towards +X."""
        s = np.clip(np.asarray(distance_m, dtype=np.float64), 0.0, self.length_m)
        segment = np.clip(np.searchsorted(self._lengths, s, side="right") - 1, 0, len(self._lengths) - 2)
        step = np.diff(self._samples, axis=0)[segment]
        return np.arctan2(step[..., 0], step[..., 1])

    def nearest(self, point: ArrayLike) -> tuple[float, float]:
        """Arc length [m] of the point of the path nearest to ``point`` (x, z), and its distance [m]."""
        p = np.asarray(point, dtype=np.float64)
        # Foot of the perpendicular on every segment, held at its ends
        a, d = self._samples[:-1], np.diff(self._samples, axis=0)
        u = np.clip(np.einsum("ij,ij->i", p - a, d) / np.einsum("ij,ij->i", d, d), 0.0, 1.0)
        gaps = np.linalg.norm(p - (a + u[:, None] * d), axis=1)
        best = int(np.argmin(gaps))
        along = self._lengths[best] + u[best] * (self._lengths[best + 1] - self._lengths[best])
        return float(along), float(gaps[best])

    def sample(self, spacing_m: float) -> FloatArray:
        """Return points ``(M, 2)`` at most ``spacing_m`` apart along the path, both ends included."""
        if not spacing_m > 0.0:
            raise InputError(f"spacing_m is {spacing_m}", "It must be positive")
        count = int(np.ceil(self.length_m / spacing_m)) + 1
        return self.point_at(np.linspace(0.0, self.length_m, max(count, 2)))

    def __repr__(self) -> str:
        return f"Path({self.kind}, {len(self.points)} points, {self.length_m:.2f} m)"


def _catmull_rom(points: FloatArray) -> FloatArray:
    """Samples ``(S, 2)`` of the centripetal curve through way-points."""
    # One point beyond each end, mirrored; centripetal knots are square roots of distances apart
    first, last = 2.0 * points[0] - points[1], 2.0 * points[-1] - points[-2]
    p = np.concatenate([first[None], points, last[None]])
    knots = np.concatenate([[0.0], np.cumsum(np.sqrt(np.linalg.norm(np.diff(p, axis=0), axis=1)))])
    curves = [_evaluate_span(p[i : i + 4], knots[i : i + 4]) for i in range(len(points) - 1)]
    return np.concatenate([*curves, points[-1:]])


def _evaluate_span(p: FloatArray, t: FloatArray) -> FloatArray:
    """One span by the pyramid of Barry and Goldman, without its last point."""
    u: FloatArray = np.linspace(float(t[1]), float(t[2]), SPLINE_SAMPLES, endpoint=False)[:, None]

    def mix(a: FloatArray, b: FloatArray, low: float, high: float) -> FloatArray:
        return (high - u) / (high - low) * a + (u - low) / (high - low) * b

    # Three lines, two parabolas, one cubic
    a1, a2, a3 = (mix(p[i], p[i + 1], t[i], t[i + 1]) for i in range(3))
    return mix(mix(a1, a2, t[0], t[2]), mix(a2, a3, t[1], t[3]), t[1], t[2])


EVENT_KINDS: Final = ("pass", "pick", "place", "jump", "stop", "custom")
HANDS: Final = ("left", "right")


@dataclass(frozen=True, slots=True)
class GroundPose:
    """Position and heading on the ground (``None``: any heading)."""

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
    tolerance_m: float | None = None  # how near hand (pick, place) or root (the others) comes; None: the engine's
    name: str | None = None  # custom: the kind of event of the graph, as given to ``register_event``
    numbers: Point2 | None = None  # custom: its two numbers [m], within half a cell of its table; None: any

    def __post_init__(self) -> None:
        if self.kind not in EVENT_KINDS:
            raise InputError(f"event kind '{self.kind}'", f"It is one of {', '.join(EVENT_KINDS)}")
        if self.hand is not None and self.hand not in HANDS:
            raise InputError(f"a hand '{self.hand}'", f"It is one of {', '.join(HANDS)}")
        if self.kind in ("pick", "place") and self.object is None:
            raise InputError(f"a {self.kind} event without an object", 'Write object = "name"')
        if self.kind == "place" and self.to is None:
            raise InputError("a place event without a target", "Write to = [x, y, z]")
        if self.kind in ("pass", "jump", "stop", "custom") and self.at is None:
            raise InputError(f"a {self.kind} event without a position", "Write at = [x, z]")
        if self.kind == "custom" and self.name is None:
            raise InputError("a custom event without a name", 'Write name = "kick", as it was registered')
        if self.kind != "custom" and (self.name is not None or self.numbers is not None):
            raise InputError(f"a {self.kind} event with name or numbers", 'They belong to kind = "custom"')


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
        # Events name objects of the world
        for event in self.events:
            if event.object is not None:
                self.world.object(event.object)

    @classmethod
    def load(cls, path: str | FilePath) -> Sketch:
        """Read a sketch from a TOML file.

        Raises:
            FormatError: the file is no TOML or breaks the schema; the message names file and line.
        """
        return load_sketch(path)


SKETCH_VERSION: Final = 1
MAX_POINTS: Final = 10_000

_THINGS: Final[dict[str, tuple[str, type[Any]]]] = {
    "wall": ("walls", Wall),
    "river": ("rivers", River),
    "stone": ("stones", Stone),
    "table": ("tables", Table),
    "box": ("boxes", Box),
    "bar": ("bars", Bar),
    "object": ("objects", Thing),
}
_TOP_KEYS: Final = ("version", "name", "start", "goal", "path", "event", "key_pose", *_THINGS)
_POSITIVE: Final = frozenset(
    {"thickness_m", "width_m", "radius_m", "size", "corridor_m", "speed_mps", "tolerance_m", "length_m", "seconds"}
)


def load_sketch(path: str | FilePath) -> Sketch:
    """Read a sketch from a TOML file, or one that ships by its name.

    Raises:
        FormatError: the file is no TOML or breaks the schema; the message names file and line.
    """
    path = find_shipped_file(path, "sketch")
    return parse_sketch(read_toml_text(path, "sketch"), file=str(path))


def parse_sketch(text: str, *, file: str = "<sketch>") -> Sketch:
    """Read a sketch from TOML text; ``file`` is the name used in error messages."""
    data, place = parse_toml(text, file, positive=_POSITIVE)
    check_keys(data, _TOP_KEYS, place)
    if data.get("version", SKETCH_VERSION) != SKETCH_VERSION:
        place.fail(f"sketch version {data['version']}", f"This marey reads version {SKETCH_VERSION}", "version")
    events = read_records(data, "event", Event, place)
    things = {many: read_records(data, one, kind, place) for one, (many, kind) in _THINGS.items()}
    # Names of objects are unique, and events name one of them
    names = [thing.name for thing in things["objects"]]
    for number, name in enumerate(names):
        if name in names[:number]:
            place.at("object", number).fail(f"two objects are called '{name}'", "Object names must differ", "name")
    for number, event in enumerate(events):
        if event.object is not None and event.object not in names:
            error = UnknownNameError("object", event.object, "this sketch", names)
            place.at("event", number).fail(str(error), "Add it with [[object]]", "object")
    return Sketch(
        start=_read_ground_pose(data, "start", place),
        goal=_read_ground_pose(data, "goal", place),
        events=events,
        key_poses=read_records(data, "key_pose", KeyPose, place),
        world=World(**things),
        name=as_text(data.get("name", FilePath(file).stem), "name", place),
        **_read_path(data, place),
    )


def _read_path(data: dict[str, Any], place: TomlLocation) -> dict[str, Any]:
    if "path" not in data:
        return {}
    here = place.at("path")
    table = as_table(data["path"], here)
    check_keys(table, ("points", "kind", "corridor_m", "speed_mps"), here)
    # Width and speed may stand without points: the engine then finds its own way
    numbers = {k: as_number(table[k], k, here) for k in ("corridor_m", "speed_mps") if k in table}
    if "points" not in table and "kind" not in table:
        return dict(numbers)
    points = table.get("points")
    if not isinstance(points, list) or not points or len(cast(list[Any], points)) > MAX_POINTS:
        here.fail("the path has no list of points", f"Write points = [[x, z], ...], at most {MAX_POINTS}", "points")
    rows = [as_numbers(row, 2, "points", here) for row in cast(list[Any], points)]
    try:
        return {"path": Path(np.array(rows), as_text(table.get("kind", "polyline"), "kind", here)), **numbers}
    except InputError as error:
        here.fail(error.what, error.fix, "kind" if "kind" in error.what else "points")


def _read_ground_pose(data: dict[str, Any], key: str, place: TomlLocation) -> GroundPose:
    if key not in data:
        place.fail(f"the sketch has no [{key}]", f"Add [{key}] with position = [x, z]")
    return read_record(data[key], GroundPose, place.at(key))


def sketch_to_toml(sketch: Sketch) -> str:
    """Write a sketch as TOML; reading it back gives the same sketch."""
    rows = [f"version = {SKETCH_VERSION}", f"name = {format_toml_value(sketch.name)}"]
    rows += ["", "[start]", *format_toml_keys(sketch.start), "", "[goal]", *format_toml_keys(sketch.goal)]
    rows += ["", "[path]", f"corridor_m = {format_toml_value(sketch.corridor_m)}"]
    rows += [] if sketch.speed_mps is None else [f"speed_mps = {format_toml_value(sketch.speed_mps)}"]
    if sketch.path is not None:
        points = ", ".join(format_toml_value(tuple(float(c) for c in p)) for p in sketch.path.points)
        rows += [f"points = [{points}]", f"kind = {format_toml_value(sketch.path.kind)}"]
    # Lists of tables: events, key poses and all that stands in the world
    things = [(one, getattr(sketch.world, many)) for one, (many, _) in _THINGS.items()]
    for one, items in [("event", sketch.events), ("key_pose", sketch.key_poses), *things]:
        for item in items:
            rows += ["", f"[[{one}]]", *format_toml_keys(item)]
    return "\n".join(rows) + "\n"


def save_sketch(sketch: Sketch, path: str | FilePath) -> None:
    """Write a sketch to a TOML file."""
    write_atomically(FilePath(path), sketch_to_toml(sketch))
