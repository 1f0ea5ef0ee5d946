"""Items of a sketch that can be selected, rotated or resized, and events made from a selection."""

from __future__ import annotations

from dataclasses import replace
from math import cos, sin
from typing import Final

import numpy as np

from marey.base import InputError, UnknownNameError
from marey.studio.document.sketch.forms import (
    FIELDS,
    FLOOR_M,
    FOUND_BY_ENGINE,
    KINDS,
    PLACE_M,
    RANGES,
    Point2,
    SketchObject,
    SketchState,
    carry_with_table,
    near_edge,
    rest_on_support,
)
from marey.studio.document.walk import clamp_value
from marey.world import Event, GroundPose, Path

Point3 = tuple[float, float, float]

STAND_FIELDS: Final = ("facing_deg", "tolerance_m")
EVENT_FIELDS: Final = {"jump": ("jump_m", "rise_m"), "stop": ("seconds",), "place": ("put_m",)}
EVENT_NAMES: Final = {"jump_m": "length_m", "rise_m": "height_m", "seconds": "seconds"}  # field -> name in an event
MEASURES: Final = RANGES | {
    "facing_deg": (-180.0, 180.0),
    "tolerance_m": (0.05, 2.0),
    "jump_m": (0.0, 3.0),  # 0: the engine chooses
    "rise_m": (0.0, 1.0),
    "seconds": (0.0, 60.0),
    "put_m": (0.0, 2.0),
}


def point_labels(drawn: SketchState) -> dict[str, int]:
    """Labels of the way-points."""
    return {f"way-point {i + 1}": i for i in range(len(drawn.points))}


def form_labels(drawn: SketchState) -> dict[str, int]:
    """Labels of the things; objects go by their names, the others are numbered."""
    labels: dict[str, int] = {}
    counts = dict.fromkeys(KINDS, 0)
    for number, form in enumerate(drawn.forms):
        counts[form.kind] += 1
        labels[f"{form.kind} {form.name or counts[form.kind]}"] = number
    return labels


def event_labels(drawn: SketchState) -> dict[str, int]:
    """Labels of the events, numbered in their order."""
    return {f"{event.kind} {number + 1}": number for number, event in enumerate(drawn.events)}


def item_position(drawn: SketchState, label: str) -> Point3:
    """Where an item is, (x, y, z) [m]."""
    if (number := point_labels(drawn).get(label)) is not None:
        x, z = drawn.points[number]
        return x, 0.0, z
    if (number := form_labels(drawn).get(label)) is not None:
        form = drawn.forms[number]
        return form.x, form.height_m, form.z
    # Where an event is: a pick is where its object is
    event = drawn.events[event_labels(drawn)[label]]
    if event.to is not None:
        return event.to
    if event.kind == "pick":
        form = drawn.forms[object_number(drawn, event)]
        return form.x, form.height_m, form.z
    assert event.at is not None  # every other kind has a place
    return event.at[0], 0.0, event.at[1]


def object_number(drawn: SketchState, event: Event) -> int:
    """Which thing an event is about."""
    return next(n for n, form in enumerate(drawn.forms) if form.kind == "object" and form.name == event.object)


def move_item(drawn: SketchState, label: str, here: Point2) -> SketchState:
    """The sketch with an item elsewhere; tables carry what stands on them, a pick moves its object."""
    here = clamp_value(here[0], PLACE_M, "x"), clamp_value(here[1], PLACE_M, "z")
    if (number := point_labels(drawn).get(label)) is not None:
        points = (*drawn.points[:number], here, *drawn.points[number + 1 :])
        return replace(drawn, points=points)
    if (number := form_labels(drawn).get(label)) is not None:
        return _move_object(drawn, number, here)
    number = event_labels(drawn)[label]
    event = drawn.events[number]
    if event.kind == "pick":
        return _move_object(drawn, object_number(drawn, event), here)
    if event.to is not None:
        to = rest_on_support(drawn.forms, event.to, here)
        return with_event(drawn, number, replace(event, to=to))
    return with_event(drawn, number, replace(event, at=here))


def _move_object(drawn: SketchState, number: int, here: Point2) -> SketchState:
    form = drawn.forms[number]
    others = (*drawn.forms[:number], *drawn.forms[number + 1 :])
    if form.kind == "object":
        x, y, z = rest_on_support(others, (form.x, form.height_m, form.z), here)
        return with_form(drawn, number, replace(form.move_to(x, z), height_m=y))
    after = form.move_to(*here)
    return with_form(_carry_objects(drawn, form, after), number, after)


def _carry_objects(drawn: SketchState, before: SketchObject, after: SketchObject) -> SketchState:
    """Objects on a table and placement targets move with it."""
    if before.kind != "table":
        return drawn
    forms = [
        form if form.kind != "object" else form.at(carry_with_table(before, after, (form.x, form.height_m, form.z)))
        for form in drawn.forms
    ]
    events = [e if e.to is None else replace(e, to=carry_with_table(before, after, e.to)) for e in drawn.events]
    return replace(drawn, forms=tuple(forms), events=tuple(events))


def measures(drawn: SketchState, label: str) -> dict[str, float]:
    """What of an item can be changed, and how it is."""
    stand = item_stand(drawn, label)
    if stand is not None:
        return {"facing_deg": stand.heading_deg or 0.0, "tolerance_m": stand.tolerance_m}
    if (number := form_labels(drawn).get(label)) is not None:
        form = drawn.forms[number]
        return {field: float(getattr(form, field)) for field in FIELDS[form.kind]}
    if (number := event_labels(drawn).get(label)) is None:
        return {}
    event = drawn.events[number]
    fields = EVENT_FIELDS.get(event.kind, ())
    if event.to is not None:
        return {"put_m": event.to[1]}
    return {field: float(getattr(event, EVENT_NAMES[field]) or 0.0) for field in fields}


def resize_item(drawn: SketchState, label: str, field: str, value: float) -> SketchState:
    """The sketch with an item turned or resized; values are held in their range."""
    if field not in measures(drawn, label):
        raise InputError(f"'{label}' has no such measure", "Select a thing")
    held = clamp_value(value, MEASURES[field], field)
    if field in STAND_FIELDS:
        return with_stand(drawn, label, **{"heading_deg" if field == "facing_deg" else field: held})
    if (number := form_labels(drawn).get(label)) is not None:
        before = drawn.forms[number]
        after = before.with_measure(field, held)
        return with_form(_carry_objects(drawn, before, after), number, after)
    number = event_labels(drawn)[label]
    event = drawn.events[number]
    if field == "put_m" and event.to is not None:
        return with_event(drawn, number, replace(event, to=(event.to[0], held, event.to[2])))
    wish = held if field == "seconds" or held > 0.0 else None  # 0: the engine chooses
    return with_event(drawn, number, replace(event, **{EVENT_NAMES[field]: wish}))


def item_stand(drawn: SketchState, label: str) -> GroundPose | None:
    """Heading at the start or at the goal; None otherwise."""
    number = point_labels(drawn).get(label)
    if number == 0:
        return drawn.start
    return drawn.goal if number is not None and number == len(drawn.points) - 1 else None


def with_stand(drawn: SketchState, label: str, **changes: float | None) -> SketchState:
    """The sketch with another start or goal."""
    number = point_labels(drawn)[label]
    if number == 0:
        return replace(drawn, start=replace(drawn.start, **changes))
    return replace(drawn, goal=replace(drawn.goal, **changes))


def with_form(drawn: SketchState, number: int, form: SketchObject) -> SketchState:
    """The sketch with one thing replaced."""
    return replace(drawn, forms=(*drawn.forms[:number], form, *drawn.forms[number + 1 :]))


def with_event(drawn: SketchState, number: int, event: Event) -> SketchState:
    """The sketch with one event replaced."""
    return replace(drawn, events=(*drawn.events[:number], event, *drawn.events[number + 1 :]))


def remove_item(drawn: SketchState, label: str) -> SketchState:
    """The sketch without an item; the events of an object go with it."""
    if (number := point_labels(drawn).get(label)) is not None:
        if len(drawn.points) <= 2:
            raise InputError("a path has a start and a goal", "Drag them instead")
        return replace(drawn, points=(*drawn.points[:number], *drawn.points[number + 1 :]))
    if (number := form_labels(drawn).get(label)) is not None:
        form = drawn.forms[number]
        events = tuple(e for e in drawn.events if form.kind != "object" or e.object != form.name)
        return replace(drawn, forms=(*drawn.forms[:number], *drawn.forms[number + 1 :]), events=events)
    number = event_labels(drawn)[label]
    event = drawn.events[number]
    events = (*drawn.events[:number], *drawn.events[number + 1 :])
    if event.kind == "pick":  # what is not held cannot be put down
        events = tuple(e for e in events if e.kind != "place" or e.object != event.object)
    return replace(drawn, events=events)


EVENTS: Final = ("pick", "place", "jump", "stop")
PLACED_EVENTS: Final = ("jump", "stop")  # events that a click on the ground makes
STOP_S: Final = 1.0
SPARE_M: Final = 0.2  # a jump is longer than its river
ASIDE_M: Final = 0.3  # from the way to where something is put down


def new_event(drawn: SketchState, kind: str, selected: str, front: tuple[Point2, float]) -> Event:
    """An event of this kind for what is selected, else in front.

    Args:
        drawn: the sketch.
        kind: one of EVENTS.
        selected: label of an item, or nothing.
        front: a place on the way and the heading [rad] there.
    """
    if kind not in EVENTS:
        raise UnknownNameError("event", kind, "a sketch", EVENTS)
    number = form_labels(drawn).get(selected)
    form = None if number is None else drawn.forms[number]
    if kind == "pick":
        picked = {e.object for e in drawn.events if e.kind == "pick"}
        free = [f.name for f in drawn.forms if f.kind == "object" and f.name not in picked]
        if form is not None and form.kind == "object":
            if form.name in picked:
                raise InputError(f"'{form.name}' is picked up already", "Drop another object")
            return Event("pick", object=form.name)
        if not free:
            raise InputError("there is nothing to pick up", "Drop an object first")
        return Event("pick", object=free[-1])
    if kind == "place":
        placed = {e.object for e in drawn.events if e.kind == "place"}
        held = [e.object for e in drawn.events if e.kind == "pick" and e.object not in placed]
        if not held:
            raise InputError("nothing is held that could be put down", "Add a pick first")
        (x, z), heading = front
        here = (x + ASIDE_M * cos(heading), z - ASIDE_M * sin(heading))
        if form is not None and form.kind == "table":
            here = near_edge(form, nearest_on_path(drawn, (form.x, form.z))[0])
        return Event("place", object=held[-1], to=rest_on_support(drawn.forms, (x, FLOOR_M, z), here, follows=True))
    spot = front[0]
    if selected:
        x, _, z = item_position(drawn, selected)
        spot = x, z
    return _make_jump(drawn, form, spot) if kind == "jump" else Event("stop", at=spot, seconds=STOP_S)


def event_at(drawn: SketchState, kind: str, here: Point2) -> Event:
    """A jump or a stop at a place; a jump there over a river is as long as the river asks for."""
    if kind == "stop":
        return Event("stop", at=here, seconds=STOP_S)
    wet = [form for form in drawn.forms if form.kind == "river" and form.covers(here)]
    return Event("jump", at=here, length_m=round(wet[0].width_m + SPARE_M, 3) if wet else None)


def nearest_on_path(drawn: SketchState, place: Point2) -> tuple[Point2, float]:
    """Nearest position on the path and its heading [rad]; the position itself without a path."""
    if drawn.way == FOUND_BY_ENGINE or len(drawn.points) < 2:
        return place, 0.0
    way = Path(np.array(drawn.points), drawn.way)
    along = way.nearest(place)[0]
    x, z = way.point_at(along).tolist()
    return (x, z), float(way.heading_at(along))


def _make_jump(drawn: SketchState, form: SketchObject | None, spot: Point2) -> Event:
    if form is None:
        return event_at(drawn, "jump", spot)
    length = round(form.width_m + SPARE_M, 3) if form.kind == "river" else None
    return Event("jump", at=nearest_on_path(drawn, spot)[0], length_m=length)
