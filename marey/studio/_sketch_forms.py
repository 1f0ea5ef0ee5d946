"""Things of a sketch as the page shows them: a place, a turn and a size, whatever their kind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import atan2, cos, degrees, hypot, radians, sin
from typing import Final

from marey.base import InputError, UnknownNameError
from marey.studio._walker import within
from marey.world import Box, River, Stone, Table, Thing, Wall, World

PLACE_M: Final = (-200.0, 200.0)
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

AnyThing = Wall | River | Stone | Table | Box | Thing


@dataclass(frozen=True, slots=True)
class Form:
    """A thing that can be dragged, turned and resized; lengths go along its own x, widths along its own z."""

    kind: str  # one of KINDS
    x: float  # [m]
    z: float  # [m]
    turn_deg: float = 0.0  # about +Y
    length_m: float = 1.0
    width_m: float = 0.5
    height_m: float = 0.0  # of an object: above the ground
    name: str = ""  # of an object

    def moved(self, x: float, z: float) -> Form:
        """The same at another place; a page may send any number."""
        return replace(self, x=within(x, PLACE_M, "x"), z=within(z, PLACE_M, "z"))

    def changed(self, field: str, value: float) -> Form:
        """The same with another turn or size, held in its range."""
        if field not in FIELDS[self.kind]:
            raise UnknownNameError("measure", field, f"a {self.kind}", FIELDS[self.kind])
        held = within(value, RANGES[field], field)
        if field == "turn_deg":
            return replace(self, turn_deg=held)
        if field == "length_m":
            return replace(self, length_m=held)
        return replace(self, width_m=held) if field == "width_m" else replace(self, height_m=held)


FRESH: Final = {  # what is dropped
    "river": Form("river", 0.0, 0.0, length_m=4.0, width_m=0.5),
    "wall": Form("wall", 0.0, 0.0, length_m=2.0, width_m=0.1, height_m=2.0),
    "stone": Form("stone", 0.0, 0.0, width_m=0.5),
    "table": Form("table", 0.0, 0.0, length_m=0.8, width_m=0.5, height_m=0.75),
    "box": Form("box", 0.0, 0.0, length_m=0.8, width_m=0.4, height_m=0.3),
    "object": Form("object", 0.0, 0.0, height_m=0.15),
}


def form_of(thing: AnyThing) -> Form:
    """How the page shows a thing."""
    match thing:
        case Wall():
            return _strip("wall", thing, thing.thickness_m, thing.height_m)
        case River():
            return _strip("river", thing, thing.width_m, 0.0)
        case Stone():
            return Form("stone", *thing.position, width_m=2.0 * thing.radius_m, height_m=thing.height_m)
        case Table():
            return Form("table", *thing.position, thing.heading_deg, *thing.size, thing.height_m)
        case Box():
            return Form("box", *thing.position, thing.heading_deg, *thing.size, thing.height_m)
        case Thing():
            x, y, z = thing.position
            return Form("object", x, z, height_m=y, name=thing.name)


def _strip(kind: str, thing: Wall | River, width_m: float, height_m: float) -> Form:
    (x1, z1), (x2, z2) = thing.start, thing.end
    turn = degrees(atan2(z1 - z2, x2 - x1))
    return Form(kind, 0.5 * (x1 + x2), 0.5 * (z1 + z2), turn, hypot(x2 - x1, z2 - z1), width_m, height_m)


def thing_of(form: Form) -> AnyThing:
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


def _ends(form: Form) -> tuple[tuple[float, float], tuple[float, float]]:
    angle, half = radians(form.turn_deg), 0.5 * form.length_m
    dx, dz = half * cos(angle), -half * sin(angle)
    return (form.x - dx, form.z - dz), (form.x + dx, form.z + dz)


def forms_of(world: World) -> tuple[Form, ...]:
    """Everything of a world that can be dragged."""
    lists = (world.rivers, world.walls, world.stones, world.tables, world.boxes, world.objects)
    return tuple(form_of(thing) for things in lists for thing in things)


def world_of(forms: tuple[Form, ...], world: World) -> World:
    """A world of these forms; what cannot be dragged is kept from ``world``."""
    things = [thing_of(form) for form in forms]
    return World(
        walls=tuple(t for t in things if isinstance(t, Wall)),
        rivers=tuple(t for t in things if isinstance(t, River)),
        stones=tuple(t for t in things if isinstance(t, Stone)),
        tables=tuple(t for t in things if isinstance(t, Table)),
        boxes=tuple(t for t in things if isinstance(t, Box)),
        bars=world.bars,
        objects=tuple(t for t in things if isinstance(t, Thing)),
    )
