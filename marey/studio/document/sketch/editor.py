"""The sketch of one page while it is drawn, free of any browser type: way-points, things, events, undo."""

from __future__ import annotations

from dataclasses import replace
from math import atan2, cos, degrees, sin
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray, InputError, UnknownNameError
from marey.studio.document.sketch.forms import (
    DEFAULT_OBJECTS,
    FOUND_BY_ENGINE,
    KINDS,
    NEAR_M,
    PATH_KINDS,
    PLACE_M,
    Point2,
    SketchObject,
    SketchState,
    ground_distance,
    near_edge,
    objects_from_world,
    rest_height,
)
from marey.studio.document.sketch.items import (
    PLACED_EVENTS,
    Point3,
    event_at,
    event_labels,
    form_labels,
    item_position,
    item_stand,
    measures,
    move_item,
    nearest_on_path,
    new_event,
    point_labels,
    remove_item,
    resize_item,
    with_stand,
)
from marey.studio.document.walk import clamp_value
from marey.world import Event, GroundPose, Path, Sketch

if TYPE_CHECKING:
    from marey.graph import MotionGraph
    from marey.studio.document.page import ClipFrames
    from marey.studio.document.sketch.synthesis import SynthesisJob


CORRIDOR_M: Final = (0.2, 5.0)
SPEED_MPS: Final = (0.0, 5.0)  # 0: the engine chooses
MAX_POINTS, MAX_THINGS, MAX_EVENTS = 200, 200, 50
MAX_UNDO: Final = 100
DROP_FRACTIONS: Final = (0.5, 0.7, 0.3, 0.85, 0.15)  # of the way, where things are dropped
MIN_SPACING_M: Final = 0.95  # largest distance of an object beside the path
BESIDE_M: Final = 0.9  # from the way to a thing that is dropped beside it
STEP_M: Final = 1.5  # from the goal to a way-point that is added by a button
SAME_M: Final = 1e-3  # neighbours of the way that are nearer are one
ON_PATH_M: Final = 0.2  # a click nearer to the way than that puts a way-point between two others
WAY_POINT: Final = "way-point"
BRUSH_KINDS: Final[tuple[str, ...]] = (WAY_POINT, *KINDS, *PLACED_EVENTS)  # what a click on the ground can put there
LOOKS: Final[tuple[str, ...]] = ("Sketch", "Footprints", "Compared")


class SketchEditor:
    """Edited only by the session's worker."""

    def __init__(self, drawn: SketchState | None = None) -> None:
        self.drawn = SketchState() if drawn is None else drawn
        self.selected = ""
        self.brush: str = WAY_POINT  # what a click on the ground puts there
        self.is_open = True  # drawn on; otherwise the clip is on the stage
        self.clips: set[str] = set()  # labels of clips that were made from it
        self.pair: dict[str, ClipFrames] = {}  # clips that are compared, by label
        self.shown = dict.fromkeys(LOOKS, True)
        self.engine, self.k, self.budget_s = "auto", 2, 10.0
        self.graph: MotionGraph | None = None  # the user's own, in place of the shipped one
        self.graph_label = ""
        self.synthesis: SynthesisJob | None = None  # the last one, running or not
        self._undo: list[SketchState] = []
        self._redo: list[SketchState] = []

    def items(self) -> tuple[str, ...]:
        """Labels of all that can be selected, in a fixed order."""
        return (*point_labels(self.drawn), *form_labels(self.drawn), *event_labels(self.drawn))

    def place_of(self, label: str) -> Point3:
        """Where an item is, (x, y, z) [m]."""
        return item_position(self.drawn, label)

    def form(self, label: str) -> SketchObject | None:
        """The thing of this label, if it is one."""
        number = form_labels(self.drawn).get(label)
        return None if number is None else self.drawn.forms[number]

    def stand(self, label: str) -> GroundPose | None:
        """How one stands there, if the label is the start's or the goal's."""
        return item_stand(self.drawn, label)

    def measures(self, label: str) -> dict[str, float]:
        """What of an item can be turned or resized, and how it is; nothing of nothing."""
        return measures(self.drawn, label) if label else {}

    def other(self, label: str) -> ClipFrames | None:
        """The clip that is compared with this one, if there is one and it is another motion."""
        film = self.pair.get(label)
        other = next((other for name, other in self.pair.items() if film is not None and name != label), None)
        is_same = film is not None and other is not None and np.array_equal(film.positions, other.positions)
        return None if is_same else other

    def size_m(self) -> float:
        """How far it all reaches on the ground [m]."""
        places = np.array([self.place_of(label) for label in self.items()]).reshape(-1, 3)
        return max(3.0, float(np.ptp(places[:, [0, 2]], axis=0).max())) if len(places) else 3.0

    def view(self) -> tuple[Point3, Point3]:
        """Where a camera is, and looks, that sees all of it from behind the start and above."""
        places = np.array([self.place_of(label) for label in self.items()]).reshape(-1, 3)
        low, high = (places.min(axis=0), places.max(axis=0)) if len(places) else (np.zeros(3), np.zeros(3))
        (x, _, z), size = (0.5 * (low + high)).tolist(), self.size_m()
        return (x - 0.17 * size, 0.85 * size, z - 0.78 * size), (x - 0.12 * size, 0.0, z + 0.05 * size)

    def open(self, sketch: Sketch) -> None:
        """Draw on from a sketch that came from elsewhere."""
        if (
            len(SketchState.from_sketch(sketch).points) > MAX_POINTS
            or len(objects_from_world(sketch.world)) > MAX_THINGS
        ):
            raise InputError(
                f"'{sketch.name}' is too large to draw on", f"At most {MAX_POINTS} way-points and {MAX_THINGS} things"
            )
        self._change(SketchState.from_sketch(sketch))
        self.selected = ""

    def clear(self) -> None:
        """Start a new sketch with a start and a goal."""
        self._change(SketchState())
        self.selected = ""

    def take_brush(self, brush: str) -> None:
        """Choose what a click on the ground puts there."""
        if brush not in BRUSH_KINDS:
            raise UnknownNameError("thing", brush, "the studio", BRUSH_KINDS)
        self.brush = brush

    def click(self, place: Point2) -> None:
        """Put what the brush holds on the ground."""
        here = (clamp_value(place[0], PLACE_M, "x"), clamp_value(place[1], PLACE_M, "z"))
        if self.brush == WAY_POINT:
            self.add_point(here)
        elif self.brush in KINDS:
            self.drop(self.brush, here)
        else:
            self._add_event(event_at(self.drawn, self.brush, here))

    def add_point(self, place: Point2 | None = None) -> None:
        """Go on to a place, which becomes the goal; without one, straight on. On the way, put one between others."""
        points = self.drawn.points
        if len(points) >= MAX_POINTS:
            raise InputError(f"there are {MAX_POINTS} way-points already", "Remove some first")
        x, z = self._ahead() if place is None else place
        here = (clamp_value(x, PLACE_M, "x"), clamp_value(z, PLACE_M, "z"))
        if any(ground_distance(point, here) < NEAR_M for point in points):
            raise InputError("there is a way-point already", "Click farther away")
        number = self._number_on_way(here)
        self._change(replace(self.drawn, points=(*points[:number], here, *points[number:])))
        self.selected = f"{WAY_POINT} {number + 1}"

    def drop(self, kind: str, place: Point2 | None = None) -> None:
        """Put a thing at a place, else in front: rivers and boxes across the way, the others beside it."""
        if kind not in KINDS:
            raise UnknownNameError("thing", kind, "the studio", KINDS)
        if len(self.drawn.forms) >= MAX_THINGS:
            raise InputError(f"there are {MAX_THINGS} things already", "Remove some first")
        (x, z), heading = self._spot(kind) if place is None else (place, nearest_on_path(self.drawn, place)[1])
        turn = degrees(heading) + (90.0 if kind == "wall" and place is None else 0.0)
        form = replace(
            DEFAULT_OBJECTS[kind], turn_deg=(turn + 180.0) % 360.0 - 180.0, name=self._free_name(kind)
        ).move_to(x, z)
        if kind == "object":
            form = replace(form, height_m=rest_height(self.drawn.forms, (x, z)))
        self._change(replace(self.drawn, forms=(*self.drawn.forms, form)))
        self.selected = list(form_labels(self.drawn))[-1]

    def move(self, label: str, x: float, z: float, *, is_new: bool = True) -> None:
        """Drag an item; ``is_new`` starts a step of undo."""
        self._need(label)
        after = move_item(self.drawn, label, (x, z))
        steps = np.diff(np.array(after.points), axis=0)
        if len(steps) and np.hypot(*steps.T).min() < SAME_M:
            return  # over a neighbour: the drag goes on
        self._change(after, is_step=is_new)

    def resize(self, label: str, field: str, value: float) -> None:
        """Turn or resize an item."""
        self._need(label)
        self._change(resize_item(self.drawn, label, field, value))

    def face_any_way(self, label: str, is_any: bool) -> None:
        """Leave it to the engine which way one faces at the start or at the goal, or not."""
        if self.stand(label) is None:
            raise InputError(f"'{label}' is neither start nor goal", "Select one of them")
        self._change(with_stand(self.drawn, label, heading_deg=None if is_any else self._heading(label)))

    def remove(self, label: str) -> None:
        """Take an item away; the events of an object go with it."""
        self._need(label)
        self._change(remove_item(self.drawn, label))
        self.selected = ""

    def add_event(self, kind: str) -> None:
        """Do something with or at what is selected."""
        self._add_event(new_event(self.drawn, kind, self.selected, self._in_front()))

    def shift_event(self, label: str, by: int) -> None:
        """Do an event earlier or later."""
        number, events = event_labels(self.drawn).get(label, -1), list(self.drawn.events)
        if number < 0:
            raise InputError("no event is selected", "Select one")
        to = number + by
        if not 0 <= to < len(events):
            return
        events.insert(to, events.pop(number))
        self._change(replace(self.drawn, events=tuple(events)))
        self.selected = list(event_labels(self.drawn))[to]

    def set_way(self, way: str) -> None:
        """Straight pieces, a smooth curve, or whatever the engine finds."""
        if way not in PATH_KINDS:
            raise UnknownNameError("way", way, "a sketch", PATH_KINDS)
        self._change(replace(self.drawn, way=way))

    def set_corridor(self, width_m: float) -> None:
        """Width of the band in which the root stays."""
        self._change(replace(self.drawn, corridor_m=clamp_value(width_m, CORRIDOR_M, "the corridor")))

    def set_speed(self, speed_mps: float) -> None:
        """Speed; 0 leaves it to the engine."""
        speed = clamp_value(speed_mps, SPEED_MPS, "the speed")
        self._change(replace(self.drawn, speed_mps=speed if speed > 0.0 else None))

    def select(self, label: str) -> None:
        """Select an item; an empty label clears the selection."""
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

    def _change(self, drawn: SketchState, *, is_step: bool = True) -> None:
        if is_step:
            self._undo = [*self._undo[1 - MAX_UNDO :], self.drawn]
            self._redo = []
        self.drawn = drawn

    def _add_event(self, event: Event) -> None:
        if len(self.drawn.events) >= MAX_EVENTS:
            raise InputError(f"there are {MAX_EVENTS} events already", "Clear them first")
        self._change(replace(self.drawn, events=(*self.drawn.events, event)))
        self.selected = list(event_labels(self.drawn))[-1]

    def _need(self, label: str) -> None:
        if label not in self.items():
            raise InputError(f"there is no '{label}' in the sketch", "Select something")

    def _free_name(self, kind: str) -> str:
        if kind != "object":
            return ""
        taken = {form.name for form in self.drawn.forms}
        return next(name for name in (f"thing{n}" for n in range(1, MAX_THINGS + 2)) if name not in taken)

    def _number_on_way(self, here: Point2) -> int:
        """Index of a new way-point: between two others if it lies on the path, else the last."""
        points = self.drawn.points
        if self.drawn.way == FOUND_BY_ENGINE or len(points) < 2:
            return len(points)
        way = Path(np.array(points), self.drawn.way)
        along, off_m = way.nearest(here)
        if off_m > ON_PATH_M or not NEAR_M < along < way.length_m - NEAR_M:
            return len(points)
        return sum(way.nearest(point)[0] < along for point in points)

    def _spot(self, kind: str) -> tuple[Point2, float]:
        """Position of a dropped object and heading [rad] of the path there; objects go onto a selected table."""
        table = self.form(self.selected)
        if kind == "object" and table is not None and table.kind == "table":
            return near_edge(table, nearest_on_path(self.drawn, (table.x, table.z))[0]), 0.0
        (x, z), heading = self._in_front(is_free=True)
        aside = 0.0 if kind in ("river", "box") else BESIDE_M
        return (x + aside * cos(heading), z - aside * sin(heading)), heading

    def _in_front(self, *, is_free: bool = False) -> tuple[Point2, float]:
        """Middle of the piece of way after the selected way-point, else of the whole way, and the heading there.

        With ``is_free``, before or after it, where no thing lies yet.
        """
        points = self.drawn.points
        if len(points) < 2:
            x, z = points[0] if points else (0.0, 0.0)
            return (x, z + STEP_M), 0.0
        number = point_labels(self.drawn).get(self.selected, -1)
        pieces = points[number : number + 2] if 0 <= number < len(points) - 1 else points
        way = Path(np.array(pieces))
        spots = [way.length_m * share for share in (DROP_FRACTIONS if is_free else DROP_FRACTIONS[:1])]
        free = [s for s in spots if self._room(way.point_at(s)) > MIN_SPACING_M]
        best = free[0] if free else spots[0]
        x, z = way.point_at(best).tolist()
        return (x, z), float(way.heading_at(best))

    def _room(self, place: FloatArray) -> float:
        """Distance to the nearest thing [m]."""
        return min(
            (ground_distance((form.x, form.z), (place[0], place[1])) for form in self.drawn.forms), default=np.inf
        )

    def _heading(self, label: str) -> float:
        """Heading [°] of the way at an end of it."""
        points = self.drawn.points
        a, b = (points[0], points[1]) if label == f"{WAY_POINT} 1" else (points[-2], points[-1])
        return round(degrees(atan2(b[0] - a[0], b[1] - a[1])), 1)

    def _ahead(self) -> Point2:
        points = self.drawn.points
        x, z = points[-1] if points else (0.0, 0.0)
        heading = atan2(x - points[-2][0], z - points[-2][1]) if len(points) > 1 else 0.0
        return x + STEP_M * sin(heading), z + STEP_M * cos(heading)
