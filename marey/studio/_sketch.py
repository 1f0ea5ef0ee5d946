"""The sketch of one page while it is drawn, free of any browser type: way-points, things, events, undo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import atan2, cos, degrees, sin
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from marey.base import FloatArray, InputError, UnknownNameError
from marey.studio._sketch_drawn import FOUND, NEAR_M, WAYS, Drawn, Point2, gap
from marey.studio._sketch_forms import FRESH, KINDS, PLACE_M, Form, forms_of
from marey.studio._walker import within
from marey.world import Event, Path, Sketch

if TYPE_CHECKING:
    from marey.graph import MotionGraph
    from marey.studio._sketch_run import Synthesis

T = TypeVar("T")

CORRIDOR_M: Final = (0.2, 5.0)
SPEED_MPS: Final = (0.0, 5.0)  # 0: the engine chooses
MAX_POINTS, MAX_THINGS, MAX_EVENTS = 200, 200, 50
MAX_UNDO: Final = 100
EVENTS: Final = ("pick", "place", "jump", "stop")
STOP_S: Final = 1.0
SHARES: Final = (0.5, 0.7, 0.3, 0.85, 0.15)  # of the way, where things are dropped
CROWDED_M: Final = 0.95  # a thing beside the way is no farther from it
BESIDE_M: Final = 0.9  # from the way to a thing that is dropped beside it
STEP_M: Final = 1.5  # from the goal to a way-point that is added by a button
SAME_M: Final = 1e-3  # neighbours of the way that are nearer are one


class Draft:
    """Edited only by the session's worker."""

    def __init__(self, drawn: Drawn | None = None) -> None:
        self.drawn = Drawn() if drawn is None else drawn
        self.selected = ""
        self.is_open = True  # drawn on; otherwise the clip is on the stage
        self.clips: set[str] = set()  # labels of clips that were made from it
        self.shown = {"Sketch": True, "Footprints": True}
        self.engine, self.k, self.budget_s = "auto", 2, 10.0
        self.graph: MotionGraph | None = None  # the user's own, in place of the shipped one
        self.graph_label = ""
        self.synthesis: Synthesis | None = None  # the last one, running or not
        self._undo: list[Drawn] = []
        self._redo: list[Drawn] = []

    def items(self) -> tuple[str, ...]:
        """Labels of all that can be selected, in a fixed order."""
        return (*self._points(), *self._forms(), *self._events())

    def place_of(self, label: str) -> tuple[float, float, float]:
        """Where an item is, (x, y, z) [m]."""
        if label in self._points():
            x, z = self.drawn.points[self._points()[label]]
            return x, 0.0, z
        if label in self._forms():
            form = self.drawn.forms[self._forms()[label]]
            return form.x, form.height_m, form.z
        return _event_place(self.drawn.events[self._events()[label]])

    def view(self) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
        """Where a camera is, and looks, that sees all of it from behind the start and above."""
        places = np.array([self.place_of(label) for label in self.items()]).reshape(-1, 3)
        low, high = (places.min(axis=0), places.max(axis=0)) if len(places) else (np.zeros(3), np.zeros(3))
        x, _, z = (0.5 * (low + high)).tolist()
        size = max(3.0, float(np.ptp(places[:, [0, 2]], axis=0).max())) if len(places) else 3.0
        return (x - 0.2 * size, 1.0 * size, z - 0.9 * size), (x - 0.12 * size, 0.0, z + 0.05 * size)

    def form(self, label: str) -> Form | None:
        """The thing of this label, if it is one."""
        number = self._forms().get(label)
        return None if number is None else self.drawn.forms[number]

    def open(self, sketch: Sketch) -> None:
        """Draw on from a sketch that came from elsewhere."""
        if len(Drawn.of(sketch).points) > MAX_POINTS or len(forms_of(sketch.world)) > MAX_THINGS:
            raise InputError(
                f"'{sketch.name}' is too large to draw on", f"At most {MAX_POINTS} way-points and {MAX_THINGS} things"
            )
        self._change(Drawn.of(sketch))
        self.selected = ""

    def add_point(self, place: Point2 | None = None) -> None:
        """Go on to a place, which becomes the goal; without one, straight on from the last."""
        points = self.drawn.points
        if len(points) >= MAX_POINTS:
            raise InputError(f"there are {MAX_POINTS} way-points already", "Remove some first")
        x, z = self._ahead() if place is None else place
        here = (within(x, PLACE_M, "x"), within(z, PLACE_M, "z"))
        if points and gap(points[-1], here) < NEAR_M:
            raise InputError("there is a way-point already", "Click farther away")
        self._change(replace(self.drawn, points=(*points, here)))
        self.selected = f"way-point {len(points) + 1}"

    def drop(self, kind: str) -> None:
        """Put a thing in front: rivers and boxes across the way, the others beside it, objects on a table."""
        if kind not in KINDS:
            raise UnknownNameError("thing", kind, "the studio", KINDS)
        if len(self.drawn.forms) >= MAX_THINGS:
            raise InputError(f"there are {MAX_THINGS} things already", "Remove some first")
        (x, z), heading = self._in_front(is_free=True)
        aside = 0.0 if kind in ("river", "box") else BESIDE_M
        turn = degrees(heading) + (90.0 if kind == "wall" else 0.0)
        form = replace(FRESH[kind], turn_deg=(turn + 180.0) % 360.0 - 180.0, name=self._free_name(kind))
        form = form.moved(x + aside * cos(heading), z - aside * sin(heading))
        table = self.form(self.selected)
        if kind == "object" and table is not None and table.kind == "table":
            form = replace(form, x=table.x, z=table.z, height_m=table.height_m)
        self._change(replace(self.drawn, forms=(*self.drawn.forms, form)))
        self.selected = list(self._forms())[-1] if kind != "object" else f"object {form.name}"

    def move(self, label: str, x: float, z: float, *, is_new: bool = True) -> None:
        """Drag an item; ``is_new`` starts a step of undo."""
        here = (within(x, PLACE_M, "x"), within(z, PLACE_M, "z"))
        self._need(label)
        if label in self._points():
            points = list(self.drawn.points)
            number = self._points()[label]
            points[number] = here
            if any(
                gap(here, p) < 1e-3 for p in (*points[max(number - 1, 0) : number], *points[number + 1 : number + 2])
            ):
                return  # over a neighbour: the drag goes on
            self._change(replace(self.drawn, points=tuple(points)), is_step=is_new)
        elif label in self._forms():
            self._put(label, lambda form: form.moved(*here), is_step=is_new)
        else:
            self._move_event(self._events()[label], here, is_step=is_new)

    def resize(self, label: str, field: str, value: float) -> None:
        """Turn or resize a thing."""
        self._need(label)
        if label not in self._forms():
            raise InputError(f"'{label}' has no size", "Select a thing")
        self._put(label, lambda form: form.changed(field, value), is_step=True)

    def remove(self, label: str) -> None:
        """Take an item away; the events of an object go with it."""
        self._need(label)
        drawn = self.drawn
        if label in self._points():
            if len(drawn.points) <= 2:
                raise InputError("a way has a start and a goal", "Drag them instead")
            drawn = replace(drawn, points=_without(drawn.points, self._points()[label]))
        elif label in self._forms():
            form = drawn.forms[self._forms()[label]]
            events = tuple(e for e in drawn.events if form.kind != "object" or e.object != form.name)
            drawn = replace(drawn, forms=_without(drawn.forms, self._forms()[label]), events=events)
        else:
            drawn = replace(drawn, events=_without(drawn.events, self._events()[label]))
        self._change(drawn)
        self.selected = ""

    def add_event(self, kind: str) -> None:
        """Do something with or at what is selected."""
        if kind not in EVENTS:
            raise UnknownNameError("event", kind, "a sketch", EVENTS)
        if len(self.drawn.events) >= MAX_EVENTS:
            raise InputError(f"there are {MAX_EVENTS} events already", "Clear them first")
        event = {"pick": self._pick, "place": self._place, "jump": self._jump, "stop": self._stop}[kind]()
        self._change(replace(self.drawn, events=(*self.drawn.events, event)))

    def clear_events(self) -> None:
        """Nothing to do on the way."""
        self._change(replace(self.drawn, events=()))

    def set_way(self, way: str) -> None:
        """Straight pieces, a smooth curve, or whatever the engine finds."""
        if way not in WAYS:
            raise UnknownNameError("way", way, "a sketch", WAYS)
        self._change(replace(self.drawn, way=way))

    def set_corridor(self, width_m: float) -> None:
        """Width of the band in which the root stays."""
        self._change(replace(self.drawn, corridor_m=within(width_m, CORRIDOR_M, "the corridor")))

    def set_speed(self, speed_mps: float) -> None:
        """Speed; 0 leaves it to the engine."""
        speed = within(speed_mps, SPEED_MPS, "the speed")
        self._change(replace(self.drawn, speed_mps=speed if speed > 0.0 else None))

    def select(self, label: str) -> None:
        """Take an item in hand; an empty label lets go."""
        if label:
            self._need(label)
        self.selected = label

    def undo(self) -> None:
        """Take the last change back, if there is one."""
        if self._undo:
            self._redo.append(self.drawn)
            self.drawn = self._undo.pop()
            self._let_go()

    def redo(self) -> None:
        """Do again what was undone."""
        if self._redo:
            self._undo.append(self.drawn)
            self.drawn = self._redo.pop()
            self._let_go()

    def _let_go(self) -> None:
        if self.selected not in self.items():
            self.selected = ""

    def _change(self, drawn: Drawn, *, is_step: bool = True) -> None:
        if is_step:
            self._undo = [*self._undo[1 - MAX_UNDO :], self.drawn]
            self._redo = []
        self.drawn = drawn

    def _put(self, label: str, edit: Callable[[Form], Form], *, is_step: bool) -> None:
        forms = list(self.drawn.forms)
        forms[self._forms()[label]] = edit(forms[self._forms()[label]])
        self._change(replace(self.drawn, forms=tuple(forms)), is_step=is_step)

    def _move_event(self, number: int, here: Point2, *, is_step: bool) -> None:
        events = list(self.drawn.events)
        event = events[number]
        if event.to is not None:
            events[number] = replace(event, to=(here[0], event.to[1], here[1]))
        else:
            events[number] = replace(event, at=here)
        self._change(replace(self.drawn, events=tuple(events)), is_step=is_step)

    def _points(self) -> dict[str, int]:
        return {f"way-point {i + 1}": i for i in range(len(self.drawn.points))}

    def _forms(self) -> dict[str, int]:
        labels: dict[str, int] = {}
        counts = dict.fromkeys(KINDS, 0)
        for number, form in enumerate(self.drawn.forms):
            counts[form.kind] += 1
            labels[f"{form.kind} {form.name or counts[form.kind]}"] = number
        return labels

    def _events(self) -> dict[str, int]:
        """Events that have a place of their own."""
        placed = [(n, e) for n, e in enumerate(self.drawn.events) if e.at is not None or e.to is not None]
        return {f"{e.kind} {n + 1}": n for n, e in placed}

    def _need(self, label: str) -> None:
        if label not in self.items():
            raise InputError(f"there is no '{label}' in the sketch", "Select something")

    def _free_name(self, kind: str) -> str:
        if kind != "object":
            return ""
        taken = {form.name for form in self.drawn.forms}
        return next(name for name in (f"thing{n}" for n in range(1, MAX_THINGS + 2)) if name not in taken)

    def _in_front(self, *, is_free: bool = False) -> tuple[Point2, float]:
        """Middle of the piece of way after the selected way-point, else of the whole way, and the heading there.

        With ``is_free``, before or after it, where no thing lies yet.
        """
        points = self.drawn.points
        if len(points) < 2:
            x, z = points[0] if points else (0.0, 0.0)
            return (x, z + STEP_M), 0.0
        number = self._points().get(self.selected, -1)
        pieces = points[number : number + 2] if 0 <= number < len(points) - 1 else points
        way = Path(np.array(pieces))
        spots = [way.length_m * share for share in (SHARES if is_free else SHARES[:1])]
        free = [s for s in spots if self._room(way.point_at(s)) > CROWDED_M]
        best = free[0] if free else spots[0]
        x, z = way.point_at(best).tolist()
        return (x, z), float(way.heading_at(best))

    def _room(self, place: FloatArray) -> float:
        """Distance to the nearest thing [m]."""
        return min((gap((form.x, form.z), (place[0], place[1])) for form in self.drawn.forms), default=np.inf)

    def _ahead(self) -> Point2:
        points = self.drawn.points
        x, z = points[-1] if points else (0.0, 0.0)
        heading = atan2(x - points[-2][0], z - points[-2][1]) if len(points) > 1 else 0.0
        return x + STEP_M * sin(heading), z + STEP_M * cos(heading)

    def _pick(self) -> Event:
        objects = [form.name for form in self.drawn.forms if form.kind == "object"]
        free = [name for name in objects if all(e.object != name or e.kind != "pick" for e in self.drawn.events)]
        chosen = self.form(self.selected)
        if chosen is not None and chosen.kind == "object":
            return Event("pick", object=chosen.name)
        if not free:
            raise InputError("there is nothing to pick up", "Drop an object first")
        return Event("pick", object=free[-1])

    def _place(self) -> Event:
        held = [e.object for e in self.drawn.events if e.kind == "pick"]
        held = [name for name in held if all(e.kind != "place" or e.object != name for e in self.drawn.events)]
        if not held:
            raise InputError("nothing is held that could be put down", "Add a pick first")
        table = self.form(self.selected)
        if table is not None and table.kind == "table":
            return Event("place", object=held[-1], to=(table.x, table.height_m, table.z))
        (x, z), heading = self._in_front()
        return Event("place", object=held[-1], to=(x + 0.3 * cos(heading), 0.15, z - 0.3 * sin(heading)))

    def _jump(self) -> Event:
        river = self.form(self.selected)
        if river is None:
            return Event("jump", at=self._spot())
        at = self._spot() if self.drawn.way == FOUND else self._nearest((river.x, river.z))
        return Event("jump", at=at, length_m=round(river.width_m + 0.2, 3) if river.kind == "river" else None)

    def _stop(self) -> Event:
        return Event("stop", at=self._spot(), seconds=STOP_S)

    def _spot(self) -> Point2:
        """Where the selected item is, else the middle of the way."""
        if self.selected in self.items():
            x, _, z = self.place_of(self.selected)
            return x, z
        return self._in_front()[0]

    def _nearest(self, place: Point2) -> Point2:
        way = self.drawn.sketch().path
        assert way is not None
        x, z = way.point_at(way.nearest(place)[0]).tolist()
        return x, z


def _event_place(event: Event) -> tuple[float, float, float]:
    if event.to is not None:
        return event.to
    assert event.at is not None
    return event.at[0], 0.0, event.at[1]


def _without(items: tuple[T, ...], number: int) -> tuple[T, ...]:
    return items[:number] + items[number + 1 :]
