"""Events made from what is selected: pick what is there, put it on that table, jump over that river, stop there."""

from __future__ import annotations

from math import cos, sin
from typing import Final

import numpy as np

from marey.base import InputError, UnknownNameError
from marey.studio._sketch_drawn import FOUND_BY_ENGINE, Point2, SketchState
from marey.studio._sketch_forms import FLOOR_M, SketchObject, near_edge, rest_on_support
from marey.studio._sketch_items import form_labels, item_position
from marey.world import Event, Path

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
        return _make_pick(drawn, form)
    if kind == "place":
        return _make_place(drawn, form, front)
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
    """The place on the way that is nearest, and the heading [rad] there; the place itself where there is no way."""
    if drawn.way == FOUND_BY_ENGINE or len(drawn.points) < 2:
        return place, 0.0
    way = Path(np.array(drawn.points), drawn.way)
    along = way.nearest(place)[0]
    x, z = way.point_at(along).tolist()
    return (x, z), float(way.heading_at(along))


def _make_pick(drawn: SketchState, form: SketchObject | None) -> Event:
    picked = {e.object for e in drawn.events if e.kind == "pick"}
    free = [f.name for f in drawn.forms if f.kind == "object" and f.name not in picked]
    if form is not None and form.kind == "object":
        if form.name in picked:
            raise InputError(f"'{form.name}' is picked up already", "Drop another object")
        return Event("pick", object=form.name)
    if not free:
        raise InputError("there is nothing to pick up", "Drop an object first")
    return Event("pick", object=free[-1])


def _make_place(drawn: SketchState, form: SketchObject | None, front: tuple[Point2, float]) -> Event:
    placed = {e.object for e in drawn.events if e.kind == "place"}
    held = [e.object for e in drawn.events if e.kind == "pick" and e.object not in placed]
    if not held:
        raise InputError("nothing is held that could be put down", "Add a pick first")
    (x, z), heading = front
    here = (x + ASIDE_M * cos(heading), z - ASIDE_M * sin(heading))
    if form is not None and form.kind == "table":
        here = near_edge(form, nearest_on_path(drawn, (form.x, form.z))[0])
    return Event("place", object=held[-1], to=rest_on_support(drawn.forms, (x, FLOOR_M, z), here, follows=True))


def _make_jump(drawn: SketchState, form: SketchObject | None, spot: Point2) -> Event:
    if form is None:
        return event_at(drawn, "jump", spot)
    length = round(form.width_m + SPARE_M, 3) if form.kind == "river" else None
    return Event("jump", at=nearest_on_path(drawn, spot)[0], length_m=length)
