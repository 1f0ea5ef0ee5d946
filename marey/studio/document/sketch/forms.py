"""Things of a sketch as the page shows them, and the state that undo brings back and that the engines are given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import atan2, cos, degrees, hypot, radians, sin
from typing import Final

import numpy as np

from marey.base import InputError, UnknownNameError
from marey.studio.document.walk import clamp_value
from marey.world import Box, Event, GroundPose, Path, River, Sketch, Stone, Table, Thing, Wall, World

PLACE_M: Final = (-200.0, 200.0)
REST_M: Final = 0.05  # centre of an object above the table that it stands on
FLOOR_M: Final = 0.1  # centre of an object above the floor, where a hand can take it
EDGE_M: Final = 0.12  # from the edge of a table to what is put on it
SAME_M: Final = 1e-6  # heights that differ by less are one
RANGES: Final = {  # what the page may ask for
    "turn_deg": (-180.0, 180.0),
    "length_m": (0.1, 30.0),
    "width_m": (0.05, 8.0),
    "height_m": (0.0, 3.0),
}
FIELDS: Final = {  # kind -> what of it can be changed
    "river": ("turn_deg", "length_m", "width_m"),
    "wall": ("turn_deg", "length_m", "width_m", "height_m"),
    "stone": ("width_m", "height_m"),
    "table": ("turn_deg", "length_m", "width_m", "height_m"),
    "box": ("turn_deg", "length_m", "width_m", "height_m"),
    "object": ("height_m",),
}
KINDS: Final = tuple(FIELDS)

Point2 = tuple[float, float]
Point3 = tuple[float, float, float]
AnyThing = Wall | River | Stone | Table | Box | Thing


@dataclass(frozen=True, slots=True)
class SketchObject:
    """A thing that can be dragged, turned and resized; lengths go along its own x, widths along its own z."""

    kind: str  # one of KINDS
    x: float  # [m]
    z: float  # [m]
    turn_deg: float = 0.0  # about +Y
    length_m: float = 1.0
    width_m: float = 0.5
    height_m: float = 0.0  # of an object: above the ground
    name: str = ""  # of an object

    def at(self, place: tuple[float, float, float]) -> SketchObject:
        """An object at another place (x, y, z) [m]."""
        x, y, z = place
        return replace(self, x=x, height_m=y, z=z)

    def local(self, place: Point2) -> Point2:
        """A place on the ground, seen from its middle, along its length and along its width [m]."""
        angle, (dx, dz) = radians(self.turn_deg), (place[0] - self.x, place[1] - self.z)
        return cos(angle) * dx - sin(angle) * dz, sin(angle) * dx + cos(angle) * dz

    def world(self, local: Point2) -> Point2:
        """The place on the ground of one seen from its middle [m]."""
        angle, (u, v) = radians(self.turn_deg), local
        return self.x + cos(angle) * u + sin(angle) * v, self.z - sin(angle) * u + cos(angle) * v

    def covers(self, place: Point2) -> bool:
        """Whether a place on the ground is under it."""
        u, v = self.local(place)
        return abs(u) <= 0.5 * self.length_m and abs(v) <= 0.5 * self.width_m

    def move_to(self, x: float, z: float) -> SketchObject:
        """The same at another place; a page may send any number."""
        return replace(self, x=clamp_value(x, PLACE_M, "x"), z=clamp_value(z, PLACE_M, "z"))

    def with_measure(self, field: str, value: float) -> SketchObject:
        """The same with another turn or size, held in its range."""
        if field not in FIELDS[self.kind]:
            raise UnknownNameError("measure", field, f"a {self.kind}", FIELDS[self.kind])
        held = clamp_value(value, RANGES[field], field)
        if field == "turn_deg":
            return replace(self, turn_deg=held)
        if field == "length_m":
            return replace(self, length_m=held)
        return replace(self, width_m=held) if field == "width_m" else replace(self, height_m=held)


DEFAULT_OBJECTS: Final = {  # what is dropped
    "river": SketchObject("river", 0.0, 0.0, length_m=4.0, width_m=0.5),
    "wall": SketchObject("wall", 0.0, 0.0, length_m=2.0, width_m=0.1, height_m=2.0),
    "stone": SketchObject("stone", 0.0, 0.0, width_m=0.5),
    "table": SketchObject("table", 0.0, 0.0, length_m=0.8, width_m=0.5, height_m=0.75),
    "box": SketchObject("box", 0.0, 0.0, length_m=0.8, width_m=0.4, height_m=0.3),
    "object": SketchObject("object", 0.0, 0.0, height_m=FLOOR_M),
}


def rest_height(forms: Iterable[SketchObject], place: Point2) -> float:
    """Height [m] of an object that stands at a place: on a table, else on the floor."""
    tops = [form.height_m + REST_M for form in forms if form.kind == "table" and form.covers(place)]
    return max(tops, default=FLOOR_M)


def rest_on_support(forms: tuple[SketchObject, ...], before: Point3, here: Point2, *, follows: bool = False) -> Point3:
    """New position of a dragged object, placed on the table or floor below it.

    What hung in the air keeps its height, unless ``follows``.
    """
    x, y, z = before
    stood = abs(y - rest_height(forms, (x, z))) < SAME_M
    return here[0], rest_height(forms, here) if stood or follows else y, here[1]


def carry_with_table(before: SketchObject, after: SketchObject, place: Point3) -> Point3:
    """Where something comes that stands on a table which is moved, turned or raised."""
    x, y, z = place
    if not before.covers((x, z)) or abs(y - before.height_m - REST_M) > SAME_M:
        return place
    half = 0.5 * after.length_m, 0.5 * after.width_m
    u, v = before.local((x, z))
    on, along = after.world((_clamp_half(u, half[0]), _clamp_half(v, half[1])))
    return on, after.height_m + REST_M, along


def near_edge(table: SketchObject, towards: Point2) -> Point2:
    """Place on a table for something to take or to put down: near the edge on the side of ``towards``."""
    u, v = table.local(towards)
    half = 0.5 * table.length_m - EDGE_M, 0.5 * table.width_m - EDGE_M
    return table.world((_clamp_half(u, half[0]), _clamp_half(v, half[1])))


def _clamp_half(value: float, half: float) -> float:
    """A number inside ±half, or 0 where half is negative."""
    return min(max(value, -max(half, 0.0)), max(half, 0.0))


def object_from_thing(thing: AnyThing) -> SketchObject:
    """Display of an object."""
    match thing:
        case Wall():
            return _strip("wall", thing, thing.thickness_m, thing.height_m)
        case River():
            return _strip("river", thing, thing.width_m, 0.0)
        case Stone():
            return SketchObject("stone", *thing.position, width_m=2.0 * thing.radius_m, height_m=thing.height_m)
        case Table():
            return SketchObject("table", *thing.position, thing.heading_deg, *thing.size, thing.height_m)
        case Box():
            return SketchObject("box", *thing.position, thing.heading_deg, *thing.size, thing.height_m)
        case Thing():
            x, y, z = thing.position
            return SketchObject("object", x, z, height_m=y, name=thing.name)


def _strip(kind: str, thing: Wall | River, width_m: float, height_m: float) -> SketchObject:
    (x1, z1), (x2, z2) = thing.start, thing.end
    turn = degrees(atan2(z1 - z2, x2 - x1))
    return SketchObject(kind, 0.5 * (x1 + x2), 0.5 * (z1 + z2), turn, hypot(x2 - x1, z2 - z1), width_m, height_m)


def thing_from_object(form: SketchObject) -> AnyThing:
    """The thing that the page shows."""
    place, size = (form.x, form.z), (form.length_m, form.width_m)
    match form.kind:
        case "wall":
            return Wall(*_ends(form), thickness_m=form.width_m, height_m=form.height_m)
        case "river":
            return River(*_ends(form), width_m=form.width_m)
        case "stone":
            return Stone(place, radius_m=0.5 * form.width_m, height_m=form.height_m)
        case "table":
            return Table(place, size, form.height_m, form.turn_deg)
        case "box":
            return Box(place, size, form.height_m, form.turn_deg)
        case "object":
            return Thing(form.name, (form.x, form.height_m, form.z))
        case _:
            raise InputError(f"there is no '{form.kind}' to drop", f"There are {', '.join(KINDS)}")


def _ends(form: SketchObject) -> tuple[tuple[float, float], tuple[float, float]]:
    angle, half = radians(form.turn_deg), 0.5 * form.length_m
    dx, dz = half * cos(angle), -half * sin(angle)
    return (form.x - dx, form.z - dz), (form.x + dx, form.z + dz)


def objects_from_world(world: World) -> tuple[SketchObject, ...]:
    """Everything of a world that can be dragged."""
    lists = (world.rivers, world.walls, world.stones, world.tables, world.boxes, world.objects)
    return tuple(object_from_thing(thing) for things in lists for thing in things)


def world_from_objects(forms: tuple[SketchObject, ...], world: World) -> World:
    """A world of these forms; what cannot be dragged is kept from ``world``."""
    things = [thing_from_object(form) for form in forms]
    return World(
        walls=tuple(t for t in things if isinstance(t, Wall)),
        rivers=tuple(t for t in things if isinstance(t, River)),
        stones=tuple(t for t in things if isinstance(t, Stone)),
        tables=tuple(t for t in things if isinstance(t, Table)),
        boxes=tuple(t for t in things if isinstance(t, Box)),
        bars=world.bars,
        objects=tuple(t for t in things if isinstance(t, Thing)),
    )


FOUND_BY_ENGINE: Final[str] = "found by the engine"
PATH_KINDS: Final[tuple[str, ...]] = ("polyline", "spline", FOUND_BY_ENGINE)
NEAR_M: Final = 0.05  # way-points that are added are farther apart than that


@dataclass(frozen=True, slots=True, eq=False)
class SketchState:
    """What undo brings back. The first way-point is the start, the last the goal."""

    name: str = "sketch"
    points: tuple[Point2, ...] = ((0.0, 0.0), (0.0, 3.0))
    way: str = PATH_KINDS[0]
    corridor_m: float = 1.0
    speed_mps: float | None = None
    forms: tuple[SketchObject, ...] = ()
    events: tuple[Event, ...] = ()
    start: GroundPose = field(default_factory=lambda: GroundPose((0.0, 0.0)))  # its heading and tolerance
    goal: GroundPose = field(default_factory=lambda: GroundPose((0.0, 0.0)))
    rest: Sketch | None = None  # key poses and bars, which are kept as they came

    def sketch(self) -> Sketch:
        """What the engines are given."""
        if len(self.points) < 2:
            raise InputError("the sketch has no path", "Add way-points: Ctrl and a click on the ground")
        path = None if self.way == FOUND_BY_ENGINE else Path(np.array(self.points), self.way)
        return Sketch(
            start=replace(self.start, position=self.points[0]),
            goal=replace(self.goal, position=self.points[-1]),
            path=path,
            corridor_m=self.corridor_m,
            speed_mps=self.speed_mps,
            events=self.events,
            key_poses=() if self.rest is None else self.rest.key_poses,
            world=world_from_objects(self.forms, World() if self.rest is None else self.rest.world),
            name=self.name,
        )

    @classmethod
    def from_sketch(cls, sketch: Sketch) -> SketchState:
        """A sketch to edit further."""
        ends = (sketch.start.position, sketch.goal.position)
        points = ends if sketch.path is None else tuple((float(x), float(z)) for x, z in sketch.path.points)
        points = points if ground_distance(points[0], ends[0]) < NEAR_M else (ends[0], *points)
        points = points if ground_distance(points[-1], ends[1]) < NEAR_M else (*points, ends[1])
        return cls(
            sketch.name,
            points,
            FOUND_BY_ENGINE if sketch.path is None else sketch.path.kind,
            sketch.corridor_m,
            sketch.speed_mps,
            objects_from_world(sketch.world),
            sketch.events,
            sketch.start,
            sketch.goal,
            sketch,
        )


def ground_distance(a: Point2, b: Point2) -> float:
    """Distance of two places on the ground [m]."""
    return float(np.hypot(a[0] - b[0], a[1] - b[1]))
