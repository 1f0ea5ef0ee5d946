"""Every field of a sketch: the graph's search sees it, or the engine refuses it, or the report says it was not kept."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from marey.base import InputError
from marey.graph.database.settings import SearchSettings
from marey.graph.search.ground import GroundGrid
from marey.graph.search.sketch import compile_sketch, leap_low_boxes
from marey.motion import Motion
from marey.pipeline import check_motion, synthesize_sketch
from marey.pipeline.synthesis import refuse_requests
from marey.world import (
    Bar,
    Box,
    Event,
    GroundPose,
    KeyPose,
    Path,
    River,
    Sketch,
    Stone,
    Table,
    Thing,
    Wall,
    World,
)  # fmt: skip

ENGINES = ("graph", "locomotion", "spacetime")
BASE = Sketch(
    GroundPose((0.0, 0.0), 0.0),
    GroundPose((0.0, 4.0), tolerance_m=0.3),
    Path(np.array([[0.0, 0.0], [0.0, 4.0]])),
    world=World(objects=(Thing("cup", (0.3, 0.8, 2.0)), Thing("key", (0.3, 0.3, 3.0)))),
)


def with_event(*, base: Sketch = BASE, **given: object) -> Sketch:
    return replace(base, events=(Event(**given),))


def with_world(**given: object) -> Sketch:
    return replace(BASE, world=replace(BASE.world, **given))


RIVER = River((-2.0, 2.0), (2.0, 2.0), 0.6)
WET = with_world(rivers=(RIVER,))
JUMP, STOP, PICK = (
    {"kind": "jump", "at": (0.0, 2.0)},
    {"kind": "stop", "at": (0.0, 2.0), "seconds": 1.0},
    {"kind": "pick", "object": "cup"},
)
KICK = {"kind": "custom", "name": "kick", "at": (0.0, 2.0)}
PLACE = {"kind": "place", "object": "cup", "to": (0.3, 0.8, 3.0)}
CASES: dict[str, tuple[Sketch, Sketch]] = {
    # field: a sketch, and the same with that field changed
    "start.position": (BASE, replace(BASE, start=GroundPose((0.4, -1.0), 0.0))),
    "start.heading_deg": (BASE, replace(BASE, start=GroundPose((0.0, 0.0), 90.0))),
    "start.tolerance_m": (BASE, replace(BASE, start=GroundPose((0.06, 0.0), 0.0, tolerance_m=0.01))),
    "goal.position": (BASE, replace(BASE, goal=GroundPose((0.0, 5.0), tolerance_m=0.3))),
    "goal.heading_deg": (BASE, replace(BASE, goal=GroundPose((0.0, 4.0), 90.0, tolerance_m=0.3))),
    "goal.tolerance_m": tuple(replace(BASE, goal=GroundPose((0.0, 4.3), tolerance_m=t)) for t in (0.5, 0.05)),
    "path": (BASE, replace(BASE, path=Path(np.array([[0.0, 0.0], [1.5, 2.0], [0.0, 4.0]])))),
    "corridor_m": (BASE, replace(BASE, corridor_m=0.005)),
    "speed_mps": (BASE, replace(BASE, speed_mps=3.0)),
    "events": (BASE, with_event(kind="pass", at=(1.0, 2.0))),
    "key_poses": (BASE, replace(BASE, key_poses=(KeyPose(1.0, "nobody.bvh", 3),))),
    "event.kind": (with_event(kind="pass", at=(0.0, 2.0)), with_event(**STOP)),
    "event.at": (with_event(**JUMP), with_event(kind="jump", at=(0.0, 3.0))),
    "event.object": (with_event(**PICK), with_event(kind="pick", object="key")),
    "event.to": (with_event(**PLACE), with_event(**PLACE | {"to": (0.3, 0.4, 3.0)})),
    "event.length_m": (with_event(**JUMP), with_event(**JUMP, length_m=1.0)),
    "event.height_m": (with_event(**JUMP), with_event(**JUMP, height_m=0.3)),
    "event.seconds": (with_event(**STOP), with_event(**STOP | {"seconds": 3.0})),
    "event.hand": (with_event(**PICK), with_event(**PICK, hand="left")),
    "event.tolerance_m": (with_event(**PICK), with_event(**PICK, tolerance_m=0.02)),
    "event.name": (with_event(kind="pass", at=(0.0, 2.0)), with_event(**KICK)),
    "event.numbers": (with_event(**KICK), with_event(**KICK, numbers=(0.5, 0.5))),
    "walls": (BASE, with_world(walls=(Wall((-0.2, 2.0), (2.0, 2.0)),))),
    "rivers": (BASE, WET),
    "stones": (WET, with_world(rivers=(RIVER,), stones=(Stone((0.1, 2.0)),))),
    "tables": (BASE, with_world(tables=(Table((0.4, 2.0)),))),
    "boxes": (BASE, with_world(boxes=(Box((0.1, 2.0)),))),
    "bars": (BASE, with_world(bars=(Bar((-1.0, 2.0, 2.0), (1.0, 2.0, 2.0)),))),
    "objects": (with_event(**PICK), with_event(base=with_world(objects=(Thing("cup", (0.3, 0.5, 2.0)),)), **PICK)),
}
THINGS: dict[str, tuple[type, str, dict[str, object], dict[str, object]]] = {
    # list of the world: its kind, fields given, and the value that each field is changed to
    "walls": (
        Wall, "wall", {"start": (0.35, 2.0), "end": (2.0, 2.0)},
        {"start": (-0.3, 2.0), "end": (-2.0, 2.0), "thickness_m": 0.6, "height_m": 0.1},
    ),
    "rivers": (
        River, "river", {"start": (-2.0, 2.0), "end": (2.0, 2.0)},
        {"start": (-2.0, 3.0), "end": (2.0, 3.0), "width_m": 0.3},
    ),
    "stones": (
        Stone, "stone", {"position": (0.1, 2.0), "radius_m": 0.15},
        {"position": (-0.1, 1.9), "radius_m": 0.3, "height_m": 0.3},
    ),
    "tables": (
        Table, "table", {"position": (0.5, 2.0), "size": (0.4, 0.5), "height_m": 0.95},
        {"position": (0.95, 2.0), "size": (0.7, 0.5), "height_m": 0.2, "heading_deg": 60.0},
    ),
    "boxes": (
        Box, "box", {"position": (0.5, 2.0), "height_m": 0.8},
        {"position": (0.3, 2.0), "size": (0.9, 0.4), "height_m": 0.1, "heading_deg": 45.0},
    ),
    "objects": (
        Thing, "object", {"name": "cup", "position": (0.3, 0.8, 2.0)},
        {"name": "key", "position": (0.3, 0.5, 2.0)},
    ),
}  # fmt: skip
for many, (kind, one, given, changes) in THINGS.items():
    rivers = (RIVER,) if many == "stones" else ()
    for name, value in changes.items():
        pair = tuple(
            with_event(base=with_world(**{"rivers": rivers, "objects": ()} | {many: (kind(**row),)}), **event)
            for row in (given, given | {name: value})
            for event in (
                [{"kind": "pick", "object": row["name"]}] if many == "objects" else [{"kind": "pass", "at": (0.0, 1.0)}]
            )
        )
        CASES[f"{one}.{name}"] = pair


@pytest.fixture(scope="module")
def walk() -> Motion:
    """A walk that keeps the plain sketch."""
    motion = synthesize_sketch(BASE, "locomotion", check=False).motion
    assert motion is not None
    return motion


def is_seen_by_search(before: Sketch, after: Sketch) -> bool:
    """Whether constraints, starts or the ground of a search differ."""
    settings = SearchSettings()
    a, b = (compile_sketch(sketch, settings=settings) for sketch in (before, after))
    grids = [GroundGrid.from_sketch(sketch, settings) for sketch in (before, after)]
    is_same = repr(a) == repr(b) and before.start == after.start
    is_same &= all(np.array_equal(getattr(grids[0], n), getattr(grids[1], n)) for n in ("free", "stand"))
    return not is_same


def is_refused(sketch: Sketch, engine: str) -> bool:
    try:
        refuse_requests(sketch, engine)
    except InputError:
        return True
    return False


def test_the_table_has_every_field():
    named = {name for name in CASES if "." not in name} | {"start", "goal", "world", "name"}
    assert named == {f.name for f in fields(Sketch)} | {f.name for f in fields(World)}
    things = [(kind, one) for kind, one, *_ in THINGS.values()]
    for kind, prefix in ((GroundPose, "start"), (GroundPose, "goal"), (Event, "event"), *things):
        assert {f"{prefix}.{f.name}" for f in fields(kind)} <= set(CASES)


@pytest.mark.parametrize("field", CASES)
@pytest.mark.parametrize("engine", ENGINES)
def test_no_field_is_left_out_in_silence(field, engine, walk):
    before, after = CASES[field]
    if is_refused(after, engine) or (engine == "graph" and is_seen_by_search(before, after)):
        return
    # What the engine does with it is measured: a walk that knows nothing of the field is told to break it
    plain, told = (check_motion(walk, sketch) for sketch in (before, after))
    if told.broken != plain.broken or (told.asked_m, told.stops_s) != (plain.asked_m, plain.stops_s):
        return
    # Else the engine refuses it, or makes another motion, or is told what it did not do
    try:
        made = synthesize_sketch(after, engine, check=False)
    except InputError:
        return
    if made.motion is None:
        assert made.advice
        return
    other = synthesize_sketch(before, engine, check=False)
    assert other.motion is not None
    assert made.broken != other.broken or made.motion.num_frames != other.motion.num_frames


def test_low_boxes_on_the_path_are_jumped_over_in_order_and_others_are_not():
    low, high, aside = Box((0.1, 2.0), (0.3, 2.0), 0.15, 90.0), Box((0.0, 3.0), height_m=0.5), Box((2.0, 2.0))
    asked = replace(with_world(boxes=(low, high, aside)), events=(Event("stop", at=(0.0, 3.0), seconds=1.0),))
    found = leap_low_boxes(asked, SearchSettings())
    assert found.world.boxes == (high, aside)
    assert [event.kind for event in found.events] == ["jump", "stop"]
    (strip,) = found.world.rivers
    assert strip.width_m == pytest.approx(0.3 + 3.0 * 0.15)
    assert abs(strip.start[1] - 2.0) < 1e-9 and abs(strip.start[0] - strip.end[0]) == pytest.approx(2.0)
    # Where nothing says when a pick comes, and without a path, a box stays what it is
    for other in (replace(asked, events=(Event(**PICK),)), replace(asked, path=None)):
        assert leap_low_boxes(other, SearchSettings()) is other


@pytest.mark.slow
@pytest.mark.parametrize("height_m", [0.15, 0.25])
def test_a_low_box_across_the_corridor_is_jumped_over_and_touched_by_nobody(height_m):
    path = Path(np.array([[0.0, 0.0], [0.0, 8.0]]))
    box = Box((0.0, 4.5), (2.0, 0.3), height_m)
    asked = Sketch(GroundPose((0.0, 0.0), 0.0), GroundPose((0.0, 8.0)), path, world=World(boxes=(box,)))
    made = synthesize_sketch(asked, "graph", budget_s=20.0)
    assert made.motion is not None and made.broken == (), made.broken or made.advice
    assert made.validity is not None and made.validity.valid_fraction >= 0.95
